/* How the ranks meet and how they learn that one is gone.
 *
 * Rank 0 listens; the others connect over TCP and both sides prove that they know the job's secret (a keyed hash over
 * fresh nonces, libsodium). The connections stay open for the life of the job. In each process one thread, the watcher,
 * sleeps on them and on pidfds of its node's peers; the watcher of rank 0 is the hub that relays. All other functions
 * may be called from any thread; those that wait take a deadline (coll__now_ns() clock) and give COLL_ERR_BOOTSTRAP or
 * COLL_ERR_TIMEOUT naming the ranks that are missing.
 */
#ifndef COLL__BOOTSTRAP_H
#define COLL__BOOTSTRAP_H

#include <stdatomic.h>
#include <stdint.h>

#include "base/env.h"
#include "base/error.h"
#include "base/segment.h"

typedef struct coll__job coll__job_t;

typedef struct coll__job_opts {
    int rank;
    int size;
    const char *host; /* where rank 0 listens */
    int port;
    int listen_fd;      /* rank 0: an inherited listening socket, which becomes the job's, or -1 */
    const char *secret; /* "": the user's own, kept in the home directory (created there with mode 0600) */
    int64_t deadline;
    int wake_fd; /* an eventfd that the watcher writes when something happened */
} coll__job_opts_t;

/* Meets the others. size 1 needs no host and opens no socket. Starts the watcher. */
int coll__job_join(const coll__job_opts_t *opts, coll__job_t **job);

int coll__job_rank(const coll__job_t *job);
int coll__job_size(const coll__job_t *job);

/* Collective over the job, for init only: `bytes` (the same everywhere) from each rank, in rank order, to every rank.
 */
int coll__job_allgather(coll__job_t *job, const void *mine, size_t bytes, void *all, int64_t deadline);

/* Text that is equal for processes that can share memory: COLL_NODE, or boot id, network and pid namespace, uid. */
int coll__node_identity(const coll__env_t *env, char *text, size_t capacity);

/* Collective over the ranks of this node (world ranks, ascending, this process among them): the lowest creates a sealed
 * memfd with the layout of base/segment.h and passes it, with every rank's eventfd, over an abstract unix socket to
 * peers of the same uid that know the secret. Local size 1: base stays NULL. Also begins to watch the peers' pidfds. */
int coll__job_segment(coll__job_t *job, const int *local_ranks, int local_size, size_t transport_bytes,
                      size_t node_bytes, int wake_fd, int64_t deadline, coll__segment_t *segment);
void coll__segment_free(coll__segment_t *segment);

/* ---- watching ---- */

/* FAILED: the peer's process ended, or its connection did, without a goodbye; noticed at once, and after some 20 s when
 * a host vanishes. LEFT: it said goodbye. When rank 0 has left and its leave() is over there is no hub any more: from
 * then on a rank learns of its node's peers only. */

typedef enum coll__peer_state { COLL__PEER_ALIVE, COLL__PEER_LEFT, COLL__PEER_FAILED } coll__peer_state_t;
coll__peer_state_t coll__job_peer_state(const coll__job_t *job, int rank);

/* Grows by one whenever a peer's state changed or a notice arrived; the hot path compares it with what it saw last. */
const atomic_uint_fast64_t *coll__job_events(const coll__job_t *job);

/* A notice: a few bytes to all other ranks, delivered once, in order for each sender, best effort if ranks die. Does
 * not wait. */
enum { COLL__NOTICE_BYTES = 1536 };
int coll__job_post(coll__job_t *job, const void *notice, size_t bytes);
/* Whether the hub has relayed all that this rank has posted: false for long means that rank 0's process does not run.
 */
bool coll__job_hub_answers(coll__job_t *job);
/* The next notice that arrived: its length, 0 for none. `from` is the sender's rank, certain. */
size_t coll__job_next_notice(coll__job_t *job, void *notice, int *from);

/* Says goodbye (peers see LEFT, not FAILED), waits until all others have said so too or are gone, at most until the
 * deadline, stops the watcher and frees everything. Never fails. */
void coll__job_leave(coll__job_t *job, int64_t deadline);

/* After fork, in the child: closes descriptors and forgets; tells nobody. */
void coll__job_abandon(coll__job_t *job);

#endif
