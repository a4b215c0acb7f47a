/* Places of communicators in the node's region: found alike by all, run out, free again; and heaps that cannot be
 * mapped. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "base/status.h"
#include "node/heap.h"
#include "support/node_job.h"

static void test_heaps_that_cannot_be_mapped(void **state) {
    (void)state;
    coll__node_job_t job;
    coll__node_job_open(&job, 2);
    size_t bytes;
    int fd = coll__heap_fd(&bytes);
    coll__node_t *node = job.member[0].node;
    assert_int_equal(coll__node_map_heap(node, 1, getpid(), 9999, bytes), COLL_ERR_TRANSPORT);
    assert_non_null(strstr(coll_error_message(), "local rank 1"));
    assert_int_equal(coll__node_map_heap(node, 1, getpid(), fd, bytes + 4096), COLL_ERR_TRANSPORT);
    assert_int_equal(coll__node_map_heap(node, 1, getpid(), STDIN_FILENO, bytes), COLL_ERR_TRANSPORT);
    coll__node_job_close(&job);
}

/* ---- channels ---- */

enum { MORE = COLL__NODE_CHANNELS + 5, OWN = 1000 };

/* Communicators are made by all ranks in different orders; each has a channel on all of them or on none. */
static void attach_many(coll__node_rank_t *member) {
    coll__channel_t *channel[MORE];
    for (int i = 0; i < MORE; i++) {
        int id = 1 + (i * (member->rank + 2) * 3 + member->rank) % MORE; /* MORE is prime to these steps */
        coll__node_expect(member, coll__channel_attach(member->node, (uint64_t)id, coll__node_everyone,
                                                       member->job->size, member->rank, &channel[id - 1]) == 0);
    }
    pthread_barrier_wait(&member->job->meet);
    int got = 0;
    for (int i = 0; i < MORE; i++) {
        member->channel = channel[i];
        member->sequence = 0;
        if (!channel[i])
            continue;
        got++;
        coll__node_call_do(member, COLL_OP_ALLREDUCE, coll__node_kinds[1], 3 + (size_t)i * 100, 0,
                           false); /* hangs if it is one-sided */
    }
    coll__node_expect(member, got == COLL__NODE_CHANNELS);
    for (int i = 0; i < MORE; i++)
        coll__channel_detach(channel[(i + member->rank * 7) % MORE]);
    /* All are free again, and clean. */
    pthread_barrier_wait(&member->job->meet);
    for (int i = 0; i < COLL__NODE_CHANNELS + 8; i++) {
        coll__node_expect(member, coll__channel_attach(member->node, OWN + (uint64_t)i, coll__node_everyone,
                                                       member->job->size, member->rank, &member->channel) == 0);
        coll__node_expect(member, member->channel != NULL);
        member->sequence = 0;
        for (int k = 0; k < 3 && member->channel; k++)
            coll__node_call_do(member, COLL_OP_ALLREDUCE, coll__node_kinds[1], k % 2 ? 3000 : 2, 0, false);
        coll__channel_detach(member->channel);
        member->channel = NULL;
        if (i % 8 == 7) /* otherwise the fast ones go on with the next */
            pthread_barrier_wait(&member->job->meet);
    }
}

static void test_channels_run_out(void **state) {
    (void)state;
    coll__node_job_t job;
    coll__node_job_open(&job, 3);
    assert_true(MORE % 2 && MORE % 3); /* attach_many() visits every id */
    coll__node_job_run(&job, attach_many);
    coll__node_job_close(&job);
}

static void test_seats_run_out(void **state) {
    (void)state;
    coll__node_job_t job;
    coll__node_job_open(&job, 2);
    static coll__channel_t *made[COLL__NODE_SEATS + 1];
    coll__channel_t *channel;
    for (uint64_t id = 1; id <= COLL__NODE_SEATS; id++) { /* rank 1 comes to none of them */
        assert_int_equal(coll__channel_attach(job.member[0].node, id, coll__node_everyone, 2, 0, &made[id]), 0);
        assert_int_equal(made[id] != NULL, id <= COLL__NODE_CHANNELS);
    }
    assert_int_equal(coll__channel_attach(job.member[0].node, 5000, coll__node_everyone, 2, 0, &channel),
                     COLL_ERR_TRANSPORT);
    assert_non_null(strstr(coll_error_message(), "1024 communicators"));
    assert_int_equal(coll__channel_attach(job.member[1].node, COLL__NODE_SEATS, coll__node_everyone, 2, 1, &channel),
                     0);
    assert_null(channel); /* as it was for rank 0; both have now left the seat */
    assert_int_equal(coll__channel_attach(job.member[0].node, 5000, coll__node_everyone, 2, 0, &channel), 0);
    for (int id = 1; id <= COLL__NODE_CHANNELS; id++)
        coll__channel_detach(made[id]);
    coll__node_job_close(&job);
}

static void a_few_calls(coll__node_rank_t *member) {
    for (int i = 0; i < 20; i++)
        coll__node_call_do(member, COLL_OP_ALLREDUCE, coll__node_kinds[1], 3, 0, false);
}

/* A rank dies with the lock. */
static void test_lock_of_the_dead(void **state) {
    (void)state;
    coll__node_job_t job;
    coll__node_job_open(&job, 2);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        pthread_mutex_lock(&job.member[1].node->head->lock);
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    coll__node_job_attach(&job, 9);
    coll__node_job_run(&job, a_few_calls);
    coll__node_job_close(&job);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_heaps_that_cannot_be_mapped),
        cmocka_unit_test(test_channels_run_out),
        cmocka_unit_test(test_seats_run_out),
        cmocka_unit_test(test_lock_of_the_dead),
    };
    return cmocka_run_group_tests_name("node_channels", tests, NULL, NULL);
}
