/* The life of a request: taken from a pool, given memory, completed once, read by the caller, put back. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "engine/engine.h"

enum { POOL_REQUESTS = 64, POOL_MEMORY = 1 << 20, ALIGNMENT = 64 };

coll_request_t *coll__request_get(coll__engine_t *engine, coll_comm_t *comm) {
    coll_request_t *request = engine->pool;
    if (request) {
        LL_DELETE(engine->pool, request);
        engine->pool_count--;
    } else if (!(request = calloc(1, sizeof *request))) {
        coll__error(COLL_ERR_MEMORY, "out of memory for a request");
        return NULL;
    }
    request->engine = engine;
    request->comm = comm;
    comm->handles++;
    DL_APPEND2(engine->live, request, live_prev, live_next);
    return request;
}

static size_t round_up(size_t bytes) {
    return (bytes + ALIGNMENT - 1) & ~(size_t)(ALIGNMENT - 1);
}

static int reserve(coll_request_t *request, size_t scratch, int ops, int inputs) {
    size_t ops_end = round_up(scratch) + round_up((size_t)ops * sizeof(coll__p2p_op_t));
    size_t bytes = ops_end + round_up((size_t)inputs * sizeof(void *));
    if (bytes > request->memory_bytes) {
        void *memory = NULL;
        if (posix_memalign(&memory, ALIGNMENT, bytes) != 0)
            return coll__error(COLL_ERR_MEMORY, "out of memory for %zu bytes of scratch", bytes);
        free(request->memory);
        request->memory = memory;
        request->memory_bytes = bytes;
    }
    request->buffer[COLL__BUF_SCRATCH] = request->memory;
    request->ops = (void *)((char *)request->memory + round_up(scratch));
    request->inputs = (void *)((char *)request->memory + ops_end);
    return 0;
}

int coll__request_reserve(coll_request_t *request, const coll__sched_t *sched) {
    int widest = 0, width = 0, round = -1, inputs = 0;
    for (int i = 0; i < sched->step_count; i++) {
        const coll__step_t *step = &sched->steps[i];
        if (step->round != round)
            width = 0;
        round = step->round;
        if (step->kind == COLL__STEP_FOLD && step->inputs > inputs)
            inputs = step->inputs;
        width += step->kind == COLL__STEP_SEND || step->kind == COLL__STEP_RECV;
        if (width > widest)
            widest = width;
    }
    return reserve(request, sched->scratch_bytes, widest, inputs);
}

int coll__request_reserve_message(coll_request_t *request) {
    return reserve(request, 0, 1, 0);
}

static void cancel_ops(coll__engine_t *engine, coll_request_t *request) {
    for (int i = 0; i < request->op_count; i++)
        coll__p2p_cancel(engine->p2p, &request->ops[i]);
    if (request->on_node)
        coll__node_drop(engine, request);
    request->op_count = 0;
    request->outstanding = 0;
}

void coll__request_complete(coll__engine_t *engine, coll_request_t *request, int status) {
    coll_comm_t *comm = request->comm;
    request->status = status;
    request->state = COLL__REQUEST_DONE;
    DL_DELETE(comm->active, request);
    if (engine->trace)
        coll__trace_call(engine->trace, request);
    if (engine->cond_waiters)
        pthread_cond_broadcast(&engine->completed);
    if (engine->parked)
        coll__engine_wake(engine);
    if (request->detached)
        coll__request_put(engine, request);
}

void coll__request_fail(coll__engine_t *engine, coll_request_t *request, const coll__error_info_t *error) {
    if (request->state != COLL__REQUEST_ACTIVE)
        return;
    if (!request->error)
        request->error = malloc(sizeof *request->error);
    if (request->error) {
        if (request->error != error)
            *request->error = *error;
        snprintf(request->error->operation, sizeof request->error->operation, "%s", coll__request_name(request));
        request->error->sequence = request->sequence ? (int64_t)request->sequence : -1;
    }
    cancel_ops(engine, request);
    coll__request_complete(engine, request, error->status);
}

void coll__request_put(coll__engine_t *engine, coll_request_t *request) {
    if (request->ready)
        DL_DELETE2(engine->ready, request, ready_prev, ready_next);
    DL_DELETE2(engine->live, request, live_prev, live_next);
    if (request->on_free)
        request->on_free(request);
    coll_comm_t *comm = request->comm;
    free(request->error);
    bool keep = engine->pool_count < POOL_REQUESTS && request->memory_bytes <= POOL_MEMORY;
    void *memory = request->memory;
    size_t memory_bytes = request->memory_bytes;
    if (keep) {
        memset(request, 0, sizeof *request);
        request->memory = memory;
        request->memory_bytes = memory_bytes;
        LL_PREPEND(engine->pool, request);
        engine->pool_count++;
    } else {
        free(memory);
        free(request);
    }
    comm->handles--;
    coll__comm_release(engine, comm);
}

int coll__request_raise(coll_request_t *request) {
    if (request->status == COLL_SUCCESS)
        return COLL_SUCCESS;
    if (request->comm->state == COLL__COMM_BROKEN)
        request->comm->told = true;
    if (request->error)
        return coll__error_raise(request->error);
    return coll__error(request->status, "%s failed, and there was no memory left to say how",
                       coll__request_name(request));
}

void coll__request_orphan(coll_request_t *request) {
    if (request->on_free)
        request->on_free(request);
    free(request->error);
    free(request->memory);
    memset(request, 0, sizeof *request);
    request->state = COLL__REQUEST_DONE;
    request->status = COLL_ERR_CLOSED;
}

const char *coll__request_name(const coll_request_t *request) {
    if (request->operation == COLL_OP_SENDRECV)
        return request->receives ? "recv" : "send";
    return coll_operation_name(request->operation);
}

int coll__request_peers(const coll_request_t *request, int *peers, int capacity) {
    int count = 0;
    if (request->on_node) {
        count = coll__node_missing(request->comm->channel, &request->node_op, peers, capacity);
        for (int i = 0; i < count; i++)
            peers[i] = request->comm->world[peers[i]];
    }
    for (int i = 0; i < request->op_count && count < capacity; i++)
        if (request->ops[i].state != 0 && request->ops[i].peer >= 0)
            peers[count++] = request->ops[i].peer;
    return count;
}
