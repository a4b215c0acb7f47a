/* The shm transport: packets and bulk data between processes of one node, through their shared segment.
 *
 * Short packets are copied into the receiver's ring and delivered from there. Longer ones, and pieces of bulk data, are
 * copied into a slot of the sender's pool that a record in the ring names; a packet is delivered from its slot. So
 * order between packets is the ring's order. Nothing is ever waited for: a full ring or an empty pool is COLL__AGAIN.
 *
 * Sleeping: whoever publishes a record or gives cells back rings the other side (base/segment.h).
 */
#include "transport/shm/shm.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/error.h"
#include "base/stream.h"
#include "transport/shm/end.h"

/* A poll's share for one peer; a slot counts for several records, because it takes that much longer. */
enum { RECORDS_A_POLL = 32, SLOT_WEIGHT = 8 };

/* Payloads from here on are streamed: half as fast as an ordinary copy between near cores, up to three times as fast
 * between far ones, and the same on both. */
enum { STREAM_MIN = 4096 };

static int shm_probe(const coll__env_t *env, char *why, size_t why_bytes, char *detail, size_t detail_bytes) {
    (void)env;
    int fd = memfd_create("coll-probe", MFD_CLOEXEC);
    if (fd < 0) {
        snprintf(why, why_bytes, "memfd_create() is not available: %s", strerror(errno));
        return 0;
    }
    close(fd);
    snprintf(detail, detail_bytes, "memfd, rings of 64-byte cells, slots of %d KiB", COLL__SHM_PIECE / 1024);
    return 1;
}

static void shm_close(coll__transport_t *transport) {
    coll__shm_t *shm = (coll__shm_t *)transport;
    for (int i = 0; i < shm->peer_count; i++)
        coll__shm_bulk_drop(shm, &shm->peers[i]);
    coll__pool_close(&shm->pool);
    free(shm->peers);
    free(shm->peer_of);
    free(shm);
}

extern const coll__transport_ops_t coll__transport_shm;

static int shm_open_end(const coll__transport_args_t *args, coll__transport_t **transport) {
    const coll__segment_t *segment = args->segment;
    coll__shm_region_t region;
    if (!segment || !segment->base)
        return coll__error(COLL_ERR_STATE, "the shm transport needs the node's segment, and there is none");
    coll__shm_region(&region, segment->local_size, args->max_packet);
    if (segment->transport_bytes < region.bytes)
        return coll__error(COLL_ERR_INTERNAL, "the segment has %zu bytes for the shm transport, which needs %zu",
                           segment->transport_bytes, region.bytes);

    coll__shm_t *shm = calloc(1, sizeof *shm);
    if (!shm)
        return coll__error(COLL_ERR_MEMORY, "out of memory for the shm transport");
    shm->base.ops = &coll__transport_shm;
    shm->base.sink = args->sink;
    shm->base.max_packet = args->max_packet;
    shm->segment = segment;
    shm->region = region;
    shm->inline_max = coll__ring_inline_max(region.cells);
    shm->world_rank = args->world_rank;
    shm->world_size = args->world_size;
    shm->peers = calloc((size_t)segment->local_size, sizeof *shm->peers);
    shm->peer_of = calloc((size_t)args->world_size, sizeof *shm->peer_of);
    if (!shm->peers || !shm->peer_of) {
        shm_close(&shm->base);
        return coll__error(COLL_ERR_MEMORY, "out of memory for the peers of the shm transport");
    }
    int status =
        coll__pool_open(&shm->pool, &region, coll__shm_region_pool(&region, segment->transport, segment->local_rank));
    if (status < 0) {
        shm_close(&shm->base);
        return status;
    }
    *transport = &shm->base;
    return 0;
}

static int shm_address(coll__transport_t *transport, coll__transport_address_t *address) {
    const coll__shm_t *shm = (coll__shm_t *)transport;
    uint32_t local_rank = (uint32_t)shm->segment->local_rank;
    memset(address, 0, sizeof *address);
    snprintf(address->identity, sizeof address->identity, "shm 1, packets of %zu bytes", shm->base.max_packet);
    address->bytes = sizeof local_rank;
    memcpy(address->address, &local_rank, sizeof local_rank);
    return 0;
}

