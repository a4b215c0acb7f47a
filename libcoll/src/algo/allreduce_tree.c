/* Tree allreduce: binomial reduce to rank 0, binomial broadcast from it. The fewest messages of all, 2 (P - 1), in
 * twice the rounds of recursive doubling: for networks where messages are dear. */
#include "algo/algo_table.h"
#include "algo/phase.h"

static void build(const coll__plan_t *plan, coll__builder_t *builder) {
    size_t bytes = coll__plan_bytes(plan);
    if (coll__phase_alone(plan, builder))
        return;
    coll__tree_t tree;
    coll__tree_knomial(&tree, plan->rank, plan->size, 0, 2);
    coll__phase_tree_fold(builder, &tree, coll__send_at(0), coll__recv_at(0), bytes);
    coll__phase_tree_spread(builder, &tree, coll__recv_at(0), bytes);
}

static uint64_t rounds(const coll__plan_t *plan) {
    return 2 * (uint64_t)coll__tree_depth(plan->size, 2);
}

static uint64_t messages(const coll__plan_t *plan) {
    return 2 * (uint64_t)(plan->size - 1);
}

static uint64_t bytes(const coll__plan_t *plan) {
    return messages(plan) * coll__plan_bytes(plan);
}

const coll__algo_t coll__allreduce_tree = {
    .operation = COLL_OP_ALLREDUCE,
    .name = "tree",
    .summary = "binomial reduce to rank 0, then binomial broadcast",
    .restrictions = "",
    .rounds_text = "2 floor(log2 P)",
    .bytes_text = "ceil(log2 P) n",
    .source = "Thakur, Rabenseifner and Gropp, Optimization of collective communication operations in MPICH, 2005",
    .build = build,
    .rounds = rounds,
    .messages = messages,
    .bytes = bytes,
};
