/* Communicators: made, found by id, closed. Closing is local; the memory goes when no request refers to it any more. */
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "engine/engine.h"

/* The place of a world rank among the node's ranks, -1: not on this node. */
static int local_rank_of(const coll__segment_t *segment, int world_rank) {
    for (int local = 0; local < segment->local_size; local++)
        if (segment->world_rank[local] == world_rank)
            return local;
    return -1;
}

/* A channel of the node's segment, if all members are on it. */
static int attach(coll__engine_t *engine, coll_comm_t *comm) {
    if (!engine->node || comm->size < 2)
        return 0;
    int *members = malloc((size_t)comm->size * sizeof *members);
    if (!members)
        return coll__error(COLL_ERR_MEMORY, "out of memory for a communicator of %d ranks", comm->size);
    bool here = true;
    for (int rank = 0; rank < comm->size && here; rank++)
        here = (members[rank] = local_rank_of(&engine->segment, comm->world[rank])) >= 0;
    int status =
        here ? coll__channel_attach(engine->node, comm->id, members, comm->size, comm->rank, &comm->channel) : 0;
    free(members);
    return status;
}

int coll__comm_create(coll__engine_t *engine, uint64_t id, const int *world, int size, int rank, coll_comm_t **comm) {
    coll_comm_t *made = calloc(1, sizeof *made);
    if (made) {
        made->world = malloc((size_t)size * sizeof *made->world);
        made->rank_of = malloc((size_t)engine->world_size * sizeof *made->rank_of);
    }
    if (!made || !made->world || !made->rank_of) {
        if (made)
            free(made->world);
        free(made);
        return coll__error(COLL_ERR_MEMORY, "out of memory for a communicator of %d ranks", size);
    }
    made->id = id;
    made->rank = rank;
    made->size = size;
    made->timeout = -1;
    made->sequence = 1;
    for (int i = 0; i < engine->world_size; i++)
        made->rank_of[i] = -1;
    for (int i = 0; i < size; i++) {
        made->world[i] = world[i];
        made->rank_of[world[i]] = i;
    }
    int status = attach(engine, made);
    if (status < 0) {
        free(made->world);
        free(made->rank_of);
        free(made);
        return status;
    }
    DL_APPEND(engine->comms, made);
    for (int i = 0; i < size; i++) {
        if (!engine->failed[world[i]])
            continue;
        coll__failure_dead(engine, world[i]);
        break;
    }
    coll__notice_adopt(engine, made);
    *comm = made;
    return 0;
}

static void destroy(coll__engine_t *engine, coll_comm_t *comm) {
    DL_DELETE(engine->comms, comm);
    if (engine->last_comm == comm)
        engine->last_comm = NULL;
    coll__p2p_purge(engine->p2p, comm->id, NULL);
    if (comm->mismatched)
        engine->mismatches--;
    coll__channel_detach(comm->channel);
    if (comm->api_free)
        comm->api_free(comm->api);
    coll__comm_posted_t *posted, *next;
    LL_FOREACH_SAFE(comm->posted, posted, next) {
        free(posted);
    }
    free(comm->reports);
    free(comm->error);
    free(comm->algo_calls);
    free(comm->rank_of);
    free(comm->world);
    free(comm);
}

void coll__comm_give_up_interrupted(coll__engine_t *engine, coll_comm_t *comm) {
    coll_request_t *request, *next;
    LL_FOREACH_SAFE2(comm->interrupted, request, next, interrupted_next) {
        coll__comm_uninterrupt(comm, request);
        if (request->state == COLL__REQUEST_ACTIVE)
            request->detached = true;
        else
            coll__request_put(engine, request);
    }
}

void coll__comm_close(coll__engine_t *engine, coll_comm_t *comm) {
    coll_request_t *request, *next;
    coll__comm_give_up_interrupted(engine, comm);
    /* What peers wait for goes on; a receive is this rank's alone, and might never end. */
    coll__error_info_t error = {
        .status = COLL_ERR_CLOSED, .sequence = -1, .message = "recv: the communicator was closed"};
    comm->handles++; /* stays until the last one has failed */
    DL_FOREACH_SAFE(comm->active, request, next) {
        if (request->receives)
            coll__request_fail(engine, request, &error);
    }
    comm->handles--;
    comm->freed = true;
    if (comm->state == COLL__COMM_OPEN)
        comm->state = COLL__COMM_CLOSED;
    coll__comm_release(engine, comm);
}

bool coll__comm_known(coll__engine_t *engine, const coll_comm_t *comm) {
    if (engine->last_comm != comm) {
        const coll_comm_t *known;
        DL_FOREACH(engine->comms, known) {
            if (known == comm)
                break;
        }
        if (!known)
            return false;
        engine->last_comm = known;
    }
    return !comm->freed;
}

void coll__comm_release(coll__engine_t *engine, coll_comm_t *comm) {
    if (comm->freed && comm->handles == 0)
        destroy(engine, comm);
}

void coll__comm_interrupt(coll_comm_t *comm, coll_request_t *request) {
    request->thread = pthread_self();
    LL_PREPEND2(comm->interrupted, request, interrupted_next);
}

coll_request_t *coll__comm_interrupted(const coll_comm_t *comm) {
    coll_request_t *request;
    LL_FOREACH2(comm->interrupted, request, interrupted_next) {
        if (pthread_equal(request->thread, pthread_self()))
            break;
    }
    return request;
}

void coll__comm_uninterrupt(coll_comm_t *comm, coll_request_t *request) {
    LL_DELETE2(comm->interrupted, request, interrupted_next);
}

coll_comm_t *coll__comm_find(coll__engine_t *engine, uint64_t id) {
    coll_comm_t *comm;
    DL_SEARCH_SCALAR(engine->comms, comm, id, id);
    return comm;
}

coll_request_t *coll__comm_request(const coll_comm_t *comm, uint64_t sequence) {
    coll_request_t *request;
    DL_SEARCH_SCALAR(comm->active, request, sequence, sequence);
    return request;
}
