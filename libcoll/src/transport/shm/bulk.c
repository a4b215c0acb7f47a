/* Bulk data through shared memory: the sender copies pieces into its slots while the receiver copies earlier ones out.
 *
 * A receiver's id may be taken up again after a cancelled transfer of which pieces are still on their way. Therefore a
 * sender numbers its transfers: the piece at offset 0 ties the receive to the sender's number, and pieces of another
 * number, or without a receive, are late data and are dropped.
 */
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "base/error.h"
#include "base/stream.h"
#include "transport/shm/end.h"

enum { PIECES_A_POLL = 4 };

static int add(coll__shm_t *shm, int world_rank, bool sending, uint32_t id, unsigned char *buffer, size_t bytes,
               void *cookie) {
    int status;
    coll__shm_peer_t *peer = coll__shm_find(shm, world_rank, &status);
    if (!peer)
        return status;
    coll__shm_transfer_t *transfer = malloc(sizeof *transfer);
    if (!transfer)
        return coll__error(COLL_ERR_MEMORY, "out of memory for a bulk transfer");
    *transfer = (coll__shm_transfer_t){.buffer = buffer, .bytes = bytes, .id = id, .cookie = cookie};
    if (sending) {
        transfer->serial = ++shm->serial;
        DL_APPEND(peer->sends, transfer);
        shm->send_count++;
    } else {
        DL_APPEND(peer->receives, transfer);
    }
    return 0;
}

int coll__shm_bulk_send(coll__transport_t *transport, int peer, uint32_t id, const void *buffer, size_t bytes,
                        void *cookie) {
    return add((coll__shm_t *)transport, peer, true, id, (unsigned char *)buffer, bytes, cookie);
}

int coll__shm_bulk_recv(coll__transport_t *transport, int peer, uint32_t id, void *buffer, size_t bytes, void *cookie) {
    return add((coll__shm_t *)transport, peer, false, id, buffer, bytes, cookie);
}

static void remove_send(coll__shm_t *shm, coll__shm_peer_t *peer, coll__shm_transfer_t *transfer) {
    DL_DELETE(peer->sends, transfer);
    shm->send_count--;
    free(transfer);
}

static void remove_receive(coll__shm_peer_t *peer, coll__shm_transfer_t *transfer) {
    DL_DELETE(peer->receives, transfer);
    free(transfer);
}

void coll__shm_bulk_cancel(coll__transport_t *transport, void *cookie) {
    coll__shm_t *shm = (coll__shm_t *)transport;
    for (int i = 0; i < shm->peer_count; i++) {
        coll__shm_peer_t *peer = &shm->peers[i];
        coll__shm_transfer_t *transfer, *next;
        DL_FOREACH_SAFE(peer->sends, transfer, next) {
            if (transfer->cookie == cookie)
                remove_send(shm, peer, transfer);
        }
        DL_FOREACH_SAFE(peer->receives, transfer, next) {
            if (transfer->cookie == cookie)
                remove_receive(peer, transfer);
        }
    }
}

void coll__shm_bulk_drop(coll__shm_t *shm, coll__shm_peer_t *peer) {
    while (peer->sends)
        remove_send(shm, peer, peer->sends);
    while (peer->receives)
        remove_receive(peer, peer->receives);
}

/* The receive that a piece belongs to; NULL: it is late and belongs to none. */
static coll__shm_transfer_t *owner(coll__shm_peer_t *peer, const coll__ring_slot_t *record) {
    coll__shm_transfer_t *transfer;
    DL_FOREACH(peer->receives, transfer) {
        if (transfer->id == record->id)
            break;
    }
    if (!transfer || transfer->begun)
        return transfer && transfer->serial == record->serial ? transfer : NULL;
    if (record->offset != 0 || record->total != transfer->bytes)
        return NULL;
    transfer->begun = true;
    transfer->serial = record->serial;
    return transfer;
}

int coll__shm_bulk_piece(coll__shm_t *shm, coll__shm_peer_t *peer, const coll__ring_slot_t *record, uint32_t length) {
    if (record->slot >= (uint32_t)shm->region.slots || length == 0 || length > COLL__SHM_PIECE)
        return coll__shm_corrupt(peer, "a piece of bulk data outside its slots");
    coll__shm_transfer_t *transfer = owner(peer, record);
    if (!transfer)
        return 0;
    if (record->offset != transfer->done || length > transfer->bytes - transfer->done)
        return coll__shm_corrupt(peer, "a piece of bulk data outside its transfer");

    const unsigned char *slots = coll__shm_region_pool(&shm->region, shm->segment->transport, peer->local_rank);
    memcpy(transfer->buffer + transfer->done, slots + record->slot * shm->region.slot_bytes, length);
    transfer->done += length;
    shm->base.counters.copied_bytes += length;
    if (transfer->done < transfer->bytes)
        return 0;

    void *cookie = transfer->cookie;
    shm->base.counters.bulk_received++;
    shm->base.counters.bulk_bytes_received += transfer->bytes;
    remove_receive(peer, transfer);
    shm->base.sink.bulk_done(shm->base.sink.context, cookie, 0);
    return 0;
}

static void send_piece(coll__shm_t *shm, coll__shm_peer_t *peer) {
    coll__shm_transfer_t *transfer = peer->sends;
    size_t left = transfer->bytes - transfer->done;
    uint32_t length = left < COLL__SHM_PIECE ? (uint32_t)left : COLL__SHM_PIECE;
    int slot = coll__pool_take(&shm->pool);
    coll__stream_copy(coll__pool_slot(&shm->pool, slot), transfer->buffer + transfer->done, length);
    coll__ring_slot_t record = {.slot = (uint32_t)slot,
                                .id = transfer->id,
                                .serial = transfer->serial,
                                .offset = transfer->done,
                                .total = transfer->bytes};
    coll__shm_publish_slot(shm, peer, COLL__RING_BULK, &record, length);
    transfer->done += length;
    shm->base.counters.copied_bytes += length;
    if (transfer->done < transfer->bytes)
        return;

    void *cookie = transfer->cookie;
    shm->base.counters.bulk_sent++;
    shm->base.counters.bulk_bytes_sent += transfer->bytes;
    remove_send(shm, peer, transfer);
    shm->base.sink.bulk_done(shm->base.sink.context, cookie, 0);
}

int coll__shm_bulk_pump(coll__shm_t *shm, coll__shm_peer_t *peer) {
    int pieces = 0;
    while (pieces < PIECES_A_POLL && peer->sends && coll__shm_slot_room(shm, peer, COLL__POOL_BULK_LIMIT)) {
        send_piece(shm, peer);
        pieces++;
    }
    return coll__ring_corrupt(&peer->out) ? coll__shm_corrupt(peer, COLL__SHM_FALSE_READ) : pieces;
}
