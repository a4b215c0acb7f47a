/* Clocks and inboxes, as world.h describes. */
#include "transport/sim/world.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "base/error.h"

coll__sim_world_t *coll__sim_world_create(int size, const int *node_of, coll__sim_link_t inside,
                                          coll__sim_link_t between) {
    coll__sim_world_t *world = calloc(1, sizeof *world + (size_t)size * sizeof world->rank[0]);
    int *nodes = node_of ? malloc((size_t)size * sizeof *nodes) : NULL;
    if (!world || (node_of && !nodes)) {
        free(world);
        free(nodes);
        coll__error(COLL_ERR_MEMORY, "out of memory for a simulated world of %d ranks", size);
        return NULL;
    }
    if (nodes)
        memcpy(nodes, node_of, (size_t)size * sizeof *nodes);
    world->size = size;
    world->node_of = nodes;
    world->link[0] = inside;
    world->link[1] = between;
    world->least = fmin(inside.overhead_ns + inside.latency_ns, between.overhead_ns + between.latency_ns);
    return world;
}

void coll__sim_world_free(coll__sim_world_t *world) {
    for (int rank = 0; rank < world->size; rank++) {
        coll__sim_event_t *event, *next;
        DL_FOREACH_SAFE(world->rank[rank].inbox, event, next) {
            free(event);
        }
    }
    free(world->node_of);
    free(world);
}

double coll__sim_now(const coll__sim_world_t *world, int rank) {
    return world->rank[rank].now;
}

void coll__sim_traffic(const coll__sim_world_t *world, int between_nodes, uint64_t *messages, uint64_t *bytes) {
    *messages = world->messages[between_nodes != 0];
    *bytes = world->bytes[between_nodes != 0];
}

/* Events come almost in order of time: the place is looked for from the end. Equal times keep the order of insertion.
 */
void coll__sim_insert(coll__sim_world_t *world, int rank, coll__sim_event_t *event) {
    coll__sim_event_t **inbox = &world->rank[rank].inbox;
    coll__sim_event_t *before = *inbox ? (*inbox)->prev : NULL;
    while (before && before->when > event->when)
        before = before == *inbox ? NULL : before->prev;
    if (before)
        DL_APPEND_ELEM(*inbox, before, event);
    else
        DL_PREPEND(*inbox, event);
}

double coll__sim_transmit(coll__sim_world_t *world, int from, int to, coll__sim_event_t *event) {
    int class = coll__sim_class(world, from, to);
    const coll__sim_link_t *link = &world->link[class];
    coll__sim_rank_t *sender = &world->rank[from];

    sender->now += link->overhead_ns;
    double rest = event->bytes > 1 ? (double)(event->bytes - 1) * link->gap_per_byte_ns : 0;
    double left = fmax(sender->now, sender->port_free[class]) + rest;
    sender->port_free[class] = left + link->gap_ns;
    event->when = left + link->latency_ns;
    coll__sim_insert(world, to, event);

    sender->waiting = false;
    world->quiet = 0;
    world->messages[class]++;
    world->bytes[class] += event->bytes;
    return left;
}

/* Can nothing arrive at `rank` before `when` that is not on its way yet? A waiting rank acts on its next event only; a
 * rank that nobody polls while all that are polled wait does not act at all. */
static bool settled(const coll__sim_world_t *world, int rank, double when) {
    uint64_t rounds = 2 * (uint64_t)world->size;
    for (int other = 0; other < world->size; other++) {
        const coll__sim_rank_t *state = &world->rank[other];
        if (other == rank || !state->end)
            continue;
        if (world->quiet > rounds && world->polls - state->polled > rounds)
            continue;
        double acts = state->now;
        if (state->waiting)
            acts = state->inbox ? fmax(acts, state->inbox->when) : INFINITY;
        if (acts + world->least < when)
            return false;
    }
    return true;
}

coll__sim_event_t *coll__sim_next(coll__sim_world_t *world, int rank) {
    coll__sim_rank_t *state = &world->rank[rank];
    coll__sim_event_t *event = state->inbox;
    state->polled = ++world->polls;
    if (!event || (event->when > state->now && !settled(world, rank, event->when))) {
        state->waiting = true;
        world->quiet++;
        return NULL;
    }
    DL_DELETE(state->inbox, event);
    state->now = fmax(state->now, event->when);
    if (event->kind != COLL__SIM_SENT)
        state->now += world->link[coll__sim_class(world, rank, event->peer)].overhead_ns;
    state->waiting = false;
    world->quiet = 0;
    return event;
}
