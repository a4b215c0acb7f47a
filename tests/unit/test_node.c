/* Collectives of one node by ranks that are threads on one shared mapping, so that the thread sanitizer sees what they
 * share; and, step by step in one thread, what must hold at the edges: slots that are still read, calls that are given
 * up or differ, channels that run out. (test_node_turns.c tries orders of steps at random.) */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/status.h"
#include "node/channel.h"
#include "node/heap.h"
#include "support/local_segment.h"

enum { MOST = 5, PATIENCE_S = 50 };

typedef struct job job_t;
typedef struct member {
    job_t *job;
    int rank;
    coll__node_t *node;
    coll__channel_t *channel;
    uint64_t sequence;
    int failed; /* line */
} member_t;

struct job {
    int size;
    coll__local_segment_t segment;
    member_t member[MOST];
    void (*body)(member_t *);
    pthread_barrier_t meet;
};

/* A thread that fails says where, and goes on. */
#define expect(member, condition)              \
    do {                                       \
        if (!(condition) && !(member)->failed) \
            (member)->failed = __LINE__;       \
    } while (0)

static int everyone[MOST] = {0, 1, 2, 3, 4};

static void open_job(job_t *job, int size) {
    memset(job, 0, sizeof *job);
    job->size = size;
    assert_int_equal(coll__local_segment_open(&job->segment, size, coll__node_region_bytes(size)), 0);
    for (int i = 0; i < size; i++) {
        member_t *member = &job->member[i];
        coll__segment_t *view = &job->segment.view[i];
        view->node = view->transport; /* the region of the transport is not used here */
        *member = (member_t){.job = job, .rank = i};
        assert_int_equal(coll__node_open(view, &member->node), 0);
    }
}

static void attach_all(job_t *job, uint64_t id) {
    for (int i = 0; i < job->size; i++) {
        job->member[i].sequence = 0;
        assert_int_equal(coll__channel_attach(job->member[i].node, id, everyone, job->size, i, &job->member[i].channel),
                         0);
        assert_non_null(job->member[i].channel);
    }
}

static void close_job(job_t *job) {
    for (int i = 0; i < job->size; i++) {
        coll__channel_detach(job->member[i].channel);
        coll__node_close(job->member[i].node);
    }
    coll__local_segment_close(&job->segment);
}

static void *run_member(void *arg) {
    member_t *member = arg;
    member->job->body(member);
    return NULL;
}

