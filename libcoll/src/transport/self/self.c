/* The self transport: messages of a process to itself.
 *
 * Packets are copied into a byte queue and delivered from there by poll(), never by send(): the layers above see one
 * behaviour whoever the peer is. Records are an 8-byte length and the packet, rounded up to 8; one that would cross the
 * end of the queue starts at its beginning, after a mark. Bulk data is one memcpy, made by poll() when both buffers are
 * known.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "base/error.h"
#include "transport/transport.h"

enum { QUEUE_MIN = 64 * 1024, QUEUE_PACKETS = 4, WORD = 8, BULK_A_POLL = 16 };

static const uint64_t TO_START = UINT64_MAX; /* a length: the rest of the queue is not used */

typedef struct transfer {
    struct transfer *prev, *next;
    unsigned char *buffer;
    size_t bytes;
    uint32_t id;
    bool copied; /* of a send: the receive has its data */
    void *cookie;
} transfer_t;

typedef struct self {
    coll__transport_t base;
    int rank;
    unsigned char *queue;
    size_t capacity;
    uint64_t head, tail; /* bytes written and read so far */
    bool refused;        /* send() found no room since the last poll() */
    bool gone;
    transfer_t *sends, *receives;
} self_t;

static int self_probe(const coll__env_t *env, char *why, size_t why_bytes, char *detail, size_t detail_bytes) {
    (void)env, (void)why, (void)why_bytes;
    snprintf(detail, detail_bytes, "always available");
    return 1;
}

static void drop_all(transfer_t **list) {
    while (*list) {
        transfer_t *transfer = *list;
        DL_DELETE(*list, transfer);
        free(transfer);
    }
}

static void self_close(coll__transport_t *transport) {
    self_t *self = (self_t *)transport;
    drop_all(&self->sends);
    drop_all(&self->receives);
    free(self->queue);
    free(self);
}

extern const coll__transport_ops_t coll__transport_self;

static int self_open(const coll__transport_args_t *args, coll__transport_t **transport) {
    self_t *self = calloc(1, sizeof *self);
    if (self) {
        size_t wanted = QUEUE_PACKETS * (args->max_packet + WORD);
        self->capacity = ((wanted > QUEUE_MIN ? wanted : QUEUE_MIN) + WORD - 1) / WORD * WORD;
        self->queue = malloc(self->capacity);
    }
    if (!self || !self->queue) {
        free(self);
        return coll__error(COLL_ERR_MEMORY, "out of memory for the self transport");
    }
    self->base.ops = &coll__transport_self;
    self->base.sink = args->sink;
    self->base.max_packet = args->max_packet;
    self->rank = args->world_rank;
    *transport = &self->base;
    return 0;
}

static int self_address(coll__transport_t *transport, coll__transport_address_t *address) {
    (void)transport;
    memset(address, 0, sizeof *address);
    snprintf(address->identity, sizeof address->identity, "self");
    return 0;
}

static int check_peer(const self_t *self, int peer) {
    if (peer != self->rank)
        return coll__error(COLL_ERR_INTERNAL, "rank %d asked the self transport to reach rank %d", self->rank, peer);
    if (self->gone) {
        int status = coll__error(COLL_ERR_RANK_FAILED, "rank %d is gone", peer);
        coll__error_add_ranks(&peer, 1);
        return status;
    }
    return 0;
}

static int self_connect(coll__transport_t *transport, const int *peers, const coll__transport_address_t *addresses,
                        int count) {
    (void)addresses;
    int status = 0;
    for (int i = 0; i < count && status == 0; i++)
        status = check_peer((self_t *)transport, peers[i]);
    return status;
}

/* Where a record of that many bytes goes, with the mark before it if it must go to the start; NULL: no room. */
static unsigned char *reserve(self_t *self, size_t record) {
    size_t at = self->head % self->capacity, to_end = self->capacity - at;
    size_t skipped = record > to_end ? to_end : 0;
    if (self->head - self->tail + skipped + record > self->capacity)
        return NULL;
    if (skipped) {
        memcpy(self->queue + at, &TO_START, WORD);
        self->head += skipped;
    }
    unsigned char *place = self->queue + self->head % self->capacity;
    self->head += record;
    return place;
}

static size_t record_bytes(uint64_t packet_bytes) {
    return WORD + (size_t)(packet_bytes + WORD - 1) / WORD * WORD;
}

static int self_send(coll__transport_t *transport, int peer, const void *header, size_t header_bytes,
                     const void *payload, size_t payload_bytes) {
    self_t *self = (self_t *)transport;
    uint64_t bytes = header_bytes + payload_bytes;
    int status = check_peer(self, peer);
    if (status < 0)
        return status;
    if (bytes > transport->max_packet)
        return coll__error(COLL_ERR_INTERNAL, "a packet of %zu bytes, allowed are %zu", (size_t)bytes,
                           transport->max_packet);
    unsigned char *place = reserve(self, record_bytes(bytes));
    if (!place) {
        self->refused = true;
        transport->counters.again++;
        return COLL__AGAIN;
    }
    memcpy(place, &bytes, WORD);
    if (header_bytes)
        memcpy(place + WORD, header, header_bytes);
    if (payload_bytes)
        memcpy(place + WORD + header_bytes, payload, payload_bytes);
    transport->counters.messages_sent++;
    transport->counters.bytes_sent += bytes;
    transport->counters.copied_bytes += bytes;
    return 0;
}

