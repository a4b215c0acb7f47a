/* Ordered allreduce: all inputs are gathered everywhere by recursive doubling, and each rank folds them in rank order.
 * The result does not depend on P's factors, on the length or on where ranks sit: for short data when results must be
 * the same whatever the algorithm (COLL_DETERMINISTIC). */
#include "algo/algo_table.h"
#include "algo/phase.h"

static void build(const coll__plan_t *plan, coll__builder_t *builder) {
    if (coll__phase_alone(plan, builder))
        return;
    size_t bytes = coll__plan_bytes(plan);
    coll__ref_t all = coll__build_scratch(builder, (size_t)plan->size * bytes);
    coll__build_copy(builder, coll__send_at(0), coll__ref_plus(all, (size_t)plan->rank * bytes), bytes);
    coll__phase_doubling_allgather(builder, plan->rank, plan->size, all, bytes);
    coll__build_fold(builder, 0, plan->size, all, coll__ref_plus(all, bytes), coll__recv_at(0), bytes);
}

static uint64_t rounds(const coll__plan_t *plan) {
    return (uint64_t)coll__doubling_rounds(plan->size);
}

static uint64_t messages(const coll__plan_t *plan) {
    return (uint64_t)coll__doubling_messages(plan->size);
}

static uint64_t bytes(const coll__plan_t *plan) {
    return coll__doubling_allgather_blocks(plan->size) * coll__plan_bytes(plan);
}

const coll__algo_t coll__allreduce_ordered = {
    .operation = COLL_OP_ALLREDUCE,
    .name = "ordered",
    .summary = "gather all inputs everywhere, fold them in rank order",
    .restrictions = "",
    .rounds_text = "floor(log2 P); 1 more if P is not a power of two, 2 more if it is above 3/2 of the power below",
    .bytes_text = "(P - 1) n; less than 2.4 P n if P is not a power of two",
    .source = "textbook",
    .ordered = true,
    .build = build,
    .rounds = rounds,
    .messages = messages,
    .bytes = bytes,
};