static void in_threads(job_t *job, void (*body)(member_t *)) {
    pthread_t thread[MOST];
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

/* ---- data ---- */

typedef struct kind {
    coll_dtype_t dtype;
    coll_op_t op;
} kind_t;

static const kind_t kinds[] = {
    {COLL_INT8, COLL_SUM}, {COLL_FLOAT64, COLL_SUM}, {COLL_INT32, COLL_MAX}, {COLL_FLOAT32, COLL_MINLOC}};
enum { KINDS = sizeof kinds / sizeof kinds[0] };

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

static void fill(kind_t kind, void *data, size_t count, int rank, uint64_t salt) {
    for (size_t i = 0; i < count; i++)
        put(kind.dtype, data, i, kind.op == COLL_MINLOC && i % 2 ? rank : number(rank, salt, i));
}

/* Element i of the reduction, done by hand. */
static int reduced(kind_t kind, int size, uint64_t salt, size_t i) {
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

/* One call of one rank, with its own buffers: right or not, and nothing else touched. */
typedef struct call {
    coll__node_op_t op;
    kind_t kind;
    uint64_t salt;
    char *send, *recv;
    size_t recv_bytes;
    bool symmetric;
} call_t;

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

static void free_buffer(char *memory, bool symmetric) {
    if (symmetric)
        coll__heap_free(memory);
    else
        free(memory);
}

static void make_call(call_t *call, member_t *member, coll_operation_t operation, kind_t kind, size_t count, int root,
                      bool symmetric) {
    uint64_t sequence = ++member->sequence;
    size_t bytes = count * coll_dtype_size(kind.dtype);
    *call = (call_t){.kind = kind, .salt = sequence, .symmetric = symmetric};
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

static void end_call(call_t *call, member_t *member) {
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
        expect(member, get(op->dtype, call->recv, i) == expected);
    }
    for (size_t i = 0; i < op->count; i++) /* the input is what it was */
        expect(member,
               get(op->dtype, call->send, i) ==
                   (call->kind.op == COLL_MINLOC && i % 2 ? member->rank : number(member->rank, call->salt, i)));
    for (int i = 0; i < CANARY; i++)
        expect(member, call->recv[call->recv_bytes + (size_t)i] == (char)0xa5);
    free_buffer(call->send, call->symmetric);
    free_buffer(call->recv, call->symmetric);
}

static void step_until_done(member_t *member, call_t *call) {
    int64_t deadline = coll__deadline_after(PATIENCE_S);
    int status;
    while ((status = coll__node_step(member->channel, &call->op)) == COLL__AGAIN && coll__now_ns() < deadline)
        sched_yield();
    expect(member, status == 0);
}

/* As a blocking call does: tried alone for a while, then in line. */
static void do_call(member_t *member, coll_operation_t operation, kind_t kind, size_t count, int root, bool symmetric) {
    call_t call;
    make_call(&call, member, operation, kind, count, root, symmetric);
    int status = COLL__AGAIN;
    for (int i = 0; i < 3 && status == COLL__AGAIN; i++)
        status = coll__node_try(member->channel, &call.op);
    expect(member, status == 0 || status == COLL__AGAIN);
    if (status == COLL__AGAIN) {
        coll__node_begin(member->channel, &call.op);
        step_until_done(member, &call);
    }
    end_call(&call, member);
}

/* ---- every operation ---- */

static void every_operation(member_t *member) {
    int size = member->job->size;
    size_t chunk = member->channel->chunk_bytes;
    /* Around: nothing, the inline bytes, the slot, a chunk, and the places for chunks. */
    const size_t bytes[] = {0,
                            8,
                            32,
                            40,
                            8192,
                            8200,
                            chunk,
                            chunk - 8,
                            chunk + 8,
                            COLL__NODE_STAGE,
                            COLL__NODE_STAGE + 8,
                            2 * COLL__NODE_STAGE + chunk / 2 + 8};
    enum { SIZES = sizeof bytes / sizeof bytes[0], SMALL = 9 };
    for (int i = 0; i < SIZES; i++)
        for (int k = 0; k < KINDS; k++) {
            if (i >= SMALL ? k != 1 : i > 5 && k != i % KINDS)
                continue; /* the time of the thread sanitizer is short */
            size_t count = bytes[i] / coll_dtype_size(kinds[k].dtype);
            if (kinds[k].dtype == COLL_INT8 && count && i % 2)
                count -= 3; /* no whole number of anything */
            do_call(member, COLL_OP_ALLREDUCE, kinds[k], count, 0, false);
            do_call(member, COLL_OP_ALLGATHER, kinds[k], count, 0, false);
            for (int root = 0; root < size; root += i < SMALL ? 1 : 3) {
                do_call(member, COLL_OP_BROADCAST, kinds[k], count, root, false);
                do_call(member, COLL_OP_REDUCE, kinds[k], count, root, false);
            }
            do_call(member, COLL_OP_BARRIER, kinds[0], 0, 0, false);
        }
}

static void test_every_operation(void **state) {
    (void)state;
    for (int size = 2; size <= MOST; size += size == 3 ? 2 : 1) {
        job_t job;
        open_job(&job, size);
        attach_all(&job, 7);
        in_threads(&job, every_operation);
        close_job(&job);
    }
}

/* ---- several under way, ordinary and symmetric ---- */

static void several_under_way(member_t *member) {
    enum { ROUNDS = 12, AT_ONCE = 12 }; /* more than slots */
    static const coll_operation_t operations[] = {COLL_OP_ALLREDUCE, COLL_OP_BROADCAST, COLL_OP_REDUCE,
                                                  COLL_OP_BARRIER,   COLL_OP_ALLGATHER, COLL_OP_BROADCAST};
    static const size_t counts[] = {3, 5000, 1, 4, 1025, 20001, 0, 9000};
    int size = member->job->size;
    call_t call[AT_ONCE];
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < AT_ONCE; i++) {
            int which = round + i;
            coll_operation_t operation = operations[which % 6];
            make_call(&call[i], member, operation, kinds[1], operation == COLL_OP_BARRIER ? 0 : counts[which % 8],
                      which % size, (which + member->rank) % 3 == 0);
            coll__node_begin(member->channel, &call[i].op);
            if ((round + member->rank) % 3 == 0)
                sched_yield();
        }
        for (int i = 0; i < AT_ONCE; i++)
            step_until_done(member, &call[i]);
        for (int i = 0; i < AT_ONCE; i++)
            end_call(&call[i], member);
    }
}

