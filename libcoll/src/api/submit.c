/* The road of every collective call: checked, planned, given a schedule and a request, started, and (blocking) waited
 * for. */
#include <string.h>

#include "api/api.h"

int coll__enter(const coll_comm_t *comm, const char *operation, coll__engine_t **engine) {
    if (coll__world.forked)
        return coll__error(COLL_ERR_STATE,
                           "%s: this process is a fork of the one that called coll_init(); only that one may use it",
                           operation);
    if (!coll__world.engine)
        return coll__error(COLL_ERR_CLOSED, "%s: the library is not initialised or was finalized", operation);
    if (!comm)
        return coll__error(COLL_ERR_ARG, "%s: comm is NULL", operation);
    coll__engine_lock(coll__world.engine);
    if (coll__world.engine->closing || !coll__comm_known(coll__world.engine, comm)) {
        coll__engine_unlock(coll__world.engine);
        return coll__error(COLL_ERR_CLOSED, "%s: the communicator is closed", operation);
    }
    *engine = coll__world.engine;
    return 0;
}

int coll__check_not_interrupted(const coll_comm_t *comm, const char *operation) {
    if (!comm->interrupted || !coll__comm_interrupted(comm))
        return 0;
    return coll__error(COLL_ERR_STATE,
                       "%s: an interrupted call on this communicator must be resumed or abandoned first", operation);
}

static int check(const coll__call_t *call, const coll_comm_t *comm) {
    const char *name = coll_operation_name(call->operation);
    size_t element = coll_dtype_size(call->dtype);
    if (call->operation == COLL_OP_BARRIER)
        return 0;
    if (element == 0)
        return coll__error(COLL_ERR_ARG, "%s: dtype is %d, allowed are 0 to %d", name, (int)call->dtype,
                           COLL_DTYPE_COUNT - 1);
    if (call->has_root && (call->root < 0 || call->root >= comm->size))
        return coll__error(COLL_ERR_ARG, "%s: root is %d, allowed are 0 to %d", name, call->root, comm->size - 1);
    if (call->reduces) {
        int status = coll__data_check(call->op, call->dtype, call->count);
        if (status < 0)
            return status;
    }
    size_t blocks = call->operation == COLL_OP_ALLGATHER ? (size_t)comm->size : 1;
    if (call->count > PTRDIFF_MAX / element / blocks)
        return coll__error(COLL_ERR_ARG, "%s: count is %zu, which is more bytes than memory can have", name,
                           call->count);
    return 0;
}

/* What a remembered route says nothing about. */
static int check_buffers(const coll__call_t *call, const coll_comm_t *comm) {
    const char *name = coll_operation_name(call->operation);
    bool receives = call->operation != COLL_OP_REDUCE || comm->rank == call->root;
    bool sends = call->operation != COLL_OP_BROADCAST;
    if (call->count && receives && !call->recv)
        return coll__error(COLL_ERR_ARG, sends ? "%s: recv is NULL" : "%s: buffer is NULL", name);
    if (call->count && sends && !call->send)
        return coll__error(COLL_ERR_ARG, "%s: send is NULL", name);
    if (sends && call->send == COLL_IN_PLACE && !receives)
        return coll__error(COLL_ERR_ARG, "%s: COLL_IN_PLACE is for the root only, this rank's input is `send`", name);
    return 0;
}

static void on_free(coll_request_t *request) {
    coll__route_release((coll__route_t *)request->route);
}

static size_t place_of(const coll__call_t *call, const coll_comm_t *comm) {
    return call->operation == COLL_OP_ALLGATHER ? (size_t)comm->rank * call->count * coll_dtype_size(call->dtype) : 0;
}

static const void *input_of(const coll__call_t *call, const coll_comm_t *comm, bool in_place) {
    if (!in_place)
        return call->send;
    return call->recv ? (char *)call->recv + place_of(call, comm) : NULL;
}

