/* Bruck's allgather: each rank keeps the blocks of the ranks from itself on; in every round it doubles their number
 * with what the rank that many places further has. ceil(log2 P) rounds for any P; the price is a scratch copy of the
 * result, turned into place at the end. For short data. */
#include "algo/algo_table.h"
#include "algo/phase.h"
#include "pattern/log2.h"
#include "pattern/ring.h"

static void build(const coll__plan_t *plan, coll__builder_t *builder) {
    int rank = plan->rank, size = plan->size;
    size_t block = coll__plan_bytes(plan);
    coll__ref_t turned = coll__recv_at(0); /* rank 0's blocks are in place from the start */
    if (rank == 0) {
        coll__phase_own(plan, builder, turned);
    } else {
        turned = coll__build_scratch(builder, (size_t)size * block);
        coll__build_copy(builder, coll__send_at(0), turned, block);
    }
    for (int have = 1; have < size; have *= 2) {
        int more = have < size - have ? have : size - have;
        coll__build_send(builder, coll__ring_at(rank, -have, size), turned, (size_t)more * block);
        coll__build_recv(builder, coll__ring_at(rank, have, size), coll__ref_plus(turned, (size_t)have * block),
                         (size_t)more * block);
        coll__build_round(builder);
    }
    if (rank > 0) {
        size_t wrap = (size_t)(size - rank) * block; /* from here on, blocks of rank 0, 1, ... */
        coll__build_copy(builder, turned, coll__recv_at((size_t)rank * block), wrap);
        coll__build_copy(builder, coll__ref_plus(turned, wrap), coll__recv_at(0), (size_t)rank * block);
    }
}

static uint64_t rounds(const coll__plan_t *plan) {
    return (uint64_t)coll__log2_ceil(plan->size);
}

static uint64_t messages(const coll__plan_t *plan) {
    return (uint64_t)plan->size * rounds(plan);
}

static uint64_t bytes(const coll__plan_t *plan) {
    return (uint64_t)plan->size * (uint64_t)(plan->size - 1) * coll__plan_bytes(plan);
}

const coll__algo_t coll__allgather_bruck = {
    .operation = COLL_OP_ALLGATHER,
    .name = "bruck",
    .summary = "double the run of blocks that begins with one's own, then turn it into place",
    .restrictions = "",
    .rounds_text = "ceil(log2 P)",
    .bytes_text = "(P - 1) n",
    .source = "Bruck, Ho, Kipnis, Upfal and Weathersby, Efficient algorithms for all-to-all communications in "
              "multiport message-passing systems, 1997",
    .build = build,
    .rounds = rounds,
    .messages = messages,
    .bytes = bytes,
};
