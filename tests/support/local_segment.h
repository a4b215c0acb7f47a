/* A node's segment without a bootstrap: one shared mapping and a view of it for each of `size` ranks, which may be ends
 * in one process, threads, or children forked afterwards. World ranks are the local ranks. */
#ifndef COLL__TEST_LOCAL_SEGMENT_H
#define COLL__TEST_LOCAL_SEGMENT_H

#include "base/segment.h"

enum { COLL__LOCAL_SEGMENT_MAX = 64 };

typedef struct coll__local_segment {
    int size;
    void *base;
    size_t bytes;
    int world_rank[COLL__LOCAL_SEGMENT_MAX];
    int wake_fd[COLL__LOCAL_SEGMENT_MAX];
    coll__segment_t view[COLL__LOCAL_SEGMENT_MAX];
} coll__local_segment_t;

/* 0, or -1 with errno. */
int coll__local_segment_open(coll__local_segment_t *local, int size, size_t transport_bytes);
void coll__local_segment_close(coll__local_segment_t *local);

/* Sleeps as an engine does: sets the flag, fences, lets `ready` look once more, then waits for the wake fd. Returns 0
 * when there was nothing to sleep for, 1 when woken, -1 when `timeout_ms` passed. */
int coll__local_segment_park(coll__segment_t *view, int (*ready)(void *), void *arg, int timeout_ms);

#endif
