/* Waits that are long, disturbed or many (cases W1 to W5): CPU time is counted, wall time only bounds what must end. */
#include <coll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "support/ranks.h"

static double wall(void) {
    return (double)coll__now_ns() / 1e9;
}

static double cpu(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

enum { UNRELATED = 5, WANTED = 6 };

/* W1: unrelated messages drip in before the one that is waited for. */
static int drip(int rank, int size, void *arg) {
    (void)size, (void)arg;
    coll_comm_t *comm;
    int value = 0, wanted = 42;
    coll__check_ok(coll_init(NULL, &comm));
    coll__check_ok(coll_barrier(comm));
    if (rank == 1) {
        for (int i = 0; i < 40; i++) {
            usleep(3000);
            coll__check_ok(coll_send(&i, 1, COLL_INT32, 0, UNRELATED, comm));
        }
        coll__check_ok(coll_send(&wanted, 1, COLL_INT32, 0, WANTED, comm));
    } else {
        double start = wall(), used = cpu();
        coll__check_ok(coll_recv(&value, 1, COLL_INT32, 1, WANTED, NULL, comm));
        double took = wall() - start, busy = cpu() - used;
        fprintf(stderr, "drip: %.1f ms wall, %.1f ms CPU\n", took * 1e3, busy * 1e3);
        coll__check(value == 42);
        coll__check(took > 0.1 && busy < took / 2);
        for (int i = 0; i < 40; i++) {
            coll__check_ok(coll_recv(&value, 1, COLL_INT32, 1, UNRELATED, NULL, comm));
            coll__check(value == i);
        }
    }
    coll__check_ok(coll_finalize());
    return 0;
}

/* W2: a flood of them. */
static int flood(int rank, int size, void *arg) {
    (void)size, (void)arg;
    coll_comm_t *comm;
    int value = 0;
    int *sent = coll__ranks_shared();
    coll__check_ok(coll_init(NULL, &comm));
    coll__check_ok(coll_barrier(comm));
    if (rank == 1) {
        enum { MOST = 200000 };
        coll_request_t **requests = malloc(MOST * sizeof *requests);
        int count = 0;
        double start = wall();
        while (wall() - start < 0.04 && count < MOST) {
            coll__check_ok(coll_isend(&count, 1, COLL_INT32, 0, UNRELATED, comm, &requests[count]));
            count++;
        }
        *sent = count;
        coll__check_ok(coll_send(&count, 1, COLL_INT32, 0, WANTED, comm));
        coll__check_ok(coll_wait_all(requests, (size_t)count, 20));
        for (int i = 0; i < count; i++)
            coll_request_free(requests[i]);
        free(requests);
    } else {
        double start = wall(), used = cpu();
        coll__check_ok(coll_recv(&value, 1, COLL_INT32, 1, WANTED, NULL, comm));
        double took = wall() - start, busy = cpu() - used;
        fprintf(stderr, "flood of %d: %.1f ms wall, %.1f ms CPU\n", value, took * 1e3, busy * 1e3);
        coll__check(took > 0.03 && busy < took / 2);
        int total = *sent;
        for (int i = 0; i < total; i++)
            coll__check_ok(coll_recv(&value, 1, COLL_INT32, 1, UNRELATED, NULL, comm));
    }
    coll__check_ok(coll_finalize());
    return 0;
}

static int by_value(const void *a, const void *b) {
    return *(const double *)a < *(const double *)b ? -1 : 1;
}

/* W3: a message that comes after the window of spinning wakes the sleeper at once. */
static int late(int rank, int size, void *arg) {
    (void)size, (void)arg;
    enum { TRIES = 11 };
    coll_comm_t *comm;
    int value;
    double took[TRIES];
    coll__check_ok(coll_init(NULL, &comm));
    for (int i = 0; i < TRIES; i++) {
        coll__check_ok(coll_barrier(comm));
        double start = wall();
        if (rank == 1) {
            usleep(9000);
            coll__check_ok(coll_send(&i, 1, COLL_INT32, 0, WANTED, comm));
        } else {
            coll__check_ok(coll_recv(&value, 1, COLL_INT32, 1, WANTED, NULL, comm));
        }
        took[i] = wall() - start;
    }
    qsort(took, TRIES, sizeof *took, by_value);
    if (rank == 0)
        fprintf(stderr, "late: median %.2f ms for a message after 9 ms\n", took[TRIES / 2] * 1e3);
    coll__check(took[TRIES / 2] < 0.0195); /* a lost wake-up would cost a whole COLL_POLL_MS more */
    coll__check_ok(coll_finalize());
    return 0;
}

/* W4: no wake-up is lost, with every rank asleep between any two messages. */
static int parked_rounds(int rank, int size, void *arg) {
    (void)arg;
    coll_comm_t *comm;
    double one = 1, sum;
    coll__check_ok(coll_init(NULL, &comm));
    double start = wall();
    for (int i = 0; i < 1000; i++) {
        coll__check_ok(coll_allreduce(&one, &sum, 1, COLL_FLOAT64, COLL_SUM, comm));
        coll__check(sum == size);
    }
    double took = wall() - start;
    if (rank == 0)
        fprintf(stderr, "%d parked ranks: %.3f ms an allreduce\n", size, took);
    coll__check(took < 60); /* COLL_POLL_MS is 1000: a few dozen lost wake-ups would not fit */
    coll__check_ok(coll_finalize());
    return 0;
}

/* W4, W5: ranks that wait long use no CPU. */
static int idle(int rank, int size, void *arg) {
    double seconds = *(double *)arg;
    coll_comm_t *comm;
    coll__check_ok(coll_init(NULL, &comm));
    coll__check_ok(coll_barrier(comm));
    if (rank == size - 1) {
        usleep((useconds_t)(seconds * 1e6));
        coll__check_ok(coll_barrier(comm));
    } else {
        double used = cpu();
        coll__check_ok(coll_barrier(comm));
        double busy = cpu() - used;
        fprintf(stderr, "idle for %.0f s: %.1f ms CPU\n", seconds, busy * 1e3);
        coll__check(busy < 0.02 + 0.002 * seconds);
    }
    coll__check_ok(coll_finalize());
    return 0;
}

/* The same of a root that has run ahead as far as it can, while nobody shows anything new. */
static int idle_root(int rank, int size, void *arg) {
    enum { CALLS = 12 }; /* more than can be under way */
    double seconds = *(double *)arg, value = 3;
    (void)size;
    coll_comm_t *comm;
    coll__check_ok(coll_init(NULL, &comm));
    coll__check_ok(coll_barrier(comm));
    if (rank == 1)
        usleep((useconds_t)(seconds * 1e6));
    double used = cpu();
    for (int i = 0; i < CALLS; i++)
        coll__check_ok(coll_broadcast(&value, 1, COLL_FLOAT64, 0, comm));
    double busy = cpu() - used;
    coll__check(rank == 1 || busy < 0.02 + 0.002 * seconds);
    coll__check_ok(coll_finalize());
    return 0;
}

/* Several threads of one process wait on communicators of their own. */
struct thread {
    coll_comm_t *comm;
    int rounds, ok, size;
};

static void *thread_body(void *arg) {
    struct thread *thread = arg;
    double one = 1, sum = 0;
    thread->ok = 1;
    for (int i = 0; i < thread->rounds; i++)
        thread->ok &= coll_allreduce(&one, &sum, 1, COLL_FLOAT64, COLL_SUM, thread->comm) == 0 && sum == thread->size;
    return NULL;
}

static int threads(int rank, int size, void *arg) {
    (void)arg;
    enum { THREADS = 4 };
    coll_comm_t *world;
    struct thread thread[THREADS];
    pthread_t id[THREADS];
    coll__check_ok(coll_init(NULL, &world));
    for (int i = 0; i < THREADS; i++) {
        thread[i] = (struct thread){.rounds = 300, .size = size};
        coll__check_ok(coll_comm_dup(world, &thread[i].comm));
    }
    for (int i = 0; i < THREADS; i++) {
        int which = rank % 2 ? THREADS - 1 - i : i; /* opposite order */
        pthread_create(&id[which], NULL, thread_body, &thread[which]);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(id[i], NULL);
        coll__check(thread[i].ok);
    }
    coll__check_ok(coll_finalize());
    return 0;
}

static void at(int ranks, coll__rank_body_t body, void *arg) {
    assert_int_equal(coll__fork_ranks(ranks, 90, body, arg), 0);
}

static void with(const char *spin_us, const char *poll_ms, int ranks, coll__rank_body_t body, void *arg) {
    setenv("COLL_SPIN_US", spin_us, 1);
    setenv("COLL_POLL_MS", poll_ms, 1);
    at(ranks, body, arg);
    unsetenv("COLL_SPIN_US");
    unsetenv("COLL_POLL_MS");
}

static void test_drip(void **state) {
    (void)state;
    with("20000", "100", 2, drip, NULL);
}

static void test_flood(void **state) {
    (void)state;
    with("2000", "100", 2, flood, NULL);
}

static void test_late(void **state) {
    (void)state;
    with("1000", "20", 2, late, NULL);
}

static void test_lost_wake_up(void **state) {
    (void)state;
    with("0", "1000", 2, parked_rounds, NULL);
    with("0", "1000", 8, parked_rounds, NULL);
}

static void test_lost_wake_up_over_ofi(void **state) {
    (void)state;
    setenv("COLL_TRANSPORT", "ofi", 1);
    with("0", "1000", 3, parked_rounds, NULL);
    unsetenv("COLL_TRANSPORT");
}

static void test_idle(void **state) {
    (void)state;
    double seconds = 1;
    with("0", "100", 2, idle, &seconds);
    seconds = 4;
    with("auto", "100", 4, idle, &seconds);
    with("auto", "100", 2, idle_root, &seconds);
    setenv("COLL_TRANSPORT", "ofi", 1);
    with("auto", "100", 2, idle, &seconds);
    unsetenv("COLL_TRANSPORT");
}

static void test_threads(void **state) {
    (void)state;
    at(2, threads, NULL);
    with("0", "1000", 3, threads, NULL);
    setenv("COLL_PROGRESS", "thread", 1);
    at(2, threads, NULL);
    unsetenv("COLL_PROGRESS");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_drip),
        cmocka_unit_test(test_flood),
        cmocka_unit_test(test_late),
        cmocka_unit_test(test_lost_wake_up),
        cmocka_unit_test(test_lost_wake_up_over_ofi),
        cmocka_unit_test(test_idle),
        cmocka_unit_test(test_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
