/* Bulk transfers: cut into chunks that travel as messages, each with the transfer's id and its offset.
 *
 * The sender works off its transfers to a peer one after the other, and takes turns between the peers; of each peer it
 * keeps at most CHUNKS_OUT chunks in libfabric's hands. The receiver, who posted the transfer before the sender was
 * told, copies each chunk to its place. A transfer is thus a run of chunks, and runs with the same id come in the order
 * of their bulk_send().
 *
 * Who gives a transfer up: the sender ends the run with a message that says so. The receiver keeps a record without the
 * buffer until the run has passed; a new transfer that takes up the id queues behind it. (A receiver that never told
 * the sender must not take up the id again: the record would wait for a run that never comes.)
 *
 * The copies on both sides run beside the kernel's own and the connection's round trips (the chunks form a pipeline),
 * and they buy three things: a caller's buffer is never libfabric's, so cancel and forget give it back at once,
 * whatever the peer does; nothing has to be registered; and no provider's change of protocol shows in the curve.
 */
#ifdef COLL_HAVE_LIBFABRIC

#include <stdlib.h>
#include <string.h>
#include <uthash.h>
#include <utlist.h>

#include "base/error.h"
#include "transport/ofi/ofi.h"

enum { POLL_CALLS = 64 };

struct coll__ofi_transfer {
    uint64_t key; /* peer and id */
    int peer;
    uint32_t id;
    bool given_up; /* the buffer is no longer ours */
    unsigned char *buffer;
    size_t bytes;
    size_t moved;
    void *cookie;
    int status;
    struct coll__ofi_transfer *prev, *next; /* sends: of the peer; receives: of the key; both: finished, ended */
    UT_hash_handle hh;                      /* the first receive of its key */
};

static int new_transfer(coll__ofi_t *ofi, int peer, uint32_t id, const void *buffer, size_t bytes, void *cookie,
                        coll__ofi_transfer_t **made) {
    if (peer < 0 || peer >= ofi->world_size || !ofi->peers[peer].known)
        return coll__error(COLL_ERR_INTERNAL, "rank %d is not connected by libfabric", peer);
    if (ofi->peers[peer].forgotten) {
        int status = coll__error(COLL_ERR_RANK_FAILED, "rank %d is gone", peer);
        coll__error_add_ranks(&peer, 1);
        return status;
    }
    coll__ofi_transfer_t *transfer = malloc(sizeof *transfer);
    if (!transfer)
        return coll__error(COLL_ERR_MEMORY, "out of memory for a transfer");
    *transfer = (coll__ofi_transfer_t){.key = (uint64_t)(uint32_t)peer << 32 | id,
                                       .peer = peer,
                                       .id = id,
                                       .buffer = (unsigned char *)buffer,
                                       .bytes = bytes,
                                       .cookie = cookie};
    *made = transfer;
    return COLL_SUCCESS;
}

static void finish(coll__ofi_t *ofi, coll__ofi_transfer_t *transfer, int status) {
    transfer->status = status;
    DL_APPEND(ofi->finished, transfer);
}

/* ---- sending ---- */

static void remove_send(coll__ofi_t *ofi, coll__ofi_transfer_t *transfer) {
    coll__ofi_peer_t *peer = &ofi->peers[transfer->peer];
    DL_DELETE(peer->sending, transfer);
    if (!peer->sending)
        DL_DELETE(ofi->busy, peer);
}

/* Sends the peer's next chunk, or that its first transfer was given up. False if nothing could be sent. */
static bool send_next(coll__ofi_t *ofi, coll__ofi_peer_t *peer) {
    coll__ofi_transfer_t *transfer = peer->sending;
    size_t left = transfer->bytes - transfer->moved;
    coll__ofi_header_t header = {.kind = COLL__OFI_GIVE_UP, .id = transfer->id, .offset = transfer->moved};
    const unsigned char *data = NULL;
    if (!transfer->given_up) {
        data = transfer->buffer + transfer->moved;
        header.kind = COLL__OFI_CHUNK;
        header.bytes = (uint32_t)(left < COLL__OFI_CHUNK_BYTES ? left : COLL__OFI_CHUNK_BYTES);
    }
    int status = coll__ofi_message_send(ofi, transfer->peer, &header, data, header.bytes, NULL);
    if (status == COLL__AGAIN)
        return false;
    if (transfer->given_up) {
        remove_send(ofi, transfer);
        free(transfer);
        return true;
    }
    if (status == COLL_SUCCESS) {
        transfer->moved += header.bytes;
        ofi->base.counters.bulk_bytes_sent += header.bytes;
        if (transfer->moved < transfer->bytes)
            return true;
        ofi->base.counters.bulk_sent++;
    }
    remove_send(ofi, transfer);
    finish(ofi, transfer, status);
    return true;
}

static int send_chunks(coll__ofi_t *ofi) {
    int total = 0, before;
    do {
        coll__ofi_peer_t *peer, *next;
        before = total;
        DL_FOREACH_SAFE(ofi->busy, peer, next) total += send_next(ofi, peer);
    } while (total > before);
    return total;
}

int coll__ofi_bulk_send(coll__ofi_t *ofi, int peer, uint32_t id, const void *buffer, size_t bytes, void *cookie) {
    coll__ofi_transfer_t *transfer;
    int status = new_transfer(ofi, peer, id, buffer, bytes, cookie, &transfer);
    if (status)
        return status;
    coll__ofi_peer_t *state = &ofi->peers[peer];
    if (!state->sending)
        DL_APPEND(ofi->busy, state);
    DL_APPEND(state->sending, transfer);
    while (state->sending && send_next(ofi, state))
        continue;
    return COLL_SUCCESS;
}

