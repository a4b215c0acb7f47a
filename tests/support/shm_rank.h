/* One rank of several on one segment, as a process or a thread of its own: sends, polls and parks as an engine does. */
#ifndef COLL__TEST_SHM_RANK_H
#define COLL__TEST_SHM_RANK_H

#include <stdbool.h>

#include "support/local_segment.h"
#include "transport/transport_table.h"

enum { COLL__SHM_RANK_PACKET = 8 * 1024 + 48, COLL__SHM_RANK_MAX = 8, COLL__SHM_RANK_PATIENCE = 20 };

typedef struct coll__shm_rank {
    coll__segment_t *segment;
    coll__transport_t *transport;
    int rank, size;
    bool parks;                      /* sleeps at once when there is nothing to do; otherwise it yields */
    int packets[COLL__SHM_RANK_MAX]; /* from each peer */
    int bulk_done;
    int wrong; /* contents or order */
    int naps;  /* sleeps so far */
} coll__shm_rank_t;

/* Opens the end and connects it to all others. 0 or the library's error. */
int coll__shm_rank_open(coll__shm_rank_t *self, coll__local_segment_t *local, int rank, bool parks);

/* One turn of a wait: polls, and if that found nothing, sleeps (for COLL__SHM_RANK_PATIENCE seconds if nobody wakes it,
 * which is an error: there is no safety net for lost wake-ups) or yields. Returns 0, or -1 when something is wrong. */
int coll__shm_rank_turn(coll__shm_rank_t *self);

/* Sends packet `number` (from 0) of `bytes`, a multiple of 8, to a peer; waits for room. 0, -1 or the library's error.
 */
int coll__shm_rank_send(coll__shm_rank_t *self, int peer, int number, size_t bytes);

#endif
