/* Where things lie in the shm transport's region of the segment: a ring for each ordered pair of local ranks, then a
 * pool of slots for each sender.
 *
 * Everything follows from the number of local ranks and the longest packet. The region is sparse: a page that no pair
 * of ranks uses costs nothing. Rings shrink when ranks are many, so that 256 ranks need 256 MiB of addresses for
 * them, not 1 GiB.
 */
#ifndef COLL__SHM_REGION_H
#define COLL__SHM_REGION_H

#include "transport/shm/ring.h"

/* Bulk data moves in pieces of this size; a slot is larger only if the longest packet is. */
enum { COLL__SHM_PIECE = 32 * 1024 };

typedef struct coll__shm_region {
    int local_size;
    uint32_t cells;    /* of a ring */
    int slots;         /* of a sender */
    size_t slot_bytes; /* a multiple of the page size */
    size_t ring_stride;
    size_t pools_offset; /* where the pools begin */
    size_t bytes;        /* of the region */
} coll__shm_region_t;

void coll__shm_region(coll__shm_region_t *region, int local_size, size_t max_packet);

static inline coll__ring_t *coll__shm_region_ring(const coll__shm_region_t *region, void *base, int from, int to) {
    size_t index = (size_t)to * (size_t)region->local_size + (size_t)from;
    return (coll__ring_t *)(void *)((unsigned char *)base + index * region->ring_stride);
}

static inline unsigned char *coll__shm_region_pool(const coll__shm_region_t *region, void *base, int sender) {
    return (unsigned char *)base + region->pools_offset + (size_t)sender * (size_t)region->slots * region->slot_bytes;
}

#endif
