/* Collectives of ranks that share a node, on the shared segment: no messages, only flags and data where all can see
 * them.
 *
 * A communicator whose ranks are all on one node has a channel. An operation on it is a resumable step: begin() shows
 * this rank's flag and, if it is small, its data; step() goes as far as it can and answers COLL__AGAIN until the
 * operation is done. Operations of a channel end in the order they were begun; several may be under way. Nothing here
 * waits.
 *
 * Two forms:
 *   slot     up to COLL__NODE_SLOT_BYTES: each contributor writes its data beside its flag, each consumer reads them in
 *            place and folds in rank order. One line each way for 32 bytes or less.
 *   chunked  larger: the data passes through the cache in chunks. Every rank stages the parts that others need, folds
 * its own part of the chunk for all, and takes the other parts from where they were folded; the three follow each other
 *            as closely as the ranks' counters allow. What lies in symmetric memory (heap.h) is neither staged nor
 * taken: it is read and written in place, on whichever ranks it is. Reductions fold in rank order in both forms, so
 * that a result does not depend on size or form.
 */
#ifndef COLL__NODE_H
#define COLL__NODE_H

#include "base/segment.h"
#include "data/data.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum { COLL__NODE_SLOT_BYTES = 8192 };

typedef struct coll__node coll__node_t;       /* this process's view of the region */
typedef struct coll__channel coll__channel_t; /* a communicator's place in it */

typedef struct coll__node_op {
    coll_operation_t operation;
    coll_dtype_t dtype;
    coll_op_t op;
    coll__kernel_t kernel; /* of a reduction */
    int root;
    size_t count;     /* elements of dtype; allgather: of one rank */
    size_t bytes;     /* the same in bytes */
    const void *send; /* NULL: none (broadcast uses recv) */
    void *recv;
    uint64_t sequence; /* of the communicator; grows from operation to operation */
    uint64_t fingerprint;
    uint64_t
        previous; /* fingerprint of the call before, 0: not known; a root that only sends is found out one call later */

    int other_rank; /* after COLL_ERR_MISMATCH: who called something else, where, and what */
    uint64_t other_sequence, other_fingerprint;

    bool stages, takes; /* chunked: its input is ordinary memory; its output is */
    bool shown;         /* the rest is the node layer's own */
    int seen;           /* members whose flag was seen, from the next one on around the ring */
    size_t chunk_bytes, chunks, staged, folded, taken;
    struct coll__node_op *prev, *next;
} coll__node_op_t;

size_t coll__node_region_bytes(int local_size); /* a multiple of the page size */
int coll__node_open(const coll__segment_t *segment, coll__node_t **node);
void coll__node_close(coll__node_t *node);

/* Maps the heap of a local rank, found in its process by number; 0 or an error, after which that rank's arrays are
 * ordinary. */
int coll__node_map_heap(coll__node_t *node, int local_rank, pid_t pid, int fd, size_t bytes);
/* Once it is agreed that every rank of the node has mapped every other's heap. */
void coll__node_use_heaps(coll__node_t *node);
bool coll__node_uses_heaps(const coll__node_t *node);

/* A channel for the communicator `id`; `members` are local ranks in its order. *channel is NULL, on every member alike,
 * when none is left: the communicator uses messages. */
int coll__channel_attach(coll__node_t *node, uint64_t id, const int *members, int size, int rank,
                         coll__channel_t **channel);
void coll__channel_detach(coll__channel_t *channel); /* the last member's frees it for others */

void coll__node_prepare(coll__node_op_t *op); /* once, when the fields above are set */

/* For an operation that waits alone on an idle channel: it is tried without being in line. After COLL__AGAIN it is
 * tried again, or begun. */
int coll__node_try(coll__channel_t *channel, coll__node_op_t *op);
bool coll__channel_idle(const coll__channel_t *channel);

void coll__node_begin(coll__channel_t *channel, coll__node_op_t *op);
int coll__node_step(coll__channel_t *channel, coll__node_op_t *op); /* 0, COLL__AGAIN or COLL_ERR_MISMATCH */
void coll__node_cancel(coll__channel_t *channel, coll__node_op_t *op);

/* This rank has no part in operation `sequence` (its call had an error): for the others, it has finished it. */
void coll__node_skip(coll__channel_t *channel, uint64_t sequence);

/* Ranks of the communicator that this operation still waits for. */
int coll__node_missing(const coll__channel_t *channel, const coll__node_op_t *op, int *ranks, int capacity);

#endif
