/* k-nomial broadcast: a binomial tree in base k = COLL_ARITY. A larger k makes the tree flatter: fewer hops one after
 * the other, more sends by one rank; k = 2 is the binomial tree. */
#include "algo/algo_table.h"
#include "algo/phase.h"

static void build(const coll__plan_t *plan, coll__builder_t *builder) {
    coll__tree_t tree;
    coll__tree_knomial(&tree, plan->rank, plan->size, plan->root, plan->arity);
    coll__phase_tree_spread(builder, &tree, coll__recv_at(0), coll__plan_bytes(plan));
}

static uint64_t rounds(const coll__plan_t *plan) {
    return (uint64_t)coll__tree_depth(plan->size, plan->arity);
}

static uint64_t messages(const coll__plan_t *plan) {
    return (uint64_t)(plan->size - 1);
}

static uint64_t bytes(const coll__plan_t *plan) {
    return messages(plan) * coll__plan_bytes(plan);
}

const coll__algo_t coll__broadcast_knomial = {
    .operation = COLL_OP_BROADCAST,
    .name = "knomial",
    .summary = "down a k-nomial tree, k = COLL_ARITY",
    .restrictions = "",
    .rounds_text = "floor(log_k((k - 1) (P - 1) + 1))",
    .bytes_text = "at most (k - 1) ceil(log_k P) n",
    .source = "Bruck, Ho, Kipnis, Upfal and Weathersby, Efficient algorithms for all-to-all communications in "
              "multiport message-passing systems, 1997",
    .build = build,
    .rounds = rounds,
    .messages = messages,
    .bytes = bytes,
};
