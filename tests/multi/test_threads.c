/* Several threads of each rank in the library at once: on communicators of their own, in different orders, and on one
 * that they share. The thread sanitizer watches. */
#include <coll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "support/ranks.h"

enum { COLLECTING = 2, TALKING = 2, THREADS = COLLECTING + TALKING + 2, ROUNDS = 80, MOST = 20001 };

typedef struct worker {
    int rank, size, number;
    coll_comm_t *comm;
    double *x, *y;
    atomic_int *over; /* how many of the others have ended */
} worker_t;

static double value(const worker_t *worker, int rank, int round, size_t i) {
    return (double)((rank + 1) * 100 + worker->number * 10 + round + (int)(i % 7));
}

/* Collectives, blocking and not, of all sizes, on a communicator of its own. */
static int collect(worker_t *worker) {
    static const size_t counts[] = {1, 4, 500, 1025, 7000, MOST};
    int size = worker->size;
    for (int round = 0; round < ROUNDS; round++) {
        size_t count = counts[(round + worker->number) % 6];
        coll_request_t *barrier;
        for (size_t i = 0; i < count; i++)
            worker->x[i] = value(worker, worker->rank, round, i);
        if ((round + worker->rank + worker->number) % 8 == 0)
            usleep(3000);
        coll__check_ok(coll_ibarrier(worker->comm, &barrier));
        if (round % 3) {
            coll__check_ok(coll_allreduce(worker->x, worker->y, count, COLL_FLOAT64, COLL_SUM, worker->comm));
        } else {
            coll_request_t *request;
            coll__check_ok(
                coll_iallreduce(worker->x, worker->y, count, COLL_FLOAT64, COLL_SUM, worker->comm, &request));
            coll__check_ok(coll_wait(request, 30));
            coll__check_ok(coll_request_free(request));
        }
        for (size_t i = 0; i < count; i++) {
            double sum = 0;
            for (int rank = 0; rank < size; rank++)
                sum += value(worker, rank, round, i);
            coll__check(worker->y[i] == sum);
        }
        coll__check_ok(coll_broadcast(worker->x, count, COLL_FLOAT64, round % size, worker->comm));
        coll__check(worker->x[count - 1] == value(worker, round % size, round, count - 1));
        coll__check_ok(coll_wait(barrier, 30));
        coll__check_ok(coll_request_free(barrier));
    }
    return 0;
}

/* Messages around the ring on the communicator that all threads share, told apart by their tags. */
static int talk(worker_t *worker) {
    int next = (worker->rank + 1) % worker->size, before = (worker->rank + worker->size - 1) % worker->size;
    for (int round = 0; round < ROUNDS; round++) {
        size_t count = round % 4 ? 3 : 5000;
        coll_recv_status_t got;
        coll_request_t *request;
        for (size_t i = 0; i < count; i++)
            worker->x[i] = value(worker, worker->rank, round, i);
        coll__check_ok(coll_isend(worker->x, count, COLL_FLOAT64, next, worker->number, worker->comm, &request));
        coll__check_ok(coll_recv(worker->y, MOST, COLL_FLOAT64, before, worker->number, &got, worker->comm));
        coll__check(got.bytes == count * sizeof(double) && got.tag == worker->number);
        for (size_t i = 0; i < count; i++)
            coll__check(worker->y[i] == value(worker, before, round, i));
        coll__check_ok(coll_wait(request, 30));
        coll__check_ok(coll_request_free(request));
    }
    return 0;
}

/* Communicators made and freed. */
static int divide(worker_t *worker) {
    for (int round = 0; round < ROUNDS; round++) {
        coll_comm_t *part;
        int sum, expected = 0;
        coll__check_ok(coll_comm_split(worker->comm, worker->rank % 2, 0, &part));
        coll__check_ok(coll_allreduce(&worker->rank, &sum, 1, COLL_INT32, COLL_SUM, part));
        for (int rank = worker->rank % 2; rank < worker->size; rank += 2)
            expected += rank;
        coll__check(sum == expected);
        coll__check_ok(coll_comm_free(part));
    }
    return 0;
}

