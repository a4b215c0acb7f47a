/* Messages on their way out.
 *
 * A message is copied into a slot, which libfabric has from a successful send until the completion. A slot is large
 * enough for the longest message, but only the pages that were written to are memory; slots come in blocks, made when
 * all are in use, and how many of them one peer may bind is bounded.
 */
#ifdef COLL_HAVE_LIBFABRIC

#include <string.h>
#include <utlist.h>

#include "base/clock.h"
#include "base/error.h"
#include "transport/ofi/ofi.h"

enum {
    SLOTS_IN_BLOCK = 16,
    PACKETS_OUT = 64, /* in libfabric's hands for one peer: what one that does not read can bind */
    CHUNKS_OUT = 4,   /* enough for a pipeline */
};

_Static_assert(sizeof(coll__ofi_header_t) % 8 == 0, "packets lie at multiples of 8");
_Static_assert(offsetof(coll__ofi_slot_t, data) == offsetof(coll__ofi_slot_t, header) + sizeof(coll__ofi_header_t),
               "header and data are one message");

int coll__ofi_slots_add(coll__ofi_t *ofi) {
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
    if (peer < 0 || peer >= ofi->world_size || !ofi->peers[peer].known)
        return coll__error(COLL_ERR_INTERNAL, "rank %d is not connected by libfabric", peer);
    const coll__ofi_peer_t *state = &ofi->peers[peer];
    if (!state->forgotten && !state->lost)
        return COLL_SUCCESS;
    if (!state->forgotten && !state->reported)
        return COLL__AGAIN;
    int status = coll__error(COLL_ERR_RANK_FAILED, "nothing more can be sent to rank %d%s%s", peer,
                             state->lost ? ": " : "", state->lost ? ofi->library->strerror(state->lost) : "");
    coll__error_add_ranks(&peer, 1);
    return status;
}

void coll__ofi_lose(coll__ofi_t *ofi, int peer, int error) {
    coll__ofi_peer_t *state = &ofi->peers[peer];
    if (state->lost)
        return;
    state->lost = error ? error : FI_EIO;
    state->lost_at = coll__now_ns();
    if (!state->forgotten)
        ofi->lost_peers++;
}

static coll__ofi_slot_t *take_slot(coll__ofi_t *ofi, int peer, const coll__ofi_header_t *header) {
    if (!ofi->free_slots && coll__ofi_slots_add(ofi))
        return NULL;
    coll__ofi_slot_t *slot = ofi->free_slots;
    LL_DELETE(ofi->free_slots, slot);
    slot->operation.receives = false;
    slot->peer = peer;
    slot->header = *header;
    slot->header.key = ofi->peers[peer].key;
    slot->header.source = (uint32_t)ofi->world_rank;
    slot->header.number = ofi->peers[peer].lanes[coll__ofi_lane_of(header)].next_out;
    memset(slot->data + header->bytes, 0, coll__ofi_padded(header->bytes) - header->bytes);
    return slot;
}

/* Gives a filled slot to libfabric, or back to the free ones. */
static int post(coll__ofi_t *ofi, coll__ofi_slot_t *slot) {
    coll__ofi_peer_t *peer = &ofi->peers[slot->peer];
    coll__ofi_order_t *lane = &peer->lanes[coll__ofi_lane_of(&slot->header)];
    size_t bytes = sizeof slot->header + coll__ofi_padded(slot->header.bytes);
    ssize_t error = fi_send(ofi->endpoint, &slot->header, bytes, slot->descriptor, peer->address, slot);
    if (error) {
        LL_PREPEND(ofi->free_slots, slot);
        if (error != -FI_EAGAIN)
            coll__ofi_lose(ofi, slot->peer, (int)-error);
        return COLL__AGAIN;
    }
    lane->next_out++;
    lane->out++;
    ofi->messages_out++;
    ofi->base.counters.copied_bytes += slot->header.bytes;
    return COLL_SUCCESS;
}

int coll__ofi_message_send(coll__ofi_t *ofi, int peer, const coll__ofi_header_t *header, const void *first,
                           size_t first_bytes, const void *rest) {
    static const int most[COLL__OFI_LANES] = {[COLL__OFI_PACKETS] = PACKETS_OUT, [COLL__OFI_BULK] = CHUNKS_OUT};
    enum coll__ofi_lane lane = coll__ofi_lane_of(header);
    int status = reachable(ofi, peer);
    if (status)
        return status;
    if (ofi->peers[peer].lanes[lane].out >= most[lane])
        return COLL__AGAIN;
    coll__ofi_slot_t *slot = take_slot(ofi, peer, header);
    if (!slot)
        return COLL_ERR_MEMORY;
    if (first_bytes)
        memcpy(slot->data, first, first_bytes);
    if (header->bytes > first_bytes)
        memcpy(slot->data + first_bytes, rest, header->bytes - first_bytes);
    return post(ofi, slot);
}

int coll__ofi_packet_send(coll__ofi_t *ofi, int peer, const void *header, size_t header_bytes, const void *payload,
                          size_t payload_bytes) {
    size_t bytes = header_bytes + payload_bytes;
    if (header_bytes % 8 || bytes > ofi->base.max_packet)
        return coll__error(COLL_ERR_INTERNAL, "a packet of %zu + %zu bytes; allowed are a multiple of 8 and %zu in all",
                           header_bytes, payload_bytes, ofi->base.max_packet);
    coll__ofi_header_t message = {.kind = COLL__OFI_PACKET, .bytes = (uint32_t)bytes};
    int status = coll__ofi_message_send(ofi, peer, &message, header, header_bytes, payload);
    if (status == COLL_SUCCESS) {
        ofi->base.counters.messages_sent++;
        ofi->base.counters.bytes_sent += bytes;
    }
    return status;
}

void coll__ofi_sent(coll__ofi_t *ofi, coll__ofi_slot_t *slot, int error) {
    coll__ofi_peer_t *peer = &ofi->peers[slot->peer];
    peer->lanes[coll__ofi_lane_of(&slot->header)].out--;
    if (!peer->forgotten)
        ofi->messages_out--;
    if (error)
        coll__ofi_lose(ofi, slot->peer, error);
    LL_PREPEND(ofi->free_slots, slot);
}

#endif
