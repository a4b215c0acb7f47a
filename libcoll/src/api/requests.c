/* Requests as callers hold them, and blocking calls that were interrupted by a signal. */
#include <stdio.h>
#include <stdlib.h>

#include "api/api.h"

/* The engine, locked, of a request; after coll_finalize() a request has none. */
static int enter(const coll_request_t *request, const char *name, coll__engine_t **engine) {
    if (!request)
        return coll__error(COLL_ERR_ARG, "%s: request is NULL", name);
    if (coll__world.forked)
        return coll__error(COLL_ERR_STATE, "%s: the request belongs to the parent of this fork", name);
    if (!request->engine)
        return coll__error(COLL_ERR_CLOSED, "%s: the library was finalized", name);
    *engine = request->engine;
    coll__engine_lock(*engine);
    return 0;
}

int coll_test(coll_request_t *request, int *done) {
    coll__engine_t *engine;
    if (!done)
        return coll__error(COLL_ERR_ARG, "test: done is NULL");
    *done = 1; /* what cannot be tested will not go on */
    int status = enter(request, "test", &engine);
    if (status < 0)
        return status;
    if (request->state == COLL__REQUEST_ACTIVE) {
        coll__engine_progress(engine);
        if (engine->someone_left)
            coll__failure_left(engine, NULL);
    }
    *done = request->state != COLL__REQUEST_ACTIVE;
    status = *done ? coll__request_raise(request) : 0;
    coll__engine_unlock(engine);
    return status;
}

/* [locked] */
static int wait_one(coll__engine_t *engine, coll_request_t *request, double timeout) {
    if (request->state != COLL__REQUEST_ACTIVE)
        return coll__request_raise(request);
    return coll__wait(engine, request, timeout < 0 ? coll__comm_timeout(engine, request->comm) : timeout);
}

int coll_wait(coll_request_t *request, double timeout) {
    coll__engine_t *engine;
    int status = enter(request, "wait", &engine);
    if (status < 0)
        return status;
    status = wait_one(engine, request, timeout);
    coll__engine_unlock(engine);
    return status;
}

int coll_wait_all(coll_request_t **requests, size_t count, double timeout) {
    if (count && !requests)
        return coll__error(COLL_ERR_ARG, "wait_all: requests is NULL");
    int64_t deadline = timeout < 0 ? COLL__NEVER : coll__deadline_after(timeout);
    for (size_t i = 0; i < count; i++) {
        coll__engine_t *engine;
        int status = enter(requests[i], "wait_all", &engine);
        if (status < 0)
            return status;
        double left = timeout;
        if (deadline != COLL__NEVER) {
            left = (double)(deadline - coll__now_ns()) / 1e9;
            if (left < 1e-9)
                left = 1e-9; /* over: one look, not "without limit" */
        }
        status = wait_one(engine, requests[i], left);
        coll__engine_unlock(engine);
        if (status < 0)
            return status;
    }
    return 0;
}

int coll_request_status(const coll_request_t *request, coll_recv_status_t *status) {
    coll__engine_t *engine;
    if (!status)
        return coll__error(COLL_ERR_ARG, "request_status: status is NULL");
    int result = enter(request, "request_status", &engine);
    if (result < 0)
        return result;
    if (!request->receives)
        result = coll__error(COLL_ERR_ARG, "request_status: the request is not a receive");
    else if (request->state != COLL__REQUEST_DONE || request->status != COLL_SUCCESS)
        result = coll__error(COLL_ERR_STATE, "request_status: the receive has not ended, or failed");
    else
        *status = request->received;
    coll__engine_unlock(engine);
    return result;
}

int coll_request_free(coll_request_t *request) {
    if (!request || coll__world.forked)
        return 0;
    if (!request->engine) {
        free(request);
        return 0;
    }
    coll__engine_t *engine = request->engine;
    coll__engine_lock(engine);
    if (request->state == COLL__REQUEST_ACTIVE)
        request->detached = true;
    else
        coll__request_put(engine, request);
    coll__engine_unlock(engine);
    return 0;
}

int coll_set_interruptible(int on) {
    if (!coll__world.engine)
        return coll__error(COLL_ERR_STATE, "set_interruptible: coll_init() comes first");
    coll__engine_lock(coll__world.engine);
    coll__world.engine->interruptible = on != 0;
    coll__engine_unlock(coll__world.engine);
    return 0;
}

int coll_resume(coll_comm_t *comm) {
    coll__engine_t *engine;
    int status = coll__enter(comm, "resume", &engine);
    if (status < 0)
        return status;
    coll_request_t *request = coll__comm_interrupted(comm);
    if (!request) {
        status = coll__error(COLL_ERR_STATE, "resume: no call of this thread on this communicator was interrupted");
    } else {
        status = wait_one(engine, request, -1);
        if (status != COLL_ERR_INTERRUPTED) {
            if (status == 0 && request->receives && request->status_out)
                *request->status_out = request->received;
            coll__comm_uninterrupt(comm, request);
            coll__request_put(engine, request);
        }
    }
    coll__engine_unlock(engine);
    return status;
}

int coll_abandon(coll_comm_t *comm, const char *why) {
    coll__engine_t *engine;
    int status = coll__enter(comm, "abandon", &engine);
    if (status < 0)
        return status;
    coll__error_info_t error = {.status = COLL_ERR_PEER, .sequence = -1, .rank_count = 1, .ranks = {comm->rank}};
    snprintf(error.message, sizeof error.message, "rank %d gave its call up: %.900s", comm->rank,
             why ? why : "no reason given");
    coll__notice_error(engine, comm, comm->sequence, true, &error);
    coll__failure_break(engine, comm, &error);
    comm->told = true;
    coll_request_t *request = coll__comm_interrupted(comm);
    if (request) {
        coll__comm_uninterrupt(comm, request);
        coll__request_put(engine, request);
    }
    coll__engine_unlock(engine);
    return 0;
}

int coll_post_error(coll_comm_t *comm, coll_operation_t operation, const char *message) {
    coll__engine_t *engine;
    int status = coll__enter(comm, "post_error", &engine);
    if (status < 0)
        return status;
    status = coll__failure_usable(comm, "post_error");
    if (status == 0)
        coll__failure_call(engine, comm, operation, coll__error(COLL_ERR_ARG, "%s", message ? message : ""));
    coll__engine_unlock(engine);
    return status;
}