/* Asks, tests and looks while the others work; its receive never ends. */
static int look(worker_t *worker) {
    coll_request_t *request;
    int done = 0;
    char text[512];
    coll__check_ok(coll_irecv(worker->y, 1, COLL_FLOAT64, COLL_ANY_SOURCE, 99, worker->comm, &request));
    while (atomic_load(worker->over) < THREADS - 1) {
        coll_stat_info_t stat;
        coll__check_ok(coll_test(request, &done));
        coll__check(!done && coll_comm_rank(worker->comm) == worker->rank);
        coll__check_ok(coll_stats_get(worker->comm, 0, &stat));
        coll__check(coll_explain(worker->comm, COLL_OP_ALLREDUCE, 8, COLL_FLOAT64, COLL_SUM, text, sizeof text) >= 0);
        usleep(1000);
    }
    coll__check_ok(coll_request_free(request));
    return 0;
}

static void *work(void *arg) {
    worker_t *worker = arg;
    int failed = worker->number < COLLECTING             ? collect(worker)
                 : worker->number < COLLECTING + TALKING ? talk(worker)
                 : worker->number == THREADS - 2         ? divide(worker)
                                                         : look(worker);
    atomic_fetch_add(worker->over, 1);
    return (void *)(intptr_t)failed;
}

static int busy(int rank, int size, void *arg) {
    (void)arg;
    coll_comm_t *world, *shared;
    worker_t worker[THREADS];
    pthread_t thread[THREADS];
    atomic_int over = 0;
    coll__check_ok(coll_init(NULL, &world));
    coll__check_ok(coll_comm_dup(world, &shared));
    for (int i = 0; i < THREADS; i++) {
        worker[i] = (worker_t){.rank = rank, .size = size, .number = i, .comm = shared, .over = &over};
        worker[i].x = calloc(MOST, sizeof(double));
        worker[i].y = calloc(MOST, sizeof(double));
        if (i < COLLECTING || i == THREADS - 2)
            coll__check_ok(coll_comm_dup(world, &worker[i].comm));
    }
    for (int k = 0; k < THREADS; k++) { /* on each rank they begin in another order */
        int i = (k + rank) % THREADS;
        coll__check(pthread_create(&thread[i], NULL, work, &worker[i]) == 0);
    }
    int failed = 0;
    for (int i = 0; i < THREADS; i++) {
        void *result;
        coll__check(pthread_join(thread[i], &result) == 0);
        failed |= result != NULL;
        free(worker[i].x);
        free(worker[i].y);
    }
    coll__check(!failed);
    coll__check_ok(coll_barrier(world));
    coll__check_ok(coll_finalize());
    return 0;
}

static void run(const char *variable, const char *setting) {
    if (variable)
        setenv(variable, setting, 1);
    assert_int_equal(coll__fork_ranks(3, 100, busy, NULL), 0);
    if (variable)
        unsetenv(variable);
}

static void test_each_makes_progress(void **state) {
    (void)state;
    run(NULL, NULL);
}

static void test_a_thread_makes_progress(void **state) {
    (void)state;
    run("COLL_PROGRESS", "thread");
}

static void test_parking_at_once(void **state) {
    (void)state;
    run("COLL_SPIN_US", "0");
}

static void test_by_messages(void **state) {
    (void)state;
    run("COLL_TUNE", "allreduce:ring,broadcast:binomial,barrier:dissemination");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_makes_progress),
        cmocka_unit_test(test_a_thread_makes_progress),
        cmocka_unit_test(test_parking_at_once),
        cmocka_unit_test(test_by_messages),
    };
    return cmocka_run_group_tests_name("threads", tests, NULL, NULL);
}
