/* The rows "node": all ranks share a node, and the whole call is one step on the shared segment (src/node), without a
 * message. For those the node layer does, a schedule has nothing to arrange; so one file has all the rows. */
#include "algo/algo_table.h"

static bool applies(const coll__plan_t *plan) {
    return plan->node && plan->commutative;
}

static void build(const coll__plan_t *plan, coll__builder_t *builder) {
    (void)plan;
    coll__build_node(builder);
}

static uint64_t none(const coll__plan_t *plan) {
    (void)plan;
    return 0;
}

#define NODE_ROW(operation_name, OPERATION, how)                                                 \
    const coll__algo_t coll__##operation_name##_node = {                                         \
        .operation = OPERATION,                                                                  \
        .name = "node",                                                                          \
        .summary = how,                                                                          \
        .restrictions = "all ranks on one node that share its segment, and a built-in operator", \
        .rounds_text = "0",                                                                      \
        .bytes_text = "0",                                                                       \
        .source = "the flags and chunks of src/node",                                            \
        .ordered = true,                                                                         \
        .applies = applies,                                                                      \
        .build = build,                                                                          \
        .rounds = none,                                                                          \
        .messages = none,                                                                        \
        .bytes = none,                                                                           \
    }

NODE_ROW(barrier, COLL_OP_BARRIER, "flags in the shared segment, each rank reads all");
NODE_ROW(broadcast, COLL_OP_BROADCAST, "the root writes into the shared segment, the others read");
NODE_ROW(reduce, COLL_OP_REDUCE, "all write into the shared segment, each folds a part, the root takes");
NODE_ROW(allreduce, COLL_OP_ALLREDUCE, "all write into the shared segment, each folds a part, all take");
NODE_ROW(allgather, COLL_OP_ALLGATHER, "all write into the shared segment, all read");
