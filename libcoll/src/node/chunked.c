/* The chunked form. For each chunk of a reduction, with P ranks and the chunk cut into P parts:
 *     stage   a rank copies the parts that others fold (all but its own) into its stage
 *     fold    it folds its own part of all ranks' data, in rank order, into its result and into the shared results
 *     take    it copies the other parts from the shared results
 * A broadcast is staged by the root and copied by the others in place of the fold; an allgather is staged by all and
 * copied. A rank goes on with whichever of the three can go on; each counter is watched by those who wait for it.
 */
#include <string.h>

#include "base/status.h"
#include "node/channel.h"
#include "node/heap.h"

static uint64_t at_chunk(const coll__node_op_t *op, size_t chunks) {
    return op->sequence << COLL__NODE_CHUNK_BITS | chunks;
}

static bool reduces(const coll__node_op_t *op) {
    return op->operation == COLL_OP_REDUCE || op->operation == COLL_OP_ALLREDUCE;
}

static bool contributes(const coll__node_op_t *op, int rank) {
    return op->operation != COLL_OP_BROADCAST || rank == op->root;
}

/* Does this member's output get written by others, part by part? A broadcast's and an allgather's is copied by itself.
 */
static bool is_given(const coll__node_op_t *op, int rank) {
    return op->operation == COLL_OP_ALLREDUCE || (op->operation == COLL_OP_REDUCE && rank == op->root);
}

/* ---- where things are ---- */

struct piece {
    size_t offset, bytes; /* in the caller's data */
};

static struct piece chunk_of(const coll__node_op_t *op, size_t chunk) {
    size_t offset = chunk * op->chunk_bytes;
    size_t left = op->bytes - offset;
    return (struct piece){offset, left < op->chunk_bytes ? left : op->chunk_bytes};
}

/* The part of a chunk that `rank` folds: cut at cache lines, so that no line is written by two. */
static struct piece part_of(const coll__channel_t *channel, size_t chunk_bytes, int rank) {
    size_t lines = (chunk_bytes + COLL__CACHE_LINE - 1) / COLL__CACHE_LINE;
    size_t begin = lines * (size_t)rank / (size_t)channel->size * COLL__CACHE_LINE;
    size_t end = lines * ((size_t)rank + 1) / (size_t)channel->size * COLL__CACHE_LINE;
    if (begin > chunk_bytes)
        begin = chunk_bytes;
    if (end > chunk_bytes)
        end = chunk_bytes;
    return (struct piece){begin, end - begin};
}

static unsigned char *stage_of(const coll__channel_t *channel, int rank, size_t chunk) {
    return channel->member[rank]->stage + chunk % (size_t)channel->chunk_slots * channel->chunk_bytes;
}

static unsigned char *results_of(const coll__channel_t *channel, size_t chunk) {
    return channel->results + chunk % (size_t)channel->chunk_slots * channel->chunk_bytes;
}

static const char *own_input(const coll__node_op_t *op) {
    return op->operation == COLL_OP_BROADCAST ? op->recv : op->send;
}

void coll__chunked_places(const coll__node_op_t *op, coll__node_places_t *places) {
    uint64_t offset;
    const void *input = own_input(op);
    if (input && coll__heap_find(input, op->bytes, &offset))
        places->send = offset + 1;
    if (op->recv && coll__heap_find(op->recv, op->bytes, &offset))
        places->recv = offset + 1;
}

/* What a member has said of its arrays, as addresses of this process. */
static void locate(coll__channel_t *channel, const coll__node_op_t *op, int rank) {
    coll__node_places_t places;
    memcpy(&places, coll__channel_slot(channel, rank, op->sequence)->inline_, sizeof places);
    char *heap = channel->node->heap[channel->members[rank]];
    size_t room = channel->node->heap_bytes[channel->members[rank]];
    bool reads = places.send && places.send - 1 + op->bytes <= room,
         writes = places.recv && places.recv - 1 + op->bytes <= room;
    if (rank == channel->rank)
        heap = NULL; /* told apart by own_places() */
    channel->send_at[rank] = heap && reads ? heap + places.send - 1 : NULL;
    channel->recv_at[rank] = heap && writes ? heap + places.recv - 1 : NULL;
}

/* Its own arrays, as the others see them. */
static coll__node_places_t own_places(const coll__channel_t *channel, const coll__node_op_t *op) {
    coll__node_places_t places;
    memcpy(&places, coll__channel_slot(channel, channel->rank, op->sequence)->inline_, sizeof places);
    return places;
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
        if (atomic_load_explicit(counter_of(channel, rank, which), memory_order_acquire) < value)
            return false;
    }
    return true;
}

static void reach(const coll__channel_t *channel, enum which which, uint64_t value) {
    atomic_store_explicit(counter_of(channel, channel->rank, which), value, memory_order_release);
}

/* ---- the three ---- */

static bool can_stage(const coll__channel_t *channel, const coll__node_op_t *op, size_t chunk) {
    if (!op->stages)
        return true;
    size_t slots = (size_t)channel->chunk_slots;
    return others_reached(channel, FOLDED, chunk < slots ? channel->stage_guard : at_chunk(op, chunk - slots + 1));
}

