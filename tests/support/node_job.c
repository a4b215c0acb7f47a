/* See node_job.h. */
#include "support/node_job.h"

#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/status.h"
#include "node/heap.h"

enum { PATIENCE_S = 50 };

int coll__node_everyone[COLL__NODE_JOB_MOST] = {0, 1, 2, 3, 4};

void coll__node_job_open(coll__node_job_t *job, int size) {
    memset(job, 0, sizeof *job);
    job->size = size;
    assert_int_equal(coll__local_segment_open(&job->segment, size, coll__node_region_bytes(size)), 0);
    for (int i = 0; i < size; i++) {
        coll__node_rank_t *member = &job->member[i];
        coll__segment_t *view = &job->segment.view[i];
        view->node = view->transport; /* the region of the transport is not used here */
        *member = (coll__node_rank_t){.job = job, .rank = i};
        assert_int_equal(coll__node_open(view, &member->node), 0);
    }
}

void coll__node_job_attach(coll__node_job_t *job, uint64_t id) {
    for (int i = 0; i < job->size; i++) {
        job->member[i].sequence = 0;
        assert_int_equal(
            coll__channel_attach(job->member[i].node, id, coll__node_everyone, job->size, i, &job->member[i].channel),
            0);
        assert_non_null(job->member[i].channel);
    }
}

void coll__node_job_close(coll__node_job_t *job) {
    for (int i = 0; i < job->size; i++) {
        coll__channel_detach(job->member[i].channel);
        coll__node_close(job->member[i].node);
    }
    coll__local_segment_close(&job->segment);
}

static void *run_member(void *arg) {
    coll__node_rank_t *member = arg;
    member->job->body(member);
    return NULL;
}

void coll__node_job_run(coll__node_job_t *job, void (*body)(coll__node_rank_t *)) {
    pthread_t thread[COLL__NODE_JOB_MOST];
    job->body = body;
    assert_int_equal(pthread_barrier_init(&job->meet, NULL, (unsigned)job->size), 0);
    for (int i = 0; i < job->size; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, run_member, &job->member[i]), 0);
    for (int i = 0; i < job->size; i++)
        assert_int_equal(pthread_join(thread[i], NULL), 0);
    for (int i = 0; i < job->size; i++)
        assert_int_equal(job->member[i].failed, 0);
    pthread_barrier_destroy(&job->meet);
}

const coll__node_kind_t coll__node_kinds[COLL__NODE_KINDS] = {
    {COLL_INT8, COLL_SUM}, {COLL_FLOAT64, COLL_SUM}, {COLL_INT32, COLL_MAX}, {COLL_FLOAT32, COLL_MINLOC}};
static int number(int rank, uint64_t salt, size_t i) {
    return (int)((i * (uint64_t)(rank + 3) + (uint64_t)rank * 7 + salt * 5) % 11);
}

static double get(coll_dtype_t dtype, const void *data, size_t i) {
    switch (dtype) {
    case COLL_INT8:
        return ((const int8_t *)data)[i];
    case COLL_FLOAT64:
        return ((const double *)data)[i];
    case COLL_INT32:
        return ((const int32_t *)data)[i];
    default:
        return ((const float *)data)[i];
    }
}

static void put(coll_dtype_t dtype, void *data, size_t i, int value) {
    switch (dtype) {
    case COLL_INT8:
        ((int8_t *)data)[i] = (int8_t)value;
        break;
    case COLL_FLOAT64:
        ((double *)data)[i] = value;
        break;
    case COLL_INT32:
        ((int32_t *)data)[i] = value;
        break;
    default:
        ((float *)data)[i] = (float)value;
    }
}

static void fill(coll__node_kind_t kind, void *data, size_t count, int rank, uint64_t salt) {
    for (size_t i = 0; i < count; i++)
        put(kind.dtype, data, i, kind.op == COLL_MINLOC && i % 2 ? rank : number(rank, salt, i));
}

/* Element i of the reduction, done by hand. */
static int reduced(coll__node_kind_t kind, int size, uint64_t salt, size_t i) {
    int result = 0, place = 0;
    size_t first = kind.op == COLL_MINLOC ? i - i % 2 : i;
    for (int rank = 0; rank < size; rank++) {
        int value = number(rank, salt, first);
        if (kind.op == COLL_SUM)
            result += value;
        else if (rank == 0 || (kind.op == COLL_MAX ? value > result : value < result))
            result = value, place = rank;
    }
    return kind.op == COLL_MINLOC && i % 2 ? place : result;
}

enum { CANARY = 64 };

