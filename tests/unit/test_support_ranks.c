/* The harness of the multi-process tests itself: a harness that misses a failure makes every other test worthless. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "support/ranks.h"

static int body_environment(int rank, int size, void *arg) {
    coll__check(atoi(getenv("COLL_RANK")) == rank);
    coll__check(atoi(getenv("COLL_SIZE")) == size);
    coll__check(strcmp(getenv("COLL_ADDR"), "127.0.0.1") == 0);
    coll__check(atoi(getenv("COLL_PORT")) > 0);
    coll__check(strlen(getenv("COLL_SECRET")) == 32);
    coll__check((getenv("COLL_LISTEN_FD") != NULL) == (rank == 0));
    coll__check(getenv("WORLD_SIZE") == NULL);
    coll__check(arg == NULL);
    atomic_fetch_add((atomic_int *)coll__ranks_shared(), 1);
    return 0;
}

static void test_ranks_see_a_launchers_environment(void **state) {
    (void)state;
    setenv("WORLD_SIZE", "77", 1);
    assert_int_equal(coll__fork_ranks(5, 10, body_environment, NULL), 0);
    assert_int_equal(atomic_load((atomic_int *)coll__ranks_shared()), 5);
}

static int body_one_fails(int rank, int size, void *arg) {
    (void)arg;
    if (rank == size - 1)
        return 7;
    return 0;
}

static void test_a_failing_rank_fails_the_call(void **state) {
    (void)state;
    assert_int_equal(coll__fork_ranks(3, 10, body_one_fails, NULL), 7);
}

static int body_256(int rank, int size, void *arg) {
    (void)rank, (void)size, (void)arg;
    return 256; /* its low byte is 0 */
}

static void test_no_code_is_lost_in_the_exit_status(void **state) {
    (void)state;
    assert_int_equal(coll__fork_ranks(1, 10, body_256, NULL), 1);
}

static int body_crash(int rank, int size, void *arg) {
    (void)size, (void)arg;
    if (rank == 1)
        raise(SIGTERM);
    return 0;
}

static void test_a_signal_fails_the_call(void **state) {
    (void)state;
    assert_int_equal(coll__fork_ranks(2, 10, body_crash, NULL), 128 + SIGTERM);
}

static int body_hang(int rank, int size, void *arg) {
    (void)size, (void)arg;
    if (rank == 0)
        pause();
    return 0;
}

static void test_the_deadline_ends_a_hang(void **state) {
    (void)state;
    assert_int_equal(coll__fork_ranks(2, 0.3, body_hang, NULL), COLL__RANKS_DEADLINE);
    assert_int_equal(kill(coll__rank_pid(0), 0), -1);
}

static int body_kill_peer(int rank, int size, void *arg) {
    (void)size, (void)arg;
    coll__check(coll__ranks_meet(5) == 0);
    if (rank == 0)
        coll__rank_signal(1, SIGKILL);
    if (rank == 1)
        for (;;)
            pause();
    coll__check(coll__ranks_meet(5) == 0); /* the dead one is not waited for */
    return 0;
}

static void test_a_rank_killed_on_purpose_does_not_count(void **state) {
    (void)state;
    assert_int_equal(coll__fork_ranks(3, 10, body_kill_peer, NULL), 0);
}

static int body_signals_later(int rank, int size, void *arg) {
    (void)size, (void)arg;
    if (rank == 0) {
        coll__rank_signal_after(1, SIGSTOP, 0.05);
        coll__rank_signal_after(2, SIGKILL, 0.1);
    } else {
        for (;;)
            pause();
    }
    return 0;
}

static void test_the_parent_signals_at_the_moment_asked_for(void **state) {
    (void)state;
    assert_int_equal(coll__fork_ranks(3, 10, body_signals_later, NULL), 0);
    assert_int_equal(kill(coll__rank_pid(1), 0), -1);
}

static int body_meeting_times_out(int rank, int size, void *arg) {
    (void)size, (void)arg;
    if (rank == 0)
        coll__check(coll__ranks_meet(0.1) == -1);
    else
        usleep(300000);
    return 0;
}

static void test_a_meeting_has_a_deadline(void **state) {
    (void)state;
    assert_int_equal(coll__fork_ranks(2, 10, body_meeting_times_out, NULL), 0);
}

static void test_a_bad_number_of_ranks_is_refused(void **state) {
    (void)state;
    assert_int_equal(coll__fork_ranks(0, 10, body_hang, NULL), COLL__RANKS_SETUP);
    assert_int_equal(coll__fork_ranks(COLL__RANKS_MAX + 1, 10, body_hang, NULL), COLL__RANKS_SETUP);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ranks_see_a_launchers_environment),
        cmocka_unit_test(test_a_failing_rank_fails_the_call),
        cmocka_unit_test(test_no_code_is_lost_in_the_exit_status),
        cmocka_unit_test(test_a_signal_fails_the_call),
        cmocka_unit_test(test_the_deadline_ends_a_hang),
        cmocka_unit_test(test_a_rank_killed_on_purpose_does_not_count),
        cmocka_unit_test(test_the_parent_signals_at_the_moment_asked_for),
        cmocka_unit_test(test_a_meeting_has_a_deadline),
        cmocka_unit_test(test_a_bad_number_of_ranks_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
