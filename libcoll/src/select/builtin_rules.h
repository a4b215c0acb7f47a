/* The built-in rules, in the grammar of COLL_TUNE: the first that fits and whose algorithm applies to the call.
 *
 * They follow two costs, a message and a byte. Short data: as few messages one after the other as possible. Long data:
 * as few bytes through each rank as possible. The borders are where the two cross for about 10 us a message and 2 GB/s,
 * as TCP between nodes gives; a rank count moves them, since what grows with P grows on one side only.
 *
 * Where all ranks share a node, nothing beats its shared segment.
 *
 * Rows that do not apply are passed over: ring for an operator that does not commute, neighbour_exchange for odd P,
 * everything that is not ordered in deterministic mode. For each operation the last rows apply always, in either mode.
 */
#ifndef COLL__BUILTIN_RULES_H
#define COLL__BUILTIN_RULES_H

static const char *const coll__builtin_rules[] = {
    "barrier:node",
    "barrier:dissemination",

    "broadcast:node",
    "broadcast:0-32k:knomial",
    "broadcast::ranks=1-2:knomial",
    "broadcast:32k-1m:ranks=3-7:knomial",
    "broadcast:1m-inf:ranks=3-16:chain",
    "broadcast:32m-inf:chain",
    "broadcast:scatter_allgather",

    "reduce:node",
    "reduce:0-32k:knomial",
    "reduce::ranks=1-2:knomial",
    "reduce:rabenseifner",
    "reduce:0-16k:linear",
    "reduce:ordered_pairwise",

    "allreduce:node",
    "allreduce:0-32k:recursive_doubling",
    "allreduce:32k-256k:ranks=1-2:recursive_doubling",
    "allreduce:32k-1m:ranks=5-inf:rabenseifner",
    "allreduce:1m-16m:ranks=33-inf:rabenseifner",
    "allreduce:ring",
    "allreduce:rabenseifner",
    "allreduce:0-4k:ranks=1-16:ordered",
    "allreduce:0-512:ordered",
    "allreduce:ordered_pairwise",

    "allgather:node",
    "allgather:0-16k:ranks=2:recursive_doubling",
    "allgather:0-16k:ranks=4:recursive_doubling",
    "allgather:0-16k:ranks=8:recursive_doubling",
    "allgather:0-8k:ranks=16:recursive_doubling",
    "allgather:0-4k:ranks=32:recursive_doubling",
    "allgather:0-2k:ranks=64:recursive_doubling",
    "allgather:0-8k:ranks=1-16:bruck",
    "allgather:0-1k:bruck",
    "allgather:neighbour_exchange",
    "allgather:ring",
};

#endif