static void use_heaps(job_t *job) {
    size_t bytes;
    int fd = coll__heap_fd(&bytes);
    assert_true(fd >= 0);
    for (int i = 0; i < job->size; i++) {
        for (int other = 0; other < job->size; other++)
            if (other != i)
                assert_int_equal(coll__node_map_heap(job->member[i].node, other, getpid(), fd, bytes), 0);
        assert_false(coll__node_uses_heaps(job->member[i].node));
        coll__node_use_heaps(job->member[i].node);
        assert_true(coll__node_uses_heaps(job->member[i].node));
    }
}

static void test_several_under_way(void **state) {
    (void)state;
    for (int size = 2; size <= 4; size++) {
        job_t job;
        open_job(&job, size);
        if (size != 3)
            use_heaps(&job);
        attach_all(&job, 7);
        in_threads(&job, several_under_way);
        close_job(&job);
    }
}

static void test_heaps_that_cannot_be_mapped(void **state) {
    (void)state;
    job_t job;
    open_job(&job, 2);
    size_t bytes;
    int fd = coll__heap_fd(&bytes);
    coll__node_t *node = job.member[0].node;
    assert_int_equal(coll__node_map_heap(node, 1, getpid(), 9999, bytes), COLL_ERR_TRANSPORT);
    assert_non_null(strstr(coll_error_message(), "local rank 1"));
    assert_int_equal(coll__node_map_heap(node, 1, getpid(), fd, bytes + 4096), COLL_ERR_TRANSPORT);
    assert_int_equal(coll__node_map_heap(node, 1, getpid(), STDIN_FILENO, bytes), COLL_ERR_TRANSPORT);
    close_job(&job);
}

/* ---- a root that only sends runs ahead ---- */

static void run_ahead(member_t *member) {
    enum { CALLS = 200 };
    for (int i = 0; i < CALLS; i++) {
        if (member->rank == 1 && i % 50 == 49)
            usleep(2000);
        do_call(member, i % 5 == 4 ? COLL_OP_REDUCE : COLL_OP_BROADCAST, kinds[1], (size_t)(i % 7), i % 5 == 4 ? 1 : 0,
                false);
    }
}

static void test_root_runs_ahead(void **state) {
    (void)state;
    job_t job;
    open_job(&job, 3);
    attach_all(&job, 7);
    in_threads(&job, run_ahead);
    close_job(&job);
}

