/* Linear allreduce: rank 0 receives every input, folds them in rank order and sends the result to all. The baseline. */
#include "algo/algo_table.h"
#include "algo/phase.h"

static void build(const coll__plan_t *plan, coll__builder_t *builder) {
    size_t bytes = coll__plan_bytes(plan);
    coll__ref_t result = coll__recv_at(0);
    if (coll__phase_alone(plan, builder))
        return;
    if (plan->rank != 0) {
        coll__build_send(builder, 0, coll__send_at(0), bytes);
        coll__build_round(builder);
        coll__build_recv(builder, 0, result, bytes);
        return;
    }
    coll__ref_t slots = coll__build_scratch(builder, (size_t)(plan->size - 1) * bytes);
    for (int peer = 1; peer < plan->size; peer++)
        coll__build_recv(builder, peer, coll__ref_plus(slots, (size_t)(peer - 1) * bytes), bytes);
    coll__build_round(builder);
    coll__build_fold(builder, 0, plan->size, coll__send_at(0), slots, result, bytes);
    for (int peer = 1; peer < plan->size; peer++)
        coll__build_send(builder, peer, result, bytes);
}

static uint64_t rounds(const coll__plan_t *plan) {
    return plan->size > 1 ? 2 : 0;
}

static uint64_t messages(const coll__plan_t *plan) {
    return 2 * (uint64_t)(plan->size - 1);
}

static uint64_t bytes(const coll__plan_t *plan) {
    return messages(plan) * coll__plan_bytes(plan);
}

const coll__algo_t coll__allreduce_linear = {
    .operation = COLL_OP_ALLREDUCE,
    .name = "linear",
    .summary = "rank 0 folds every input in rank order and sends the result to all",
    .restrictions = "",
    .rounds_text = "2",
    .bytes_text = "(P - 1) n",
    .source = "baseline",
    .ordered = true,
    .baseline = true,
    .build = build,
    .rounds = rounds,
    .messages = messages,
    .bytes = bytes,
};