static int connect_one(coll__shm_t *shm, int world_rank, const coll__transport_address_t *address) {
    const coll__segment_t *segment = shm->segment;
    uint32_t local = UINT32_MAX;
    if (address->bytes == sizeof local)
        memcpy(&local, address->address, sizeof local);
    if (world_rank < 0 || world_rank >= shm->world_size || local >= (uint32_t)segment->local_size ||
        local == (uint32_t)segment->local_rank || segment->world_rank[local] != world_rank)
        return coll__error(COLL_ERR_TRANSPORT, "rank %d gave an address that is none of this node's segment",
                           world_rank);
    if (shm->peer_of[world_rank])
        return coll__error(COLL_ERR_INTERNAL, "rank %d is connected twice", world_rank);

    coll__ring_t *in = coll__shm_region_ring(&shm->region, segment->transport, (int)local, segment->local_rank);
    coll__ring_t *out = coll__shm_region_ring(&shm->region, segment->transport, segment->local_rank, (int)local);
    coll__shm_peer_t *peer = &shm->peers[shm->peer_count++];
    peer->world_rank = world_rank;
    peer->local_rank = (int)local;
    peer->in = (coll__ring_in_t){.ring = in, .cells = (unsigned char *)(in + 1), .count = shm->region.cells};
    peer->out = (coll__ring_out_t){.ring = out, .cells = (unsigned char *)(out + 1), .count = shm->region.cells};
    shm->peer_of[world_rank] = peer;
    return 0;
}

static int shm_connect(coll__transport_t *transport, const int *peers, const coll__transport_address_t *addresses,
                       int count) {
    int status = 0;
    for (int i = 0; i < count && status == 0; i++)
        status = connect_one((coll__shm_t *)transport, peers[i], &addresses[i]);
    return status;
}

int coll__shm_corrupt(coll__shm_peer_t *peer, const char *what) {
    peer->damage = what;
    int status = coll__error(COLL_ERR_TRANSPORT, "shared memory from rank %d is damaged: %s", peer->world_rank, what);
    coll__error_add_ranks(&peer->world_rank, 1);
    return status;
}

coll__shm_peer_t *coll__shm_find(coll__shm_t *shm, int world_rank, int *status) {
    coll__shm_peer_t *peer = world_rank >= 0 && world_rank < shm->world_size ? shm->peer_of[world_rank] : NULL;
    if (!peer) {
        *status = coll__error(COLL_ERR_INTERNAL, "rank %d is not connected over shared memory", world_rank);
        return NULL;
    }
    if (peer->gone) {
        *status = coll__error(COLL_ERR_RANK_FAILED, "rank %d is gone", world_rank);
        coll__error_add_ranks(&world_rank, 1);
        return NULL;
    }
    return peer;
}

/* ---- sending ---- */

static void reclaim(coll__shm_t *shm, coll__shm_peer_t *peer) {
    coll__ring_look(&peer->out);
    if (!coll__ring_corrupt(&peer->out))
        coll__pool_reclaim(&shm->pool, &peer->held, peer->out.read);
}

bool coll__shm_slot_room(coll__shm_t *shm, coll__shm_peer_t *peer, uint32_t limit) {
    if (!coll__ring_has_room(&peer->out, coll__ring_cells(sizeof(coll__ring_slot_t))))
        return false;
    if (coll__pool_allows(&shm->pool, &peer->held, limit))
        return true;
    reclaim(shm, peer);
    if (shm->pool.shared_used >= COLL__POOL_SHARED)
        for (int i = 0; i < shm->peer_count; i++)
            if (coll__pool_held_count(&shm->peers[i].held) > 0)
                reclaim(shm, &shm->peers[i]);
    return coll__pool_allows(&shm->pool, &peer->held, limit);
}

void coll__shm_publish_slot(coll__shm_t *shm, coll__shm_peer_t *peer, coll__ring_kind_t kind,
                            const coll__ring_slot_t *record, uint32_t length) {
    uint32_t cells = coll__ring_cells(sizeof *record);
    memcpy(coll__ring_reserve(&peer->out, cells), record, sizeof *record);
    coll__ring_publish(&peer->out, cells, kind, length);
    coll__pool_give(&shm->pool, &peer->held, (int)record->slot, peer->out.head);
    coll__segment_ring(shm->segment, peer->local_rank);
}

static void copy_packet(unsigned char *to, const void *header, size_t header_bytes, const void *payload,
                        size_t payload_bytes) {
    if (header_bytes)
        memcpy(to, header, header_bytes);
    if (payload_bytes >= STREAM_MIN)
        coll__stream_copy(to + header_bytes, payload, payload_bytes);
    else if (payload_bytes)
        memcpy(to + header_bytes, payload, payload_bytes);
}

static bool packet_room(coll__shm_t *shm, coll__shm_peer_t *peer, size_t bytes) {
    return bytes <= shm->inline_max ? coll__ring_has_room(&peer->out, coll__ring_cells(bytes))
                                    : coll__shm_slot_room(shm, peer, COLL__POOL_PACKET_LIMIT);
}

