/* The sim transport: the contract of transport.h over a simulated world, in virtual time.
 *
 * Data are copied when they are sent and belong to the receiver's inbox from then on, so a sender may go. Bulk data
 * are bound to the receive that waits for them when they are sent; data without one belong to a cancelled receive.
 */
#include "transport/sim/sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "base/error.h"
#include "transport/sim/world.h"
#include "transport/transport.h"

enum { FLIGHT_MAX = 256 /* packets on their way between two ranks */, EVENTS_A_POLL = 64 };

typedef struct receive {
    struct receive *prev, *next;
    int peer;
    uint32_t id;
    uint64_t number; /* in the whole world, from 1 */
    unsigned char *buffer;
    size_t bytes;
    void *cookie;
} receive_t;

typedef struct peer {
    int in_flight;
    bool refused; /* send() found the flight full since the last poll() */
    bool connected;
    bool gone;
} peer_t;

typedef struct sim {
    coll__transport_t base;
    coll__sim_world_t *world;
    int rank;
    int refused_count;
    int leaving; /* bulk sends whose end has not been told */
    receive_t *receives;
    peer_t peers[];
} sim_t;

static int sim_probe(const coll__env_t *env, char *why, size_t why_bytes, char *detail, size_t detail_bytes) {
    (void)env, (void)why, (void)why_bytes;
    snprintf(detail, detail_bytes, "LogGP, inside one process, for simulations");
    return 1;
}

extern const coll__transport_ops_t coll__transport_sim;

static int sim_open(const coll__transport_args_t *args, coll__transport_t **transport) {
    coll__sim_world_t *world = args->sim_world;
    if (!world || args->world_rank < 0 || args->world_rank >= world->size || world->rank[args->world_rank].end)
        return coll__error(COLL_ERR_STATE, "rank %d has no free place in a simulated world", args->world_rank);
    sim_t *sim = calloc(1, sizeof *sim + (size_t)world->size * sizeof sim->peers[0]);
    if (!sim)
        return coll__error(COLL_ERR_MEMORY, "out of memory for the sim transport");
    sim->base.ops = &coll__transport_sim;
    sim->base.sink = args->sink;
    sim->base.max_packet = args->max_packet;
    sim->world = world;
    sim->rank = args->world_rank;
    world->rank[sim->rank].end = sim;
    *transport = &sim->base;
    return 0;
}

static int sim_address(coll__transport_t *transport, coll__transport_address_t *address) {
    (void)transport;
    memset(address, 0, sizeof *address);
    snprintf(address->identity, sizeof address->identity, "sim");
    return 0;
}

static int sim_connect(coll__transport_t *transport, const int *peers, const coll__transport_address_t *addresses,
                       int count) {
    (void)addresses;
    sim_t *sim = (sim_t *)transport;
    for (int i = 0; i < count; i++) {
        if (peers[i] < 0 || peers[i] >= sim->world->size || peers[i] == sim->rank)
            return coll__error(COLL_ERR_TRANSPORT, "rank %d is not in the simulated world", peers[i]);
        sim->peers[peers[i]].connected = true;
    }
    return 0;
}

static int check_peer(const sim_t *sim, int peer) {
    if (peer < 0 || peer >= sim->world->size || !sim->peers[peer].connected)
        return coll__error(COLL_ERR_INTERNAL, "rank %d is not connected in the simulated world", peer);
    if (sim->peers[peer].gone) {
        int status = coll__error(COLL_ERR_RANK_FAILED, "rank %d is gone", peer);
        coll__error_add_ranks(&peer, 1);
        return status;
    }
    return 0;
}

static coll__sim_event_t *new_event(coll__sim_kind_t kind, int peer, size_t bytes) {
    coll__sim_event_t *event = malloc(sizeof *event + bytes);
    if (!event) {
        coll__error(COLL_ERR_MEMORY, "out of memory for a simulated message of %zu bytes", bytes);
        return NULL;
    }
    *event = (coll__sim_event_t){.kind = kind, .peer = peer, .bytes = bytes};
    return event;
}

