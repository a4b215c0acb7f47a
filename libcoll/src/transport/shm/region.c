/* The arithmetic of region.h. Every rank of a node computes the same. */
#include "transport/shm/region.h"

#include "transport/shm/pool.h"
#include "transport/shm/shm.h"

enum { PAGE = 4096 }; /* pages may be larger; then the regions are merely not aligned to them */

static size_t round_up(size_t bytes, size_t multiple) {
    return (bytes + multiple - 1) / multiple * multiple;
}

void coll__shm_region(coll__shm_region_t *region, int local_size, size_t max_packet) {
    region->local_size = local_size;
    region->cells = local_size <= 64 ? 256 : local_size <= 128 ? 128 : 64;
    region->slots = COLL__POOL_SHARED + local_size;
    region->slot_bytes = round_up(max_packet > COLL__SHM_PIECE ? max_packet : COLL__SHM_PIECE, PAGE);
    region->ring_stride = sizeof(coll__ring_t) + (size_t)region->cells * COLL__RING_CELL;
    region->pools_offset = round_up((size_t)local_size * (size_t)local_size * region->ring_stride, PAGE);
    region->bytes = region->pools_offset + (size_t)local_size * (size_t)region->slots * region->slot_bytes;
}

size_t coll__shm_region_bytes(int local_size, size_t max_packet) {
    coll__shm_region_t region;
    coll__shm_region(&region, local_size, max_packet);
    return region.bytes;
}
