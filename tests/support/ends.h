/* Several ends of one transport inside this process, connected to each other and polled in turn.
 *
 *     coll__ends_t ends;
 *     coll__ends_open(&ends, &coll__transport_shm, 3, 8240);
 *     ends.end[0].transport->ops->send(...);
 *     coll__ends_until(&ends, some_condition);
 *
 * Ends are world ranks 0 to size-1. The peers of an end are all others; of a single end (the self transport) itself:
 * coll__ends_peer() gives both.
 */
#ifndef COLL__TEST_ENDS_H
#define COLL__TEST_ENDS_H

#include "base/clock.h"
#include "base/error.h"
#include "support/local_segment.h"
#include "transport/transport_table.h"

enum { COLL__ENDS_MAX = 8 };

typedef struct coll__ends coll__ends_t;
typedef struct coll__end coll__end_t;

struct coll__end {
    coll__ends_t *ends;
    int rank;
    coll__transport_t *transport;
    bool deaf;   /* coll__ends_poll() leaves it out */
    int packets; /* what its sink was told so far */
    int bulk_done;
    /* The test's own sink, or NULL. */
    void (*on_packet)(coll__end_t *end, int peer, const void *packet, size_t bytes);
    void (*on_bulk)(coll__end_t *end, void *cookie, int status);
};

struct coll__ends {
    const coll__transport_ops_t *ops;
    int size;
    coll__end_t end[COLL__ENDS_MAX];
    coll__env_t env;
    coll__local_segment_t segment; /* of shm */
    void *sim_world;               /* of sim */
    void *test;                    /* the test's own */
};

/* 0, or the error of the call that failed; nothing is left open then. */
int coll__ends_open(coll__ends_t *ends, const coll__transport_ops_t *ops, int size, size_t max_packet);
void coll__ends_close(coll__ends_t *ends);

static inline int coll__ends_peer_count(const coll__ends_t *ends) {
    return ends->size > 1 ? ends->size - 1 : 1;
}
static inline int coll__ends_peer(const coll__ends_t *ends, int rank, int index) {
    return (rank + 1 + index) % ends->size;
}

/* Polls every end once. Returns the number of events, or the first error. */
int coll__ends_poll(coll__ends_t *ends);

/* Polls until the condition holds. A test that waits longer than COLL__ENDS_PATIENCE seconds fails. */
enum { COLL__ENDS_PATIENCE = 20 };
#define coll__ends_until(ends, condition)  \
    do {                                   \
        coll__ends_loop(ends, condition) { \
        }                                  \
    } while (0)
/* The same with a block that is run before each poll: coll__ends_loop(ends, condition) { ... } */
#define coll__ends_loop(ends, condition)                                           \
    for (int64_t until_ = coll__deadline_after(COLL__ENDS_PATIENCE); !(condition); \
         coll__ends_step(ends, until_, #condition))
void coll__ends_step(coll__ends_t *ends, int64_t deadline, const char *condition);

/* Sends a packet; on COLL__AGAIN polls all ends and tries again. Fails the test on an error. */
void coll__ends_send(coll__ends_t *ends, int from, int to, const void *header, size_t header_bytes, const void *payload,
                     size_t payload_bytes);

/* ---- Suites over all transports ---- */

typedef struct coll__ends_check {
    const char *name;
    void (*run)(coll__ends_t *ends); /* freshly opened; closed afterwards */
} coll__ends_check_t;

enum { COLL__ENDS_PACKET = 8 * 1024 + 48 }; /* max_packet of the ends that a check gets */

/* Runs every check over every row of the transport table with 2, 3 and 5 ends (self: 1). Where a transport cannot work
 * here, one test asks instead that probe() and open() say so, and why. An argument of the program names the one
 * transport to run. Returns the number of failed tests. */
int coll__ends_run(int argc, char **argv, const char *suite, const coll__ends_check_t *checks, size_t count);

#endif
