/* How the lowest rank of a node hands the descriptors of the node to its peers: the segment's memfd, every rank's
 * eventfd and every rank's pidfd. */
#ifndef COLL__BOOTSTRAP_HANDOUT_H
#define COLL__BOOTSTRAP_HANDOUT_H

#include "bootstrap/job.h"

typedef struct coll__handout {
    const int *ranks; /* [local_size] world ranks */
    int local_size;
    int local_rank;
    uint64_t transport_bytes, node_bytes; /* checked to be equal */
    int memfd;                            /* -1 until taken */
    int *wake_fds;                        /* [local_size]; this rank's own is the caller's */
    int *pidfds;                          /* [local_size], -1: none (this rank's own, or a kernel without them) */
} coll__handout_t;

/* Local rank 0: waits for all others and gives. The rest: take. On an error what came is closed, except this rank's
 * own. */
int coll__handout_give(coll__job_t *job, coll__handout_t *handout, int64_t deadline);
int coll__handout_take(coll__job_t *job, coll__handout_t *handout, int64_t deadline);

/* Closes all but this rank's own eventfd. */
void coll__handout_close(coll__handout_t *handout);

#endif
