/* Recursive-doubling allreduce: on level k, ranks 2^k apart exchange what they have folded so far and both fold it, so
 * that groups double. The fewest rounds, the choice for short data. Any P: ranks beyond a power of two are folded into
 * a neighbour before and told the result after (pattern/doubling.h).
 *
 * Both of a pair compute lower op upper, so all ranks get the same bits. */
#include "algo/algo_table.h"
#include "algo/phase.h"

static void build(const coll__plan_t *plan, coll__builder_t *builder) {
    size_t bytes = coll__plan_bytes(plan);
    if (coll__phase_alone(plan, builder))
        return;
    coll__doubling_t doubling = coll__doubling(plan->rank, plan->size);
    coll__ref_t part = coll__send_at(0), result = coll__recv_at(0);
    if (doubling.place < 0) {
        coll__build_send(builder, doubling.fold, part, bytes);
        coll__build_round(builder);
        coll__build_recv(builder, doubling.fold, result, bytes);
        return;
    }
    coll__ref_t arriving = coll__build_scratch(builder, bytes);
    if (doubling.fold >= 0) {
        coll__build_recv(builder, doubling.fold, arriving, bytes);
        coll__build_round(builder);
        coll__build_reduce(builder, part, arriving, result, bytes);
        part = result;
    }
    for (int level = 0; level < doubling.levels; level++) {
        bool upper = coll__doubling_upper(&doubling, level);
        int peer = coll__doubling_peer(&doubling, level);
        coll__build_send(builder, peer, part, bytes);
        coll__build_recv(builder, peer, arriving, bytes);
        coll__build_round(builder);
        coll__build_reduce(builder, upper ? arriving : part, upper ? part : arriving, result, bytes);
        part = result;
    }
    if (doubling.fold >= 0)
        coll__build_send(builder, doubling.fold, part, bytes);
}

static uint64_t rounds(const coll__plan_t *plan) {
    return (uint64_t)coll__doubling_rounds(plan->size);
}

static uint64_t messages(const coll__plan_t *plan) {
    return (uint64_t)coll__doubling_messages(plan->size);
}

static uint64_t bytes(const coll__plan_t *plan) {
    return messages(plan) * coll__plan_bytes(plan);
}

const coll__algo_t coll__allreduce_recursive_doubling = {
    .operation = COLL_OP_ALLREDUCE,
    .name = "recursive_doubling",
    .summary = "exchange and fold with the rank 2^k away, for every k",
    .restrictions = "",
    .rounds_text = "floor(log2 P); 1 more if P is not a power of two, 2 more if it is above 3/2 of the power below",
    .bytes_text = "floor(log2 P) n; n more if P is not a power of two",
    .source = "Thakur, Rabenseifner and Gropp, Optimization of collective communication operations in MPICH, 2005",
    .build = build,
    .rounds = rounds,
    .messages = messages,
    .bytes = bytes,
};
