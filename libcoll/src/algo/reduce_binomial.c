/* Binomial reduce: partial results climb a binomial tree to the root. The choice for short data. */
#include "algo/algo_table.h"
#include "algo/phase.h"
#include "algo/reduce_tree.h"

static void build(const coll__plan_t *plan, coll__builder_t *builder) {
    coll__reduce_tree_build(plan, builder, 2);
}

static uint64_t rounds(const coll__plan_t *plan) {
    return coll__reduce_tree_rounds(plan, 2);
}

static uint64_t bytes(const coll__plan_t *plan) {
    return coll__reduce_tree_messages(plan) * coll__plan_bytes(plan);
}

const coll__algo_t coll__reduce_binomial = {
    .operation = COLL_OP_REDUCE,
    .name = "binomial",
    .summary = "partial results climb a binomial tree",
    .restrictions = "",
    .rounds_text = "floor(log2 P); 1 more for a root other than 0 if the operator does not commute",
    .bytes_text = "n",
    .source = "Thakur, Rabenseifner and Gropp, Optimization of collective communication operations in MPICH, 2005",
    .build = build,
    .rounds = rounds,
    .messages = coll__reduce_tree_messages,
    .bytes = bytes,
};