static char *make_buffer(size_t bytes, bool symmetric) {
    void *memory = NULL;
    if (!symmetric)
        memory = malloc(bytes + CANARY);
    else if (coll__heap_alloc(bytes + CANARY, &memory) < 0)
        abort();
    memset(memory, 0xa5, bytes + CANARY);
    return memory;
}

void coll__node_buffer_free(char *memory, bool symmetric) {
    if (symmetric)
        coll__heap_free(memory);
    else
        free(memory);
}

void coll__node_call_make(coll__node_call_t *call, coll__node_rank_t *member, coll_operation_t operation,
                          coll__node_kind_t kind, size_t count, int root, bool symmetric) {
    uint64_t sequence = ++member->sequence;
    size_t bytes = count * coll_dtype_size(kind.dtype);
    *call = (coll__node_call_t){.kind = kind, .salt = sequence, .symmetric = symmetric};
    call->recv_bytes = operation == COLL_OP_ALLGATHER ? bytes * (size_t)member->job->size : bytes;
    call->send = make_buffer(bytes, symmetric);
    call->recv = make_buffer(call->recv_bytes, symmetric);
    fill(kind, call->send, count, member->rank, call->salt);
    bool sends_recv = operation == COLL_OP_BROADCAST;
    if (sends_recv && member->rank == root)
        memcpy(call->recv, call->send, bytes);
    call->op = (coll__node_op_t){.operation = operation,
                                 .dtype = kind.dtype,
                                 .op = kind.op,
                                 .kernel = coll__data_kernel(kind.op, kind.dtype),
                                 .root = root,
                                 .count = count,
                                 .bytes = bytes,
                                 .send = sends_recv ? NULL : call->send,
                                 .recv = call->recv,
                                 .sequence = sequence,
                                 .fingerprint = (uint64_t)operation + 1 + (count << 8),
                                 .previous = 0};
    coll__node_prepare(&call->op);
}

void coll__node_call_end(coll__node_call_t *call, coll__node_rank_t *member) {
    const coll__node_op_t *op = &call->op;
    int size = member->job->size;
    size_t results = op->count;
    if (op->operation == COLL_OP_ALLGATHER)
        results *= (size_t)size;
    if (op->operation == COLL_OP_BARRIER || (op->operation == COLL_OP_REDUCE && member->rank != op->root))
        results = 0;
    for (size_t i = 0; i < results; i++) {
        double expected;
        int from = op->operation == COLL_OP_BROADCAST ? op->root : op->count ? (int)(i / op->count) : 0;
        size_t k = op->operation == COLL_OP_ALLGATHER ? i % op->count : i;
        if (op->operation == COLL_OP_REDUCE || op->operation == COLL_OP_ALLREDUCE)
            expected = reduced(call->kind, size, call->salt, i);
        else
            expected = call->kind.op == COLL_MINLOC && k % 2 ? from : number(from, call->salt, k);
        coll__node_expect(member, get(op->dtype, call->recv, i) == expected);
    }
    for (size_t i = 0; i < op->count; i++) /* the input is what it was */
        coll__node_expect(
            member, get(op->dtype, call->send, i) ==
                        (call->kind.op == COLL_MINLOC && i % 2 ? member->rank : number(member->rank, call->salt, i)));
    for (int i = 0; i < CANARY; i++)
        coll__node_expect(member, call->recv[call->recv_bytes + (size_t)i] == (char)0xa5);
    coll__node_buffer_free(call->send, call->symmetric);
    coll__node_buffer_free(call->recv, call->symmetric);
}

void coll__node_call_finish(coll__node_rank_t *member, coll__node_call_t *call) {
    int64_t deadline = coll__deadline_after(PATIENCE_S);
    int status;
    while ((status = coll__node_step(member->channel, &call->op)) == COLL__AGAIN && coll__now_ns() < deadline)
        sched_yield();
    coll__node_expect(member, status == 0);
}

void coll__node_call_do(coll__node_rank_t *member, coll_operation_t operation, coll__node_kind_t kind, size_t count,
                        int root, bool symmetric) {
    coll__node_call_t call;
    coll__node_call_make(&call, member, operation, kind, count, root, symmetric);
    int status = COLL__AGAIN;
    for (int i = 0; i < 3 && status == COLL__AGAIN; i++)
        status = coll__node_try(member->channel, &call.op);
    coll__node_expect(member, status == 0 || status == COLL__AGAIN);
    if (status == COLL__AGAIN) {
        coll__node_begin(member->channel, &call.op);
        coll__node_call_finish(member, &call);
    }
    coll__node_call_end(&call, member);
}