/* It goes as far as there are slots, and is woken when one is free again. */
static void test_root_waits_for_a_slot(void **state) {
    (void)state;
    enum { CALLS = COLL__NODE_SLOTS + 1 };
    job_t job;
    call_t root[CALLS], other[CALLS];
    open_job(&job, 2);
    attach_all(&job, 7);
    member_t *first = &job.member[0], *second = &job.member[1];
    for (int i = 0; i < CALLS; i++) {
        make_call(&root[i], first, COLL_OP_BROADCAST, kinds[1], 3, 0, false);
        make_call(&other[i], second, COLL_OP_BROADCAST, kinds[1], 3, 0, false);
        assert_int_equal(coll__node_try(first->channel, &root[i].op), i < COLL__NODE_SLOTS ? 0 : COLL__AGAIN);
    }
    coll__node_begin(first->channel, &root[CALLS - 1].op);
    for (int i = 0; i < CALLS; i++)
        coll__node_begin(second->channel, &other[i].op);
    assert_int_equal(coll__node_step(first->channel, &root[CALLS - 1].op), COLL__AGAIN);
    atomic_store(&first->node->segment->lines[0].sleeping, 1); /* it parks now; all flags it could wait for are shown */
    assert_int_equal(coll__node_step(second->channel, &other[0].op), 0);
    assert_int_equal(atomic_load(&first->node->segment->lines[0].sleeping), 0);
    struct pollfd wake = {.fd = job.segment.wake_fd[0], .events = POLLIN};
    assert_int_equal(poll(&wake, 1, 0), 1);
    assert_int_equal(coll__node_step(first->channel, &root[CALLS - 1].op), 0);
    for (int i = 1; i < CALLS; i++)
        assert_int_equal(coll__node_step(second->channel, &other[i].op), 0);
    for (int i = 0; i < CALLS; i++) {
        end_call(&root[i], first);
        end_call(&other[i], second);
    }
    assert_true(!first->failed && !second->failed);
    close_job(&job);
}

/* ---- parked ---- */

static int can_go_on(void *arg) {
    void **pair = arg;
    int *status = pair[2];
    if (*status == COLL__AGAIN)
        *status = coll__node_step(((member_t *)pair[0])->channel, &((call_t *)pair[1])->op);
    return *status != COLL__AGAIN;
}

static void parked(member_t *member) {
    for (int round = 0; round < 120; round++) {
        call_t call;
        int status = COLL__AGAIN;
        make_call(&call, member, round % 3 ? COLL_OP_ALLREDUCE : COLL_OP_BROADCAST, kinds[1], round % 4 ? 2 : 3000,
                  round % member->job->size, false);
        coll__node_begin(member->channel, &call.op);
        void *pair[] = {member, &call, &status};
        while (!can_go_on(pair) && !member->failed)
            expect(member,
                   coll__local_segment_park(&member->job->segment.view[member->rank], can_go_on, pair, 10000) >= 0);
        expect(member, status == 0);
        end_call(&call, member);
    }
}

static void test_parked(void **state) {
    (void)state;
    job_t job;
    open_job(&job, 4);
    attach_all(&job, 7);
    in_threads(&job, parked);
    close_job(&job);
}

/* ---- given up ---- */

