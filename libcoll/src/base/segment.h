/* The node's shared segment as its users see it: where it lies, who shares it, and how to wake a sleeping peer.
 *
 * Layout: a line for each local rank, then the region of the shm transport, then the region of the node collectives.
 * bootstrap/ creates it (a memfd passed over a unix socket) and fills this struct.
 */
#ifndef COLL__SEGMENT_H
#define COLL__SEGMENT_H

#include <stdatomic.h>
#include <stddef.h>

#include "base/cpu.h"

typedef struct coll__segment_line {
    _Alignas(COLL__CACHE_LINE) atomic_int sleeping; /* 1: this rank is about to park or parked; write its wake fd */
    atomic_int left; /* 1: this rank said goodbye; its process may end without being taken for dead */
} coll__segment_line_t;

typedef struct coll__segment {
    void *base;     /* NULL: no segment (one rank on this node) */
    size_t bytes;   /* of the whole mapping */
    int local_rank; /* place of this process among the node's ranks */
    int local_size;
    int *world_rank;             /* [local_size], ascending */
    int *wake_fd;                /* [local_size], eventfds; wake_fd[local_rank] is this process's own */
    coll__segment_line_t *lines; /* [local_size], in the segment */
    void *transport;             /* region of the shm transport, aligned to a page */
    size_t transport_bytes;
    void *node; /* region of the node collectives, aligned to a page */
    size_t node_bytes;
} coll__segment_t;

/* Writes the wake fd of a local rank and clears its flag. */
void coll__segment_wake(const coll__segment_t *segment, int local_rank);

/* After something was published for `local_rank` (a store with release order): wakes it if it sleeps. The fence pairs
 * with the one in the sleeper between setting its flag and its last look. */
static inline void coll__segment_ring(const coll__segment_t *segment, int local_rank) {
    atomic_thread_fence(memory_order_seq_cst);
    if (atomic_load_explicit(&segment->lines[local_rank].sleeping, memory_order_relaxed))
        coll__segment_wake(segment, local_rank);
}

#endif
