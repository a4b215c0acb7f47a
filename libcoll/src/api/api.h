/* What the files of the public functions share: the process's state, checks at the door, and the road of every
 * collective. */
#ifndef COLL__API_H
#define COLL__API_H

#include "base/env.h"
#include "base/error.h"
#include "engine/engine.h"
#include "select/select.h"

/* The job this process is in; engine is NULL before coll_init() and after coll_finalize(). */
typedef struct coll__world {
    coll__engine_t *engine;
    coll_comm_t *comm;
    coll__rules_t *rules;
    int *node_label; /* [world size] equal for ranks of one node */
    bool forked;     /* this is a child of the process that initialised */
} coll__world_t;

extern coll__world_t coll__world;

/* The door: the engine, locked, for a live communicator. COLL_ERR_STATE, COLL_ERR_ARG or COLL_ERR_CLOSED with
 * `operation` in the message, and nothing locked, otherwise. */
int coll__enter(const coll_comm_t *comm, const char *operation, coll__engine_t **engine);

/* A thread that left a blocking call of the communicator to look at signals cannot make another one before that has
 * ended. */
int coll__check_not_interrupted(const coll_comm_t *comm, const char *operation);

int coll__opts_apply(const coll_init_opts_t *opts, coll__env_t *env); /* into `env`, checked */

/* One call of a collective. */
typedef struct coll__call {
    coll_operation_t operation;
    const void *send; /* NULL where the operation has none */
    void *recv;
    size_t count;
    coll_dtype_t dtype;
    coll_op_t op;
    int root;
    bool reduces, has_root;
} coll__call_t;

int coll__call_blocking(const coll__call_t *call, coll_comm_t *comm);
int coll__call_start(const coll__call_t *call, coll_comm_t *comm, coll_request_t **request);
int coll__call_persistent(const coll__call_t *call, coll_comm_t *comm, coll_request_t **request);

static inline bool coll__call_in_place(const coll__call_t *call) {
    return call->send == COLL_IN_PLACE || (call->send && call->send == call->recv);
}

/* What a communicator remembers of a call that it has checked before (route.c): its algorithm and schedule, and
 * whatever else depends on everything but the buffers. */
typedef struct coll__route {
    coll__plan_t plan;
    size_t count; /* as called: the plan's is in pairs for MINLOC and MAXLOC */
    size_t bytes;
    uint64_t fingerprint;
    coll__kernel_t kernel; /* NULL where nothing is reduced */
    bool has_result;       /* this rank gets the result */
    const coll__algo_t *algo;
    size_t algo_index;
    const coll__sched_t *sched;
    coll__sched_cache_t *cache;
    bool on_node; /* the schedule is one NODE step */
    int refs;
} coll__route_t;

int coll__routes_create(coll_comm_t *comm); /* topology, cache; hangs off comm->api */
void coll__plan_fill(const coll_comm_t *comm, const coll__call_t *call, coll__plan_t *plan);
/* Both give a reference. find: NULL if no such call was made lately. make: for a call that is checked. */
coll__route_t *coll__route_find(const coll_comm_t *comm, const coll__call_t *call);
int coll__route_make(coll__engine_t *engine, coll_comm_t *comm, const coll__call_t *call, coll__route_t **route);
void coll__route_release(coll__route_t *route);

int coll__comm_make(coll__engine_t *engine, uint64_t id, const int *world, int size, int rank, coll_comm_t **comm);
double coll__comm_timeout(const coll__engine_t *engine, const coll_comm_t *comm);

#endif
