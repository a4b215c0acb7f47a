/* Linear broadcast: the root sends to each rank. The baseline. */
#include "algo/algo_table.h"
#include "algo/phase.h"
#include "pattern/ring.h"

static void build(const coll__plan_t *plan, coll__builder_t *builder) {
    size_t bytes = coll__plan_bytes(plan);
    if (plan->rank != plan->root) {
        coll__build_recv(builder, plan->root, coll__recv_at(0), bytes);
        return;
    }
    for (int step = 1; step < plan->size; step++)
        coll__build_send(builder, coll__ring_at(plan->root, step, plan->size), coll__recv_at(0), bytes);
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

const coll__algo_t coll__broadcast_linear = {
    .operation = COLL_OP_BROADCAST,
    .name = "linear",
    .summary = "the root sends to each rank",
    .restrictions = "",
    .rounds_text = "1",
    .bytes_text = "(P - 1) n",
    .source = "baseline",
    .baseline = true,
    .build = build,
    .rounds = rounds,
    .messages = messages,
    .bytes = bytes,
};
