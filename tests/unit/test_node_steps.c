/* Collectives of one node step by step in one thread: slots that are still read, calls that are given up, that differ,
 * or that wait for somebody. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <poll.h>

#include "base/status.h"
#include "support/node_job.h"

/* It goes as far as there are slots, and is woken when one is free again. */
static void test_root_waits_for_a_slot(void **state) {
    (void)state;
    enum { CALLS = COLL__NODE_SLOTS + 1 };
    coll__node_job_t job;
    coll__node_call_t root[CALLS], other[CALLS];
    coll__node_job_open(&job, 2);
    coll__node_job_attach(&job, 7);
    coll__node_rank_t *first = &job.member[0], *second = &job.member[1];
    for (int i = 0; i < CALLS; i++) {
        coll__node_call_make(&root[i], first, COLL_OP_BROADCAST, coll__node_kinds[1], 3, 0, false);
        coll__node_call_make(&other[i], second, COLL_OP_BROADCAST, coll__node_kinds[1], 3, 0, false);
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
        coll__node_call_end(&root[i], first);
        coll__node_call_end(&other[i], second);
    }
    assert_true(!first->failed && !second->failed);
    coll__node_job_close(&job);
}

/* ---- given up ---- */

/* Rank 0 has no part in the second call, which the others have begun: they give it up, as far as they may be. */
static void test_cancelled_in_the_middle(void **state) {
    (void)state;
    static const size_t counts[] = {2, 1000, 3000, 140000};
    static const coll_operation_t operations[] = {COLL_OP_ALLREDUCE, COLL_OP_BROADCAST, COLL_OP_ALLGATHER,
                                                  COLL_OP_REDUCE};
    coll__node_job_t job;
    coll__node_job_open(&job, 3);
    coll__node_job_attach(&job, 7);
    for (int round = 0; round < 32; round++) {
        coll__node_call_t before[3], given_up[3], after[3];
        coll_operation_t operation = operations[round % 4];
        size_t count = counts[round / 4 % 4];
        for (int i = 0; i < 3; i++) {
            coll__node_rank_t *member = &job.member[i];
            coll__node_call_make(&before[i], member, COLL_OP_ALLREDUCE, coll__node_kinds[1], 5, 0, false);
            coll__node_call_make(&given_up[i], member, operation, coll__node_kinds[1], count, 1, false);
            coll__node_call_make(&after[i], member, operation, coll__node_kinds[1], count, 2, false);
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
            coll__node_call_end(&before[i], &job.member[i]);
            coll__node_call_end(&after[i], &job.member[i]);
            coll__node_buffer_free(given_up[i].send, false);
            coll__node_buffer_free(given_up[i].recv, false);
            assert_int_equal(job.member[i].failed, 0);
        }
    }
    coll__node_job_close(&job);
}

/* ---- who is missing ---- */

static void test_missing(void **state) {
    (void)state;
    for (size_t count = 2; count <= 2000; count += 1998) {
        coll__node_job_t job;
        coll__node_job_open(&job, 4);
        coll__node_job_attach(&job, 7);
        coll__node_call_t call[4];
        int ranks[4];
        for (int i = 0; i < 4; i++)
            coll__node_call_make(&call[i], &job.member[i], COLL_OP_ALLREDUCE, coll__node_kinds[1], count, 0, false);
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
            coll__node_buffer_free(call[i].send, false);
            coll__node_buffer_free(call[i].recv, false);
        }
        coll__node_job_close(&job);
    }
}

/* ---- calls that differ ---- */

static void test_mismatch(void **state) {
    (void)state;
    static const size_t counts[] = {2, 2000}; /* slot, chunked */
    for (int i = 0; i < 4; i++) {
        coll__node_job_t job;
        coll__node_job_open(&job, 2);
        coll__node_job_attach(&job, 7);
        coll__node_call_t first, second;
        coll__node_call_make(&first, &job.member[0], COLL_OP_ALLREDUCE, coll__node_kinds[1], counts[i % 2], 0, false);
        coll__node_call_make(&second, &job.member[1], COLL_OP_ALLREDUCE, coll__node_kinds[1], counts[i / 2] + 1, 0,
                             false);
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
        coll__node_buffer_free(first.send, false);
        coll__node_buffer_free(first.recv, false);
        coll__node_buffer_free(second.send, false);
        coll__node_buffer_free(second.recv, false);
        coll__node_job_close(&job);
    }
}

/* Both were roots and waited for nobody: it shows one call later. */
static void test_mismatch_of_the_call_before(void **state) {
    (void)state;
    coll__node_job_t job;
    coll__node_job_open(&job, 2);
    coll__node_job_attach(&job, 7);
    coll__node_call_t call[2], next[2];
    for (int i = 0; i < 2; i++) {
        coll__node_call_make(&call[i], &job.member[i], COLL_OP_BROADCAST, coll__node_kinds[1], 1, i, false);
        call[i].op.fingerprint = 100 + (uint64_t)i;
        coll__node_begin(job.member[i].channel, &call[i].op);
        assert_int_equal(coll__node_step(job.member[i].channel, &call[i].op), 0);
        coll__node_call_make(&next[i], &job.member[i], COLL_OP_BARRIER, coll__node_kinds[1], 0, 0, false);
        next[i].op.previous = call[i].op.fingerprint;
        coll__node_begin(job.member[i].channel, &next[i].op);
    }
    for (int i = 0; i < 2; i++) {
        assert_int_equal(coll__node_step(job.member[i].channel, &next[i].op), COLL_ERR_MISMATCH);
        assert_int_equal(next[i].op.other_sequence, 1);
        assert_int_equal(next[i].op.other_fingerprint, 100 + (uint64_t)!i);
        coll__node_buffer_free(call[i].send, false);
        coll__node_buffer_free(call[i].recv, false);
        coll__node_call_end(&next[i], &job.member[i]);
    }
    coll__node_job_close(&job);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_root_waits_for_a_slot),
        cmocka_unit_test(test_cancelled_in_the_middle),
        cmocka_unit_test(test_missing),
        cmocka_unit_test(test_mismatch),
        cmocka_unit_test(test_mismatch_of_the_call_before),
    };
    return cmocka_run_group_tests_name("node_steps", tests, NULL, NULL);
}
