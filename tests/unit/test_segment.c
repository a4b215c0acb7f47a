/* Waking peers: the flag falls, the eventfd is written, and no wake-up is lost. */
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/segment.h"

static coll__segment_line_t lines[2];
static int wake_fds[2];
static const coll__segment_t segment = {.local_size = 2, .wake_fd = wake_fds, .lines = lines};

static int setup(void **state) {
    (void)state;
    for (int i = 0; i < 2; i++) {
        atomic_store(&lines[i].sleeping, 0);
        wake_fds[i] = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    }
    return wake_fds[0] < 0 || wake_fds[1] < 0;
}

static int teardown(void **state) {
    (void)state;
    return close(wake_fds[0]) | close(wake_fds[1]);
}

static uint64_t drained(int rank) {
    uint64_t value = 0;
    return read(wake_fds[rank], &value, sizeof value) == sizeof value ? value : 0;
}

static void test_wake(void **state) {
    (void)state;
    atomic_store(&lines[1].sleeping, 1);
    coll__segment_wake(&segment, 1);
    assert_int_equal(atomic_load(&lines[1].sleeping), 0);
    assert_int_equal(drained(1), 1);
    assert_int_equal(drained(0), 0);
}

static void test_ring_writes_only_for_sleepers(void **state) {
    (void)state;
    coll__segment_ring(&segment, 1);
    assert_int_equal(drained(1), 0);
    atomic_store(&lines[1].sleeping, 1);
    coll__segment_ring(&segment, 1);
    coll__segment_ring(&segment, 1);
    assert_int_equal(drained(1), 1);
}

static void test_full_counter_does_not_block(void **state) {
    (void)state;
    const uint64_t full = UINT64_MAX - 1;
    assert_int_equal(write(wake_fds[1], &full, sizeof full), sizeof full);
    coll__segment_wake(&segment, 1);
    assert_true(drained(1) == full);
}

/* Two threads hand a number to and fro; each sleeps until it is its turn, with no safety net but a long one that fails.
 */
enum { ROUNDS = 5000, LATE_MS = 5000 };
static atomic_int turn;

static int wait_for_turn(int rank, int wanted) {
    while (atomic_load_explicit(&turn, memory_order_acquire) != wanted) {
        atomic_store_explicit(&lines[rank].sleeping, 1, memory_order_relaxed);
        atomic_thread_fence(memory_order_seq_cst);
        if (atomic_load_explicit(&turn, memory_order_acquire) == wanted) {
            atomic_store_explicit(&lines[rank].sleeping, 0, memory_order_relaxed);
            return 0;
        }
        struct pollfd ready = {.fd = wake_fds[rank], .events = POLLIN};
        if (poll(&ready, 1, LATE_MS) != 1)
            return -1;
        drained(rank);
    }
    return 0;
}

static void *player(void *arg) {
    const int rank = *(const int *)arg;
    for (int i = rank; i < 2 * ROUNDS; i += 2) {
        if (wait_for_turn(rank, i) != 0)
            return arg;
        atomic_store_explicit(&turn, i + 1, memory_order_release);
        coll__segment_ring(&segment, !rank);
    }
    return NULL;
}

static void test_no_wake_up_is_lost(void **state) {
    (void)state;
    int ranks[2] = {0, 1};
    pthread_t threads[2];
    atomic_store(&turn, 0);
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, player, &ranks[i]), 0);
    for (int i = 0; i < 2; i++) {
        void *late;
        assert_int_equal(pthread_join(threads[i], &late), 0);
        assert_null(late);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_wake),
        TEST(test_ring_writes_only_for_sleepers),
        TEST(test_full_counter_does_not_block),
        TEST(test_no_wake_up_is_lost),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