static int add(self_t *self, int peer, transfer_t **list, uint32_t id, void *buffer, size_t bytes, void *cookie) {
    int status = check_peer(self, peer);
    if (status < 0)
        return status;
    transfer_t *transfer = malloc(sizeof *transfer);
    if (!transfer)
        return coll__error(COLL_ERR_MEMORY, "out of memory for a bulk transfer");
    *transfer = (transfer_t){.buffer = buffer, .bytes = bytes, .id = id, .cookie = cookie};
    DL_APPEND(*list, transfer);
    return 0;
}

static int self_bulk_send(coll__transport_t *transport, int peer, uint32_t id, const void *buffer, size_t bytes,
                          void *cookie) {
    self_t *self = (self_t *)transport;
    return add(self, peer, &self->sends, id, (void *)buffer, bytes, cookie);
}

static int self_bulk_recv(coll__transport_t *transport, int peer, uint32_t id, void *buffer, size_t bytes,
                          void *cookie) {
    self_t *self = (self_t *)transport;
    return add(self, peer, &self->receives, id, buffer, bytes, cookie);
}

/* Delivers what was there when it was called: a callback that answers each packet with another cannot hold it. */
static int deliver_packets(self_t *self) {
    int events = 0;
    for (uint64_t end = self->head; self->tail < end;) {
        size_t at = self->tail % self->capacity;
        uint64_t bytes;
        memcpy(&bytes, self->queue + at, WORD);
        if (bytes == TO_START) {
            self->tail += self->capacity - at;
            continue;
        }
        self->base.counters.messages_received++;
        self->base.counters.bytes_received += bytes;
        self->base.sink.packet(self->base.sink.context, self->rank, self->queue + at + WORD, (size_t)bytes);
        self->tail += record_bytes(bytes);
        events++;
    }
    return events;
}

/* The first send moves one step: its data to the receive, who is told; then its own end. The receive was given before
 * its send, so a send without one belongs to a receive that was cancelled. */
static void advance_first_send(self_t *self) {
    transfer_t *send = self->sends, *receive = NULL;
    if (!send->copied)
        DL_FOREACH(self->receives, receive) {
            if (receive->id == send->id && receive->bytes == send->bytes)
                break;
        }
    void *cookie;
    if (receive) {
        memcpy(receive->buffer, send->buffer, send->bytes);
        send->copied = true;
        cookie = receive->cookie;
        self->base.counters.copied_bytes += send->bytes;
        self->base.counters.bulk_received++;
        self->base.counters.bulk_bytes_received += send->bytes;
        DL_DELETE(self->receives, receive);
        free(receive);
    } else {
        cookie = send->cookie;
        self->base.counters.bulk_sent++;
        self->base.counters.bulk_bytes_sent += send->bytes;
        DL_DELETE(self->sends, send);
        free(send);
    }
    self->base.sink.bulk_done(self->base.sink.context, cookie, 0);
}

static int self_poll(coll__transport_t *transport) {
    self_t *self = (self_t *)transport;
    self->refused = false;
    int events = deliver_packets(self);
    for (int i = 0; i < BULK_A_POLL && self->sends; i++, events++)
        advance_first_send(self);
    return events;
}

static int self_drained(coll__transport_t *transport) {
    const self_t *self = (self_t *)transport;
    return self->head == self->tail && !self->sends;
}

static int self_arm(coll__transport_t *transport) {
    return self_drained(transport) && !((self_t *)transport)->refused ? 0 : COLL__AGAIN;
}

static int self_fd(coll__transport_t *transport) {
    (void)transport;
    return -1; /* nobody else sends: what is there, arm() has seen */
}

static void self_forget(coll__transport_t *transport, int peer) {
    self_t *self = (self_t *)transport;
    if (peer != self->rank)
        return;
    self->gone = true;
    drop_all(&self->sends);
    drop_all(&self->receives);
}

static void cancel_in(transfer_t **list, const void *cookie) {
    transfer_t *transfer, *next;
    DL_FOREACH_SAFE(*list, transfer, next) {
        if (transfer->cookie == cookie) {
            DL_DELETE(*list, transfer);
            free(transfer);
        }
    }
}

static void self_bulk_cancel(coll__transport_t *transport, void *cookie) {
    self_t *self = (self_t *)transport;
    cancel_in(&self->sends, cookie);
    cancel_in(&self->receives, cookie);
}

const coll__transport_ops_t coll__transport_self = {
    .name = "self",
    .probe = self_probe,
    .open = self_open,
    .address = self_address,
    .connect = self_connect,
    .send = self_send,
    .bulk_send = self_bulk_send,
    .bulk_recv = self_bulk_recv,
    .poll = self_poll,
    .arm = self_arm,
    .fd = self_fd,
    .drained = self_drained,
    .forget = self_forget,
    .bulk_cancel = self_bulk_cancel,
    .close = self_close,
};
