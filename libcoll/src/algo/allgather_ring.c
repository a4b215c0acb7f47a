/* Ring allgather: each rank passes on to its neighbour the block that it got last. P - 1 steps, all links busy with one
 * block each: the choice for long data. */
#include "algo/algo_table.h"
#include "algo/phase.h"

static void build(const coll__plan_t *plan, coll__builder_t *builder) {
    size_t block = coll__plan_bytes(plan);
    coll__blocks_t blocks = {coll__recv_at(0), {plan->count, 0}, plan->element, plan->rank, plan->size, 0};
    coll__phase_own(plan, builder, coll__recv_at((size_t)plan->rank * block));
    coll__phase_ring_allgather(builder, &blocks);
}

static uint64_t rounds(const coll__plan_t *plan) {
    return (uint64_t)(plan->size - 1);
}

static uint64_t messages(const coll__plan_t *plan) {
    return (uint64_t)plan->size * rounds(plan);
}

static uint64_t bytes(const coll__plan_t *plan) {
    return messages(plan) * coll__plan_bytes(plan);
}

const coll__algo_t coll__allgather_ring = {
    .operation = COLL_OP_ALLGATHER,
    .name = "ring",
    .summary = "each rank passes on the block that it got last",
    .restrictions = "",
    .rounds_text = "P - 1",
    .bytes_text = "(P - 1) n",
    .source = "Thakur, Rabenseifner and Gropp, Optimization of collective communication operations in MPICH, 2005",
    .build = build,
    .rounds = rounds,
    .messages = messages,
    .bytes = bytes,
};
