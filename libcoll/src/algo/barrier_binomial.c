/* Binomial barrier: reports climb a binomial tree to rank 0, the release comes back the same way. Twice the rounds of
 * dissemination, but 2 (P - 1) messages only. */
#include "algo/algo_table.h"
#include "algo/phase.h"

static void build(const coll__plan_t *plan, coll__builder_t *builder) {
    coll__ref_t nothing = coll__recv_at(0);
    coll__tree_t tree;
    coll__tree_knomial(&tree, plan->rank, plan->size, 0, 2);
    for (int i = 0; i < tree.child_count; i++)
        coll__build_recv(builder, tree.children[i], nothing, 0);
    coll__build_round(builder);
    if (tree.parent >= 0)
        coll__build_send(builder, tree.parent, nothing, 0);
    coll__build_round(builder);
    coll__phase_tree_spread(builder, &tree, nothing, 0);
}

static uint64_t rounds(const coll__plan_t *plan) {
    return 2 * (uint64_t)coll__tree_depth(plan->size, 2);
}

static uint64_t messages(const coll__plan_t *plan) {
    return 2 * (uint64_t)(plan->size - 1);
}

static uint64_t bytes(const coll__plan_t *plan) {
    (void)plan;
    return 0;
}

const coll__algo_t coll__barrier_binomial = {
    .operation = COLL_OP_BARRIER,
    .name = "binomial",
    .summary = "up a binomial tree to rank 0 and down again",
    .restrictions = "",
    .rounds_text = "2 floor(log2 P)",
    .bytes_text = "0",
    .source =
        "Mellor-Crummey and Scott, Algorithms for scalable synchronization on shared-memory multiprocessors, 1991",
    .build = build,
    .rounds = rounds,
    .messages = messages,
    .bytes = bytes,
};