/* A request on a route, whose reference it takes over. [locked] */
static int prepare(coll__engine_t *engine, const coll__call_t *call, coll_comm_t *comm, coll__route_t *route,
                   coll_request_t **out) {
    coll_request_t *request = coll__request_get(engine, comm);
    if (!request) {
        coll__route_release(route);
        return COLL_ERR_MEMORY;
    }
    request->route = route;
    request->on_free = on_free;
    int status = coll__request_reserve(request, route->sched);
    if (status < 0) {
        coll__request_put(engine, request);
        return status;
    }
    request->operation = call->operation;
    request->fingerprint = route->fingerprint;
    request->sched = route->sched;
    request->algo_name = route->algo->name;
    request->algo_index = route->algo_index;
    request->call_dtype = call->dtype;
    request->call_root = call->root;
    request->call_count = call->count;
    request->buffer[COLL__BUF_SEND] = (char *)input_of(call, comm, route->plan.in_place);
    request->buffer[COLL__BUF_RECV] = call->recv;
    if (call->reduces) {
        request->reduction = (coll__reduction_t){
            .op = call->op, .dtype = call->dtype, .element = coll_dtype_size(call->dtype), .kernel = route->kernel};
        request->finish_count = call->op == COLL_AVG && route->has_result ? call->count : 0;
    }
    *out = request;
    return 0;
}

static int start(coll__engine_t *engine, coll_request_t *request) {
    request->comm->algo_calls[request->algo_index]++;
    engine->counters.calls++;
    return coll__run_start(engine, request);
}

/* Checks and finds the route. [locked] */
static int find_route(coll__engine_t *engine, const coll__call_t *call, coll_comm_t *comm, coll__route_t **route) {
    *route = coll__route_find(comm, call);
    int status = *route ? 0 : check(call, comm);
    if (status == 0 && (status = check_buffers(call, comm)) < 0 && *route)
        coll__route_release(*route);
    if (status == 0 && !*route)
        status = coll__route_make(engine, comm, call, route);
    return status;
}

/* The same for a call that starts now: an error of this rank alone is told to the peers. [locked] */
static int checked(coll__engine_t *engine, const coll__call_t *call, coll_comm_t *comm, coll__route_t **route) {
    int status = coll__failure_usable(comm, coll_operation_name(call->operation));
    if (status < 0)
        return status;
    status = find_route(engine, call, comm, route);
    return status < 0 ? coll__failure_call(engine, comm, call->operation, status) : 0;
}

/* The call on the node's segment, without a request as long as that is quick. [locked] */
static int direct(coll__engine_t *engine, const coll__call_t *call, coll_comm_t *comm, coll__route_t *route,
                  coll_request_t **request) {
    coll__node_op_t op = {.operation = call->operation,
                          .dtype = call->dtype,
                          .op = call->op,
                          .root = call->root,
                          .count = call->count,
                          .bytes = route->bytes,
                          .kernel = route->kernel,
                          .send = input_of(call, comm, route->plan.in_place),
                          .recv = call->recv,
                          .fingerprint = route->fingerprint};
    comm->algo_calls[route->algo_index]++;
    engine->counters.calls++;
    int status = coll__node_direct(engine, comm, &op);
    if (status == 0) {
        if (call->op == COLL_AVG && call->reduces && route->has_result)
            coll__data_finish(call->op, call->dtype, call->recv, call->count, comm->size);
        coll__route_release(route);
        return 0;
    }
    status = prepare(engine, call, comm, route, request);
    if (status == 0)
        coll__node_continue(engine, *request, &op); /* a mismatch shows itself again */
    return status == 0 ? COLL__AGAIN : status;
}

int coll__call_blocking(const coll__call_t *call, coll_comm_t *comm) {
    coll__engine_t *engine;
    coll_request_t *request;
    coll__route_t *route;
    int status = coll__enter(comm, coll_operation_name(call->operation), &engine);
    if (status < 0)
        return status;
    status = coll__check_not_interrupted(comm, coll_operation_name(call->operation));
    if (status < 0) {
        coll__engine_unlock(engine);
        return status;
    }
    status = checked(engine, call, comm, &route);
    if (status == 0) {
        bool straight = route->on_node && coll__node_direct_allowed(engine, comm);
        status = straight ? direct(engine, call, comm, route, &request) : prepare(engine, call, comm, route, &request);
        if (!straight && status == 0) {
            start(engine, request);
            status = COLL__AGAIN;
        }
    }
    if (status == COLL__AGAIN) {
        status = coll__wait(engine, request, coll__comm_timeout(engine, comm));
        if (status == COLL_ERR_INTERRUPTED)
            coll__comm_interrupt(comm, request);
        else
            coll__request_put(engine, request);
    }
    coll__engine_unlock(engine);
    return status;
}

