/* Binomial broadcast: who has the data passes it on, so the number of ranks that have it doubles. Few messages on the
 * way to any rank, the choice for short data; the root sends the whole of it ceil(log2 P) times. */
#include "algo/algo_table.h"
#include "algo/phase.h"

static void build(const coll__plan_t *plan, coll__builder_t *builder) {
    coll__tree_t tree;
    coll__tree_knomial(&tree, plan->rank, plan->size, plan->root, 2);
    coll__phase_tree_spread(builder, &tree, coll__recv_at(0), coll__plan_bytes(plan));
}

static uint64_t rounds(const coll__plan_t *plan) {
    return (uint64_t)coll__tree_depth(plan->size, 2);
}

static uint64_t messages(const coll__plan_t *plan) {
    return (uint64_t)(plan->size - 1);
}

static uint64_t bytes(const coll__plan_t *plan) {
    return messages(plan) * coll__plan_bytes(plan);
}

const coll__algo_t coll__broadcast_binomial = {
    .operation = COLL_OP_BROADCAST,
    .name = "binomial",
    .summary = "down a binomial tree",
    .restrictions = "",
    .rounds_text = "floor(log2 P)",
    .bytes_text = "ceil(log2 P) n",
    .source = "Johnsson and Ho, Optimum broadcasting and personalized communication in hypercubes, 1989",
    .build = build,
    .rounds = rounds,
    .messages = messages,
    .bytes = bytes,
};
