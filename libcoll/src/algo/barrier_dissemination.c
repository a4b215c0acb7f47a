/* Dissemination barrier: in round k every rank tells the one 2^k places further that it, and all it has heard from,
 * have come. ceil(log2 P) rounds for any P, one message sent and one received in each: the shortest barrier by
 * messages. */
#include "algo/algo_table.h"
#include "algo/phase.h"
#include "pattern/dissemination.h"

static void build(const coll__plan_t *plan, coll__builder_t *builder) {
    coll__ref_t nothing = coll__recv_at(0);
    for (int round = 0; round < coll__dissemination_rounds(plan->size); round++) {
        coll__build_send(builder, coll__dissemination_to(plan->rank, round, plan->size), nothing, 0);
        coll__build_recv(builder, coll__dissemination_from(plan->rank, round, plan->size), nothing, 0);
        coll__build_round(builder);
    }
}

static uint64_t rounds(const coll__plan_t *plan) {
    return (uint64_t)coll__dissemination_rounds(plan->size);
}

static uint64_t messages(const coll__plan_t *plan) {
    return (uint64_t)plan->size * rounds(plan);
}

static uint64_t bytes(const coll__plan_t *plan) {
    (void)plan;
    return 0;
}

const coll__algo_t coll__barrier_dissemination = {
    .operation = COLL_OP_BARRIER,
    .name = "dissemination",
    .summary = "in round k, tell the rank 2^k further",
    .restrictions = "",
    .rounds_text = "ceil(log2 P)",
    .bytes_text = "0",
    .source = "Hensgen, Finkel and Manber, Two algorithms for barrier synchronization, 1988",
    .build = build,
    .rounds = rounds,
    .messages = messages,
    .bytes = bytes,
};