int coll__call_start(const coll__call_t *call, coll_comm_t *comm, coll_request_t **request) {
    coll__engine_t *engine;
    if (!request)
        return coll__error(COLL_ERR_ARG, "i%s: request is NULL", coll_operation_name(call->operation));
    *request = NULL;
    int status = coll__enter(comm, coll_operation_name(call->operation), &engine);
    if (status < 0)
        return status;
    coll__route_t *route;
    status = checked(engine, call, comm, &route);
    if (status == 0)
        status = prepare(engine, call, comm, route, request);
    if (status == 0)
        start(engine, *request);
    coll__engine_unlock(engine);
    return status;
}

int coll__call_persistent(const coll__call_t *call, coll_comm_t *comm, coll_request_t **request) {
    coll__engine_t *engine;
    if (!request)
        return coll__error(COLL_ERR_ARG, "%s_init: request is NULL", coll_operation_name(call->operation));
    *request = NULL;
    int status = coll__enter(comm, coll_operation_name(call->operation), &engine);
    if (status < 0)
        return status;
    status = coll__failure_usable(comm, coll_operation_name(call->operation));
    coll__route_t *route;
    if (status == 0)
        status = find_route(engine, call, comm, &route);
    if (status == 0)
        status = prepare(engine, call, comm, route, request);
    if (status == 0) {
        (*request)->persistent = true;
        coll__node_describe(*request, &(*request)->node_op);
    }
    coll__engine_unlock(engine);
    return status;
}

/* The engine, locked, if the request can be started now. */
static int enter_to_start(coll_request_t *request, const char *name, coll__engine_t **engine) {
    if (!request)
        return coll__error(COLL_ERR_ARG, "%s: request is NULL", name);
    if (!request->engine)
        return coll__error(COLL_ERR_CLOSED, "%s: the library was finalized", name);
    const char *operation = coll__request_name(request);
    int status = coll__enter(request->comm, operation, engine);
    if (status < 0)
        return status;
    if (!request->persistent)
        status = coll__error(COLL_ERR_ARG, "%s: the request is not a persistent one", name);
    else if (request->state == COLL__REQUEST_ACTIVE)
        status = coll__error(COLL_ERR_STATE, "%s: the persistent %s is still running", name, operation);
    else
        status = coll__failure_usable(request->comm, operation);
    if (status < 0)
        coll__engine_unlock(*engine);
    return status;
}

int coll_start(coll_request_t *request) {
    coll__engine_t *engine;
    int status = enter_to_start(request, "start", &engine);
    if (status < 0)
        return status;
    start(engine, request);
    coll__engine_unlock(engine);
    return 0;
}

/* A persistent request on the node's segment, as direct() does it. [locked] True when it is done. */
static bool run_direct(coll__engine_t *engine, coll_request_t *request) {
    coll_comm_t *comm = request->comm;
    coll__node_op_t *op = &request->node_op;
    comm->algo_calls[request->algo_index]++;
    engine->counters.calls++;
    if (coll__node_direct(engine, comm, op) != 0) {
        coll__node_continue(engine, request, op);
        return false;
    }
    if (request->finish_count)
        coll__data_finish(request->reduction.op, request->reduction.dtype, op->recv, request->finish_count, comm->size);
    request->sequence = op->sequence;
    request->state = COLL__REQUEST_DONE;
    request->status = COLL_SUCCESS;
    return true;
}

int coll_run(coll_request_t *request, double timeout) {
    coll__engine_t *engine;
    int status = enter_to_start(request, "run", &engine);
    if (status < 0)
        return status;
    const coll__route_t *route = request->route;
    bool done = false;
    if (route->on_node && coll__node_direct_allowed(engine, request->comm))
        done = run_direct(engine, request);
    else
        start(engine, request);
    if (!done)
        status = coll__wait(engine, request, timeout < 0 ? coll__comm_timeout(engine, request->comm) : timeout);
    coll__engine_unlock(engine);
    return status;
}
