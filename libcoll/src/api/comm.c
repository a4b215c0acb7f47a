/* Communicators as callers hold them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "topo/topo.h"

double coll__comm_timeout(const coll__engine_t *engine, const coll_comm_t *comm) {
    return comm->timeout >= 0 ? comm->timeout : engine->env.timeout;
}

int coll__comm_make(coll__engine_t *engine, uint64_t id, const int *world, int size, int rank, coll_comm_t **comm) {
    int status = coll__comm_create(engine, id, world, size, rank, comm);
    if (status < 0)
        return status;
    status = coll__routes_create(*comm);
    if (status < 0) {
        coll__comm_close(engine, *comm);
        *comm = NULL;
    }
    return status;
}

/* ---- asking ---- */

enum question { RANK, SIZE, LOCAL_RANK, LOCAL_SIZE, NODES };

static int ask(const coll_comm_t *comm, enum question question, const char *name) {
    coll__engine_t *engine;
    int answer = coll__enter(comm, name, &engine);
    if (answer < 0)
        return answer;
    const coll__topo_t *topo = comm->topo;
    int node = topo->node_of[comm->rank];
    switch (question) {
    case RANK:
        answer = comm->rank;
        break;
    case SIZE:
        answer = comm->size;
        break;
    case LOCAL_RANK:
        answer = topo->local_of[comm->rank];
        break;
    case LOCAL_SIZE:
        answer = topo->node_size[node];
        break;
    case NODES:
        answer = topo->node_count;
        break;
    }
    coll__engine_unlock(engine);
    return answer;
}

int coll_comm_rank(const coll_comm_t *comm) {
    return ask(comm, RANK, "comm_rank");
}

int coll_comm_size(const coll_comm_t *comm) {
    return ask(comm, SIZE, "comm_size");
}

int coll_comm_local_rank(const coll_comm_t *comm) {
    return ask(comm, LOCAL_RANK, "comm_local_rank");
}

int coll_comm_local_size(const coll_comm_t *comm) {
    return ask(comm, LOCAL_SIZE, "comm_local_size");
}

int coll_comm_node_count(const coll_comm_t *comm) {
    return ask(comm, NODES, "comm_node_count");
}

int coll_comm_world_rank(const coll_comm_t *comm, int rank) {
    coll__engine_t *engine;
    int answer = coll__enter(comm, "comm_world_rank", &engine);
    if (answer < 0)
        return answer;
    answer = rank >= 0 && rank < comm->size
                 ? comm->world[rank]
                 : coll__error(COLL_ERR_ARG, "comm_world_rank: rank is %d, allowed are 0 to %d", rank, comm->size - 1);
    coll__engine_unlock(engine);
    return answer;
}

int coll_comm_set_timeout(coll_comm_t *comm, double seconds) {
    coll__engine_t *engine;
    int status = coll__enter(comm, "comm_set_timeout", &engine);
    if (status < 0)
        return status;
    comm->timeout = seconds < 0 ? -1 : seconds;
    coll__engine_unlock(engine);
    return 0;
}

double coll_comm_timeout(const coll_comm_t *comm) {
    coll__engine_t *engine;
    int status = coll__enter(comm, "comm_timeout", &engine);
    if (status < 0)
        return status;
    double seconds = coll__comm_timeout(engine, comm);
    coll__engine_unlock(engine);
    return seconds;
}

/* ---- making ---- */

/* The same on every member without a word: from the parent's id, how many communicators it has made, and the color. */
static uint64_t child_id(coll_comm_t *parent, int color) {
    uint64_t id = parent->id * UINT64_C(0x9e3779b97f4a7c15) + ++parent->split_count;
    id = (id ^ id >> 29) * UINT64_C(0xbf58476d1ce4e5b9) + (uint32_t)color;
    id = (id ^ id >> 32) * UINT64_C(0x94d049bb133111eb);
    return (id ^ id >> 31) | UINT64_C(1) << 63; /* never the world's */
}

struct member {
    int key, rank;
};

static int by_key(const void *a, const void *b) {
    const struct member *left = a, *right = b;
    if (left->key != right->key)
        return left->key < right->key ? -1 : 1;
    return left->rank - right->rank;
}

