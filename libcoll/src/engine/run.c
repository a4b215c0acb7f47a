/* Runs a schedule: takes its rounds one after another, starting each when all operations of the one before have ended.
 */
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "engine/engine.h"

void coll__run_make_ready(coll__engine_t *engine, coll_request_t *request) {
    if (request->ready)
        return;
    request->ready = true;
    DL_APPEND2(engine->ready, request, ready_prev, ready_next);
}

static void op_done(coll__p2p_op_t *op, int status) {
    coll_request_t *request = op->owner;
    if (status == COLL_ERR_MISMATCH)
        return; /* the request stays until failure.c has put the mismatch into words */
    request->outstanding--;
    request->progressed++;
    if (status < 0 && !request->failing) {
        request->failing = true;
        if (!request->error)
            request->error = malloc(sizeof *request->error);
        if (request->error)
            coll__error_save(request->error);
    }
    if (request->outstanding == 0)
        coll__run_make_ready(request->engine, request);
}

static coll__p2p_op_t *next_op(coll_request_t *request, int index) {
    coll__p2p_op_t *op = &request->ops[index];
    op->done = op_done;
    op->owner = request;
    request->outstanding++;
    return op;
}

static char *at(const coll_request_t *request, coll__ref_t ref) {
    return request->buffer[ref.buffer] ? request->buffer[ref.buffer] + ref.offset : NULL;
}

static void reduce(const coll_request_t *request, const coll__step_t *step) {
    const coll__reduction_t *reduction = &request->reduction;
    reduction->kernel(at(request, step->source), at(request, step->right), at(request, step->target),
                      step->bytes / reduction->element);
}

static void fold(const coll_request_t *request, const coll__step_t *step) {
    const coll__reduction_t *reduction = &request->reduction;
    const char *others = at(request, step->source);
    for (int i = 0; i < step->inputs; i++) {
        int other = i < step->place ? i : i - 1;
        request->inputs[i] = i == step->place ? at(request, step->right) : others + (size_t)other * step->bytes;
    }
    coll__data_fold(reduction->op, reduction->dtype, request->inputs, step->inputs, at(request, step->target),
                    step->bytes / reduction->element);
}

/* Takes the steps of one round. `outstanding` is held above zero meanwhile, so that operations that end at once do not
 * make the request ready while it is running. */
static void take_round(coll__engine_t *engine, coll_request_t *request) {
    const coll__sched_t *sched = request->sched;
    const coll_comm_t *comm = request->comm;
    const coll__envelope_t envelope = {comm->id, request->sequence, request->fingerprint};
    int round = sched->steps[request->next_step].round;
    request->op_count = 0;
    request->outstanding = 1;
    while (request->next_step < sched->step_count && sched->steps[request->next_step].round == round) {
        const coll__step_t *step = &sched->steps[request->next_step++];
        switch (step->kind) {
        case COLL__STEP_SEND:
            coll__p2p_send(engine->p2p, next_op(request, request->op_count++), comm->world[step->peer], &envelope,
                           at(request, step->source), step->bytes);
            break;
        case COLL__STEP_RECV:
            coll__p2p_recv(engine->p2p, next_op(request, request->op_count++), comm->world[step->peer], &envelope,
                           at(request, step->target), step->bytes);
            break;
        case COLL__STEP_REDUCE:
            reduce(request, step);
            break;
        case COLL__STEP_FOLD:
            fold(request, step);
            break;
        case COLL__STEP_NODE:
            request->outstanding++;
            coll__node_start(engine, request);
            break;
        case COLL__STEP_COPY:
            memmove(at(request, step->target), at(request, step->source), step->bytes);
            break;
        }
    }
    request->outstanding--;
}

