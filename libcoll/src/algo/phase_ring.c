/* Allgather round a ring: in each step, a rank passes on the block that it got in the step before; see phase.h. */
#include "algo/phase.h"
#include "pattern/ring.h"

void coll__phase_ring_allgather(coll__builder_t *builder, const coll__blocks_t *blocks) {
    int size = blocks->size;
    int next = coll__ring_at(blocks->rank, 1, size), previous = coll__ring_at(blocks->rank, -1, size);
    int block = coll__ring_at(blocks->rank, -blocks->root, size); /* to be sent; the one before it arrives */
    for (int step = 0; step < size - 1; step++) {
        int arriving = coll__ring_at(block, -1, size);
        coll__build_send(builder, next, coll__block_at(blocks, block), coll__block_bytes(blocks, block));
        coll__build_recv(builder, previous, coll__block_at(blocks, arriving), coll__block_bytes(blocks, arriving));
        coll__build_round(builder);
        block = arriving;
    }
}
