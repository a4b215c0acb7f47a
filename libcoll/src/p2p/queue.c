/* What goes out: packets to a peer leave in order; those the transport has no room for wait in the peer's queue. */
#include <stdlib.h>
#include <utlist.h>

#include "base/error.h"
#include "p2p/p2p_private.h"

static int try_send(coll__p2p_t *p2p, int peer, coll__wire_header_t *header, coll__p2p_op_t *op) {
    coll__p2p_peer_t *to = &p2p->peers[peer];
    header->credits = (uint16_t)(to->owed < UINT16_MAX ? to->owed : UINT16_MAX);
    bool with_payload = header->kind == COLL__WIRE_EAGER;
    int status = to->transport->ops->send(to->transport, peer, header, sizeof *header, with_payload ? op->buffer : NULL,
                                          with_payload ? op->bytes : 0);
    if (status == 0)
        to->owed -= header->credits;
    return status;
}

/* The packet of `op` is out, or can never go out. */
static void sent(coll__p2p_t *p2p, int peer, coll__p2p_op_t *op, const coll__wire_header_t *header, int status) {
    if (!op) {
        if (status < 0)
            coll__p2p_broke(p2p);
        return;
    }
    if (status == 0 && header->kind == COLL__WIRE_RTS) {
        op->state = COLL__OP_ANNOUNCED;
        DL_APPEND(p2p->peers[peer].announced, op);
    } else {
        coll__p2p_finish(op, status);
    }
}

static void enqueue(coll__p2p_t *p2p, int peer, coll__p2p_queued_t *queued) {
    coll__p2p_peer_t *to = &p2p->peers[peer];
    if (!to->queue)
        DL_APPEND2(p2p->busy, to, busy_prev, busy_next);
    DL_APPEND(to->queue, queued);
}

void coll__p2p_unqueue(coll__p2p_t *p2p, int peer, coll__p2p_queued_t *queued) {
    coll__p2p_peer_t *to = &p2p->peers[peer];
    DL_DELETE(to->queue, queued);
    if (!to->queue)
        DL_DELETE2(p2p->busy, to, busy_prev, busy_next);
}

void coll__p2p_transmit(coll__p2p_t *p2p, int peer, coll__p2p_op_t *op, const coll__wire_header_t *header) {
    coll__p2p_peer_t *to = &p2p->peers[peer];
    if (to->gone) {
        sent(p2p, peer, op, header, op ? coll__error(COLL_ERR_RANK_FAILED, "rank %d of the world is gone", peer) : 0);
        return;
    }
    coll__wire_header_t own = *header;
    int status = to->queue ? COLL__AGAIN : try_send(p2p, peer, &own, op);
    if (status != COLL__AGAIN) {
        sent(p2p, peer, op, &own, status);
        return;
    }
    coll__p2p_queued_t *queued = op ? &op->queued : malloc(sizeof *queued);
    if (!queued) {
        coll__error(COLL_ERR_MEMORY, "out of memory for a control packet to rank %d", peer);
        coll__p2p_broke(p2p);
        return;
    }
    *queued = (coll__p2p_queued_t){.header = *header, .op = op};
    if (op)
        op->state = COLL__OP_QUEUED;
    enqueue(p2p, peer, queued);
}

void coll__p2p_control(coll__p2p_t *p2p, int peer, coll__wire_kind_t kind, uint32_t id, uint32_t bulk_id) {
    coll__wire_header_t header = {.kind = (uint8_t)kind, .version = COLL__WIRE_VERSION, .id = id, .bulk_id = bulk_id};
    coll__p2p_transmit(p2p, peer, NULL, &header);
}

int coll__p2p_flush(coll__p2p_t *p2p) {
    int events = 0;
    coll__p2p_peer_t *to, *next;
    DL_FOREACH_SAFE2(p2p->busy, to, next, busy_next) {
        int peer = (int)(to - p2p->peers);
        while (to->queue) {
            coll__p2p_queued_t *queued = to->queue;
            coll__p2p_op_t *op = queued->op;
            coll__wire_header_t header = queued->header;
            int status = try_send(p2p, peer, &header, op);
            if (status == COLL__AGAIN)
                break;
            coll__p2p_unqueue(p2p, peer, queued);
            if (!op)
                free(queued);
            sent(p2p, peer, op, &header, status);
            events++;
        }
    }
    return events;
}

/* Gives one credit back; by itself when half of them are owed, otherwise with the next packet that goes that way. */
void coll__p2p_owe(coll__p2p_t *p2p, int peer) {
    coll__p2p_peer_t *to = &p2p->peers[peer];
    to->owed++;
    if (to->owed >= (p2p->credit_limit + 1) / 2 && !to->queue && !to->gone)
        coll__p2p_control(p2p, peer, COLL__WIRE_CREDIT, 0, 0);
}