static int sim_send(coll__transport_t *transport, int to, const void *header, size_t header_bytes, const void *payload,
                    size_t payload_bytes) {
    sim_t *sim = (sim_t *)transport;
    size_t bytes = header_bytes + payload_bytes;
    int status = check_peer(sim, to);
    if (status < 0)
        return status;
    if (bytes > transport->max_packet)
        return coll__error(COLL_ERR_INTERNAL, "a packet of %zu bytes, allowed are %zu", bytes, transport->max_packet);
    peer_t *peer = &sim->peers[to];
    if (peer->in_flight >= FLIGHT_MAX) {
        sim->refused_count += !peer->refused;
        peer->refused = true;
        transport->counters.again++;
        return COLL__AGAIN;
    }
    coll__sim_event_t *event = new_event(COLL__SIM_PACKET, sim->rank, bytes);
    if (!event)
        return COLL_ERR_MEMORY;
    if (header_bytes)
        memcpy(event->data, header, header_bytes);
    if (payload_bytes)
        memcpy(event->data + header_bytes, payload, payload_bytes);
    coll__sim_transmit(sim->world, sim->rank, to, event);
    peer->in_flight++;
    transport->counters.messages_sent++;
    transport->counters.bytes_sent += bytes;
    transport->counters.copied_bytes += bytes;
    return 0;
}

/* The number of the receive at `to` that waits for this data; 0: none. */
static uint64_t receive_number(const sim_t *sim, int to, uint32_t id, size_t bytes) {
    const sim_t *other = sim->world->rank[to].end;
    const receive_t *receive = NULL;
    if (other)
        DL_FOREACH(other->receives, receive) {
            if (receive->peer == sim->rank && receive->id == id && receive->bytes == bytes)
                break;
        }
    return receive ? receive->number : 0;
}

static int sim_bulk_send(coll__transport_t *transport, int to, uint32_t id, const void *buffer, size_t bytes,
                         void *cookie) {
    sim_t *sim = (sim_t *)transport;
    int status = check_peer(sim, to);
    if (status < 0)
        return status;
    coll__sim_event_t *data = new_event(COLL__SIM_BULK, sim->rank, bytes);
    coll__sim_event_t *sent = data ? new_event(COLL__SIM_SENT, to, 0) : NULL;
    if (!sent) {
        free(data);
        return COLL_ERR_MEMORY;
    }
    memcpy(data->data, buffer, bytes);
    data->transfer = receive_number(sim, to, id, bytes);
    sent->when = coll__sim_transmit(sim->world, sim->rank, to, data);
    sent->cookie = cookie;
    coll__sim_insert(sim->world, sim->rank, sent);
    sim->leaving++;
    transport->counters.bulk_sent++;
    transport->counters.bulk_bytes_sent += bytes;
    transport->counters.copied_bytes += bytes;
    return 0;
}

static int sim_bulk_recv(coll__transport_t *transport, int from, uint32_t id, void *buffer, size_t bytes,
                         void *cookie) {
    sim_t *sim = (sim_t *)transport;
    int status = check_peer(sim, from);
    if (status < 0)
        return status;
    receive_t *receive = malloc(sizeof *receive);
    if (!receive)
        return coll__error(COLL_ERR_MEMORY, "out of memory for a bulk transfer");
    *receive = (receive_t){
        .peer = from, .id = id, .number = ++sim->world->transfers, .buffer = buffer, .bytes = bytes, .cookie = cookie};
    DL_APPEND(sim->receives, receive);
    return 0;
}

static void drop_receive(sim_t *sim, receive_t *receive) {
    DL_DELETE(sim->receives, receive);
    free(receive);
}

static void deliver_packet(sim_t *sim, const coll__sim_event_t *event) {
    sim_t *sender = sim->world->rank[event->peer].end;
    if (sender)
        sender->peers[sim->rank].in_flight--;
    sim->base.counters.messages_received++;
    sim->base.counters.bytes_received += event->bytes;
    sim->base.sink.packet(sim->base.sink.context, event->peer, event->data, event->bytes);
}

static void deliver_bulk(sim_t *sim, const coll__sim_event_t *event) {
    receive_t *receive;
    DL_FOREACH(sim->receives, receive) {
        if (receive->number == event->transfer)
            break;
    }
    if (!receive)
        return;
    void *cookie = receive->cookie;
    memcpy(receive->buffer, event->data, event->bytes);
    drop_receive(sim, receive);
    sim->base.counters.bulk_received++;
    sim->base.counters.bulk_bytes_received += event->bytes;
    sim->base.counters.copied_bytes += event->bytes;
    sim->base.sink.bulk_done(sim->base.sink.context, cookie, 0);
}

