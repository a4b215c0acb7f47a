/* What comes in meets what is wanted. Receives of one peer match in the order they were posted, messages in the order
 * they came; a receive from any peer takes its place among the others by its order number. */
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "base/error.h"
#include "p2p/p2p_private.h"

static bool wants(const coll__p2p_op_t *op, const coll__wire_header_t *header) {
    if (op->envelope.comm != header->comm)
        return false;
    if (op->envelope.match == COLL__MATCH_ANY_TAG)
        return (header->match & COLL__MATCH_USER) != 0;
    return op->envelope.match == header->match;
}

static coll__envelope_t envelope_of(const coll__wire_header_t *header) {
    return (coll__envelope_t){header->comm, header->match, header->fingerprint};
}

/* The message goes nowhere: gives its credit back, or frees its sender. */
static void refuse(coll__p2p_t *p2p, int peer, const coll__wire_header_t *header, bool credited) {
    if (header->kind == COLL__WIRE_EAGER) {
        if (!credited)
            coll__p2p_owe(p2p, peer);
        return;
    }
    coll__p2p_control(p2p, peer, COLL__WIRE_NACK, header->id, 0);
}

void coll__p2p_meet(coll__p2p_t *p2p, coll__p2p_op_t *op, int peer, const coll__wire_header_t *header,
                    const void *payload, bool credited) {
    size_t capacity = op->bytes;
    if (op->envelope.fingerprint != header->fingerprint) {
        coll__envelope_t mine = op->envelope, theirs = envelope_of(header);
        refuse(p2p, peer, header, credited);
        p2p->hooks.mismatch(p2p->hooks.context, peer, &mine, &theirs);
        coll__p2p_finish(op, COLL_ERR_MISMATCH);
        return;
    }
    op->peer = peer;
    op->bytes = header->bytes;
    op->envelope = envelope_of(header);
    if (header->bytes > capacity) {
        refuse(p2p, peer, header, credited);
        coll__p2p_finish(op, coll__error(COLL_ERR_TRUNCATE, "a message of %zu bytes came for a buffer of %zu bytes",
                                         (size_t)header->bytes, capacity));
    } else if (header->kind == COLL__WIRE_EAGER) {
        if (header->bytes)
            memcpy(op->buffer, payload, header->bytes);
        if (!credited)
            coll__p2p_owe(p2p, peer);
        coll__p2p_finish(op, COLL_SUCCESS);
    } else if (header->bytes == 0) {
        coll__p2p_control(p2p, peer, COLL__WIRE_CTS, header->id, 0);
        coll__p2p_finish(op, COLL_SUCCESS);
    } else {
        op->id = header->id;
        op->bulk_id = p2p->next_id++;
        op->state = COLL__OP_BULK_RECV;
        coll__p2p_bulk_start(p2p, op);
    }
}

void coll__p2p_arrived(coll__p2p_t *p2p, int peer, const coll__wire_header_t *header, const void *payload) {
    coll__p2p_peer_t *from = &p2p->peers[peer];
    coll__p2p_op_t *op, *exact = NULL, *any = NULL;
    DL_FOREACH(from->posted, op) {
        if (wants(op, header)) {
            exact = op;
            break;
        }
    }
    DL_FOREACH(p2p->any_posted, op) {
        if (wants(op, header)) {
            any = op;
            break;
        }
    }
    if (exact && (!any || exact->order < any->order)) {
        DL_DELETE(from->posted, exact);
        coll__p2p_meet(p2p, exact, peer, header, payload, false);
        return;
    }
    if (any) {
        DL_DELETE(p2p->any_posted, any);
        coll__p2p_meet(p2p, any, peer, header, payload, false);
        return;
    }
    coll__envelope_t envelope = envelope_of(header);
    if (!p2p->hooks.unexpected(p2p->hooks.context, peer, &envelope)) {
        refuse(p2p, peer, header, false);
        return;
    }
    size_t stored = header->kind == COLL__WIRE_EAGER ? header->bytes : 0;
    coll__p2p_message_t *message = malloc(sizeof *message + stored);
    if (!message) {
        coll__error(COLL_ERR_MEMORY, "out of memory for a message of %zu bytes from rank %d", stored, peer);
        coll__p2p_broke(p2p);
        return;
    }
    message->header = *header;
    message->peer = peer;
    if (stored)
        memcpy(message->payload, payload, stored);
    message->credited = false;
    DL_APPEND(from->unexpected, message);
    DL_APPEND2(p2p->all_unexpected, message, all_prev, all_next);
    p2p->counters.unexpected++;
    size_t memory = sizeof *message + stored;
    if (header->kind == COLL__WIRE_EAGER && p2p->unexpected_bytes + memory <= COLL__P2P_UNEXPECTED_BYTES) {
        p2p->unexpected_bytes += memory;
        message->credited = true;
        coll__p2p_owe(p2p, peer);
    }
}

static void unlist(coll__p2p_t *p2p, coll__p2p_message_t *message) {
    if (message->credited)
        p2p->unexpected_bytes -= sizeof *message + message->header.bytes;
    DL_DELETE(p2p->peers[message->peer].unexpected, message);
    DL_DELETE2(p2p->all_unexpected, message, all_prev, all_next);
}

coll__p2p_message_t *coll__p2p_take_unexpected(coll__p2p_t *p2p, const coll__p2p_op_t *op) {
    coll__p2p_message_t *message = NULL;
    if (op->peer == COLL__PEER_ANY) {
        DL_FOREACH2(p2p->all_unexpected, message, all_next) {
            if (wants(op, &message->header))
                break;
        }
    } else {
        DL_FOREACH(p2p->peers[op->peer].unexpected, message) {
            if (wants(op, &message->header))
                break;
        }
    }
    if (message)
        unlist(p2p, message);
    return message;
}

void coll__p2p_purge(coll__p2p_t *p2p, uint64_t comm, const uint64_t *match) {
    coll__p2p_message_t *message, *next;
    DL_FOREACH_SAFE2(p2p->all_unexpected, message, next, all_next) {
        if (message->header.comm != comm || (match && message->header.match != *match))
            continue;
        unlist(p2p, message);
        refuse(p2p, message->peer, &message->header, message->credited);
        free(message);
    }
}

int coll__p2p_find_foreign(const coll__p2p_t *p2p, const coll__envelope_t *mine, int *peer, coll__envelope_t *theirs) {
    const coll__p2p_message_t *message;
    DL_FOREACH2(p2p->all_unexpected, message, all_next) {
        if (message->header.comm != mine->comm || message->header.match != mine->match ||
            message->header.fingerprint == mine->fingerprint)
            continue;
        *peer = message->peer;
        *theirs = envelope_of(&message->header);
        return 1;
    }
    return 0;
}