/* Rank 0 has no part in the second call, which the others have begun: they give it up, as far as they may be. */
static void test_cancelled_in_the_middle(void **state) {
    (void)state;
    static const size_t counts[] = {2, 1000, 3000, 140000};
    static const coll_operation_t operations[] = {COLL_OP_ALLREDUCE, COLL_OP_BROADCAST, COLL_OP_ALLGATHER,
                                                  COLL_OP_REDUCE};
    job_t job;
    open_job(&job, 3);
    attach_all(&job, 7);
    for (int round = 0; round < 32; round++) {
        call_t before[3], given_up[3], after[3];
        coll_operation_t operation = operations[round % 4];
        size_t count = counts[round / 4 % 4];
        for (int i = 0; i < 3; i++) {
            member_t *member = &job.member[i];
            make_call(&before[i], member, COLL_OP_ALLREDUCE, kinds[1], 5, 0, false);
            make_call(&given_up[i], member, operation, kinds[1], count, 1, false);
            make_call(&after[i], member, operation, kinds[1], count, 2, false);
            coll__node_begin(member->channel, &before[i].op);
            if (i == 0)
                coll__node_skip(member->channel, given_up[i].op.sequence);
            else
                coll__node_begin(member->channel, &given_up[i].op);
        }
        for (int turn = 0; turn < 3; turn++)
            for (int i = 0; i < 3; i++)
                if (coll__node_step(job.member[i].channel, &before[i].op) == 0 && i > 0)
                    while (coll__node_step(job.member[i].channel, &given_up[i].op) == COLL__AGAIN &&
                           given_up[i].op.staged + given_up[i].op.folded > 0 && turn == 0)
                        turn++; /* some way into the chunks */
        bool early = round % 2; /* the next call is in line before the one in front of it is given up */
        for (int i = 0; i < 3; i++) {
            if (early)
                coll__node_begin(job.member[i].channel, &after[i].op);
            if (i > 0)
                coll__node_cancel(job.member[i].channel, &given_up[i].op);
            coll__node_cancel(job.member[i].channel, &given_up[i].op); /* it is not there: nothing happens */
            if (!early)
                coll__node_begin(job.member[i].channel, &after[i].op);
        }
        int left = 3;
        bool done[3] = {false};
        for (int turn = 0; left && turn < 10000; turn++)
            for (int i = 0; i < 3; i++)
                if (!done[i]) {
                    done[i] = coll__node_step(job.member[i].channel, &after[i].op) == 0;
                    left -= done[i];
                }
        assert_int_equal(left, 0);
        for (int i = 0; i < 3; i++) {
            assert_true(coll__channel_idle(job.member[i].channel));
            end_call(&before[i], &job.member[i]);
            end_call(&after[i], &job.member[i]);
            free_buffer(given_up[i].send, false);
            free_buffer(given_up[i].recv, false);
            assert_int_equal(job.member[i].failed, 0);
        }
    }
    close_job(&job);
}

/* ---- who is missing ---- */

static void test_missing(void **state) {
    (void)state;
    for (size_t count = 2; count <= 2000; count += 1998) {
        job_t job;
        open_job(&job, 4);
        attach_all(&job, 7);
        call_t call[4];
        int ranks[4];
        for (int i = 0; i < 4; i++)
            make_call(&call[i], &job.member[i], COLL_OP_ALLREDUCE, kinds[1], count, 0, false);
        coll__node_begin(job.member[1].channel, &call[1].op);
        coll__node_step(job.member[1].channel, &call[1].op);
        assert_int_equal(coll__node_missing(job.member[1].channel, &call[1].op, ranks, 4), 3);
        coll__node_begin(job.member[3].channel, &call[3].op);
        coll__node_step(job.member[3].channel, &call[3].op);
        coll__node_step(job.member[1].channel, &call[1].op);
        assert_int_equal(coll__node_missing(job.member[1].channel, &call[1].op, ranks, 4), 2);
        assert_true(ranks[0] == 0 && ranks[1] == 2);
        assert_int_equal(coll__node_missing(job.member[1].channel, &call[1].op, ranks, 1), 1);
        coll__node_cancel(job.member[1].channel, &call[1].op);
        coll__node_cancel(job.member[3].channel, &call[3].op);
        for (int i = 0; i < 4; i++) {
            free_buffer(call[i].send, false);
            free_buffer(call[i].recv, false);
        }
        close_job(&job);
    }
}

/* ---- calls that differ ---- */

static void test_mismatch(void **state) {
    (void)state;
    static const size_t counts[] = {2, 2000}; /* slot, chunked */
    for (int i = 0; i < 4; i++) {
        job_t job;
        open_job(&job, 2);
        attach_all(&job, 7);
        call_t first, second;
        make_call(&first, &job.member[0], COLL_OP_ALLREDUCE, kinds[1], counts[i % 2], 0, false);
        make_call(&second, &job.member[1], COLL_OP_ALLREDUCE, kinds[1], counts[i / 2] + 1, 0, false);
        coll__node_begin(job.member[0].channel, &first.op);
        assert_int_equal(coll__node_step(job.member[0].channel, &first.op), COLL__AGAIN);
        coll__node_begin(job.member[1].channel, &second.op);
        assert_int_equal(coll__node_step(job.member[1].channel, &second.op), COLL_ERR_MISMATCH);
        assert_int_equal(coll__node_step(job.member[0].channel, &first.op), COLL_ERR_MISMATCH);
        assert_int_equal(second.op.other_rank, 0);
        assert_int_equal(second.op.other_sequence, 1);
        assert_int_equal(second.op.other_fingerprint, first.op.fingerprint);
        assert_int_equal(first.op.other_rank, 1);
        assert_int_equal(first.op.other_fingerprint, second.op.fingerprint);
        for (size_t k = 0; k < first.recv_bytes; k++)
            assert_int_equal(first.recv[k], (char)0xa5); /* nothing of it was taken */
        free_buffer(first.send, false);
        free_buffer(first.recv, false);
        free_buffer(second.send, false);
        free_buffer(second.recv, false);
        close_job(&job);
    }
}

