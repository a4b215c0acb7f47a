/* The slot form: each contributor's data lies beside its flag, each consumer reads all flags and folds or copies in
 * rank order. A slot is written again when every reader has finished the operation that used it before. */
#include <string.h>

#include "base/status.h"
#include "node/channel.h"

static bool contributes(const coll__channel_t *channel, const coll__node_op_t *op) {
    return op->operation != COLL_OP_BROADCAST || channel->rank == op->root;
}

static bool has_result(const coll__channel_t *channel, const coll__node_op_t *op) {
    return op->operation != COLL_OP_REDUCE || channel->rank == op->root;
}

static const unsigned char *data_of(const coll__node_op_t *op, const coll__node_slot_t *slot) {
    return op->bytes <= COLL__NODE_INLINE ? slot->inline_ : slot->body;
}

/* Has every other member finished what used this slot last? */
static bool is_free(coll__channel_t *channel, uint64_t guard) {
    for (int rank = 0; rank < channel->size; rank++) {
        if (rank == channel->rank || channel->known_finished[rank] >= guard)
            continue;
        channel->known_finished[rank] = atomic_load_explicit(&channel->member[rank]->finished, memory_order_acquire);
        if (channel->known_finished[rank] < guard)
            return false;
    }
    return true;
}

bool coll__slot_show(coll__channel_t *channel, coll__node_op_t *op) {
    unsigned index = op->sequence % COLL__NODE_SLOTS;
    if (!is_free(channel, channel->slot_sequence[index]))
        return false;
    coll__node_slot_t *slot = &channel->member[channel->rank]->slots[index];
    channel->slot_sequence[index] = op->sequence;
    slot->fingerprint = op->fingerprint;
    slot->previous = op->previous;
    slot->finished = channel->finished;
    if (coll__node_is_chunked(op)) {
        coll__node_places_t places = {0};
        if (channel->node->uses_heaps)
            coll__chunked_places(op, &places);
        memcpy(slot->inline_, &places, sizeof places);
    } else if (op->bytes && contributes(channel, op)) {
        memcpy((void *)data_of(op, slot), op->operation == COLL_OP_BROADCAST ? op->recv : op->send, op->bytes);
    }
    atomic_store_explicit(&slot->sequence, op->sequence, memory_order_release);
    coll__channel_ring(channel);
    op->shown = true;
    return true;
}

int coll__slot_check(coll__node_op_t *op, int rank, const coll__node_slot_t *slot) {
    bool differs = slot->fingerprint != op->fingerprint;
    bool differed = slot->previous != op->previous && slot->previous && op->previous;
    if (!differs && !differed)
        return 0;
    op->other_rank = rank;
    op->other_sequence = differs ? op->sequence : op->sequence - 1;
    op->other_fingerprint = differs ? slot->fingerprint : slot->previous;
    return COLL_ERR_MISMATCH;
}

/* Waits for the flags of all members that this rank reads, each rank beginning with its neighbour, so that not all pull
 * the same line at once. */
static int see_flags(coll__channel_t *channel, coll__node_op_t *op) {
    if (op->operation == COLL_OP_BROADCAST) {
        if (channel->rank == op->root)
            return 0;
        const coll__node_slot_t *slot = coll__channel_slot(channel, op->root, op->sequence);
        if (atomic_load_explicit(&slot->sequence, memory_order_acquire) != op->sequence)
            return COLL__AGAIN;
        channel->known_finished[op->root] = slot->finished;
        return coll__slot_check(op, op->root, slot);
    }
    while (op->seen < channel->size - 1) {
        int rank = channel->rank + 1 + op->seen;
        if (rank >= channel->size)
            rank -= channel->size;
        const coll__node_slot_t *slot = coll__channel_slot(channel, rank, op->sequence);
        if (atomic_load_explicit(&slot->sequence, memory_order_acquire) != op->sequence)
            return COLL__AGAIN;
        channel->known_finished[rank] = slot->finished;
        int status = coll__slot_check(op, rank, slot);
        if (status < 0)
            return status;
        op->seen++;
    }
    return 0;
}

static void fold(coll__channel_t *channel, coll__node_op_t *op) {
    if (channel->size == 2) { /* the most frequent of small cases, without the general machinery */
        const void *other = data_of(op, coll__channel_slot(channel, !channel->rank, op->sequence));
        if (channel->rank == 0)
            op->kernel(op->send, other, op->recv, op->count);
        else
            op->kernel(other, op->send, op->recv, op->count);
        return;
    }
    for (int rank = 0; rank < channel->size; rank++)
        channel->inputs[rank] =
            rank == channel->rank ? op->send : data_of(op, coll__channel_slot(channel, rank, op->sequence));
    coll__data_fold(op->op, op->dtype, channel->inputs, channel->size, op->recv, op->count);
}

static void collect(const coll__channel_t *channel, const coll__node_op_t *op) {
    for (int rank = 0; rank < channel->size; rank++) {
        unsigned char *place = (unsigned char *)op->recv + (size_t)rank * op->bytes;
        if (rank != channel->rank)
            memcpy(place, data_of(op, coll__channel_slot(channel, rank, op->sequence)), op->bytes);
        else if (place != op->send)
            memcpy(place, op->send, op->bytes);
    }
}

int coll__slot_step(coll__channel_t *channel, coll__node_op_t *op) {
    if (!has_result(channel, op))
        return 0;
    int status = see_flags(channel, op);
    if (status != 0 || op->bytes == 0)
        return status;
    switch (op->operation) {
    case COLL_OP_BROADCAST:
        if (channel->rank != op->root)
            memcpy(op->recv, data_of(op, coll__channel_slot(channel, op->root, op->sequence)), op->bytes);
        break;
    case COLL_OP_ALLGATHER:
        collect(channel, op);
        break;
    default:
        fold(channel, op);
        break;
    }
    return 0;
}
