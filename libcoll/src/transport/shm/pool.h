/* A sender's slots for packets that are too long for a ring and for pieces of bulk data.
 *
 * A slot is named by a record in the receiver's ring and comes back when the ring has been read past that record: no
 * flags are needed, the receiver frees a slot by moving on. So the slots that one receiver holds come back in the order
 * they were given, and the sender keeps them in a queue for each peer.
 *
 * One slow receiver must not take everything: each peer can always have one slot, the others (COLL__POOL_SHARED) are
 * shared, and no peer holds more than a bounded number. Packets may hold a few more than bulk data may, so that a
 * long transfer does not shut them out.
 */
#ifndef COLL__SHM_POOL_H
#define COLL__SHM_POOL_H

#include "transport/shm/region.h"

enum {
    COLL__POOL_SHARED = 16,
    COLL__POOL_BULK_LIMIT = 8,    /* slots that bulk data may make a peer hold */
    COLL__POOL_PACKET_LIMIT = 12, /* the same for packets */
    COLL__POOL_QUEUE = 16         /* a power of two above both */
};

/* The slots that one peer holds, oldest first. */
typedef struct coll__pool_held {
    int slot[COLL__POOL_QUEUE];
    uint32_t after[COLL__POOL_QUEUE]; /* free when the ring has been read up to here */
    uint32_t first, end;
} coll__pool_held_t;

typedef struct coll__pool {
    unsigned char *base;
    size_t slot_bytes;
    int *free; /* a stack: what was used last is in the cache */
    int free_count;
    int shared_used; /* slots that peers hold beyond their first */
} coll__pool_t;

int coll__pool_open(coll__pool_t *pool, const coll__shm_region_t *region, unsigned char *base);
void coll__pool_close(coll__pool_t *pool);

static inline unsigned char *coll__pool_slot(const coll__pool_t *pool, int slot) {
    return pool->base + (size_t)slot * pool->slot_bytes;
}

static inline uint32_t coll__pool_held_count(const coll__pool_held_t *held) {
    return held->end - held->first;
}

/* May a peer that holds `held` have one more? */
bool coll__pool_allows(const coll__pool_t *pool, const coll__pool_held_t *held, uint32_t limit);

/* Takes a slot (allowed and not yet published), and hands it to the peer once its record's end is known. */
int coll__pool_take(coll__pool_t *pool);
void coll__pool_give(coll__pool_t *pool, coll__pool_held_t *held, int slot, uint32_t after);

/* Takes back what was read up to `read`; or everything, when the peer is gone. */
void coll__pool_reclaim(coll__pool_t *pool, coll__pool_held_t *held, uint32_t read);
void coll__pool_reclaim_all(coll__pool_t *pool, coll__pool_held_t *held);

#endif
