/* The job as its own files see it. Everything below `lock` is guarded by it, except what is atomic. No lock is held
 * while anything waits.
 *
 * Who does what: job.c the calls from outside, watcher.c the thread and what comes from the hub, hub.c rank 0's relay,
 * segment.c the node. Descriptors are closed by the watcher, or when it has ended.
 */
#ifndef COLL__BOOTSTRAP_JOB_H
#define COLL__BOOTSTRAP_JOB_H

#include <pthread.h>
#include <stdbool.h>

#include "bootstrap/auth.h"
#include "bootstrap/bootstrap.h"
#include "bootstrap/conn.h"
#include "bootstrap/hub.h"
#include "bootstrap/notice.h"

enum { COLL__LAST_WORD_MS = 1000 }; /* how long to wait for a last answer, or for peers to hang up */

struct coll__job {
    int rank;
    int size;
    char where[300]; /* "rank 0 at host:port" */
    coll__key_t key;
    int wake_fd; /* of the caller */
    atomic_uint_fast64_t events;
    atomic_int *states; /* [size] coll__peer_state_t */

    pthread_mutex_t lock;
    pthread_cond_t changed; /* on the monotonic clock: the round ended, a peer's state changed, the hub is lost, ... */

    pthread_t watcher;
    bool watching;
    bool stop;
    struct pollfd *polls; /* the watcher's own */
    int kick_fd;          /* an eventfd that gets the watcher out of poll() */

    int listen_fd;       /* inherited, until the hub has it */
    coll__conn_t to_hub; /* ranks other than 0 */
    bool hub_lost;
    coll__hub_t *hub; /* rank 0 */
    unsigned char id[COLL__NONCE_BYTES];

    /* The round that this rank waits in. */
    uint32_t round; /* the meeting is round 0 */
    bool round_done;
    coll__error_info_t round_error; /* status 0: `answer` has the parts */
    unsigned char *answer;
    size_t answer_bytes;

    coll__notices_t notices;
    uint32_t posted, relayed; /* numbers of this rank's latest notice, and of the latest that the hub passed on */

    /* The ranks of this node. */
    int local_size;
    int local_rank;
    int *local_ranks;            /* [local_size] */
    int *pidfds;                 /* [local_size], -1: not watched */
    coll__segment_line_t *lines; /* a mapping of its own: it outlives the caller's segment */
    size_t line_bytes;

    coll__job_t *prev, *next; /* all jobs of this process, for fork */
};

/* ---- with the lock held ---- */

/* A frame from this rank to the hub. False: a notice that is lost because the hub does not read. */
bool coll__job_tell(coll__job_t *job, coll__frame_t frame, const void *payload);

/* A frame from the hub to this rank. */
void coll__job_take(coll__job_t *job, const coll__frame_t *frame, const void *payload);

/* Somebody left or died: remembered once, told to the engine, and on rank 0 to the other ranks. */
void coll__job_set_state(coll__job_t *job, int rank, coll__peer_state_t state);

/* Gets the watcher out of poll(): there is something new to wait for. */
void coll__job_kick(coll__job_t *job);

/* ---- the thread ---- */

int coll__watcher_start(coll__job_t *job);
void coll__watcher_stop(coll__job_t *job); /* without the lock */

/* "rank 3", "ranks 1, 2 and 5", "ranks 0, 1, ... and 40 more" */
const char *coll__ranks_text(const int *ranks, int count, char *text, size_t capacity);

#endif