/* ---- receiving ---- */

static coll__ofi_transfer_t *find_receive(coll__ofi_t *ofi, uint64_t key) {
    coll__ofi_transfer_t *first;
    HASH_FIND(hh, ofi->receiving, &key, sizeof key, first);
    return first;
}

int coll__ofi_bulk_recv(coll__ofi_t *ofi, int peer, uint32_t id, void *buffer, size_t bytes, void *cookie) {
    coll__ofi_transfer_t *transfer;
    int status = new_transfer(ofi, peer, id, buffer, bytes, cookie, &transfer);
    if (status)
        return status;
    coll__ofi_transfer_t *first = find_receive(ofi, transfer->key);
    if (!first)
        HASH_ADD(hh, ofi->receiving, key, sizeof transfer->key, transfer);
    DL_APPEND(first, transfer);
    return COLL_SUCCESS;
}

/* Its run has passed. The next transfer with the same id, if there is one, is the first now. */
static void remove_first(coll__ofi_t *ofi, coll__ofi_transfer_t *transfer) {
    coll__ofi_transfer_t *first = transfer;
    HASH_DEL(ofi->receiving, transfer);
    DL_DELETE(first, transfer);
    if (first)
        HASH_ADD(hh, ofi->receiving, key, sizeof first->key, first);
}

static void chunk_arrived(coll__ofi_t *ofi, coll__ofi_transfer_t *transfer, const coll__ofi_header_t *header,
                          const void *data) {
    int status = COLL_SUCCESS;
    if (header->offset > transfer->bytes || header->bytes > transfer->bytes - header->offset) {
        status = coll__error(COLL_ERR_INTERNAL, "rank %d sent %u bytes at %llu of a transfer of %zu bytes",
                             transfer->peer, header->bytes, (unsigned long long)header->offset, transfer->bytes);
    } else {
        transfer->moved += header->bytes;
        if (!transfer->given_up) {
            memcpy(transfer->buffer + header->offset, data, header->bytes);
            ofi->base.counters.copied_bytes += header->bytes;
            ofi->base.counters.bulk_bytes_received += header->bytes;
        }
        if (transfer->moved < transfer->bytes)
            return;
    }
    remove_first(ofi, transfer);
    if (transfer->given_up) {
        free(transfer);
        return;
    }
    ofi->base.counters.bulk_received += status == COLL_SUCCESS;
    finish(ofi, transfer, status);
}

void coll__ofi_bulk_arrived(coll__ofi_t *ofi, int peer, const coll__ofi_header_t *header, const void *data) {
    coll__ofi_transfer_t *transfer = find_receive(ofi, (uint64_t)(uint32_t)peer << 32 | header->id);
    if (!transfer)
        return;
    if (header->kind == COLL__OFI_CHUNK) {
        chunk_arrived(ofi, transfer, header, data);
        return;
    }
    remove_first(ofi, transfer);
    if (transfer->given_up)
        free(transfer);
    else
        DL_APPEND(ofi->ended, transfer); /* until its owner gives it up as well: why, is told elsewhere */
}

/* ---- both ---- */

int coll__ofi_bulk_poll(coll__ofi_t *ofi) {
    int events = send_chunks(ofi);
    coll__ofi_transfer_t *transfer;
    for (int calls = 0; calls < POLL_CALLS && (transfer = ofi->finished); calls++) {
        void *cookie = transfer->cookie;
        int status = transfer->status;
        DL_DELETE(ofi->finished, transfer);
        free(transfer);
        ofi->base.sink.bulk_done(ofi->base.sink.context, cookie, status);
        events++;
    }
    return events;
}

static void free_list(coll__ofi_transfer_t **list, int peer, const void *cookie) {
    coll__ofi_transfer_t *transfer, *next;
    DL_FOREACH_SAFE(*list, transfer, next) {
        if (cookie ? transfer->cookie != cookie : transfer->peer != peer)
            continue;
        DL_DELETE(*list, transfer);
        free(transfer);
    }
}

static void give_up(coll__ofi_transfer_t *list, const void *cookie) {
    coll__ofi_transfer_t *transfer;
    DL_FOREACH(list, transfer) {
        if (transfer->cookie != cookie)
            continue;
        transfer->given_up = true;
        transfer->buffer = NULL;
        transfer->cookie = NULL;
    }
}

void coll__ofi_bulk_cancel(coll__ofi_t *ofi, const void *cookie) {
    coll__ofi_peer_t *peer;
    coll__ofi_transfer_t *first, *next;
    DL_FOREACH(ofi->busy, peer) give_up(peer->sending, cookie);
    HASH_ITER(hh, ofi->receiving, first, next) give_up(first, cookie);
    free_list(&ofi->finished, -1, cookie);
    free_list(&ofi->ended, -1, cookie);
}

void coll__ofi_bulk_forget(coll__ofi_t *ofi, int peer) {
    coll__ofi_transfer_t *first, *next;
    while (ofi->peers[peer].sending) {
        first = ofi->peers[peer].sending;
        remove_send(ofi, first);
        free(first);
    }
    HASH_ITER(hh, ofi->receiving, first, next) {
        if (first->peer != peer)
            continue;
        HASH_DEL(ofi->receiving, first);
        free_list(&first, peer, NULL);
    }
    free_list(&ofi->finished, peer, NULL);
    free_list(&ofi->ended, peer, NULL);
}

#endif
