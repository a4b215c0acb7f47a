/* The simulated network behind sim.h: the clocks of the ranks and what is on its way to each of them.
 *
 * A message of k bytes, sent at the sender's time t, occupies its processor for o, then its port of that link class as
 * soon as that is free, for (k-1)G and a gap of g before the next message; L later it has arrived, and the receiver
 * spends o more. Sent by an idle rank to a waiting one it takes L + 2o + (k-1)G.
 *
 * A rank's clock moves when it sends and when it receives. A message that lies in a waiting rank's future may be
 * delivered once no other rank can still send it something that arrives earlier: this is asked of clocks alone, with
 * one overhead and one latency as the least time from another rank's clock to an arrival here. So the order of
 * deliveries, and every time, is a function of what the ranks do and not of how they are polled.
 */
#ifndef COLL__SIM_WORLD_H
#define COLL__SIM_WORLD_H

#include <stdbool.h>
#include <stddef.h>

#include "transport/sim/sim.h"

typedef enum coll__sim_kind {
    COLL__SIM_PACKET,
    COLL__SIM_BULK, /* bulk data, in one message */
    COLL__SIM_SENT  /* to the sender itself: its bulk data has left */
} coll__sim_kind_t;

typedef struct coll__sim_event {
    struct coll__sim_event *prev, *next;
    double when;
    coll__sim_kind_t kind;
    int peer;          /* BULK and PACKET: where it is from; SENT: where it went */
    uint64_t transfer; /* BULK: the receive it is for, 0: none */
    void *cookie;      /* SENT */
    size_t bytes;
    _Alignas(8) unsigned char data[];
} coll__sim_event_t;

typedef struct coll__sim_rank {
    double now;
    double port_free[2];      /* inside and between nodes: when the next message may leave */
    bool waiting;             /* polled and found nothing, and has not sent since */
    uint64_t polled;          /* world->polls when it was polled last */
    void *end;                /* its open transport, or NULL */
    coll__sim_event_t *inbox; /* earliest first */
} coll__sim_rank_t;

struct coll__sim_world {
    int size;
    int *node_of; /* NULL: each rank is a node */
    coll__sim_link_t link[2];
    uint64_t messages[2], bytes[2];
    uint64_t transfers; /* receives of bulk data so far: their numbers */
    uint64_t polls;     /* looks for a next event so far */
    uint64_t quiet;     /* of those, the last ones in a row that found none while nothing was sent */
    double least;       /* from one rank's clock to an arrival at another */
    coll__sim_rank_t rank[];
};

static inline int coll__sim_class(const coll__sim_world_t *world, int a, int b) {
    return !world->node_of || world->node_of[a] != world->node_of[b];
}

/* Charges the sender and puts the event, filled but for `when`, into the inbox of `to`. Returns when it left. */
double coll__sim_transmit(coll__sim_world_t *world, int from, int to, coll__sim_event_t *event);

void coll__sim_insert(coll__sim_world_t *world, int rank, coll__sim_event_t *event);

/* Takes the next event of a rank that polls and moves its clock; NULL if none can be delivered yet. */
coll__sim_event_t *coll__sim_next(coll__sim_world_t *world, int rank);

#endif
