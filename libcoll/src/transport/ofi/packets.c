/* Messages: a header and data in memory of this transport, on both sides.
 *
 * Out: a message is copied into a slot, which libfabric keeps until it is on its way. In: four multi-receive buffers
 * are always posted; libfabric lays messages into them and a buffer is posted again as soon as it was read. Nothing
 * here waits for a particular message, so the provider's own matching and its limits for unexpected messages never
 * matter, and a process that does not poll is held back by the flow control of the connection.
 *
 * libfabric therefore never holds memory of a caller. That is what makes cancelling safe: neither tcp;ofi_rxm nor tcp
 * can take a send back, nor a receive that has begun, short of closing the endpoint with all its connections.
 *
 * Packets carry numbers, because a provider that moves long messages by another protocol than short ones (rxm above
 * 128 KiB) may complete them in another order than they were sent.
 */
#ifdef COLL_HAVE_LIBFABRIC

#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "base/clock.h"
#include "base/error.h"
#include "transport/ofi/ofi.h"

enum {
    BUFFERS = 4,            /* multi-receive buffers that are posted */
    MESSAGES_IN_BUFFER = 4, /* of the longest kind */
    SLOTS_IN_BLOCK = 16,
    PACKETS_OUT = 64, /* per peer: what a peer that does not read can bind of our memory */
    COMPLETIONS = 16, /* read at once */
    POLL_EVENTS = 64, /* handled by one poll */
};

/* How long the watcher may take to say that a peer is dead before a broken connection counts as an error of its own. */
#define LOST_GRACE_NS INT64_C(3000000000)

_Static_assert(sizeof(coll__ofi_header_t) % 8 == 0, "packets lie at multiples of 8");
_Static_assert(offsetof(coll__ofi_slot_t, data) == offsetof(coll__ofi_slot_t, header) + sizeof(coll__ofi_header_t),
               "header and data are one message");

static size_t padded(size_t bytes) {
    return (bytes + 7) & ~(size_t)7;
}

/* ---- out ---- */

static int add_slots(coll__ofi_t *ofi) {
    size_t stride = (offsetof(coll__ofi_slot_t, header) + ofi->longest + 63) & ~(size_t)63;
    coll__ofi_block_t *block = coll__ofi_block_new(ofi, SLOTS_IN_BLOCK * stride);
    if (!block)
        return COLL_ERR_MEMORY;
    for (int i = SLOTS_IN_BLOCK - 1; i >= 0; i--) {
        coll__ofi_slot_t *slot = (coll__ofi_slot_t *)(block->memory + (size_t)i * stride);
        slot->descriptor = block->descriptor;
        LL_PREPEND(ofi->free_slots, slot);
    }
    return COLL_SUCCESS;
}

/* Whether a message can go to the peer: 0, COLL__AGAIN or an error. */
static int reachable(coll__ofi_t *ofi, int peer) {
    const coll__ofi_peer_t *state = &ofi->peers[peer];
    if (!state->known)
        return coll__error(COLL_ERR_INTERNAL, "rank %d is not connected by libfabric", peer);
    if (!state->forgotten && !state->lost)
        return COLL_SUCCESS;
    if (!state->forgotten && !state->reported)
        return COLL__AGAIN;
    int status = coll__error(COLL_ERR_RANK_FAILED, "nothing more can be sent to rank %d%s%s", peer,
                             state->lost ? ": " : "", state->lost ? ofi->library->strerror(state->lost) : "");
    coll__error_add_ranks(&peer, 1);
    return status;
}

static void lose(coll__ofi_t *ofi, int peer, int error) {
    coll__ofi_peer_t *state = &ofi->peers[peer];
    if (state->lost)
        return;
    state->lost = error ? error : FI_EIO;
    state->lost_at = coll__now_ns();
    if (!state->forgotten)
        ofi->lost_peers++;
}

/* Gives a filled slot to libfabric, or back to the free ones. */
static int post(coll__ofi_t *ofi, coll__ofi_slot_t *slot) {
    coll__ofi_peer_t *state = &ofi->peers[slot->peer];
    size_t bytes = sizeof slot->header + padded(slot->header.bytes);
    ssize_t error = fi_send(ofi->endpoint, &slot->header, bytes, slot->descriptor, state->address, slot);
    if (error == 0) {
        ofi->messages_out++;
        return COLL_SUCCESS;
    }
    LL_PREPEND(ofi->free_slots, slot);
    if (error != -FI_EAGAIN)
        lose(ofi, slot->peer, (int)-error);
    return COLL__AGAIN;
}