/* Both were roots and waited for nobody: it shows one call later. */
static void test_mismatch_of_the_call_before(void **state) {
    (void)state;
    job_t job;
    open_job(&job, 2);
    attach_all(&job, 7);
    call_t call[2], next[2];
    for (int i = 0; i < 2; i++) {
        make_call(&call[i], &job.member[i], COLL_OP_BROADCAST, kinds[1], 1, i, false);
        call[i].op.fingerprint = 100 + (uint64_t)i;
        coll__node_begin(job.member[i].channel, &call[i].op);
        assert_int_equal(coll__node_step(job.member[i].channel, &call[i].op), 0);
        make_call(&next[i], &job.member[i], COLL_OP_BARRIER, kinds[1], 0, 0, false);
        next[i].op.previous = call[i].op.fingerprint;
        coll__node_begin(job.member[i].channel, &next[i].op);
    }
    for (int i = 0; i < 2; i++) {
        assert_int_equal(coll__node_step(job.member[i].channel, &next[i].op), COLL_ERR_MISMATCH);
        assert_int_equal(next[i].op.other_sequence, 1);
        assert_int_equal(next[i].op.other_fingerprint, 100 + (uint64_t)!i);
        free_buffer(call[i].send, false);
        free_buffer(call[i].recv, false);
        end_call(&next[i], &job.member[i]);
    }
    close_job(&job);
}

/* ---- channels ---- */

enum { MORE = COLL__NODE_CHANNELS + 5, OWN = 1000 };

/* Communicators are made by all ranks in different orders; each has a channel on all of them or on none. */
static void attach_many(member_t *member) {
    coll__channel_t *channel[MORE];
    for (int i = 0; i < MORE; i++) {
        int id = 1 + (i * (member->rank + 2) * 3 + member->rank) % MORE; /* MORE is prime to these steps */
        expect(member, coll__channel_attach(member->node, (uint64_t)id, everyone, member->job->size, member->rank,
                                            &channel[id - 1]) == 0);
    }
    pthread_barrier_wait(&member->job->meet);
    int got = 0;
    for (int i = 0; i < MORE; i++) {
        member->channel = channel[i];
        member->sequence = 0;
        if (!channel[i])
            continue;
        got++;
        do_call(member, COLL_OP_ALLREDUCE, kinds[1], 3 + (size_t)i * 100, 0, false); /* hangs if it is one-sided */
    }
    expect(member, got == COLL__NODE_CHANNELS);
    for (int i = 0; i < MORE; i++)
        coll__channel_detach(channel[(i + member->rank * 7) % MORE]);
    /* All are free again, and clean. */
    pthread_barrier_wait(&member->job->meet);
    for (int i = 0; i < COLL__NODE_CHANNELS + 8; i++) {
        expect(member, coll__channel_attach(member->node, OWN + (uint64_t)i, everyone, member->job->size, member->rank,
                                            &member->channel) == 0);
        expect(member, member->channel != NULL);
        member->sequence = 0;
        for (int k = 0; k < 3 && member->channel; k++)
            do_call(member, COLL_OP_ALLREDUCE, kinds[1], k % 2 ? 3000 : 2, 0, false);
        coll__channel_detach(member->channel);
        member->channel = NULL;
        if (i % 8 == 7) /* otherwise the fast ones go on with the next */
            pthread_barrier_wait(&member->job->meet);
    }
}