static void stage(coll__channel_t *channel, coll__node_op_t *op, size_t chunk) {
    struct piece piece = chunk_of(op, chunk);
    const char *from = own_input(op) + piece.offset;
    if (op->operation == COLL_OP_ALLGATHER) {
        char *place = (char *)op->recv + (size_t)channel->rank * op->bytes + piece.offset;
        if (place != from)
            memcpy(place, from, piece.bytes);
    }
    if (!op->stages)
        return;
    unsigned char *to = stage_of(channel, channel->rank, chunk);
    if (!reduces(op)) {
        memcpy(to, from, piece.bytes);
        return;
    }
    struct piece own = part_of(channel, piece.bytes, channel->rank);
    size_t after = own.offset + own.bytes;
    memcpy(to, from, own.offset);
    memcpy(to + after, from + after, piece.bytes - after);
}

static bool can_fold(const coll__channel_t *channel, const coll__node_op_t *op, size_t chunk) {
    if (op->operation == COLL_OP_BROADCAST)
        return channel->rank == op->root || atomic_load_explicit(&channel->member[op->root]->staged,
                                                                 memory_order_acquire) >= at_chunk(op, chunk + 1);
    if (!others_reached(channel, STAGED, at_chunk(op, chunk + 1)))
        return false;
    if (!reduces(op))
        return true;
    /* The results of the chunk that had this slot before must have been taken, by this rank too: the last chunk is
     * shorter and so cut elsewhere, which puts this rank's part where another's was. */
    size_t slots = (size_t)channel->chunk_slots;
    if (chunk < slots)
        return others_reached(channel, TAKEN, channel->results_guard);
    return op->taken > chunk - slots && others_reached(channel, TAKEN, at_chunk(op, chunk - slots + 1));
}

/* A member's data of a chunk, where this rank reads it. */
static const void *input_of(const coll__channel_t *channel, const coll__node_op_t *op, int rank, size_t chunk) {
    size_t offset = chunk * op->chunk_bytes;
    if (rank == channel->rank)
        return own_input(op) + offset;
    if (channel->send_at[rank])
        return channel->send_at[rank] + offset;
    return stage_of(channel, rank, chunk);
}

/* Folds this rank's part of a chunk, block by block so that a result is in the cache when it is given to the others. */
static void fold_part(coll__channel_t *channel, coll__node_op_t *op, size_t chunk) {
    enum { BLOCK_BYTES = 16 << 10 };
    struct piece piece = chunk_of(op, chunk), own = part_of(channel, piece.bytes, channel->rank);
    size_t element = op->bytes / op->count;
    unsigned char *results = results_of(channel, chunk);
    for (size_t done = 0; done < own.bytes; done += BLOCK_BYTES) {
        size_t at = own.offset + done, bytes = own.bytes - done < BLOCK_BYTES ? own.bytes - done : BLOCK_BYTES;
        for (int rank = 0; rank < channel->size; rank++)
            channel->inputs[rank] = (const char *)input_of(channel, op, rank, chunk) + at;
        char *target = NULL;
        bool ordinary = false;
        for (int i = 0; i < channel->size; i++) {
            int rank = (channel->rank + i) % channel->size;
            if (!is_given(op, rank))
                continue;
            char *place = i == 0 ? op->recv : channel->recv_at[rank];
            if (!place) {
                ordinary = true;
                continue;
            }
            place += piece.offset + at;
            if (target)
                memcpy(place, target, bytes);
            else
                coll__data_fold(op->op, op->dtype, channel->inputs, channel->size, target = place, bytes / element);
        }
        if (!ordinary)
            continue;
        if (target)
            memcpy(results + at, target, bytes);
        else
            coll__data_fold(op->op, op->dtype, channel->inputs, channel->size, results + at, bytes / element);
    }
}

static void fold(coll__channel_t *channel, coll__node_op_t *op, size_t chunk) {
    struct piece piece = chunk_of(op, chunk);
    char *recv = (char *)op->recv + piece.offset;
    if (reduces(op)) {
        fold_part(channel, op, chunk);
    } else if (op->operation == COLL_OP_BROADCAST) {
        if (channel->rank != op->root)
            memcpy(recv, input_of(channel, op, op->root, chunk), piece.bytes);
    } else {
        for (int i = 1; i < channel->size; i++) {
            int rank = (channel->rank + i) % channel->size;
            memcpy(recv + (size_t)rank * op->bytes, input_of(channel, op, rank, chunk), piece.bytes);
        }
    }
}

/* Also who has nothing to take waits for the others, when they read or write its arrays in place. */
static bool can_take(const coll__channel_t *channel, const coll__node_op_t *op, size_t chunk) {
    bool needs_others = is_given(op, channel->rank) || (contributes(op, channel->rank) && !op->stages);
    return !needs_others || others_reached(channel, FOLDED, at_chunk(op, chunk + 1));
}

