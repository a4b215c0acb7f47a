/* Linear barrier: all report to rank 0, which answers all. The baseline; rank 0 handles 2 (P - 1) messages. */
#include "algo/algo_table.h"
#include "algo/phase.h"

static void build(const coll__plan_t *plan, coll__builder_t *builder) {
    coll__ref_t nothing = coll__recv_at(0);
    if (plan->rank != 0) {
        coll__build_send(builder, 0, nothing, 0);
        coll__build_round(builder);
        coll__build_recv(builder, 0, nothing, 0);
        return;
    }
    for (int peer = 1; peer < plan->size; peer++)
        coll__build_recv(builder, peer, nothing, 0);
    coll__build_round(builder);
    for (int peer = 1; peer < plan->size; peer++)
        coll__build_send(builder, peer, nothing, 0);
}

static uint64_t rounds(const coll__plan_t *plan) {
    return plan->size > 1 ? 2 : 0;
}

static uint64_t messages(const coll__plan_t *plan) {
    return 2 * (uint64_t)(plan->size - 1);
}

static uint64_t bytes(const coll__plan_t *plan) {
    (void)plan;
    return 0;
}

const coll__algo_t coll__barrier_linear = {
    .operation = COLL_OP_BARRIER,
    .name = "linear",
    .summary = "all report to rank 0, which answers all",
    .restrictions = "",
    .rounds_text = "2",
    .bytes_text = "0",
    .source = "baseline",
    .baseline = true,
    .build = build,
    .rounds = rounds,
    .messages = messages,
    .bytes = bytes,
};