static coll__ofi_slot_t *take_slot(coll__ofi_t *ofi, int peer, uint32_t kind, uint32_t number, uint64_t offset,
                                   size_t bytes) {
    if (!ofi->free_slots && add_slots(ofi))
        return NULL;
    coll__ofi_slot_t *slot = ofi->free_slots;
    LL_DELETE(ofi->free_slots, slot);
    slot->operation.receives = false;
    slot->peer = peer;
    slot->header = (coll__ofi_header_t){.key = ofi->peers[peer].key,
                                        .source = (uint32_t)ofi->world_rank,
                                        .kind = kind,
                                        .bytes = (uint32_t)bytes,
                                        .number = number,
                                        .offset = offset};
    memset(slot->data + bytes, 0, padded(bytes) - bytes);
    return slot;
}

int coll__ofi_packet_send(coll__ofi_t *ofi, int peer, const void *header, size_t header_bytes, const void *payload,
                          size_t payload_bytes) {
    coll__ofi_peer_t *state = &ofi->peers[peer];
    int status = reachable(ofi, peer);
    if (status)
        return status;
    if (state->packets_out == PACKETS_OUT)
        return COLL__AGAIN;
    size_t bytes = header_bytes + payload_bytes;
    coll__ofi_slot_t *slot = take_slot(ofi, peer, COLL__OFI_PACKET, state->next_out, 0, bytes);
    if (!slot)
        return COLL_ERR_MEMORY;
    memcpy(slot->data, header, header_bytes);
    if (payload_bytes)
        memcpy(slot->data + header_bytes, payload, payload_bytes);
    status = post(ofi, slot);
    if (status)
        return status;
    state->next_out++;
    state->packets_out++;
    ofi->base.counters.messages_sent++;
    ofi->base.counters.bytes_sent += bytes;
    ofi->base.counters.copied_bytes += bytes;
    return COLL_SUCCESS;
}

int coll__ofi_chunk_send(coll__ofi_t *ofi, int peer, uint32_t id, uint64_t offset, const void *data, size_t bytes) {
    int status = reachable(ofi, peer);
    if (status)
        return status;
    coll__ofi_slot_t *slot = take_slot(ofi, peer, COLL__OFI_CHUNK, id, offset, bytes);
    if (!slot)
        return COLL_ERR_MEMORY;
    memcpy(slot->data, data, bytes);
    status = post(ofi, slot);
    if (status)
        return status;
    ofi->peers[peer].chunks_out++;
    ofi->base.counters.copied_bytes += bytes;
    return COLL_SUCCESS;
}

static void sent(coll__ofi_t *ofi, coll__ofi_slot_t *slot, int error) {
    coll__ofi_peer_t *state = &ofi->peers[slot->peer];
    if (slot->header.kind == COLL__OFI_PACKET)
        state->packets_out--;
    else
        state->chunks_out--;
    if (!state->forgotten)
        ofi->messages_out--;
    if (error)
        lose(ofi, slot->peer, error);
    LL_PREPEND(ofi->free_slots, slot);
}

/* ---- in ---- */

static int post_buffer(coll__ofi_t *ofi, coll__ofi_buffer_t *buffer) {
    struct iovec vector = {.iov_base = buffer->block->memory, .iov_len = buffer->block->bytes};
    struct fi_msg message = {.msg_iov = &vector,
                             .desc = &buffer->block->descriptor,
                             .iov_count = 1,
                             .addr = FI_ADDR_UNSPEC,
                             .context = buffer};
    buffer->completed = buffer->end = 0;
    buffer->released = false;
    ssize_t error = fi_recvmsg(ofi->endpoint, &message, FI_MULTI_RECV);
    if (error == -FI_EAGAIN)
        return COLL__AGAIN;
    if (error)
        return coll__error(COLL_ERR_TRANSPORT, "libfabric takes no receive buffer: %s",
                           ofi->library->strerror((int)-error));
    buffer->posted = true;
    ofi->posted++;
    return COLL_SUCCESS;
}

static int add_buffer(coll__ofi_t *ofi) {
    size_t bytes = MESSAGES_IN_BUFFER * ofi->longest;
    coll__ofi_buffer_t *buffer = calloc(1, sizeof *buffer);
    if (!buffer)
        return coll__error(COLL_ERR_MEMORY, "out of memory for a receive buffer");
    buffer->operation.receives = true;
    buffer->block = coll__ofi_block_new(ofi, bytes);
    if (!buffer->block) {
        free(buffer);
        return COLL_ERR_MEMORY;
    }
    DL_APPEND(ofi->buffers, buffer);
    return COLL_SUCCESS;
}

