/* Operations of a channel: shown as early as possible, ended in order. */
#include <utlist.h>

#include "base/status.h"
#include "node/channel.h"
#include "node/heap.h"

bool coll__channel_idle(const coll__channel_t *channel) {
    return channel->queue == NULL;
}

/* All operations up to `sequence` are behind this rank; those it skipped in between too. */
static void finish(coll__channel_t *channel, uint64_t sequence) {
    if (!channel->queue && channel->skipped > sequence)
        sequence = channel->skipped;
    if (sequence <= channel->finished)
        return;
    channel->finished = sequence;
    atomic_store_explicit(&channel->member[channel->rank]->finished, sequence, memory_order_release);
    /* Who waits for a slot to be free sees it with the next flag that is shown here; if those in line have been shown
     * already, it would sleep. */
    if (channel->queue)
        coll__channel_ring(channel);
}

void coll__node_skip(coll__channel_t *channel, uint64_t sequence) {
    channel->skipped = sequence;
    if (!channel->queue)
        finish(channel, sequence);
}

/* One try of the operation that is first in line. */
static int advance(coll__channel_t *channel, coll__node_op_t *op) {
    if (!op->shown && !coll__slot_show(channel, op))
        return COLL__AGAIN;
    if (!coll__node_is_chunked(op))
        return coll__slot_step(channel, op);
    return coll__chunked_step(channel, op);
}

void coll__node_prepare(coll__node_op_t *op) {
    op->shown = false;
    op->seen = 0;
    op->chunk_bytes = op->chunks = op->staged = op->folded = op->taken = 0;
}

int coll__node_try(coll__channel_t *channel, coll__node_op_t *op) {
    int status = advance(channel, op);
    if (status == 0)
        finish(channel, op->sequence);
    return status;
}

void coll__node_begin(coll__channel_t *channel, coll__node_op_t *op) {
    DL_APPEND(channel->queue, op);
    bool in_turn = channel->queue == op || op->prev->shown;
    if (!op->shown && in_turn)
        coll__slot_show(channel, op);
}

int coll__node_step(coll__channel_t *channel, coll__node_op_t *op) {
    if (channel->queue != op) {
        if (!op->shown && op->prev->shown)
            coll__slot_show(channel, op);
        return COLL__AGAIN;
    }
    int status = advance(channel, op);
    if (status == COLL__AGAIN)
        return status;
    DL_DELETE(channel->queue, op);
    if (status == 0)
        finish(channel, op->sequence);
    return status;
}

void coll__node_cancel(coll__channel_t *channel, coll__node_op_t *op) {
    coll__node_op_t *queued;
    DL_FOREACH(channel->queue, queued) {
        if (queued == op)
            break;
    }
    if (!queued)
        return;
    DL_DELETE(channel->queue, op);
    if (op->chunks)
        coll__chunked_end(channel, op);
    if (op->shown && coll__node_is_chunked(op) && channel->node->uses_heaps) {
        coll__heap_retain(op->send);
        coll__heap_retain(op->recv);
    }
    if (!channel->queue)
        finish(channel, op->sequence);
}

int coll__node_missing(const coll__channel_t *channel, const coll__node_op_t *op, int *ranks, int capacity) {
    if (coll__node_is_chunked(op))
        return coll__chunked_missing(channel, op, ranks, capacity);
    int count = 0;
    for (int rank = 0; rank < channel->size && count < capacity; rank++) {
        if (rank == channel->rank || (op->operation == COLL_OP_BROADCAST && rank != op->root))
            continue;
        const coll__node_slot_t *slot = coll__channel_slot(channel, rank, op->sequence);
        if (atomic_load(&slot->sequence) != op->sequence)
            ranks[count++] = rank;
    }
    return count;
}
