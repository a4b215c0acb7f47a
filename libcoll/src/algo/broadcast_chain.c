/* Chain broadcast: ranks in a row from the root on; the data travels in segments, each passed on while the next
 * arrives. Every link carries the data once, which no tree achieves: the choice for long data and few ranks.
 *
 * With S segments, the last rank is done after P + S - 2 segments' time. */
#include "algo/algo_table.h"
#include "algo/phase.h"
#include "pattern/ring.h"

enum { SEGMENT_BYTES = 128 * 1024 };

static int segment_count(const coll__plan_t *plan) {
    size_t bytes = coll__plan_bytes(plan), most = 1 << 14; /* schedules of huge data stay small */
    size_t segments = bytes / SEGMENT_BYTES + (bytes % SEGMENT_BYTES != 0);
    return (int)(segments == 0 ? 1 : segments > most ? most : segments);
}

static void build(const coll__plan_t *plan, coll__builder_t *builder) {
    int size = plan->size, segments = segment_count(plan);
    int place = coll__ring_at(plan->rank, -plan->root, size);
    int previous = coll__ring_at(plan->rank, -1, size), next = coll__ring_at(plan->rank, 1, size);
    coll__blocks_t segment = {coll__recv_at(0), coll__cut(plan->count, segments), plan->element, plan->rank, size, 0};
    for (int i = 0; i < segments; i++) {
        if (place > 0) {
            coll__build_recv(builder, previous, coll__block_at(&segment, i), coll__block_bytes(&segment, i));
            coll__build_round(builder);
        }
        if (place < size - 1) /* goes out while the next one comes in: the round is not ended here */
            coll__build_send(builder, next, coll__block_at(&segment, i), coll__block_bytes(&segment, i));
    }
}

static uint64_t rounds(const coll__plan_t *plan) {
    return (uint64_t)(plan->size - 1);
}

static uint64_t messages(const coll__plan_t *plan) {
    return (uint64_t)(plan->size - 1) * (uint64_t)segment_count(plan);
}

static uint64_t bytes(const coll__plan_t *plan) {
    return (uint64_t)(plan->size - 1) * coll__plan_bytes(plan);
}

const coll__algo_t coll__broadcast_chain = {
    .operation = COLL_OP_BROADCAST,
    .name = "chain",
    .summary = "from rank to rank, in segments of 128 KiB",
    .restrictions = "",
    .rounds_text = "P - 1",
    .bytes_text = "n",
    .source = "Pjesivac-Grbovic, Angskun, Bosilca, Fagg, Gabriel and Dongarra, Performance analysis of MPI collective "
              "operations, 2007",
    .build = build,
    .rounds = rounds,
    .messages = messages,
    .bytes = bytes,
};