static void advance(coll__engine_t *engine, coll_request_t *request) {
    /* A communicator whose mismatch is being put into words must not let a call succeed meanwhile. */
    while (request->outstanding == 0 && !request->failing && !request->comm->mismatched) {
        if (!request->sched || request->next_step == request->sched->step_count) {
            if (request->finish_count)
                coll__data_finish(request->reduction.op, request->reduction.dtype, request->buffer[COLL__BUF_RECV],
                                  request->finish_count, request->comm->size);
            if (request->receives) {
                const coll__p2p_op_t *op = &request->ops[0];
                request->received = (coll_recv_status_t){.source = request->comm->rank_of[op->peer],
                                                         .tag = (int)(op->envelope.match & INT32_MAX),
                                                         .bytes = op->bytes};
            }
            coll__request_complete(engine, request, COLL_SUCCESS);
            return;
        }
        take_round(engine, request);
    }
    if (request->failing) {
        coll__error_info_t error = {.status = COLL_ERR_MEMORY, .message = "out of memory for an error message"};
        if (request->error)
            error = *request->error;
        if (request->receives && error.status == COLL_ERR_TRUNCATE)
            coll__request_fail(engine, request, &error);
        else
            coll__failure_break(engine, request->comm, &error);
    }
}

void coll__run_activate(coll__engine_t *engine, coll_request_t *request) {
    if (engine->trace)
        request->started_at = coll__now_ns();
    request->wait_start = request->deadline = 0;
    request->state = COLL__REQUEST_ACTIVE;
    request->status = COLL_SUCCESS;
    request->failing = false;
    request->next_step = 0;
    request->outstanding = 0;
    request->op_count = 0;
    DL_APPEND(request->comm->active, request);
}

/* Did a peer say something about this call before it was made? */
static void look_back(coll__engine_t *engine, coll_request_t *request) {
    coll_comm_t *comm = request->comm;
    coll__envelope_t mine = {comm->id, request->sequence, request->fingerprint}, theirs;
    int peer = COLL__PEER_ANY;
    bool differs = coll__p2p_find_foreign(engine->p2p, &mine, &peer, &theirs) != 0;
    for (int rank = 0; comm->reports && rank < comm->size; rank++)
        differs |= comm->reports[rank].sequence == request->sequence &&
                   comm->reports[rank].fingerprint != request->fingerprint;
    if (differs) {
        coll__failure_mismatch(engine, comm, request->sequence);
        if (peer >= 0)
            coll__failure_record(comm, comm->rank_of[peer], request->sequence, theirs.fingerprint);
    }
    coll__comm_posted_t *posted, *next;
    LL_FOREACH_SAFE(comm->posted, posted, next) {
        if (posted->sequence > request->sequence)
            continue;
        LL_DELETE(comm->posted, posted);
        if (posted->sequence == request->sequence)
            coll__failure_sequence(engine, comm, request->sequence, &posted->error);
        free(posted);
    }
}

int coll__run_start(coll__engine_t *engine, coll_request_t *request) {
    coll_comm_t *comm = request->comm;
    request->sequence = comm->sequence++;
    comm->history[request->sequence % COLL__COMM_HISTORY] = request->fingerprint;
    comm->calls++;
    coll__run_activate(engine, request);
    look_back(engine, request);
    if (request->state == COLL__REQUEST_ACTIVE)
        advance(engine, request);
    return 0;
}

void coll__run_send(coll__engine_t *engine, coll_request_t *request, int world_peer, const coll__envelope_t *envelope,
                    const void *buffer, size_t bytes) {
    coll__run_activate(engine, request);
    request->outstanding = 1;
    coll__p2p_send(engine->p2p, next_op(request, request->op_count++), world_peer, envelope, buffer, bytes);
    request->outstanding--;
    advance(engine, request);
}

void coll__run_recv(coll__engine_t *engine, coll_request_t *request, int world_peer, const coll__envelope_t *envelope,
                    void *buffer, size_t bytes) {
    coll__run_activate(engine, request);
    request->outstanding = 1;
    coll__p2p_recv(engine->p2p, next_op(request, request->op_count++), world_peer, envelope, buffer, bytes);
    request->outstanding--;
    advance(engine, request);
}

void coll__run_ready(coll__engine_t *engine) {
    while (engine->ready) {
        coll_request_t *request = engine->ready;
        DL_DELETE2(engine->ready, request, ready_prev, ready_next);
        request->ready = false;
        if (request->state == COLL__REQUEST_ACTIVE)
            advance(engine, request);
    }
}
