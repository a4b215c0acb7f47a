/* Blocking calls that are interrupted (coll_set_interruptible): resumed, given up, or neither, from several threads. */
#include <coll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "support/ranks.h"

static double wall(void) {
    return (double)coll__now_ns() / 1e9;
}

static int resume_all(coll_comm_t *comm, int status, int *interruptions) {
    while (status == COLL_ERR_INTERRUPTED) {
        ++*interruptions;
        status = coll_resume(comm);
    }
    return status;
}

static int resumed(int rank, int size, void *arg) {
    (void)size, (void)arg;
    coll_comm_t *world;
    coll__check_ok(coll_init(NULL, &world));
    coll__check(coll_resume(world) == COLL_ERR_STATE);
    coll__check_ok(coll_barrier(world));
    if (rank == 0) {
        usleep(700 * 1000);
        coll__check_ok(coll_barrier(world));
        usleep(700 * 1000);
        int value = 5;
        coll__check_ok(coll_send(&value, 1, COLL_INT32, 1, 9, world));
    } else {
        int interruptions = 0, value = 0;
        coll_recv_status_t got = {0};
        coll__check_ok(coll_set_interruptible(1));
        int status = coll_barrier(world);
        coll__check(status == COLL_ERR_INTERRUPTED);
        coll__check(coll_barrier(world) == COLL_ERR_STATE); /* the first one is not over */
        coll__check(coll_recv(&value, 1, COLL_INT32, 0, 9, NULL, world) == COLL_ERR_STATE);
        coll__check_ok(resume_all(world, status, &interruptions));
        coll__check(interruptions >= 1 && interruptions <= 4);
        interruptions = 0;
        coll__check_ok(
            resume_all(world, coll_recv(&value, 1, COLL_INT32, COLL_ANY_SOURCE, 9, &got, world), &interruptions));
        coll__check(value == 5 && got.source == 0 && got.tag == 9 && got.bytes == sizeof value);
        coll__check(interruptions >= 1 && interruptions <= 4);
        coll__check(coll_resume(world) == COLL_ERR_STATE);
        coll__check_ok(coll_set_interruptible(0));
    }
    coll__check_ok(coll_barrier(world));
    coll__check_ok(coll_finalize());
    return 0;
}

static int timed_out_between(int rank, int size, void *arg) {
    (void)size, (void)arg;
    coll_comm_t *world;
    coll__check_ok(coll_init(NULL, &world));
    if (rank == 1) {
        int interruptions = 0;
        double start = wall();
        coll__check_ok(coll_set_interruptible(1));
        coll__check_ok(coll_comm_set_timeout(world, 1));
        coll__check(resume_all(world, coll_barrier(world), &interruptions) == COLL_ERR_TIMEOUT);
        coll__check(interruptions >= 1 && wall() - start > 0.9 &&
                    wall() - start < 4); /* one deadline for all its parts */
    }
    coll__check(coll__ranks_meet(20) == 0);
    coll__check_ok(coll_finalize());
    return 0;
}

static int abandoned(int rank, int size, void *arg) {
    (void)size, (void)arg;
    coll_comm_t *world;
    coll__check_ok(coll_init(NULL, &world));
    coll__check_ok(coll_barrier(world));
    if (rank == 1) {
        coll__check_ok(coll_set_interruptible(1));
        coll__check(coll_barrier(world) == COLL_ERR_INTERRUPTED);
        coll__check_ok(coll_abandon(world, "the user had enough"));
        coll__check(coll_barrier(world) == COLL_ERR_CLOSED);
        coll__check(coll_resume(world) == COLL_ERR_STATE);
    } else {
        usleep(800 * 1000);
        int status = coll_barrier(world);
        if (status == 0)
            status = coll_barrier(world); /* the one given up had been entered: it may count */
        coll__check(status == COLL_ERR_PEER);
        coll__check(strstr(coll_error_message(), "the user had enough") != NULL);
    }
    coll__check_ok(coll_finalize());
    return 0;
}

/* Neither resumed nor given up when its communicator, or everything, ends. */
static int interrupted_at_the_end(int rank, int size, void *arg) {
    (void)size, (void)arg;
    coll_comm_t *world, *comm;
    coll__check_ok(coll_init(NULL, &world));
    coll__check_ok(coll_comm_dup(world, &comm));
    coll__check_ok(coll_barrier(comm));
    if (rank == 1) {
        coll__check_ok(coll_set_interruptible(1));
        coll__check(coll_barrier(comm) == COLL_ERR_INTERRUPTED);
        coll__check_ok(coll_comm_free(comm));
        coll__check(coll_barrier(world) == COLL_ERR_INTERRUPTED);
    }
    coll__check(coll__ranks_meet(10) == 0);
    coll__check_ok(coll_finalize());
    return 0;
}

struct caller {
    coll_comm_t *comm;
    int rank, interruptions, wrong;
};

static void *receive_in_thread(void *arg) {
    struct caller *caller = arg;
    for (int i = 0; i < 3; i++) {
        int value = -1;
        int status = coll_recv(&value, 1, COLL_INT32, 1 - caller->rank, 4, NULL, caller->comm);
        if (resume_all(caller->comm, status, &caller->interruptions) != 0 || value != i)
            caller->wrong++;
    }
    return NULL;
}

/* Two threads block on one communicator, both interrupted again and again: each resumes its own call. */
static int interrupted_threads(int rank, int size, void *arg) {
    (void)size, (void)arg;
    coll_comm_t *world;
    pthread_t thread;
    int interruptions = 0;
    coll__check_ok(coll_init(NULL, &world));
    coll__check_ok(coll_set_interruptible(1));
    struct caller caller = {.comm = world, .rank = rank};
    coll__check(pthread_create(&thread, NULL, receive_in_thread, &caller) == 0);
    for (int i = 0; i < 3; i++) {
        if (rank == 0)
            usleep(600 * 1000);
        coll__check_ok(resume_all(world, coll_barrier(world), &interruptions));
        coll__check_ok(resume_all(world, coll_send(&i, 1, COLL_INT32, 1 - rank, 4, world), &interruptions));
    }
    coll__check(pthread_join(thread, NULL) == 0);
    coll__check(caller.wrong == 0 && caller.interruptions > 0 && (rank == 0 || interruptions > 0));
    coll__check_ok(resume_all(world, coll_barrier(world), &interruptions));
    coll__check_ok(coll_finalize());
    return 0;
}

#define RANKS_TEST(name, body, ranks, arg)                             \
    static void name(void **state) {                                   \
        (void)state;                                                   \
        assert_int_equal(coll__fork_ranks(ranks, 60.0, body, arg), 0); \
    }

RANKS_TEST(test_resumed, resumed, 2, NULL)
RANKS_TEST(test_timed_out_between, timed_out_between, 2, NULL)
RANKS_TEST(test_abandoned, abandoned, 2, NULL)
RANKS_TEST(test_interrupted_at_the_end, interrupted_at_the_end, 2, NULL)
RANKS_TEST(test_interrupted_threads, interrupted_threads, 2, NULL)

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_resumed),
        cmocka_unit_test(test_timed_out_between),
        cmocka_unit_test(test_abandoned),
        cmocka_unit_test(test_interrupted_at_the_end),
        cmocka_unit_test(test_interrupted_threads),
    };
    return cmocka_run_group_tests_name("interrupts", tests, NULL, NULL);
}