static void look_at_refused(sim_t *sim) {
    for (int peer = 0; peer < sim->world->size && sim->refused_count > 0; peer++) {
        if (sim->peers[peer].refused) {
            sim->peers[peer].refused = false;
            sim->refused_count--;
        }
    }
}

static int sim_poll(coll__transport_t *transport) {
    sim_t *sim = (sim_t *)transport;
    int events = 0;
    look_at_refused(sim);
    while (events < EVENTS_A_POLL) {
        coll__sim_event_t *event = coll__sim_next(sim->world, sim->rank);
        if (!event)
            break;
        events++;
        if (event->kind == COLL__SIM_PACKET) {
            deliver_packet(sim, event);
        } else if (event->kind == COLL__SIM_BULK) {
            deliver_bulk(sim, event);
        } else {
            sim->leaving--;
            sim->base.sink.bulk_done(sim->base.sink.context, event->cookie, 0);
        }
        free(event);
    }
    return events;
}

static int sim_arm(coll__transport_t *transport) {
    const sim_t *sim = (sim_t *)transport;
    if (sim->world->rank[sim->rank].inbox)
        return COLL__AGAIN;
    for (int peer = 0; peer < sim->world->size && sim->refused_count > 0; peer++)
        if (sim->peers[peer].refused && sim->peers[peer].in_flight < FLIGHT_MAX)
            return COLL__AGAIN;
    return 0;
}

static int sim_fd(coll__transport_t *transport) {
    (void)transport;
    return -1; /* all ends are in this process: arm() sees what they have sent */
}

static int sim_drained(coll__transport_t *transport) {
    return ((sim_t *)transport)->leaving == 0;
}

/* The data have left, and stay on their way; only the sender's end of it is forgotten. */
static void drop_sent(sim_t *sim, coll__sim_event_t *event) {
    DL_DELETE(sim->world->rank[sim->rank].inbox, event);
    free(event);
    sim->leaving--;
}

static void sim_forget(coll__transport_t *transport, int peer) {
    sim_t *sim = (sim_t *)transport;
    if (peer < 0 || peer >= sim->world->size)
        return;
    sim->peers[peer].gone = true;
    sim->refused_count -= sim->peers[peer].refused;
    sim->peers[peer].refused = false;
    receive_t *receive, *next;
    DL_FOREACH_SAFE(sim->receives, receive, next) {
        if (receive->peer == peer)
            drop_receive(sim, receive);
    }
    coll__sim_event_t *event, *after;
    DL_FOREACH_SAFE(sim->world->rank[sim->rank].inbox, event, after) {
        if (event->kind == COLL__SIM_SENT && event->peer == peer)
            drop_sent(sim, event);
    }
}

static void sim_bulk_cancel(coll__transport_t *transport, void *cookie) {
    sim_t *sim = (sim_t *)transport;
    receive_t *receive, *next;
    DL_FOREACH_SAFE(sim->receives, receive, next) {
        if (receive->cookie == cookie)
            drop_receive(sim, receive);
    }
    coll__sim_event_t *event, *after;
    DL_FOREACH_SAFE(sim->world->rank[sim->rank].inbox, event, after) {
        if (event->kind == COLL__SIM_SENT && event->cookie == cookie)
            drop_sent(sim, event);
    }
}

static void sim_close(coll__transport_t *transport) {
    sim_t *sim = (sim_t *)transport;
    coll__sim_rank_t *place = &sim->world->rank[sim->rank];
    coll__sim_event_t *event, *next;
    DL_FOREACH_SAFE(place->inbox, event, next) {
        free(event);
    }
    place->inbox = NULL;
    place->end = NULL;
    while (sim->receives)
        drop_receive(sim, sim->receives);
    free(sim);
}

const coll__transport_ops_t coll__transport_sim = {
    .name = "sim",
    .probe = sim_probe,
    .open = sim_open,
    .address = sim_address,
    .connect = sim_connect,
    .send = sim_send,
    .bulk_send = sim_bulk_send,
    .bulk_recv = sim_bulk_recv,
    .poll = sim_poll,
    .arm = sim_arm,
    .fd = sim_fd,
    .drained = sim_drained,
    .forget = sim_forget,
    .bulk_cancel = sim_bulk_cancel,
    .close = sim_close,
};
