/* Linear allgather: each rank sends its block to all others at once. The baseline. */
#include "algo/algo_table.h"
#include "algo/phase.h"
#include "pattern/ring.h"

static void build(const coll__plan_t *plan, coll__builder_t *builder) {
    int rank = plan->rank, size = plan->size;
    size_t block = coll__plan_bytes(plan);
    coll__phase_own(plan, builder, coll__recv_at((size_t)rank * block));
    for (int step = 1; step < size; step++) {
        int to = coll__ring_at(rank, step, size), from = coll__ring_at(rank, -step, size);
        coll__build_recv(builder, from, coll__recv_at((size_t)from * block), block);
        coll__build_send(builder, to, coll__send_at(0), block);
    }
}

static uint64_t rounds(const coll__plan_t *plan) {
    return plan->size > 1;
}

static uint64_t messages(const coll__plan_t *plan) {
    return (uint64_t)plan->size * (uint64_t)(plan->size - 1);
}

static uint64_t bytes(const coll__plan_t *plan) {
    return messages(plan) * coll__plan_bytes(plan);
}

const coll__algo_t coll__allgather_linear = {
    .operation = COLL_OP_ALLGATHER,
    .name = "linear",
    .summary = "each rank sends its block to all others at once",
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
