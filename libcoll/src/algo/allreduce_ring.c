/* Ring allreduce: the vector is cut into P blocks. P - 1 steps round the ring fold each block (reduce-scatter), P - 1
 * more hand the results round (allgather). Every rank sends 2 (P - 1) / P of its data, the least possible, to one
 * neighbour only; the many steps make it the choice for long data.
 *
 * Block b starts at rank b + 1 and is complete at rank b: a rotated order, hence the restriction. */
#include "algo/algo_table.h"
#include "algo/phase.h"
#include "pattern/ring.h"

static bool applies(const coll__plan_t *plan) {
    return plan->commutative;
}

static void build(const coll__plan_t *plan, coll__builder_t *builder) {
    if (coll__phase_alone(plan, builder))
        return;
    int rank = plan->rank, size = plan->size;
    int next = coll__ring_at(rank, 1, size), previous = coll__ring_at(rank, -1, size);
    coll__blocks_t input = {coll__send_at(0), coll__cut(plan->count, size), plan->element, rank, size, 0};
    coll__blocks_t result = input;
    result.base = coll__recv_at(0);

    coll__ref_t arriving = coll__build_scratch(builder, coll__block_bytes(&input, 0)); /* no block is longer */
    int block = previous;
    coll__ref_t part = coll__block_at(&input, block);
    for (int step = 0; step < size - 1; step++) {
        coll__build_send(builder, next, part, coll__block_bytes(&input, block));
        block = coll__ring_at(block, -1, size);
        coll__build_recv(builder, previous, arriving, coll__block_bytes(&input, block));
        coll__build_round(builder);
        part = coll__block_at(&result, block);
        coll__build_reduce(builder, arriving, coll__block_at(&input, block), part, coll__block_bytes(&input, block));
    }
    coll__phase_ring_allgather(builder, &result);
}

static uint64_t rounds(const coll__plan_t *plan) {
    return 2 * (uint64_t)(plan->size - 1);
}

static uint64_t messages(const coll__plan_t *plan) {
    return (uint64_t)plan->size * rounds(plan);
}

static uint64_t bytes(const coll__plan_t *plan) {
    return rounds(plan) * coll__plan_bytes(plan);
}

const coll__algo_t coll__allreduce_ring = {
    .operation = COLL_OP_ALLREDUCE,
    .name = "ring",
    .summary = "reduce-scatter, then allgather, round a ring",
    .restrictions = "the operator must commute",
    .rounds_text = "2 (P - 1)",
    .bytes_text = "2 (P - 1) / P n",
    .source = "Patarasuk and Yuan, Bandwidth optimal all-reduce algorithms for clusters of workstations, 2009",
    .applies = applies,
    .build = build,
    .rounds = rounds,
    .messages = messages,
    .bytes = bytes,
};
