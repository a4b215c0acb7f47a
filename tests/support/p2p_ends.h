/* Several point-to-point layers in this process, over the simulated network. */
#ifndef COLL__TEST_P2P_ENDS_H
#define COLL__TEST_P2P_ENDS_H

#include "base/error.h"
#include "p2p/p2p.h"

enum { COLL__P2P_ENDS_MAX = 3 };

typedef struct coll__p2p_end {
    coll__p2p_t *p2p;
    coll__transport_t *transport;
    coll__transport_ops_t ops; /* this transport's own copy: a test may replace a function */
    bool deaf;                 /* coll__p2p_ends_run() leaves it out */
    bool refuses;              /* what its hook answers to messages that nobody waits for */
    int unexpected, mismatches;
    int mismatch_peer;
    coll__envelope_t mine, theirs; /* of the last mismatch */
} coll__p2p_end_t;

typedef struct coll__p2p_ends {
    int size;
    void *world;
    coll__p2p_end_t end[COLL__P2P_ENDS_MAX];
} coll__p2p_ends_t;

/* An operation and how it ended. */
typedef struct coll__p2p_try {
    coll__p2p_op_t op;
    int ends; /* how often done() was called */
    int status;
} coll__p2p_try_t;

void coll__p2p_ends_open(coll__p2p_ends_t *ends, int size, size_t packet_size, int credits);
void coll__p2p_ends_close(coll__p2p_ends_t *ends);

/* Makes progress on all ends until nothing moves any more. Returns 0, or the first error, whose end stays where it is.
 */
int coll__p2p_ends_run(coll__p2p_ends_t *ends);

void coll__p2p_try_send(coll__p2p_ends_t *ends, coll__p2p_try_t *try, int from, int to, coll__envelope_t envelope,
                        const void *buffer, size_t bytes);
void coll__p2p_try_recv(coll__p2p_ends_t *ends, coll__p2p_try_t *try, int at, int from, coll__envelope_t envelope,
                        void *buffer, size_t bytes);

#define coll__p2p_try_is(try, value) ((try).ends == 1 && (try).status == (value))

/* Envelopes of one communicator: of a user's message, and of a collective. */
coll__envelope_t coll__p2p_tag(uint64_t tag);
coll__envelope_t coll__p2p_call(uint64_t sequence, uint64_t fingerprint);

/* After whatever happened before: messages of every kind still get through between two ends, both ways. */
void coll__p2p_ends_still_work(coll__p2p_ends_t *ends, int a, int b);

#endif
