/* THE list of algorithms: X(operation, name).
 *
 * A row is the descriptor coll__<operation>_<name>, defined in <operation>_<name>.c (the rows "node" together in
 * node.c). To add an algorithm, add its file and its row: selection by COLL_TUNE, the verifier in tests/sim, the
 * multi-process tests, the bench and the docs follow.
 */
#ifndef COLL__ALGO_TABLE_H
#define COLL__ALGO_TABLE_H

#include "algo/algo.h"

#define COLL__ALGO_TABLE(X)          \
    X(barrier, node)                 \
    X(barrier, linear)               \
    X(barrier, binomial)             \
    X(barrier, dissemination)        \
    X(broadcast, node)               \
    X(broadcast, linear)             \
    X(broadcast, binomial)           \
    X(broadcast, knomial)            \
    X(broadcast, chain)              \
    X(broadcast, scatter_allgather)  \
    X(reduce, node)                  \
    X(reduce, linear)                \
    X(reduce, binomial)              \
    X(reduce, knomial)               \
    X(reduce, rabenseifner)          \
    X(reduce, ordered_pairwise)      \
    X(allreduce, node)               \
    X(allreduce, linear)             \
    X(allreduce, tree)               \
    X(allreduce, recursive_doubling) \
    X(allreduce, ring)               \
    X(allreduce, rabenseifner)       \
    X(allreduce, ordered)            \
    X(allreduce, ordered_pairwise)   \
    X(allgather, node)               \
    X(allgather, linear)             \
    X(allgather, ring)               \
    X(allgather, recursive_doubling) \
    X(allgather, bruck)              \
    X(allgather, neighbour_exchange)

#define COLL__ALGO_EXTERN(operation, name) extern const coll__algo_t coll__##operation##_##name;
COLL__ALGO_TABLE(COLL__ALGO_EXTERN)
#undef COLL__ALGO_EXTERN

#endif
