/* The accounts of pool.h: private to the sender, nothing here is in shared memory. */
#include "transport/shm/pool.h"

#include <stdlib.h>

#include "base/error.h"

int coll__pool_open(coll__pool_t *pool, const coll__shm_region_t *region, unsigned char *base) {
    *pool = (coll__pool_t){.base = base, .slot_bytes = region->slot_bytes};
    pool->free = malloc((size_t)region->slots * sizeof *pool->free);
    if (!pool->free)
        return coll__error(COLL_ERR_MEMORY, "out of memory for the list of %d shared-memory slots", region->slots);
    for (int slot = region->slots - 1; slot >= 0; slot--)
        pool->free[pool->free_count++] = slot;
    return 0;
}

void coll__pool_close(coll__pool_t *pool) {
    free(pool->free);
    pool->free = NULL;
}

bool coll__pool_allows(const coll__pool_t *pool, const coll__pool_held_t *held, uint32_t limit) {
    uint32_t count = coll__pool_held_count(held);
    return count == 0 || (count < limit && pool->shared_used < COLL__POOL_SHARED);
}

int coll__pool_take(coll__pool_t *pool) {
    return pool->free[--pool->free_count];
}

void coll__pool_give(coll__pool_t *pool, coll__pool_held_t *held, int slot, uint32_t after) {
    if (coll__pool_held_count(held) > 0)
        pool->shared_used++;
    uint32_t at = held->end++ % COLL__POOL_QUEUE;
    held->slot[at] = slot;
    held->after[at] = after;
}

static void take_back_first(coll__pool_t *pool, coll__pool_held_t *held) {
    pool->free[pool->free_count++] = held->slot[held->first++ % COLL__POOL_QUEUE];
    if (coll__pool_held_count(held) > 0)
        pool->shared_used--;
}

void coll__pool_reclaim(coll__pool_t *pool, coll__pool_held_t *held, uint32_t read) {
    while (coll__pool_held_count(held) > 0 && (int32_t)(read - held->after[held->first % COLL__POOL_QUEUE]) >= 0)
        take_back_first(pool, held);
}

void coll__pool_reclaim_all(coll__pool_t *pool, coll__pool_held_t *held) {
    while (coll__pool_held_count(held) > 0)
        take_back_first(pool, held);
}
