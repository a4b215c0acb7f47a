/* Collectives of one node by ranks that are threads, so that the thread sanitizer sees what they share.
 * (test_node_steps.c has the edges step by step, test_node_turns.c tries orders of steps at random.) */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <sched.h>
#include <unistd.h>

#include "base/status.h"
#include "node/heap.h"
#include "support/node_job.h"

/* ---- every operation ---- */

static void every_operation(coll__node_rank_t *member) {
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
        for (int k = 0; k < COLL__NODE_KINDS; k++) {
            if (i >= SMALL ? k != 1 : i > 5 && k != i % COLL__NODE_KINDS)
                continue; /* the time of the thread sanitizer is short */
            size_t count = bytes[i] / coll_dtype_size(coll__node_kinds[k].dtype);
            if (coll__node_kinds[k].dtype == COLL_INT8 && count && i % 2)
                count -= 3; /* no whole number of anything */
            coll__node_call_do(member, COLL_OP_ALLREDUCE, coll__node_kinds[k], count, 0, false);
            coll__node_call_do(member, COLL_OP_ALLGATHER, coll__node_kinds[k], count, 0, false);
            for (int root = 0; root < size; root += i < SMALL ? 1 : 3) {
                coll__node_call_do(member, COLL_OP_BROADCAST, coll__node_kinds[k], count, root, false);
                coll__node_call_do(member, COLL_OP_REDUCE, coll__node_kinds[k], count, root, false);
            }
            coll__node_call_do(member, COLL_OP_BARRIER, coll__node_kinds[0], 0, 0, false);
        }
}

static void test_every_operation(void **state) {
    (void)state;
    for (int size = 2; size <= COLL__NODE_JOB_MOST; size += size == 3 ? 2 : 1) {
        coll__node_job_t job;
        coll__node_job_open(&job, size);
        coll__node_job_attach(&job, 7);
        coll__node_job_run(&job, every_operation);
        coll__node_job_close(&job);
    }
}

/* ---- several under way, ordinary and symmetric ---- */

static void several_under_way(coll__node_rank_t *member) {
    enum { ROUNDS = 12, AT_ONCE = 12 }; /* more than slots */
    static const coll_operation_t operations[] = {COLL_OP_ALLREDUCE, COLL_OP_BROADCAST, COLL_OP_REDUCE,
                                                  COLL_OP_BARRIER,   COLL_OP_ALLGATHER, COLL_OP_BROADCAST};
    static const size_t counts[] = {3, 5000, 1, 4, 1025, 20001, 0, 9000};
    int size = member->job->size;
    coll__node_call_t call[AT_ONCE];
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < AT_ONCE; i++) {
            int which = round + i;
            coll_operation_t operation = operations[which % 6];
            coll__node_call_make(&call[i], member, operation, coll__node_kinds[1],
                                 operation == COLL_OP_BARRIER ? 0 : counts[which % 8], which % size,
                                 (which + member->rank) % 3 == 0);
            coll__node_begin(member->channel, &call[i].op);
            if ((round + member->rank) % 3 == 0)
                sched_yield();
        }
        for (int i = 0; i < AT_ONCE; i++)
            coll__node_call_finish(member, &call[i]);
        for (int i = 0; i < AT_ONCE; i++)
            coll__node_call_end(&call[i], member);
    }
}

static void use_heaps(coll__node_job_t *job) {
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
        coll__node_job_t job;
        coll__node_job_open(&job, size);
        if (size != 3)
            use_heaps(&job);
        coll__node_job_attach(&job, 7);
        coll__node_job_run(&job, several_under_way);
        coll__node_job_close(&job);
    }
}

/* ---- a root that only sends runs ahead ---- */

static void run_ahead(coll__node_rank_t *member) {
    enum { CALLS = 200 };
    for (int i = 0; i < CALLS; i++) {
        if (member->rank == 1 && i % 50 == 49)
            usleep(2000);
        coll__node_call_do(member, i % 5 == 4 ? COLL_OP_REDUCE : COLL_OP_BROADCAST, coll__node_kinds[1],
                           (size_t)(i % 7), i % 5 == 4 ? 1 : 0, false);
    }
}

static void test_root_runs_ahead(void **state) {
    (void)state;
    coll__node_job_t job;
    coll__node_job_open(&job, 3);
    coll__node_job_attach(&job, 7);
    coll__node_job_run(&job, run_ahead);
    coll__node_job_close(&job);
}

/* ---- parked ---- */

static int can_go_on(void *arg) {
    void **pair = arg;
    int *status = pair[2];
    if (*status == COLL__AGAIN)
        *status = coll__node_step(((coll__node_rank_t *)pair[0])->channel, &((coll__node_call_t *)pair[1])->op);
    return *status != COLL__AGAIN;
}

static void parked(coll__node_rank_t *member) {
    for (int round = 0; round < 120; round++) {
        coll__node_call_t call;
        int status = COLL__AGAIN;
        coll__node_call_make(&call, member, round % 3 ? COLL_OP_ALLREDUCE : COLL_OP_BROADCAST, coll__node_kinds[1],
                             round % 4 ? 2 : 3000, round % member->job->size, false);
        coll__node_begin(member->channel, &call.op);
        void *pair[] = {member, &call, &status};
        while (!can_go_on(pair) && !member->failed)
            coll__node_expect(member, coll__local_segment_park(&member->job->segment.view[member->rank], can_go_on,
                                                               pair, 10000) >= 0);
        coll__node_expect(member, status == 0);
        coll__node_call_end(&call, member);
    }
}

static void test_parked(void **state) {
    (void)state;
    coll__node_job_t job;
    coll__node_job_open(&job, 4);
    coll__node_job_attach(&job, 7);
    coll__node_job_run(&job, parked);
    coll__node_job_close(&job);
}

/* Members are numbered by the communicator, not by the node; some of the node's ranks are in none. */
static void in_another_order(coll__node_rank_t *member) {
    static int members[] = {4, 0, 2};
    static const int rank_of[] = {1, -1, 2, -1, 0};
    int rank = rank_of[member->rank];
    if (rank < 0)
        return;
    coll__node_rank_t as = {.job = &(coll__node_job_t){.size = 3}, .rank = rank, .node = member->node};
    coll__node_expect(&as, coll__channel_attach(member->node, 8, members, 3, rank, &as.channel) == 0);
    for (int i = 0; i < 50; i++) {
        coll__node_call_do(&as, COLL_OP_ALLGATHER, coll__node_kinds[0], i % 2 ? 30 : 9001, 0, false);
        coll__node_call_do(&as, COLL_OP_BROADCAST, coll__node_kinds[0], i % 2 ? 30 : 9001, i % 3, false);
    }
    coll__channel_detach(as.channel);
    coll__node_expect(member, !as.failed);
}

static void test_another_order(void **state) {
    (void)state;
    coll__node_job_t job;
    coll__node_job_open(&job, 5);
    coll__node_job_run(&job, in_another_order);
    coll__node_job_close(&job);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_operation), cmocka_unit_test(test_several_under_way),
        cmocka_unit_test(test_root_runs_ahead), cmocka_unit_test(test_parked),
        cmocka_unit_test(test_another_order),
    };
    return cmocka_run_group_tests_name("node", tests, NULL, NULL);
}
