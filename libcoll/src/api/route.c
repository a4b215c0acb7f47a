/* From a call to its schedule: the plan, the choice, the schedule, remembered for each communicator, since most
 * programs make the same few calls again and again. */
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "topo/topo.h"

enum { REMEMBERED = 32, SCHEDULES = 256 };

struct routes {
    coll__topo_t *topo;
    coll__sched_cache_t *cache;
    coll__route_t *remembered[REMEMBERED];
};

static void routes_free(void *api) {
    struct routes *routes = api;
    for (int i = 0; i < REMEMBERED; i++)
        if (routes->remembered[i])
            coll__route_release(routes->remembered[i]);
    coll__sched_cache_free(routes->cache);
    coll__topo_free(routes->topo);
    free(routes);
}

int coll__routes_create(coll_comm_t *comm) {
    struct routes *routes = calloc(1, sizeof *routes);
    int *labels = malloc((size_t)comm->size * sizeof *labels);
    int status = routes && labels ? 0 : coll__error(COLL_ERR_MEMORY, "out of memory for a communicator");
    for (int i = 0; labels && i < comm->size; i++)
        labels[i] = coll__world.node_label[comm->world[i]];
    if (status == 0)
        status = coll__topo_create(labels, comm->size, &routes->topo);
    if (status == 0 && !(routes->cache = coll__sched_cache_create(SCHEDULES)))
        status = coll__error(COLL_ERR_MEMORY, "out of memory for a communicator's schedules");
    if (status == 0 && !(comm->algo_calls = calloc(coll__algo_count(), sizeof *comm->algo_calls)))
        status = coll__error(COLL_ERR_MEMORY, "out of memory for a communicator's counters");
    free(labels);
    if (status < 0) {
        if (routes) {
            coll__topo_free(routes->topo);
            if (routes->cache)
                coll__sched_cache_free(routes->cache);
        }
        free(routes);
        return status;
    }
    comm->topo = routes->topo;
    comm->api = routes;
    comm->api_free = routes_free;
    return 0;
}

void coll__plan_fill(const coll_comm_t *comm, const coll__call_t *call, coll__plan_t *plan) {
    bool pairs = call->reduces && (call->op == COLL_MINLOC || call->op == COLL_MAXLOC);
    size_t element = coll_dtype_size(call->dtype);
    memset(plan, 0, sizeof *plan); /* plans are compared byte by byte */
    plan->operation = call->operation;
    plan->dtype = call->dtype;
    plan->op = call->op;
    plan->commutative = true;
    plan->rank = comm->rank;
    plan->size = comm->size;
    plan->root = call->root;
    plan->count = pairs ? call->count / 2 : call->count;
    plan->element = pairs ? 2 * element : element;
    plan->in_place = coll__call_in_place(call);
    plan->node = comm->channel != NULL;
    plan->arity = coll__world.engine->env.arity;
    plan->topo = comm->topo;
}

static unsigned slot_of(const coll__call_t *call, bool in_place) {
    uint64_t hash = call->count * UINT64_C(0x9e3779b97f4a7c15);
    hash ^= (uint64_t)call->operation << 8 ^ (uint64_t)call->dtype << 16 ^ (uint64_t)call->op << 24 ^
            (uint64_t)call->root << 32 ^ (uint64_t)in_place << 60;
    return (unsigned)((hash * UINT64_C(0xff51afd7ed558ccd)) >> 59) % REMEMBERED;
}

coll__route_t *coll__route_find(const coll_comm_t *comm, const coll__call_t *call) {
    const struct routes *routes = comm->api;
    bool in_place = coll__call_in_place(call);
    coll__route_t *route = routes->remembered[slot_of(call, in_place)];
    if (!route || route->count != call->count || route->plan.operation != call->operation ||
        route->plan.dtype != call->dtype || route->plan.op != call->op || route->plan.root != call->root ||
        route->plan.in_place != in_place)
        return NULL;
    route->refs++;
    return route;
}

int coll__route_make(coll__engine_t *engine, coll_comm_t *comm, const coll__call_t *call, coll__route_t **out) {
    struct routes *routes = comm->api;
    coll__plan_t plan;
    const coll__algo_t *algo;
    const coll__sched_t *sched;
    coll__plan_fill(comm, call, &plan);
    int status = coll__select(coll__world.rules, &plan, engine->env.deterministic, &algo, NULL, 0);
    if (status == 0)
        status = coll__sched_cache_get(routes->cache, algo->build, &plan, &sched);
    if (status < 0)
        return status;
    coll__route_t *route = malloc(sizeof *route);
    if (!route) {
        coll__sched_cache_release(routes->cache, sched);
        return coll__error(COLL_ERR_MEMORY, "out of memory for a schedule");
    }
    *route = (coll__route_t){.count = call->count,
                             .bytes = plan.count * plan.element,
                             .fingerprint =
                                 coll__fingerprint(call->operation, call->dtype, call->op, call->root, call->count),
                             .kernel = call->reduces ? coll__data_kernel(call->op, call->dtype) : NULL,
                             .has_result = call->operation != COLL_OP_REDUCE || comm->rank == call->root,
                             .algo = algo,
                             .algo_index = coll__algo_index(algo),
                             .sched = sched,
                             .cache = routes->cache,
                             .on_node = sched->step_count == 1 && sched->steps[0].kind == COLL__STEP_NODE,
                             .refs = 2}; /* the caller's, and that of the place where it is remembered */
    memcpy(&route->plan, &plan, sizeof plan);
    coll__route_t **slot = &routes->remembered[slot_of(call, plan.in_place)];
    if (*slot)
        coll__route_release(*slot);
    *slot = route;
    *out = route;
    return 0;
}

void coll__route_release(coll__route_t *route) {
    if (--route->refs)
        return;
    coll__sched_cache_release(route->cache, route->sched);
    free(route);
}