/* [locked] colors_keys has a color and a key for each rank. */
static int split(coll__engine_t *engine, coll_comm_t *comm, const int *colors_keys, coll_comm_t **out) {
    int color = colors_keys[2 * comm->rank], count = 0, rank = 0;
    uint64_t id = child_id(comm, color);
    if (color == COLL_UNDEFINED)
        return 0;
    struct member *members = malloc((size_t)comm->size * sizeof *members);
    int *world = malloc((size_t)comm->size * sizeof *world);
    int status =
        members && world ? 0 : coll__error(COLL_ERR_MEMORY, "out of memory for a split of %d ranks", comm->size);
    for (int i = 0; status == 0 && i < comm->size; i++)
        if (colors_keys[2 * i] == color)
            members[count++] = (struct member){colors_keys[2 * i + 1], i};
    if (status == 0) {
        qsort(members, (size_t)count, sizeof *members, by_key);
        for (int i = 0; i < count; i++) {
            world[i] = comm->world[members[i].rank];
            if (members[i].rank == comm->rank)
                rank = i;
        }
        status = coll__comm_make(engine, id, world, count, rank, out);
        if (status == 0)
            (*out)->timeout = comm->timeout;
    }
    free(members);
    free(world);
    return status;
}

static int enter_to_make(coll_comm_t *comm, coll_comm_t **out, const char *name, coll__engine_t **engine) {
    if (!out)
        return coll__error(COLL_ERR_ARG, "%s: out is NULL", name);
    *out = NULL;
    int status = coll__enter(comm, name, engine);
    if (status < 0)
        return status;
    status = coll__failure_usable(comm, name);
    if (status < 0)
        coll__engine_unlock(*engine);
    return status;
}

int coll_comm_split_local(coll_comm_t *comm, const int *colors_keys, coll_comm_t **out) {
    coll__engine_t *engine;
    if (!colors_keys)
        return coll__error(COLL_ERR_ARG, "split: colors_keys is NULL");
    int status = enter_to_make(comm, out, "split", &engine);
    if (status < 0)
        return status;
    status = split(engine, comm, colors_keys, out);
    coll__engine_unlock(engine);
    return status;
}

int coll_comm_split(coll_comm_t *comm, int color, int key, coll_comm_t **out) {
    if (!out)
        return coll__error(COLL_ERR_ARG, "split: out is NULL");
    *out = NULL;
    int size = coll_comm_size(comm);
    if (size < 0)
        return size;
    int mine[2] = {color, key};
    int *all = malloc((size_t)size * sizeof mine);
    if (!all)
        return coll__error(COLL_ERR_MEMORY, "out of memory for a split of %d ranks", size);
    int status = coll_allgather(mine, all, 2, COLL_INT32, comm);
    while (status == COLL_ERR_INTERRUPTED)
        status = coll_resume(comm);
    if (status == 0)
        status = coll_comm_split_local(comm, all, out);
    free(all);
    return status;
}

/* A communicator of those with the same label, in the same order; needs no messages. */
static int make_by_label(coll_comm_t *comm, const int *label, const char *name, coll_comm_t **out) {
    coll__engine_t *engine;
    int status = enter_to_make(comm, out, name, &engine);
    if (status < 0)
        return status;
    int *colors_keys = malloc((size_t)comm->size * 2 * sizeof *colors_keys);
    if (colors_keys) {
        for (int i = 0; i < comm->size; i++) {
            colors_keys[2 * i] = label ? label[i] : 0;
            colors_keys[2 * i + 1] = i;
        }
        status = split(engine, comm, colors_keys, out);
    } else {
        status = coll__error(COLL_ERR_MEMORY, "out of memory for a communicator of %d ranks", comm->size);
    }
    free(colors_keys);
    coll__engine_unlock(engine);
    return status;
}

int coll_comm_dup(coll_comm_t *comm, coll_comm_t **out) {
    return make_by_label(comm, NULL, "dup", out);
}

int coll_comm_node(coll_comm_t *comm, coll_comm_t **out) {
    coll__engine_t *engine;
    int status = coll__enter(comm, "comm_node", &engine);
    if (status < 0)
        return status;
    const int *label = comm->topo->node_of;
    coll__engine_unlock(engine);
    return make_by_label(comm, label, "comm_node", out);
}

int coll_comm_free(coll_comm_t *comm) {
    coll__engine_t *engine;
    int status = coll__enter(comm, "comm_free", &engine);
    if (status < 0)
        return status;
    if (comm == coll__world.comm)
        status = coll__error(COLL_ERR_ARG, "comm_free: the world communicator ends with coll_finalize()");
    else
        coll__comm_close(engine, comm);
    coll__engine_unlock(engine);
    return status;
}

int coll_comm_abort(coll_comm_t *comm, const char *message, int code) {
    coll__engine_t *engine;
    int status = coll__enter(comm, "comm_abort", &engine);
    if (status < 0)
        return status;
    char text[900];
    snprintf(text, sizeof text, "%s (exit code %d)", message ? message : "no reason given", code);
    coll__notice_abort(engine, text);
    coll__engine_unlock(engine);
    return 0;
}
