/* The chunked form. For each chunk of a reduction, with P ranks and the chunk cut into P parts:
 *     stage   a rank copies the parts that others fold (all but its own) into its stage
 *     fold    it folds its own part of all ranks' data, in rank order, into its result and into the shared results
 *     take    it copies the other parts from the shared results
 * A broadcast is staged by the root and copied by the others in place of the fold; an allgather is staged by all and copied.
 * A rank goes on with whichever of the three can go on; each counter is watched by those who wait for it.
 */
#include <string.h>

#include "base/status.h"
#include "node/channel.h"

static uint64_t at_chunk(const coll__node_op_t *op, size_t chunks) {
    return op->sequence << COLL__NODE_CHUNK_BITS | chunks;
}

static bool reduces(const coll__node_op_t *op) {
    return op->operation == COLL_OP_REDUCE || op->operation == COLL_OP_ALLREDUCE;
}

/* ---- where things are ---- */

struct piece {
    size_t offset, bytes; /* in the caller's data */
};

static struct piece chunk_of(const coll__channel_t *channel, const coll__node_op_t *op, size_t chunk) {
    size_t offset = chunk * channel->chunk_bytes;
    size_t left = op->bytes - offset;
    return (struct piece){offset, left < channel->chunk_bytes ? left : channel->chunk_bytes};
}

/* The part of a chunk that `rank` folds: cut at cache lines, so that no line is written by two. */
static struct piece part_of(const coll__channel_t *channel, size_t chunk_bytes, int rank) {
    size_t lines = (chunk_bytes + COLL__CACHE_LINE - 1) / COLL__CACHE_LINE;
    size_t begin = lines * (size_t)rank / (size_t)channel->size * COLL__CACHE_LINE;
    size_t end = lines * ((size_t)rank + 1) / (size_t)channel->size * COLL__CACHE_LINE;
    if (begin > chunk_bytes) begin = chunk_bytes;
    if (end > chunk_bytes) end = chunk_bytes;
    return (struct piece){begin, end - begin};
}

static unsigned char *stage_of(const coll__channel_t *channel, int rank, size_t chunk) {
    return channel->member[rank]->stage + chunk % (size_t)channel->chunk_slots * channel->chunk_bytes;
}

static unsigned char *results_of(const coll__channel_t *channel, size_t chunk) {
    return channel->results + chunk % (size_t)channel->chunk_slots * channel->chunk_bytes;
}

/* ---- who is how far ---- */

enum which { STAGED, FOLDED, TAKEN };

static coll__node_counter_t *counter_of(const coll__channel_t *channel, int rank, enum which which) {
    coll__node_member_t *member = channel->member[rank];
    return which == STAGED ? &member->staged : which == FOLDED ? &member->folded : &member->taken;
}

static bool others_reached(const coll__channel_t *channel, enum which which, uint64_t value) {
    for (int i = 1; i < channel->size; i++) {
        int rank = (channel->rank + i) % channel->size;
        if (atomic_load_explicit(counter_of(channel, rank, which), memory_order_acquire) < value) return false;
    }
    return true;
}

static void reach(const coll__channel_t *channel, enum which which, uint64_t value) {
    atomic_store_explicit(counter_of(channel, channel->rank, which), value, memory_order_release);
}

/* ---- the three ---- */

static bool stages(const coll__channel_t *channel, const coll__node_op_t *op) {
    return op->operation != COLL_OP_BROADCAST || channel->rank == op->root;
}

static bool can_stage(const coll__channel_t *channel, const coll__node_op_t *op, size_t chunk) {
    if (!stages(channel, op)) return true;
    size_t slots = (size_t)channel->chunk_slots;
    return others_reached(channel, FOLDED, chunk < slots ? channel->stage_guard : at_chunk(op, chunk - slots + 1));
}

static void stage(coll__channel_t *channel, coll__node_op_t *op, size_t chunk) {
    if (!stages(channel, op)) return;
    struct piece piece = chunk_of(channel, op, chunk);
    unsigned char *to = stage_of(channel, channel->rank, chunk);
    const unsigned char *from =
        (const unsigned char *)(op->operation == COLL_OP_BROADCAST ? op->recv : op->send) + piece.offset;
    if (reduces(op)) {
        struct piece own = part_of(channel, piece.bytes, channel->rank);
        size_t after = own.offset + own.bytes;
        memcpy(to, from, own.offset);
        memcpy(to + after, from + after, piece.bytes - after);
        return;
    }
    memcpy(to, from, piece.bytes);
    if (op->operation == COLL_OP_ALLGATHER) {
        unsigned char *place = (unsigned char *)op->recv + (size_t)channel->rank * op->bytes + piece.offset;
        if (place != from) memcpy(place, from, piece.bytes);
    }
}

static bool can_fold(const coll__channel_t *channel, const coll__node_op_t *op, size_t chunk) {
    if (op->operation == COLL_OP_BROADCAST)
        return channel->rank == op->root ||
               atomic_load_explicit(&channel->member[op->root]->staged, memory_order_acquire) >= at_chunk(op, chunk + 1);
    if (!others_reached(channel, STAGED, at_chunk(op, chunk + 1))) return false;
    size_t slots = (size_t)channel->chunk_slots;
    return !reduces(op) ||
           others_reached(channel, TAKEN, chunk < slots ? channel->results_guard : at_chunk(op, chunk - slots + 1));
}