/* Keeps BUFFERS buffers posted. */
static int post_buffers(coll__ofi_t *ofi) {
    coll__ofi_buffer_t *buffer;
    int status = COLL_SUCCESS;
    DL_FOREACH(ofi->buffers, buffer) {
        if (!buffer->posted && !buffer->replaced && (status = post_buffer(ofi, buffer)))
            break;
    }
    return status < 0 ? status : COLL_SUCCESS;
}

/* libfabric lays nothing more into the buffer. When some of its messages still fill (only where releases_early),
 * another buffer takes its place, and it ends when they are complete: at the latest at close, if their sender died. */
static void settle(coll__ofi_t *ofi, coll__ofi_buffer_t *buffer) {
    bool fills = ofi->releases_early && buffer->completed != buffer->end;
    if (buffer->posted) {
        buffer->posted = false;
        ofi->posted--;
    }
    if (fills && !buffer->replaced) {
        buffer->replaced = add_buffer(ofi) == COLL_SUCCESS;
        buffer->posted = !buffer->replaced; /* without memory for another: this one, when it is whole */
        ofi->posted += buffer->posted;
    } else if (!fills && buffer->replaced) {
        coll__ofi_block_free(ofi, buffer->block);
        DL_DELETE(ofi->buffers, buffer);
        free(buffer);
    }
}

static void deliver(coll__ofi_t *ofi, int peer, const void *packet, size_t bytes) {
    ofi->peers[peer].next_in++;
    ofi->base.counters.messages_received++;
    ofi->base.counters.bytes_received += bytes;
    ofi->base.sink.packet(ofi->base.sink.context, peer, packet, bytes);
}

static void hold(coll__ofi_t *ofi, int peer, const coll__ofi_header_t *header) {
    coll__ofi_held_t *held = malloc(sizeof *held + header->bytes);
    if (!held) {
        lose(ofi, peer, FI_ENOMEM);
        return;
    }
    held->number = header->number;
    held->bytes = header->bytes;
    memcpy(held->packet, header + 1, header->bytes);
    DL_APPEND(ofi->peers[peer].held, held);
    ofi->base.counters.copied_bytes += header->bytes;
}

static void deliver_held(coll__ofi_t *ofi, int peer) {
    coll__ofi_peer_t *state = &ofi->peers[peer];
    coll__ofi_held_t *held = state->held;
    while (held) {
        if (held->number != state->next_in) {
            held = held->next;
            continue;
        }
        DL_DELETE(state->held, held);
        deliver(ofi, peer, held->packet, held->bytes);
        free(held);
        held = state->held; /* which the call may have changed */
    }
}

static void packet_arrived(coll__ofi_t *ofi, int peer, const coll__ofi_header_t *header) {
    coll__ofi_peer_t *state = &ofi->peers[peer];
    if (header->number != state->next_in) {
        hold(ofi, peer, header);
        return;
    }
    deliver(ofi, peer, header + 1, header->bytes);
    if (state->held)
        deliver_held(ofi, peer);
}

/* Whether a rank of this job can have sent it. */
static bool is_valid(const coll__ofi_t *ofi, const coll__ofi_header_t *header, size_t length) {
    return length >= sizeof *header && header->key == ofi->key && header->source < (uint32_t)ofi->world_size &&
           ofi->peers[header->source].known && length - sizeof *header == padded(header->bytes) &&
           (header->kind == COLL__OFI_CHUNK ||
            (header->kind == COLL__OFI_PACKET && header->bytes <= ofi->base.max_packet));
}

static void arrived(coll__ofi_t *ofi, const void *message, size_t length) {
    const coll__ofi_header_t *header = message;
    if (!is_valid(ofi, header, length)) {
        ofi->strangers++;
        return;
    }
    int peer = (int)header->source;
    if (ofi->peers[peer].forgotten)
        return;
    if (header->kind == COLL__OFI_PACKET)
        packet_arrived(ofi, peer, header);
    else
        coll__ofi_bulk_arrived(ofi, peer, header, header + 1);
}

