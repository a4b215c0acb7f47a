/* Ordered pairwise allreduce: each rank gets block r of every rank's input, folds these in rank order, and the results
 * are gathered round the ring. As few bytes as the ring, in strict rank order: for long data when results must be the
 * same whatever the algorithm (COLL_DETERMINISTIC). */
#include "algo/algo_table.h"
#include "algo/phase.h"

static void build(const coll__plan_t *plan, coll__builder_t *builder) {
    if (coll__phase_alone(plan, builder))
        return;
    coll__blocks_t input = {
        coll__send_at(0), coll__cut(plan->count, plan->size), plan->element, plan->rank, plan->size, 0};
    coll__blocks_t result = input;
    result.base = coll__recv_at(0);
    coll__phase_exchange_fold(builder, &input, coll__block_at(&result, plan->rank));
    coll__phase_ring_allgather(builder, &result);
}

static uint64_t rounds(const coll__plan_t *plan) {
    return plan->size > 1 ? (uint64_t)plan->size : 0;
}

static uint64_t messages(const coll__plan_t *plan) {
    return 2 * (uint64_t)plan->size * (uint64_t)(plan->size - 1);
}

static uint64_t bytes(const coll__plan_t *plan) {
    return 2 * (uint64_t)(plan->size - 1) * coll__plan_bytes(plan);
}

const coll__algo_t coll__allreduce_ordered_pairwise = {
    .operation = COLL_OP_ALLREDUCE,
    .name = "ordered_pairwise",
    .summary = "exchange of blocks, fold in rank order, ring allgather",
    .restrictions = "",
    .rounds_text = "P",
    .bytes_text = "2 (P - 1) / P n",
    .source = "Thakur, Rabenseifner and Gropp, Optimization of collective communication operations in MPICH, 2005",
    .ordered = true,
    .build = build,
    .rounds = rounds,
    .messages = messages,
    .bytes = bytes,
};
