/* Bulk transfers: cut into chunks that travel as messages, each with the transfer's id and its offset.
 *
 * The sender keeps at most CHUNKS_OUT chunks of each peer in libfabric's hands, and takes turns between its transfers.
 * The receiver, who posted the transfer before the sender was told, copies each chunk to its place. A chunk of a
 * transfer that is not (or no longer) there is dropped: ids are not reused soon.
 *
 * Both copies run beside the kernel's own and the connection's round trips (the chunks form a pipeline), and they buy
 * three things: a caller's buffer is never libfabric's, so cancel and forget give it back at once, whatever the peer
 * does; nothing has to be registered; and no provider's protocol change (rxm's at 16 and 128 KiB) shows in the curve.
 */
#ifdef COLL_HAVE_LIBFABRIC

#include <stdlib.h>
#include <string.h>
#include <uthash.h>
#include <utlist.h>

#include "base/error.h"
#include "transport/ofi/ofi.h"

enum { CHUNKS_OUT = 4, POLL_CALLS = 64 };

struct coll__ofi_transfer {
    uint64_t key; /* receives: peer and id */
    int peer;
    uint32_t id;
    bool sends;
    unsigned char *buffer;
    size_t bytes;
    size_t moved;
    void *cookie;
    int status;
    struct coll__ofi_transfer *prev, *next; /* in sending or finished */
    UT_hash_handle hh;                      /* in receiving */
};

static uint64_t key_of(int peer, uint32_t id) {
    return (uint64_t)(uint32_t)peer << 32 | id;
}

static int new_transfer(coll__ofi_t *ofi, int peer, uint32_t id, const void *buffer, size_t bytes, void *cookie,
                        coll__ofi_transfer_t **made) {
    if (ofi->peers[peer].forgotten || !ofi->peers[peer].known) {
        int status =
            coll__error(COLL_ERR_RANK_FAILED, "rank %d is not reachable for a transfer of %zu bytes", peer, bytes);
        coll__error_add_ranks(&peer, 1);
        return status;
    }
    coll__ofi_transfer_t *transfer = calloc(1, sizeof *transfer);
    if (!transfer)
        return coll__error(COLL_ERR_MEMORY, "out of memory for a transfer");
    *transfer = (coll__ofi_transfer_t){.key = key_of(peer, id),
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

/* One round of turns: a chunk of each transfer whose peer may have one more out. Returns the number of chunks sent. */
static int turn(coll__ofi_t *ofi) {
    coll__ofi_transfer_t *transfer, *next;
    int chunks = 0;
    DL_FOREACH_SAFE(ofi->sending, transfer, next) {
        if (ofi->peers[transfer->peer].chunks_out >= CHUNKS_OUT)
            continue;
        size_t bytes = transfer->bytes - transfer->moved;
        if (bytes > COLL__OFI_CHUNK_BYTES)
            bytes = COLL__OFI_CHUNK_BYTES;
        int status = coll__ofi_chunk_send(ofi, transfer->peer, transfer->id, transfer->moved,
                                          transfer->buffer + transfer->moved, bytes);
        if (status == COLL__AGAIN)
            continue;
        if (status == COLL_SUCCESS) {
            chunks++;
            transfer->moved += bytes;
            ofi->base.counters.bulk_bytes_sent += bytes;
            if (transfer->moved < transfer->bytes)
                continue;
            ofi->base.counters.bulk_sent++;
        }
        DL_DELETE(ofi->sending, transfer);
        finish(ofi, transfer, status);
    }
    return chunks;
}

static int send_chunks(coll__ofi_t *ofi) {
    int total = 0, chunks;
    while (ofi->sending && (chunks = turn(ofi)) > 0)
        total += chunks;
    return total;
}

int coll__ofi_bulk_send(coll__ofi_t *ofi, int peer, uint32_t id, const void *buffer, size_t bytes, void *cookie) {
    coll__ofi_transfer_t *transfer;
    int status = new_transfer(ofi, peer, id, buffer, bytes, cookie, &transfer);
    if (status)
        return status;
    transfer->sends = true;
    DL_APPEND(ofi->sending, transfer);
    send_chunks(ofi);
    return COLL_SUCCESS;
}

/* ---- receiving ---- */

int coll__ofi_bulk_recv(coll__ofi_t *ofi, int peer, uint32_t id, void *buffer, size_t bytes, void *cookie) {
    coll__ofi_transfer_t *transfer;
    int status = new_transfer(ofi, peer, id, buffer, bytes, cookie, &transfer);
    if (status)
        return status;
    HASH_ADD(hh, ofi->receiving, key, sizeof transfer->key, transfer);
    return COLL_SUCCESS;
}

void coll__ofi_bulk_arrived(coll__ofi_t *ofi, int peer, const coll__ofi_header_t *header, const void *data) {
    coll__ofi_transfer_t *transfer;
    uint64_t key = key_of(peer, header->number);
    HASH_FIND(hh, ofi->receiving, &key, sizeof key, transfer);
    if (!transfer)
        return;
    int status = COLL_SUCCESS;
    if (header->offset > transfer->bytes || header->bytes > transfer->bytes - header->offset) {
        status = coll__error(COLL_ERR_INTERNAL, "rank %d sent bytes %llu to %llu of a transfer of %zu bytes", peer,
                             (unsigned long long)header->offset, (unsigned long long)header->offset + header->bytes,
                             transfer->bytes);
    } else {
        memcpy(transfer->buffer + header->offset, data, header->bytes);
        transfer->moved += header->bytes;
        ofi->base.counters.copied_bytes += header->bytes;
        ofi->base.counters.bulk_bytes_received += header->bytes;
        if (transfer->moved < transfer->bytes)
            return;
        ofi->base.counters.bulk_received++;
    }
    HASH_DEL(ofi->receiving, transfer);
    finish(ofi, transfer, status);
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

/* Drops the transfers of `peer` (or of every peer, < 0) with `cookie` (or any, NULL). Chunks on their way are copies.
 */
static void drop(coll__ofi_t *ofi, int peer, const void *cookie) {
    coll__ofi_transfer_t *transfer, *next;
#define MATCHES(transfer) ((peer < 0 || (transfer)->peer == peer) && (!cookie || (transfer)->cookie == cookie))
    DL_FOREACH_SAFE(ofi->sending, transfer, next) {
        if (!MATCHES(transfer))
            continue;
        DL_DELETE(ofi->sending, transfer);
        free(transfer);
    }
    DL_FOREACH_SAFE(ofi->finished, transfer, next) {
        if (!MATCHES(transfer))
            continue;
        DL_DELETE(ofi->finished, transfer);
        free(transfer);
    }
    HASH_ITER(hh, ofi->receiving, transfer, next) {
        if (!MATCHES(transfer))
            continue;
        HASH_DEL(ofi->receiving, transfer);
        free(transfer);
    }
#undef MATCHES
}

void coll__ofi_bulk_forget(coll__ofi_t *ofi, int peer) {
    drop(ofi, peer, NULL);
}

void coll__ofi_bulk_cancel(coll__ofi_t *ofi, void *cookie) {
    drop(ofi, -1, cookie);
}

void coll__ofi_bulk_close(coll__ofi_t *ofi) {
    drop(ofi, -1, NULL);
}

#endif
