/* Point-to-point messages: matching, eager and rendezvous protocols, credits.
 *
 * A message up to the packet size goes out at once with its header (eager), as long as the sender has a credit for that
 * peer; the receiver gives the credit back when the packet has left its memory. Any other message announces itself
 * (RTS), waits for the receiver (CTS), and then moves as a bulk transfer straight between the two buffers.
 *
 * One struct serves one process; nothing here locks or waits. Operations are memory of the caller, alive until done()
 * was called or coll__p2p_cancel() has returned. done() may be called from inside coll__p2p_send() and
 * coll__p2p_recv().
 */
#ifndef COLL__P2P_H
#define COLL__P2P_H

#include <stdbool.h>

#include "p2p/wire.h"
#include "transport/transport.h"

typedef struct coll__p2p coll__p2p_t;

/* What a receive is matched by: communicator, `match`, and the peer. A collective's match is its sequence number; the
 * k-th message of a pair then meets the k-th receive. A user's message has COLL__MATCH_USER and its tag. */
typedef struct coll__envelope {
    uint64_t comm;
    uint64_t match;
    uint64_t fingerprint; /* of the collective call; messages that match must agree in it; 0 for users' messages */
} coll__envelope_t;

#define COLL__MATCH_USER    (UINT64_C(1) << 63)
#define COLL__MATCH_ANY_TAG UINT64_MAX /* receives only: any message with COLL__MATCH_USER */
enum { COLL__PEER_ANY = -1 };

typedef struct coll__p2p_op coll__p2p_op_t;

/* A packet that waits for room in its transport: part of an operation, or (op NULL) a control packet on its own. */
typedef struct coll__p2p_queued {
    coll__wire_header_t header;
    coll__p2p_op_t *op;
    struct coll__p2p_queued *prev, *next;
} coll__p2p_queued_t;

struct coll__p2p_op {
    void (*done)(coll__p2p_op_t *op, int status); /* set by the caller, as is owner */
    void *owner;
    coll__envelope_t envelope; /* of a finished receive: the message's */
    int peer;                  /* world rank; of a finished receive: the sender */
    size_t bytes;              /* of a finished receive: the message's length */

    void *buffer; /* the rest is the layer's own */
    uint64_t order;
    uint32_t id;
    uint32_t bulk_id;
    uint8_t state;
    coll__p2p_queued_t queued;
    coll__p2p_op_t *prev, *next;
};

/* Whom the layer asks and tells. */
typedef struct coll__p2p_hooks {
    void *context;
    /* A message arrived that no receive waits for. False: it is stale (its collective failed) and is dropped. */
    bool (*unexpected)(void *context, int peer, const coll__envelope_t *envelope);
    /* A receive met a message with another fingerprint. The receive is then done with COLL_ERR_MISMATCH. */
    void (*mismatch)(void *context, int peer, const coll__envelope_t *mine, const coll__envelope_t *theirs);
} coll__p2p_hooks_t;

typedef struct coll__p2p_counters {
    uint64_t eager, rendezvous; /* messages sent by each protocol */
    uint64_t unexpected;        /* messages that came before their receive */
    uint64_t credit_stalls;     /* messages sent by rendezvous only because no credit was left */
} coll__p2p_counters_t;

int coll__p2p_create(int world_size, size_t packet_size, int credits, const coll__p2p_hooks_t *hooks,
                     coll__p2p_t **p2p);
void coll__p2p_free(coll__p2p_t *p2p);

/* The sink that transports deliver to, and which transport reaches which peer. */
coll__sink_t coll__p2p_sink(coll__p2p_t *p2p);
void coll__p2p_route(coll__p2p_t *p2p, int peer, coll__transport_t *transport);

/* Longest packet that a transport must take for this packet size. */
size_t coll__p2p_max_packet(size_t packet_size);

/* Start an operation: `done` and `owner` are set, the rest is filled here. */
void coll__p2p_send(coll__p2p_t *p2p, coll__p2p_op_t *op, int peer, const coll__envelope_t *envelope,
                    const void *buffer, size_t bytes);
void coll__p2p_recv(coll__p2p_t *p2p, coll__p2p_op_t *op, int peer, const coll__envelope_t *envelope, void *buffer,
                    size_t bytes);

/* Polls the transports and moves what waited. The number of events, or a negative status of a transport. */
int coll__p2p_progress(coll__p2p_t *p2p);

/* Gives an operation up without calling done(). */
void coll__p2p_cancel(coll__p2p_t *p2p, coll__p2p_op_t *op);

/* The peer will never answer again: what waits to be sent to it is dropped. Its operations are the caller's to cancel,
 * before. */
void coll__p2p_forget(coll__p2p_t *p2p, int peer);

/* Drops messages of a communicator that no receive took: all of them, or those of one collective. */
void coll__p2p_purge(coll__p2p_t *p2p, uint64_t comm, const uint64_t *match);

/* Looks for an unexpected message of (comm, match) with another fingerprint; 1 and its peer and envelope if there is
 * one. */
int coll__p2p_find_foreign(const coll__p2p_t *p2p, const coll__envelope_t *mine, int *peer, coll__envelope_t *theirs);

/* True when everything sent eagerly has left this layer. */
bool coll__p2p_drained(const coll__p2p_t *p2p);

const coll__p2p_counters_t *coll__p2p_counters(const coll__p2p_t *p2p);
/* Sleep support: COLL__AGAIN if there is something to do now. Fills `fds` (room for one each transport). */
int coll__p2p_arm(coll__p2p_t *p2p, int *fds, int *fd_count);

#endif
