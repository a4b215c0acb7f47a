/* Linear reduce: the root receives every rank's input and folds them in rank order. One hop, results that do not depend
 * on the shape of a tree; the root needs room for P - 1 inputs. */
#include "algo/algo_table.h"
#include "algo/phase.h"

static void build(const coll__plan_t *plan, coll__builder_t *builder) {
    size_t bytes = coll__plan_bytes(plan);
    if (coll__phase_alone(plan, builder))
        return;
    if (plan->rank != plan->root) {
        coll__build_send(builder, plan->root, coll__send_at(0), bytes);
        return;
    }
    coll__ref_t slots = coll__build_scratch(builder, (size_t)(plan->size - 1) * bytes);
    size_t slot = 0;
    for (int peer = 0; peer < plan->size; peer++)
        if (peer != plan->root)
            coll__build_recv(builder, peer, coll__ref_plus(slots, slot++ * bytes), bytes);
    coll__build_round(builder);
    coll__build_fold(builder, plan->rank, plan->size, coll__send_at(0), slots, coll__recv_at(0), bytes);
}

static uint64_t rounds(const coll__plan_t *plan) {
    return plan->size > 1;
}

static uint64_t messages(const coll__plan_t *plan) {
    return (uint64_t)(plan->size - 1);
}

static uint64_t bytes(const coll__plan_t *plan) {
    return messages(plan) * coll__plan_bytes(plan);
}

const coll__algo_t coll__reduce_linear = {
    .operation = COLL_OP_REDUCE,
    .name = "linear",
    .summary = "all send to the root, which folds in rank order",
    .restrictions = "",
    .rounds_text = "1",
    .bytes_text = "n",
    .source = "textbook",
    .ordered = true,
    .build = build,
    .rounds = rounds,
    .messages = messages,
    .bytes = bytes,
};