/* No room: remembered, so that arm() and poll() can tell when there is. */
static int refuse(coll__shm_t *shm, coll__shm_peer_t *peer, size_t bytes) {
    if (coll__ring_corrupt(&peer->out))
        return coll__shm_corrupt(peer, COLL__SHM_FALSE_READ);
    if (!peer->refused)
        shm->refused_count++;
    peer->refused = bytes + 1;
    shm->base.counters.again++;
    return COLL__AGAIN;
}

static int shm_send(coll__transport_t *transport, int world_rank, const void *header, size_t header_bytes,
                    const void *payload, size_t payload_bytes) {
    coll__shm_t *shm = (coll__shm_t *)transport;
    size_t bytes = header_bytes + payload_bytes;
    int status;
    coll__shm_peer_t *peer = coll__shm_find(shm, world_rank, &status);
    if (!peer)
        return status;
    if (bytes > transport->max_packet)
        return coll__error(COLL_ERR_INTERNAL, "a packet of %zu bytes, allowed are %zu", bytes, transport->max_packet);

    if (bytes <= shm->inline_max) {
        uint32_t cells = coll__ring_cells(bytes);
        unsigned char *body = coll__ring_reserve(&peer->out, cells);
        if (!body)
            return refuse(shm, peer, bytes);
        copy_packet(body, header, header_bytes, payload, payload_bytes);
        coll__ring_publish(&peer->out, cells, COLL__RING_PACKET, (uint32_t)bytes);
        coll__segment_ring(shm->segment, peer->local_rank);
    } else {
        if (!coll__shm_slot_room(shm, peer, COLL__POOL_PACKET_LIMIT))
            return refuse(shm, peer, bytes);
        int slot = coll__pool_take(&shm->pool);
        copy_packet(coll__pool_slot(&shm->pool, slot), header, header_bytes, payload, payload_bytes);
        coll__ring_slot_t record = {.slot = (uint32_t)slot};
        coll__shm_publish_slot(shm, peer, COLL__RING_SLOT, &record, (uint32_t)bytes);
    }
    transport->counters.messages_sent++;
    transport->counters.bytes_sent += bytes;
    transport->counters.copied_bytes += bytes;
    return 0;
}

/* ---- receiving ---- */

static void deliver(coll__shm_t *shm, const coll__shm_peer_t *peer, const void *packet, size_t bytes) {
    shm->base.counters.messages_received++;
    shm->base.counters.bytes_received += bytes;
    shm->base.sink.packet(shm->base.sink.context, peer->world_rank, packet, bytes);
}

static int receive_inline(coll__shm_t *shm, coll__shm_peer_t *peer, uint32_t length) {
    uint32_t cells = coll__ring_cells(length);
    if (length > shm->inline_max || cells > coll__ring_to_end(&peer->in))
        return coll__shm_corrupt(peer, "a packet that does not fit into the ring");
    unsigned char *word = (unsigned char *)coll__ring_word(peer->in.cells, peer->in.count, peer->in.tail);
    deliver(shm, peer, word + COLL__RING_WORD, length);
    if (coll__ring_consume(&peer->in, cells, cells, false))
        coll__segment_ring(shm->segment, peer->local_rank);
    return 0;
}

static int receive_slot(coll__shm_t *shm, coll__shm_peer_t *peer, coll__ring_kind_t kind, uint32_t length) {
    coll__ring_slot_t record; /* a copy: what was checked must not change */
    memcpy(&record, (unsigned char *)coll__ring_word(peer->in.cells, peer->in.count, peer->in.tail) + COLL__RING_WORD,
           sizeof record);
    int status = 0;
    if (kind == COLL__RING_BULK) {
        status = coll__shm_bulk_piece(shm, peer, &record, length);
    } else if (record.slot >= (uint32_t)shm->region.slots || length > shm->base.max_packet) {
        status = coll__shm_corrupt(peer, "a packet outside its slots");
    } else {
        const unsigned char *slots = coll__shm_region_pool(&shm->region, shm->segment->transport, peer->local_rank);
        deliver(shm, peer, slots + record.slot * shm->region.slot_bytes, length);
    }
    uint32_t cells = coll__ring_cells(sizeof record);
    if (status == 0 && coll__ring_consume(&peer->in, cells, cells, true))
        coll__segment_ring(shm->segment, peer->local_rank);
    return status;
}

