/* The layout of the node region and of a channel in it. Private to node/. */
#ifndef COLL__CHANNEL_H
#define COLL__CHANNEL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#include "node/node.h"

enum {
    COLL__NODE_CHANNELS = 32,
    COLL__NODE_SEATS = 1024,    /* communicators that can be told apart at once, with or without a channel */
    COLL__NODE_SLOTS = 8,       /* slot operations of one rank that others may still read */
    COLL__NODE_INLINE = 32,     /* bytes in the flag's own line */
    COLL__NODE_STAGE = 1 << 20, /* bytes of a member's stage, and of the channel's results */
    COLL__NODE_CHUNK_BITS = 24  /* of a counter: the chunk; above it the sequence */
};

typedef atomic_uint_fast64_t coll__node_counter_t;

typedef struct coll__node_slot {
    _Alignas(COLL__CACHE_LINE) coll__node_counter_t sequence; /* the flag: written last */
    uint64_t fingerprint;
    uint64_t previous; /* of the call before this one */
    uint64_t finished; /* what this member had finished by then: spares the readers a line */
    unsigned char inline_[COLL__NODE_INLINE];
    unsigned char body[COLL__NODE_SLOT_BYTES];
} coll__node_slot_t;

/* Counters of the chunked form are sequence << COLL__NODE_CHUNK_BITS | chunks done: one comparison tells both that a
 * member is in this operation and how far. A line each, since each is watched at another moment. */
typedef struct coll__node_member {
    _Alignas(COLL__CACHE_LINE) coll__node_counter_t staged;
    _Alignas(COLL__CACHE_LINE) coll__node_counter_t folded;
    _Alignas(COLL__CACHE_LINE) coll__node_counter_t taken;
    _Alignas(COLL__CACHE_LINE) coll__node_counter_t finished; /* sequence of the last operation that ended */
    coll__node_slot_t slots[COLL__NODE_SLOTS];
    _Alignas(4096) unsigned char stage[COLL__NODE_STAGE];
} coll__node_member_t;

/* Who has which channel: found by id under the lock, so that all members of a communicator decide alike. */
typedef struct coll__node_seat {
    uint64_t id; /* 0: free */
    int channel; /* -1: there was none left */
    int size, detached;
} coll__node_seat_t;

typedef struct coll__node_head {
    pthread_mutex_t lock; /* shared between processes, robust: a member may die with it */
    coll__node_counter_t ready;
    uint32_t channels_used; /* bits */
    coll__node_seat_t seats[COLL__NODE_SEATS];
} coll__node_head_t;

/* Where a member's arrays lie in its heap: offset + 1, 0 for ordinary memory. In the inline bytes of a chunked
 * operation's slot. */
typedef struct coll__node_places {
    uint64_t send, recv;
} coll__node_places_t;
_Static_assert(sizeof(coll__node_places_t) <= COLL__NODE_INLINE, "places must fit beside the flag");

struct coll__node {
    const coll__segment_t *segment;
    char **heap;        /* [local_size] where it is mapped here; NULL: it is not */
    size_t *heap_bytes; /* [local_size] */
    bool uses_heaps;
    coll__node_head_t *head;
    unsigned char *channels;
    size_t channel_bytes;
};

struct coll__channel {
    coll__node_t *node;
    int seat;
    int size, rank;
    int *members;                             /* [size] local ranks */
    coll__node_member_t **member;             /* [size] */
    unsigned char *results;                   /* folded parts of the chunks under way */
    const void **inputs;                      /* [size] for folds */
    uint64_t *known_finished;                 /* [size] seen so far */
    uint64_t slot_sequence[COLL__NODE_SLOTS]; /* which operation used this rank's slot last */
    const char *
        *send_at;   /* [size] a member's input of the operation under way, where this process reads it; NULL: staged */
    char **recv_at; /* [size] the same for its output */
    size_t chunk_bytes; /* of ordinary memory */
    int chunk_slots;
    uint64_t stage_guard, results_guard; /* counters that others must have reached before these are written again */
    uint64_t finished, skipped;
    coll__node_op_t *queue; /* under way, oldest first */
};

/* Wakes the members that sleep; after something was published for them. */
static inline void coll__channel_ring(const coll__channel_t *channel) {
    const coll__segment_t *segment = channel->node->segment;
    atomic_thread_fence(memory_order_seq_cst);
    for (int i = 0; i < channel->size; i++) {
        int local = channel->members[i];
        if (atomic_load_explicit(&segment->lines[local].sleeping, memory_order_relaxed) && local != segment->local_rank)
            coll__segment_wake(segment, local);
    }
}

static inline coll__node_slot_t *coll__channel_slot(const coll__channel_t *channel, int rank, uint64_t sequence) {
    return &channel->member[rank]->slots[sequence % COLL__NODE_SLOTS];
}

static inline bool coll__node_is_chunked(const coll__node_op_t *op) {
    return op->bytes > COLL__NODE_SLOT_BYTES;
}

/* slot.c */
bool coll__slot_show(coll__channel_t *channel, coll__node_op_t *op); /* false: the slot is still being read */
int coll__slot_step(coll__channel_t *channel, coll__node_op_t *op);
int coll__slot_check(coll__node_op_t *op, int rank, const coll__node_slot_t *slot); /* 0 or COLL_ERR_MISMATCH */

/* chunked.c */
void coll__chunked_places(const coll__node_op_t *op, coll__node_places_t *places);
void coll__chunked_end(coll__channel_t *channel, const coll__node_op_t *op);
int coll__chunked_step(coll__channel_t *channel, coll__node_op_t *op);
int coll__chunked_missing(const coll__channel_t *channel, const coll__node_op_t *op, int *ranks, int capacity);

#endif
