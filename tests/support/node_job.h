/* Ranks of one node in this process, on one shared mapping, without the library around the node layer: what each calls
 * is made, stepped and checked here; they are threads, or take turns in the test's own order. */
#ifndef COLL__TEST_NODE_JOB_H
#define COLL__TEST_NODE_JOB_H

#include <pthread.h>

#include "node/channel.h"
#include "support/local_segment.h"

enum { COLL__NODE_JOB_MOST = 5, COLL__NODE_KINDS = 4 };

typedef struct coll__node_job coll__node_job_t;
typedef struct coll__node_rank {
    coll__node_job_t *job;
    int rank;
    coll__node_t *node;
    coll__channel_t *channel;
    uint64_t sequence;
    int failed; /* line */
} coll__node_rank_t;

struct coll__node_job {
    int size;
    coll__local_segment_t segment;
    coll__node_rank_t member[COLL__NODE_JOB_MOST];
    void (*body)(coll__node_rank_t *);
    pthread_barrier_t meet;
};

/* A thread that fails says where, and goes on. */
#define coll__node_expect(member, condition)   \
    do {                                       \
        if (!(condition) && !(member)->failed) \
            (member)->failed = __LINE__;       \
    } while (0)

extern int coll__node_everyone[COLL__NODE_JOB_MOST]; /* 0, 1, 2, ... */

void coll__node_job_open(coll__node_job_t *job, int size);
void coll__node_job_attach(coll__node_job_t *job, uint64_t id); /* a communicator of all ranks */
void coll__node_job_close(coll__node_job_t *job);
/* A thread a rank; fails if one of them has failed. */
void coll__node_job_run(coll__node_job_t *job, void (*body)(coll__node_rank_t *));

typedef struct coll__node_kind {
    coll_dtype_t dtype;
    coll_op_t op;
} coll__node_kind_t;

/* Sums of small and of large elements, a maximum, pairs. */
extern const coll__node_kind_t coll__node_kinds[COLL__NODE_KINDS];

/* One call of one rank, with its own buffers: right or not, and nothing else touched. */
typedef struct coll__node_call {
    coll__node_op_t op;
    coll__node_kind_t kind;
    uint64_t salt;
    char *send, *recv;
    size_t recv_bytes;
    bool symmetric;
} coll__node_call_t;

/* The rank's next call; its buffers are of symmetric memory if asked for. */
void coll__node_call_make(coll__node_call_t *call, coll__node_rank_t *member, coll_operation_t operation,
                          coll__node_kind_t kind, size_t count, int root, bool symmetric);
/* Steps a call that is in line until it is done. */
void coll__node_call_finish(coll__node_rank_t *member, coll__node_call_t *call);
/* Its result is right, and its input what it was. */
void coll__node_call_end(coll__node_call_t *call, coll__node_rank_t *member);
/* A buffer of a call that is not ended. */
void coll__node_buffer_free(char *memory, bool symmetric);

/* All of this as a blocking call does it: tried alone for a while, then in line. */
void coll__node_call_do(coll__node_rank_t *member, coll_operation_t operation, coll__node_kind_t kind, size_t count,
                        int root, bool symmetric);

#endif