static void fold_part(coll__channel_t *channel, coll__node_op_t *op, size_t chunk) {
    struct piece piece = chunk_of(channel, op, chunk), own = part_of(channel, piece.bytes, channel->rank);
    size_t element = op->bytes / op->count;
    if (own.bytes == 0) return;
    for (int rank = 0; rank < channel->size; rank++)
        channel->inputs[rank] = (rank == channel->rank ? (const unsigned char *)op->send + piece.offset
                                                       : stage_of(channel, rank, chunk)) +
                                own.offset;
    unsigned char *result = results_of(channel, chunk) + own.offset;
    bool mine = op->operation == COLL_OP_ALLREDUCE || channel->rank == op->root;
    unsigned char *target = mine ? (unsigned char *)op->recv + piece.offset + own.offset : result;
    coll__data_fold(op->op, op->dtype, channel->inputs, channel->size, target, own.bytes / element);
    if (target != result && op->operation == COLL_OP_ALLREDUCE) memcpy(result, target, own.bytes);
}

static void fold(coll__channel_t *channel, coll__node_op_t *op, size_t chunk) {
    struct piece piece = chunk_of(channel, op, chunk);
    unsigned char *recv = (unsigned char *)op->recv + piece.offset;
    if (reduces(op)) {
        fold_part(channel, op, chunk);
    } else if (op->operation == COLL_OP_BROADCAST) {
        if (channel->rank != op->root) memcpy(recv, stage_of(channel, op->root, chunk), piece.bytes);
    } else {
        for (int i = 1; i < channel->size; i++) {
            int rank = (channel->rank + i) % channel->size;
            memcpy(recv + (size_t)rank * op->bytes, stage_of(channel, rank, chunk), piece.bytes);
        }
    }
}

static bool takes(const coll__channel_t *channel, const coll__node_op_t *op) {
    return op->operation == COLL_OP_ALLREDUCE || (op->operation == COLL_OP_REDUCE && channel->rank == op->root);
}

static bool can_take(const coll__channel_t *channel, const coll__node_op_t *op, size_t chunk) {
    return !takes(channel, op) || others_reached(channel, FOLDED, at_chunk(op, chunk + 1));
}

static void take(coll__channel_t *channel, coll__node_op_t *op, size_t chunk) {
    if (!takes(channel, op)) return;
    struct piece piece = chunk_of(channel, op, chunk), own = part_of(channel, piece.bytes, channel->rank);
    unsigned char *recv = (unsigned char *)op->recv + piece.offset;
    const unsigned char *results = results_of(channel, chunk);
    size_t after = own.offset + own.bytes;
    memcpy(recv, results, own.offset);
    memcpy(recv + after, results + after, piece.bytes - after);
}

/* ---- the operation ---- */

void coll__chunked_enter(coll__channel_t *channel, coll__node_op_t *op) {
    op->chunks = (op->bytes + channel->chunk_bytes - 1) / channel->chunk_bytes;
    /* To be in this operation is to have finished all earlier ones. */
    reach(channel, TAKEN, at_chunk(op, 0));
    reach(channel, FOLDED, at_chunk(op, 0));
    reach(channel, STAGED, at_chunk(op, 0));
}

/* The flags of the slots carry the fingerprints: each other member's is looked at once, as soon as it is there. */
static int check_calls(const coll__channel_t *channel, coll__node_op_t *op) {
    for (; op->seen < channel->size - 1; op->seen++) {
        int rank = (channel->rank + 1 + op->seen) % channel->size;
        const coll__node_slot_t *slot = coll__channel_slot(channel, rank, op->sequence);
        if (atomic_load_explicit(&slot->sequence, memory_order_acquire) != op->sequence) return 0;
        int status = coll__slot_check(op, rank, slot);
        if (status < 0) return status;
    }
    return 0;
}

/* Done or given up: others may still read what this rank has staged and folded, until they are past this operation. */
void coll__chunked_end(coll__channel_t *channel, const coll__node_op_t *op) {
    channel->stage_guard = channel->results_guard = at_chunk(op, op->chunks);
}

int coll__chunked_step(coll__channel_t *channel, coll__node_op_t *op) {
    for (;;) {
        bool moved = false;
        if (op->seen < channel->size - 1) {
            int status = check_calls(channel, op);
            if (status < 0) return status;
        }
        if (op->staged < op->chunks && can_stage(channel, op, op->staged)) {
            stage(channel, op, op->staged++);
            reach(channel, STAGED, at_chunk(op, op->staged));
            moved = true;
        }
        if (op->folded < op->staged && can_fold(channel, op, op->folded)) {
            int status = check_calls(channel, op); /* whoever staged has shown its call before */
            if (status < 0) return status;
            fold(channel, op, op->folded++);
            reach(channel, FOLDED, at_chunk(op, op->folded));
            moved = true;
        }
        if (op->taken < op->folded && can_take(channel, op, op->taken)) {
            take(channel, op, op->taken++);
            reach(channel, TAKEN, at_chunk(op, op->taken));
            moved = true;
        }
        if (moved) coll__channel_ring(channel);
        if (op->taken == op->chunks) {
            coll__chunked_end(channel, op);
            return 0;
        }
        if (!moved) return COLL__AGAIN;
    }
}

int coll__chunked_missing(const coll__channel_t *channel, const coll__node_op_t *op, int *ranks, int capacity) {
    int count = 0;
    for (int rank = 0; rank < channel->size && count < capacity; rank++) {
        if (rank == channel->rank) continue;
        bool behind = atomic_load(&channel->member[rank]->staged) < at_chunk(op, op->folded + 1) ||
                      atomic_load(&channel->member[rank]->folded) < at_chunk(op, op->taken + 1);
        if (behind) ranks[count++] = rank;
    }
    return count;
}