static void take(coll__channel_t *channel, coll__node_op_t *op, size_t chunk) {
    if (!op->takes)
        return;
    struct piece piece = chunk_of(op, chunk), own = part_of(channel, piece.bytes, channel->rank);
    char *recv = (char *)op->recv + piece.offset;
    const unsigned char *results = results_of(channel, chunk);
    size_t after = own.offset + own.bytes;
    memcpy(recv, results, own.offset);
    memcpy(recv + after, results + after, piece.bytes - after);
}

/* ---- the operation ---- */

/* Done or given up: others may still read what this rank has staged and folded, until they are past this operation. */
void coll__chunked_end(coll__channel_t *channel, const coll__node_op_t *op) {
    channel->stage_guard = channel->results_guard = at_chunk(op, op->chunks);
}

/* The flags of the slots carry the fingerprints, and where arrays lie: each other member's is looked at once. */
static int see_flags(coll__channel_t *channel, coll__node_op_t *op) {
    for (; op->seen < channel->size - 1; op->seen++) {
        int rank = (channel->rank + 1 + op->seen) % channel->size;
        const coll__node_slot_t *slot = coll__channel_slot(channel, rank, op->sequence);
        if (atomic_load_explicit(&slot->sequence, memory_order_acquire) != op->sequence)
            return COLL__AGAIN;
        int status = coll__slot_check(op, rank, slot);
        if (status < 0)
            return status;
        locate(channel, op, rank);
    }
    return 0;
}

/* With every array in symmetric memory nothing passes through stages, and chunks may be larger. All members see the
 * same flags and decide alike; a member with an ordinary array knows without them. */
static bool all_in_place(const coll__channel_t *channel, const coll__node_op_t *op) {
    for (int rank = 0; rank < channel->size; rank++) {
        if (rank == channel->rank)
            continue;
        if (contributes(op, rank) && !channel->send_at[rank])
            return false;
        if (is_given(op, rank) && !channel->recv_at[rank])
            return false;
    }
    return true;
}

static int enter(coll__channel_t *channel, coll__node_op_t *op) {
    coll__node_places_t places = own_places(channel, op);
    op->stages = contributes(op, channel->rank) && !places.send;
    op->takes = is_given(op, channel->rank) && !places.recv;
    bool ordinary = op->stages || op->takes;
    int status = ordinary ? 0 : see_flags(channel, op);
    if (status != 0)
        return status;
    op->chunk_bytes = !ordinary && all_in_place(channel, op) ? COLL__NODE_STAGE : channel->chunk_bytes;
    op->chunks = (op->bytes + op->chunk_bytes - 1) / op->chunk_bytes;
    /* To be in this operation is to have finished all earlier ones. */
    reach(channel, TAKEN, at_chunk(op, 0));
    reach(channel, FOLDED, at_chunk(op, 0));
    reach(channel, STAGED, at_chunk(op, 0));
    return 0;
}

int coll__chunked_step(coll__channel_t *channel, coll__node_op_t *op) {
    int status = op->chunks ? 0 : enter(channel, op);
    if (status != 0)
        return status;
    for (;;) {
        bool moved = false;
        status = see_flags(channel, op);
        if (status < 0)
            return status;
        if (op->staged < op->chunks && can_stage(channel, op, op->staged)) {
            stage(channel, op, op->staged++);
            reach(channel, STAGED, at_chunk(op, op->staged));
            moved = true;
        }
        /* Whoever has staged has shown its flag before; a broadcast needs the root's alone, but all are cheap to wait
         * for. */
        if (op->folded < op->staged && can_fold(channel, op, op->folded) && (status = see_flags(channel, op)) == 0) {
            fold(channel, op, op->folded++);
            reach(channel, FOLDED, at_chunk(op, op->folded));
            moved = true;
        }
        if (status < 0)
            return status;
        if (op->taken < op->folded && can_take(channel, op, op->taken)) {
            take(channel, op, op->taken++);
            reach(channel, TAKEN, at_chunk(op, op->taken));
            moved = true;
        }
        if (moved)
            coll__channel_ring(channel);
        if (op->taken == op->chunks) {
            coll__chunked_end(channel, op);
            return 0;
        }
        if (!moved)
            return COLL__AGAIN;
    }
}

/* First those that are not as far with their data; if there are none, those whose results are missing. */
int coll__chunked_missing(const coll__channel_t *channel, const coll__node_op_t *op, int *ranks, int capacity) {
    int count = 0;
    for (int pass = 0; pass < 2 && count == 0; pass++)
        for (int rank = 0; rank < channel->size && count < capacity; rank++) {
            if (rank == channel->rank)
                continue;
            bool behind =
                pass ? atomic_load(&channel->member[rank]->folded) < at_chunk(op, op->taken + 1)
                     : atomic_load(&coll__channel_slot(channel, rank, op->sequence)->sequence) != op->sequence ||
                           atomic_load(&channel->member[rank]->staged) < at_chunk(op, op->folded + 1);
            if (behind)
                ranks[count++] = rank;
        }
    return count;
}