static void completed(coll__ofi_t *ofi, const struct fi_cq_tagged_entry *entry) {
    coll__ofi_operation_t *operation = entry->op_context;
    if (!operation->receives) {
        sent(ofi, entry->op_context, 0);
        return;
    }
    coll__ofi_buffer_t *buffer = entry->op_context;
    if (entry->len) {
        size_t end = (size_t)((unsigned char *)entry->buf - buffer->block->memory) + entry->len;
        buffer->completed += entry->len;
        if (end > buffer->end)
            buffer->end = end;
        arrived(ofi, entry->buf, entry->len);
    }
    if (entry->flags & FI_MULTI_RECV)
        buffer->released = true;
    if (buffer->released)
        settle(ofi, buffer);
}

/* An operation failed: a send, because the connection broke; a receive, in the middle of a message from a peer that
 * died. rxm ends a buffer without saying so when a message is too long for it, which only a stranger's can be. */
static void read_error(coll__ofi_t *ofi) {
    struct fi_cq_err_entry entry = {0};
    if (fi_cq_readerr(ofi->cq, &entry, 0) != 1 || !entry.op_context)
        return;
    coll__ofi_operation_t *operation = entry.op_context;
    if (!operation->receives) {
        sent(ofi, entry.op_context, entry.err ? entry.err : FI_EIO);
        return;
    }
    coll__ofi_buffer_t *buffer = entry.op_context;
    if ((entry.flags & FI_MULTI_RECV) || entry.err == FI_ETRUNC)
        buffer->released = true;
    if (buffer->released)
        settle(ofi, buffer);
}

/* ---- polling ---- */

/* Tells once of a peer that could not be reached although nobody said that it is dead. */
static int report_lost(coll__ofi_t *ofi) {
    int64_t now = coll__now_ns();
    for (int peer = 0; peer < ofi->world_size; peer++) {
        coll__ofi_peer_t *state = &ofi->peers[peer];
        if (!state->lost || state->forgotten || state->reported || now - state->lost_at < LOST_GRACE_NS)
            continue;
        state->reported = true;
        ofi->lost_peers--;
        int status = coll__error(COLL_ERR_RANK_FAILED, "the connection to rank %d broke and a message was lost: %s",
                                 peer, ofi->library->strerror(state->lost));
        coll__error_add_ranks(&peer, 1);
        return status;
    }
    return COLL_SUCCESS;
}

int coll__ofi_packets_poll(coll__ofi_t *ofi) {
    struct fi_cq_tagged_entry entries[COMPLETIONS];
    int events = 0;
    while (events < POLL_EVENTS) {
        ssize_t count = fi_cq_read(ofi->cq, entries, COMPLETIONS);
        if (count == -FI_EAVAIL) {
            read_error(ofi);
            events++;
            continue;
        }
        if (count == -FI_EAGAIN || count == 0)
            break;
        if (count < 0)
            return coll__error(COLL_ERR_TRANSPORT, "libfabric's completion queue failed: %s",
                               ofi->library->strerror((int)-count));
        for (ssize_t i = 0; i < count; i++)
            completed(ofi, &entries[i]);
        events += (int)count;
        if (ofi->posted < BUFFERS) {
            int status = post_buffers(ofi);
            if (status)
                return status;
        }
        if (count < COMPLETIONS)
            break;
    }
    if (ofi->lost_peers) {
        int status = report_lost(ofi);
        if (status)
            return status;
    }
    return events;
}

void coll__ofi_packets_forget(coll__ofi_t *ofi, int peer) {
    coll__ofi_peer_t *state = &ofi->peers[peer];
    coll__ofi_held_t *held, *next;
    if (state->forgotten)
        return;
    if (state->lost && !state->reported)
        ofi->lost_peers--;
    ofi->messages_out -= state->packets_out + state->chunks_out;
    state->forgotten = true;
    DL_FOREACH_SAFE(state->held, held, next) {
        DL_DELETE(state->held, held);
        free(held);
    }
}

int coll__ofi_packets_open(coll__ofi_t *ofi) {
    for (int i = 0; i < BUFFERS; i++) {
        int status = add_buffer(ofi);
        if (status)
            return status;
    }
    int status = post_buffers(ofi);
    return status ? status : add_slots(ofi);
}

/* After the endpoint's close. The blocks are gone with it. */
void coll__ofi_packets_close(coll__ofi_t *ofi) {
    coll__ofi_buffer_t *buffer, *next;
    DL_FOREACH_SAFE(ofi->buffers, buffer, next) {
        DL_DELETE(ofi->buffers, buffer);
        free(buffer);
    }
    for (int peer = 0; peer < ofi->world_size; peer++)
        coll__ofi_packets_forget(ofi, peer);
}

#endif
