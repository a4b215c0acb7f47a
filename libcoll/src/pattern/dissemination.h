/* Dissemination: in round k, every rank tells the one 2^k places further. After ceil(log2 P) rounds each rank has
 * heard, directly or not, from all others; P need not be a power of two. */
#ifndef COLL__DISSEMINATION_H
#define COLL__DISSEMINATION_H

#include "pattern/log2.h"
#include "pattern/ring.h"

static inline int coll__dissemination_rounds(int size) {
    return coll__log2_ceil(size);
}

static inline int coll__dissemination_to(int rank, int round, int size) {
    return coll__ring_at(rank, 1 << round, size);
}

static inline int coll__dissemination_from(int rank, int round, int size) {
    return coll__ring_at(rank, -(1 << round), size);
}

#endif
