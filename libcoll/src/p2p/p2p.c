/* Sends, receives and progress: which protocol a message takes and what each kind of packet does. */
#include "p2p/p2p.h"

#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "base/error.h"
#include "p2p/p2p_private.h"

size_t coll__p2p_max_packet(size_t packet_size) {
    return sizeof(coll__wire_header_t) + packet_size;
}

void coll__p2p_finish(coll__p2p_op_t *op, int status) {
    op->state = COLL__OP_DONE;
    op->done(op, status);
}

/* Hands the bulk transfer to the transport, or leaves it in the bulk list until there is room. The operation is in no
 * list. */
void coll__p2p_bulk_start(coll__p2p_t *p2p, coll__p2p_op_t *op) {
    coll__transport_t *transport = p2p->peers[op->peer].transport;
    bool receives = op->state == COLL__OP_BULK_RECV;
    int status = receives ? transport->ops->bulk_recv(transport, op->peer, op->bulk_id, op->buffer, op->bytes, op)
                          : transport->ops->bulk_send(transport, op->peer, op->bulk_id, op->buffer, op->bytes, op);
    if (status == COLL__AGAIN) {
        DL_APPEND(p2p->bulk, op);
    } else if (status < 0) {
        coll__p2p_finish(op, status);
    } else {
        op->state = COLL__OP_BULK;
        if (receives)
            coll__p2p_control(p2p, op->peer, COLL__WIRE_CTS, op->id, op->bulk_id);
    }
}

void coll__p2p_send(coll__p2p_t *p2p, coll__p2p_op_t *op, int peer, const coll__envelope_t *envelope,
                    const void *buffer, size_t bytes) {
    coll__p2p_peer_t *to = &p2p->peers[peer];
    op->peer = peer;
    op->envelope = *envelope;
    op->buffer = (void *)buffer;
    op->bytes = bytes;
    coll__wire_header_t header = {.kind = COLL__WIRE_EAGER,
                                  .version = COLL__WIRE_VERSION,
                                  .comm = envelope->comm,
                                  .match = envelope->match,
                                  .fingerprint = envelope->fingerprint,
                                  .bytes = bytes};
    if (bytes <= p2p->packet_size && to->credits > 0) {
        to->credits--;
        p2p->counters.eager++;
    } else {
        if (bytes <= p2p->packet_size)
            p2p->counters.credit_stalls++;
        p2p->counters.rendezvous++;
        header.kind = COLL__WIRE_RTS;
        header.id = op->id = p2p->next_id++;
    }
    coll__p2p_transmit(p2p, peer, op, &header);
}

void coll__p2p_recv(coll__p2p_t *p2p, coll__p2p_op_t *op, int peer, const coll__envelope_t *envelope, void *buffer,
                    size_t bytes) {
    op->peer = peer;
    op->envelope = *envelope;
    op->buffer = buffer;
    op->bytes = bytes;
    op->order = p2p->next_order++;
    coll__p2p_message_t *message = p2p->all_unexpected ? coll__p2p_take_unexpected(p2p, op) : NULL;
    if (message) {
        coll__p2p_meet(p2p, op, message->peer, &message->header, message->payload, message->credited);
        free(message);
        return;
    }
    op->state = COLL__OP_POSTED;
    if (peer == COLL__PEER_ANY)
        DL_APPEND(p2p->any_posted, op);
    else
        DL_APPEND(p2p->peers[peer].posted, op);
}

/* The send that the peer answers to; out of the announced list. NULL: given up meanwhile. */
static coll__p2p_op_t *take_announced(coll__p2p_t *p2p, int peer, uint32_t id) {
    coll__p2p_op_t *op;
    DL_FOREACH(p2p->peers[peer].announced, op) {
        if (op->id == id)
            break;
    }
    if (op)
        DL_DELETE(p2p->peers[peer].announced, op);
    return op;
}

void coll__p2p_broke(coll__p2p_t *p2p) {
    if (!p2p->broken.status)
        coll__error_save(&p2p->broken);
}

static void on_packet(void *context, int peer, const void *packet, size_t bytes) {
    coll__p2p_t *p2p = context;
    const coll__wire_header_t *header = packet;
    const char *wrong = coll__wire_check(packet, bytes);
    if (!wrong && header->credits > p2p->credit_limit - p2p->peers[peer].credits)
        wrong = "it gives back more credits than were spent";
    if (wrong) {
        coll__error(COLL_ERR_TRANSPORT, "a packet of %zu bytes from rank %d is not valid: %s", bytes, peer, wrong);
        coll__error_add_ranks(&peer, 1);
        coll__p2p_broke(p2p);
        return;
    }
    p2p->peers[peer].credits += header->credits;
    coll__p2p_op_t *op;
    switch ((coll__wire_kind_t)header->kind) {
    case COLL__WIRE_EAGER:
    case COLL__WIRE_RTS:
        coll__p2p_arrived(p2p, peer, header, header + 1);
        break;
    case COLL__WIRE_CTS:
        op = take_announced(p2p, peer, header->id);
        if (!op)
            break;
        if (op->bytes == 0) {
            coll__p2p_finish(op, COLL_SUCCESS);
            break;
        }
        op->bulk_id = header->bulk_id;
        op->state = COLL__OP_BULK_SEND;
        coll__p2p_bulk_start(p2p, op);
        break;
    case COLL__WIRE_NACK:
        op = take_announced(p2p, peer, header->id);
        if (op)
            coll__p2p_finish(op, COLL_SUCCESS);
        break;
    default:
        break;
    }
}