/* Delivers what has come from one peer, a fair share. Returns the number of events or an error. */
static int receive(coll__shm_t *shm, coll__shm_peer_t *peer) {
    int events = 0;
    for (int share = 0; share < RECORDS_A_POLL && !peer->damage; share++) {
        uint64_t word = coll__ring_peek(&peer->in);
        if (!word)
            return events;
        uint32_t kind = (uint32_t)(word >> 32);
        int status = 0;
        if (kind == COLL__RING_PACKET) {
            status = receive_inline(shm, peer, (uint32_t)word);
        } else if (kind == COLL__RING_SLOT || kind == COLL__RING_BULK) {
            status = receive_slot(shm, peer, (coll__ring_kind_t)kind, (uint32_t)word);
            share += SLOT_WEIGHT - 1;
        } else if (kind == COLL__RING_PAD) {
            if (coll__ring_consume(&peer->in, 1, coll__ring_to_end(&peer->in), false))
                coll__segment_ring(shm->segment, peer->local_rank);
            continue;
        } else {
            status = coll__shm_corrupt(peer, "a record of no known kind");
        }
        if (status < 0)
            return status;
        events++;
    }
    return peer->damage && !peer->gone ? coll__shm_corrupt(peer, peer->damage) : events;
}

/* Is there room now for a packet that was refused before? */
static int look_at_refused(coll__shm_t *shm) {
    int events = 0;
    for (int i = 0; i < shm->peer_count; i++) {
        coll__shm_peer_t *peer = &shm->peers[i];
        if (peer->refused && packet_room(shm, peer, peer->refused - 1)) {
            peer->refused = 0;
            shm->refused_count--;
            events++;
        }
    }
    return events;
}

static int shm_poll(coll__transport_t *transport) {
    coll__shm_t *shm = (coll__shm_t *)transport;
    int events = 0, error = 0;
    for (int i = 0, at = shm->first; i < shm->peer_count; i++, at++) {
        if (at >= shm->peer_count)
            at = 0;
        int got = receive(shm, &shm->peers[at]);
        if (got < 0)
            error = got;
        else
            events += got;
    }
    if (shm->peer_count > 0 && ++shm->first >= shm->peer_count)
        shm->first = 0;
    /* Packets go before bulk data: when there is room for one at last, the caller must get the chance to use it. */
    int again = shm->refused_count > 0 ? look_at_refused(shm) : 0;
    if (again == 0 && shm->send_count > 0)
        for (int i = 0; i < shm->peer_count; i++)
            if (shm->peers[i].sends) {
                int moved = coll__shm_bulk_pump(shm, &shm->peers[i]);
                if (moved < 0)
                    error = moved;
                else
                    events += moved;
            }
    return error < 0 ? error : events + again;
}

static int shm_arm(coll__transport_t *transport) {
    coll__shm_t *shm = (coll__shm_t *)transport;
    for (int i = 0; i < shm->peer_count; i++) {
        coll__shm_peer_t *peer = &shm->peers[i];
        if ((!peer->damage && coll__ring_peek(&peer->in)) ||
            (peer->refused && packet_room(shm, peer, peer->refused - 1)) ||
            (peer->sends && coll__shm_slot_room(shm, peer, COLL__POOL_BULK_LIMIT)))
            return COLL__AGAIN;
    }
    return 0;
}

static int shm_fd(coll__transport_t *transport) {
    (void)transport;
    return -1; /* peers ring the segment */
}

static int shm_drained(coll__transport_t *transport) {
    return ((coll__shm_t *)transport)->send_count == 0; /* rings and slots outlive this process */
}

static void shm_forget(coll__transport_t *transport, int world_rank) {
    coll__shm_t *shm = (coll__shm_t *)transport;
    coll__shm_peer_t *peer = world_rank >= 0 && world_rank < shm->world_size ? shm->peer_of[world_rank] : NULL;
    if (!peer || peer->gone)
        return;
    peer->gone = true;
    coll__shm_bulk_drop(shm, peer);
    coll__pool_reclaim_all(&shm->pool, &peer->held);
    if (peer->refused) {
        peer->refused = 0;
        shm->refused_count--;
    }
}

const coll__transport_ops_t coll__transport_shm = {
    .name = "shm",
    .probe = shm_probe,
    .open = shm_open_end,
    .address = shm_address,
    .connect = shm_connect,
    .send = shm_send,
    .bulk_send = coll__shm_bulk_send,
    .bulk_recv = coll__shm_bulk_recv,
    .poll = shm_poll,
    .arm = shm_arm,
    .fd = shm_fd,
    .drained = shm_drained,
    .forget = shm_forget,
    .bulk_cancel = coll__shm_bulk_cancel,
    .close = shm_close,
};
