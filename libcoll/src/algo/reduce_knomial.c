/* k-nomial reduce: as binomial, in base k = COLL_ARITY. A larger k means fewer hops and more folding by one rank. */
#include "algo/algo_table.h"
#include "algo/phase.h"
#include "algo/reduce_tree.h"

static void build(const coll__plan_t *plan, coll__builder_t *builder) {
    coll__reduce_tree_build(plan, builder, plan->arity);
}

static uint64_t rounds(const coll__plan_t *plan) {
    return coll__reduce_tree_rounds(plan, plan->arity);
}

static uint64_t bytes(const coll__plan_t *plan) {
    return coll__reduce_tree_messages(plan) * coll__plan_bytes(plan);
}

const coll__algo_t coll__reduce_knomial = {
    .operation = COLL_OP_REDUCE,
    .name = "knomial",
    .summary = "partial results climb a k-nomial tree, k = COLL_ARITY",
    .restrictions = "",
    .rounds_text = "floor(log_k((k - 1) (P - 1) + 1)); 1 more as for binomial",
    .bytes_text = "n",
    .source = "Bruck, Ho, Kipnis, Upfal and Weathersby, Efficient algorithms for all-to-all communications in "
              "multiport message-passing systems, 1997",
    .build = build,
    .rounds = rounds,
    .messages = coll__reduce_tree_messages,
    .bytes = bytes,
};
