/* Shared by the files of this folder: queue.c (what goes out), match.c (what comes in meets what is wanted), p2p.c. */
#ifndef COLL__P2P_PRIVATE_H
#define COLL__P2P_PRIVATE_H

#include "base/error.h"
#include "p2p/p2p.h"

enum coll__p2p_state {
    COLL__OP_DONE,
    COLL__OP_POSTED,    /* receive: no message yet; in a posted list */
    COLL__OP_QUEUED,    /* send: its packet waits for room in the transport */
    COLL__OP_ANNOUNCED, /* send: RTS is out, waiting for CTS; in the peer's announced list */
    COLL__OP_BULK_SEND, /* its bulk transfer waits for room in the transport; in the bulk list */
    COLL__OP_BULK_RECV, /* the same */
    COLL__OP_BULK       /* the transport has it */
};

/* A message without a receive yet. In its peer's list (order of arrival) and in the list of all. */
typedef struct coll__p2p_message {
    coll__wire_header_t header;
    int peer;
    bool credited; /* its credit has been given back already */
    struct coll__p2p_message *prev, *next;
    struct coll__p2p_message *all_prev, *all_next;
    _Alignas(16) unsigned char payload[];
} coll__p2p_message_t;

typedef struct coll__p2p_peer {
    coll__transport_t *transport;
    int credits; /* eager packets this process may still send */
    int owed;    /* credits to give back */
    bool gone;
    coll__p2p_op_t *posted;
    coll__p2p_op_t *announced;
    coll__p2p_message_t *unexpected;
    coll__p2p_queued_t *queue;
    struct coll__p2p_peer *busy_prev, *busy_next; /* in the list of peers with a queue */
} coll__p2p_peer_t;

/* An eager message that no receive waits for moves to memory of its own and its credit goes back at once, so that a
 * sender of many small messages does not block; up to this many bytes. Beyond, credits stay until a receive comes. */
enum { COLL__P2P_UNEXPECTED_BYTES = 32 << 20 };

struct coll__p2p {
    size_t packet_size;
    int credit_limit;
    coll__p2p_hooks_t hooks;
    coll__p2p_counters_t counters;
    coll__transport_t *transports[4];
    int transport_count;
    int world_size;
    uint32_t next_id;
    uint64_t next_order;
    coll__p2p_op_t *any_posted; /* receives from any peer */
    coll__p2p_message_t *all_unexpected;
    size_t unexpected_bytes; /* memory of those whose credit has been given back */
    coll__p2p_op_t *bulk;    /* bulk transfers that wait for room */
    coll__p2p_peer_t *busy;
    coll__error_info_t broken; /* what went wrong outside any operation (status 0: nothing): progress reports it */
    coll__p2p_peer_t peers[];
};

/* queue.c: sends now or queues; the packet of an operation calls coll__p2p_sent() when it is out. */
void coll__p2p_transmit(coll__p2p_t *p2p, int peer, coll__p2p_op_t *op, const coll__wire_header_t *header);
void coll__p2p_control(coll__p2p_t *p2p, int peer, coll__wire_kind_t kind, uint32_t id, uint32_t bulk_id);
int coll__p2p_flush(coll__p2p_t *p2p);
void coll__p2p_unqueue(coll__p2p_t *p2p, int peer, coll__p2p_queued_t *queued);
void coll__p2p_owe(coll__p2p_t *p2p, int peer);

/* p2p.c */
void coll__p2p_finish(coll__p2p_op_t *op, int status);
void coll__p2p_bulk_start(coll__p2p_t *p2p, coll__p2p_op_t *op);
void coll__p2p_broke(coll__p2p_t *p2p); /* this thread's last error belongs to no operation: progress will report it */

/* match.c: a message meets a receive; both are out of their lists. */
void coll__p2p_meet(coll__p2p_t *p2p, coll__p2p_op_t *op, int peer, const coll__wire_header_t *header,
                    const void *payload, bool credited);
void coll__p2p_arrived(coll__p2p_t *p2p, int peer, const coll__wire_header_t *header, const void *payload);
coll__p2p_message_t *coll__p2p_take_unexpected(coll__p2p_t *p2p, const coll__p2p_op_t *op);

#endif
