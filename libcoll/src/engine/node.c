/* Node steps: in a request like any other step, or straight for a blocking call. */
#include <sched.h>
#include <utlist.h>

#include "engine/engine.h"

/* How long a blocking call looks at the flags alone before it becomes a request and looks at everything. */
enum { DIRECT_POLLS = 4000, DIRECT_YIELDS = 100 };

static uint64_t previous_call(const coll_comm_t *comm, uint64_t sequence) {
    return comm->history[(sequence - 1) % COLL__COMM_HISTORY];
}

void coll__node_describe(const coll_request_t *request, coll__node_op_t *op) {
    *op = (coll__node_op_t){.operation = request->operation,
                            .dtype = request->call_dtype,
                            .op = request->reduction.op,
                            .kernel = request->reduction.kernel,
                            .root = request->call_root,
                            .count = request->call_count,
                            .bytes = request->call_count * coll_dtype_size(request->call_dtype),
                            .send = request->buffer[COLL__BUF_SEND],
                            .recv = request->buffer[COLL__BUF_RECV],
                            .sequence = request->sequence,
                            .fingerprint = request->fingerprint,
                            .previous = previous_call(request->comm, request->sequence)};
    coll__node_prepare(op);
}

static void enlist(coll__engine_t *engine, coll_request_t *request) {
    request->on_node = true;
    DL_APPEND2(engine->node_requests, request, node_prev, node_next);
    coll__node_begin(request->comm->channel, &request->node_op);
}

static void unlist(coll__engine_t *engine, coll_request_t *request) {
    request->on_node = false;
    DL_DELETE2(engine->node_requests, request, node_prev, node_next);
}

void coll__node_start(coll__engine_t *engine, coll_request_t *request) {
    coll__node_describe(request, &request->node_op);
    enlist(engine, request);
}

void coll__node_continue(coll__engine_t *engine, coll_request_t *request, const coll__node_op_t *op) {
    request->sequence = op->sequence;
    coll__run_activate(engine, request);
    request->next_step = request->sched->step_count;
    request->outstanding = 1;
    request->node_op = *op;
    enlist(engine, request);
}

void coll__node_drop(coll__engine_t *engine, coll_request_t *request) {
    coll__node_cancel(request->comm->channel, &request->node_op);
    unlist(engine, request);
}

int coll__node_progress(coll__engine_t *engine) {
    int events = 0;
    coll_request_t *request, *next;
    DL_FOREACH_SAFE2(engine->node_requests, request, next, node_next) {
        coll__node_op_t *op = &request->node_op;
        size_t before = op->staged + op->folded + op->taken;
        int status = coll__node_step(request->comm->channel, op);
        if (op->staged + op->folded + op->taken != before) {
            request->progressed++;
            events++;
        }
        if (status == COLL__AGAIN)
            continue;
        events++;
        unlist(engine, request);
        if (status == COLL_ERR_MISMATCH) { /* the request stays until failure.c has put the mismatch into words */
            coll__failure_found_foreign(engine, request->comm, op->other_sequence, op->other_rank,
                                        op->other_fingerprint);
            continue;
        }
        request->progressed++;
        if (--request->outstanding == 0)
            coll__run_make_ready(engine, request);
    }
    return events;
}

/* ---- straight ---- */

bool coll__node_direct_allowed(const coll__engine_t *engine, const coll_comm_t *comm) {
    bool news = atomic_load_explicit(engine->events, memory_order_relaxed) != engine->events_seen;
    return coll__channel_idle(comm->channel) && !news && !comm->posted && !comm->reports && !comm->mismatched &&
           !engine->trace;
}

int coll__node_direct(coll__engine_t *engine, coll_comm_t *comm, coll__node_op_t *op) {
    coll__channel_t *channel = comm->channel;
    op->sequence = comm->sequence++;
    op->previous = previous_call(comm, op->sequence);
    comm->history[op->sequence % COLL__COMM_HISTORY] = op->fingerprint;
    comm->calls++;
    coll__node_prepare(op);
    int status = coll__node_try(channel, op);
    if (status != COLL__AGAIN || engine->env.spin_us == 0)
        return status;
    if (engine->oversubscribed) {
        for (int i = 0; i < DIRECT_YIELDS && status == COLL__AGAIN; i++) {
            sched_yield();
            status = coll__node_try(channel, op);
        }
    } else {
        for (int i = 0; i < DIRECT_POLLS && status == COLL__AGAIN; i++) {
            coll__cpu_pause();
            status = coll__node_try(channel, op);
        }
    }
    return status;
}