static void on_bulk_done(void *context, void *cookie, int status) {
    (void)context;
    coll__p2p_finish(cookie, status);
}

int coll__p2p_progress(coll__p2p_t *p2p) {
    int events = 0;
    for (int i = 0; i < p2p->transport_count; i++) {
        int moved = p2p->transports[i]->ops->poll(p2p->transports[i]);
        if (moved < 0)
            return moved;
        events += moved;
    }
    if (p2p->bulk) {
        coll__p2p_op_t *waiting = p2p->bulk, *op, *next;
        p2p->bulk = NULL;
        DL_FOREACH_SAFE(waiting, op, next) {
            DL_DELETE(waiting, op);
            coll__p2p_bulk_start(p2p, op);
            events += op->state != COLL__OP_BULK_SEND && op->state != COLL__OP_BULK_RECV;
        }
    }
    if (p2p->busy)
        events += coll__p2p_flush(p2p);
    if (p2p->broken.status) {
        int status = coll__error_raise(&p2p->broken);
        p2p->broken.status = 0;
        return status;
    }
    return events;
}

void coll__p2p_cancel(coll__p2p_t *p2p, coll__p2p_op_t *op) {
    coll__p2p_peer_t *peer = op->peer == COLL__PEER_ANY ? NULL : &p2p->peers[op->peer];
    switch ((enum coll__p2p_state)op->state) {
    case COLL__OP_DONE:
        return;
    case COLL__OP_POSTED:
        if (peer)
            DL_DELETE(peer->posted, op);
        else
            DL_DELETE(p2p->any_posted, op);
        break;
    case COLL__OP_QUEUED:
        if (op->queued.header.kind == COLL__WIRE_EAGER)
            peer->credits++;
        coll__p2p_unqueue(p2p, op->peer, &op->queued);
        break;
    case COLL__OP_ANNOUNCED:
        DL_DELETE(peer->announced, op);
        break;
    case COLL__OP_BULK_SEND:
    case COLL__OP_BULK_RECV:
        DL_DELETE(p2p->bulk, op);
        break;
    case COLL__OP_BULK:
        peer->transport->ops->bulk_cancel(peer->transport, op);
        break;
    }
    op->state = COLL__OP_DONE;
}

void coll__p2p_forget(coll__p2p_t *p2p, int peer) {
    coll__p2p_peer_t *gone = &p2p->peers[peer];
    if (gone->gone || !gone->transport)
        return;
    gone->gone = true;
    while (gone->queue) {
        coll__p2p_queued_t *queued = gone->queue;
        coll__p2p_unqueue(p2p, peer, queued);
        if (queued->op)
            coll__p2p_finish(queued->op, coll__error(COLL_ERR_RANK_FAILED, "rank %d of the world is gone", peer));
        else
            free(queued);
    }
    gone->transport->ops->forget(gone->transport, peer);
}

bool coll__p2p_drained(const coll__p2p_t *p2p) {
    if (p2p->busy || p2p->bulk)
        return false;
    for (int i = 0; i < p2p->transport_count; i++)
        if (!p2p->transports[i]->ops->drained(p2p->transports[i]))
            return false;
    return true;
}

int coll__p2p_arm(coll__p2p_t *p2p, int *fds, int *fd_count) {
    *fd_count = 0;
    for (int i = 0; i < p2p->transport_count; i++) {
        coll__transport_t *transport = p2p->transports[i];
        int status = transport->ops->arm(transport);
        if (status != 0)
            return status;
        int fd = transport->ops->fd(transport);
        if (fd >= 0)
            fds[(*fd_count)++] = fd;
    }
    return 0;
}

int coll__p2p_create(int world_size, size_t packet_size, int credits, const coll__p2p_hooks_t *hooks,
                     coll__p2p_t **p2p) {
    coll__p2p_t *made = calloc(1, sizeof *made + (size_t)world_size * sizeof made->peers[0]);
    if (!made)
        return coll__error(COLL_ERR_MEMORY, "out of memory for the state of %d peers", world_size);
    made->packet_size = packet_size;
    made->credit_limit = credits;
    made->hooks = *hooks;
    made->world_size = world_size;
    made->next_id = 1;
    for (int peer = 0; peer < world_size; peer++)
        made->peers[peer].credits = credits;
    *p2p = made;
    return 0;
}

coll__sink_t coll__p2p_sink(coll__p2p_t *p2p) {
    return (coll__sink_t){.context = p2p, .packet = on_packet, .bulk_done = on_bulk_done};
}

void coll__p2p_route(coll__p2p_t *p2p, int peer, coll__transport_t *transport) {
    p2p->peers[peer].transport = transport;
    for (int i = 0; i < p2p->transport_count; i++)
        if (p2p->transports[i] == transport)
            return;
    p2p->transports[p2p->transport_count++] = transport;
}

const coll__p2p_counters_t *coll__p2p_counters(const coll__p2p_t *p2p) {
    return &p2p->counters;
}

void coll__p2p_free(coll__p2p_t *p2p) {
    if (!p2p)
        return;
    coll__p2p_message_t *message, *next;
    DL_FOREACH_SAFE2(p2p->all_unexpected, message, next, all_next) {
        free(message);
    }
    for (int peer = 0; peer < p2p->world_size; peer++) {
        coll__p2p_queued_t *queued, *after;
        DL_FOREACH_SAFE(p2p->peers[peer].queue, queued, after) {
            if (!queued->op)
                free(queued);
        }
    }
    free(p2p);
}