static void test_channels_run_out(void **state) {
    (void)state;
    job_t job;
    open_job(&job, 3);
    assert_true(MORE % 2 && MORE % 3); /* attach_many() visits every id */
    in_threads(&job, attach_many);
    close_job(&job);
}

/* Members are numbered by the communicator, not by the node; some of the node's ranks are in none. */
static void in_another_order(member_t *member) {
    static int members[] = {4, 0, 2};
    static const int rank_of[] = {1, -1, 2, -1, 0};
    int rank = rank_of[member->rank];
    if (rank < 0)
        return;
    member_t as = {.job = &(job_t){.size = 3}, .rank = rank, .node = member->node};
    expect(&as, coll__channel_attach(member->node, 8, members, 3, rank, &as.channel) == 0);
    for (int i = 0; i < 50; i++) {
        do_call(&as, COLL_OP_ALLGATHER, kinds[0], i % 2 ? 30 : 9001, 0, false);
        do_call(&as, COLL_OP_BROADCAST, kinds[0], i % 2 ? 30 : 9001, i % 3, false);
    }
    coll__channel_detach(as.channel);
    expect(member, !as.failed);
}

static void test_another_order(void **state) {
    (void)state;
    job_t job;
    open_job(&job, 5);
    in_threads(&job, in_another_order);
    close_job(&job);
}

static void test_seats_run_out(void **state) {
    (void)state;
    job_t job;
    open_job(&job, 2);
    static coll__channel_t *made[COLL__NODE_SEATS + 1];
    coll__channel_t *channel;
    for (uint64_t id = 1; id <= COLL__NODE_SEATS; id++) { /* rank 1 comes to none of them */
        assert_int_equal(coll__channel_attach(job.member[0].node, id, everyone, 2, 0, &made[id]), 0);
        assert_int_equal(made[id] != NULL, id <= COLL__NODE_CHANNELS);
    }
    assert_int_equal(coll__channel_attach(job.member[0].node, 5000, everyone, 2, 0, &channel), COLL_ERR_TRANSPORT);
    assert_non_null(strstr(coll_error_message(), "1024 communicators"));
    assert_int_equal(coll__channel_attach(job.member[1].node, COLL__NODE_SEATS, everyone, 2, 1, &channel), 0);
    assert_null(channel); /* as it was for rank 0; both have now left the seat */
    assert_int_equal(coll__channel_attach(job.member[0].node, 5000, everyone, 2, 0, &channel), 0);
    for (int id = 1; id <= COLL__NODE_CHANNELS; id++)
        coll__channel_detach(made[id]);
    close_job(&job);
}

/* A rank dies with the lock. */
static void test_lock_of_the_dead(void **state) {
    (void)state;
    job_t job;
    open_job(&job, 2);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        pthread_mutex_lock(&job.member[1].node->head->lock);
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    attach_all(&job, 9);
    in_threads(&job, run_ahead);
    close_job(&job);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_operation),
        cmocka_unit_test(test_several_under_way),
        cmocka_unit_test(test_heaps_that_cannot_be_mapped),
        cmocka_unit_test(test_root_runs_ahead),
        cmocka_unit_test(test_root_waits_for_a_slot),
        cmocka_unit_test(test_parked),
        cmocka_unit_test(test_cancelled_in_the_middle),
        cmocka_unit_test(test_missing),
        cmocka_unit_test(test_mismatch),
        cmocka_unit_test(test_mismatch_of_the_call_before),
        cmocka_unit_test(test_channels_run_out),
        cmocka_unit_test(test_another_order),
        cmocka_unit_test(test_seats_run_out),
        cmocka_unit_test(test_lock_of_the_dead),
    };
    return cmocka_run_group_tests_name("node", tests, NULL, NULL);
}
