/* The lives of requests and communicators: freed in every order, in flight or not, interrupted, and over the end of the
 * library. */
#include <coll.h>
#include <dirent.h>
#include <malloc.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
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

static int open_fds(void) {
    DIR *dir = opendir("/proc/self/fd");
    int count = 0;
    while (readdir(dir))
        count++;
    closedir(dir);
    return count;
}

/* ---- freed in every order ---- */

enum { COUNT = 1000 };

static int persistent_outlives(int rank, int size, void *arg) {
    (void)arg;
    coll_comm_t *world, *comm;
    coll_request_t *request;
    double x[COUNT], y[COUNT];
    for (int i = 0; i < COUNT; i++)
        x[i] = rank + i;
    coll__check_ok(coll_init(NULL, &world));
    coll__check_ok(coll_comm_dup(world, &comm));
    coll__check_ok(coll_allreduce_init(x, y, COUNT, COLL_FLOAT64, COLL_SUM, comm, &request));
    coll__check_ok(coll_start(request));
    coll__check(coll_start(request) == COLL_ERR_STATE || coll_wait(request, 10) == 0); /* it may have ended at once */
    coll__check_ok(coll_wait(request, 10));
    coll__check_ok(coll_start(request));
    coll__check_ok(coll_comm_free(comm)); /* in flight */
    coll__check_ok(coll_wait(request, 10));
    for (int i = 0; i < COUNT; i++)
        coll__check(y[i] == size * (size - 1) / 2 + size * i);
    coll__check(coll_start(request) == COLL_ERR_CLOSED);
    coll__check_ok(coll_wait(request, 10)); /* still what it was */
    coll__check(coll_barrier(comm) == COLL_ERR_CLOSED);
    coll__check_ok(coll_request_free(request));
    coll__check_ok(coll_barrier(world));
    coll__check_ok(coll_finalize());
    return 0;
}

/* A request and its communicator are let go while peers have not begun; their results are right all the same. `arg`:
 * the rules. */
static int freed_in_flight(int rank, int size, void *arg) {
    if (arg)
        setenv("COLL_TUNE", arg, 1);
    coll_comm_t *world, *comm;
    coll__check_ok(coll_init(NULL, &world));
    for (int round = 0; round < 20; round++) {
        static double x[COUNT], y[COUNT]; /* a freed request's buffers must stay */
        coll_request_t *request, *barrier;
        coll__check_ok(coll_barrier(world));
        for (int i = 0; i < COUNT; i++)
            x[i] = rank + i + round;
        coll__check_ok(coll_comm_dup(world, &comm));
        if (rank == round % size)
            usleep(2000);
        coll__check_ok(coll_iallreduce(x, y, COUNT, COLL_FLOAT64, COLL_SUM, comm, &request));
        coll__check_ok(coll_ibarrier(comm, &barrier));
        if (round % 2)
            coll__check_ok(coll_comm_free(comm));
        if (rank % 2) {
            coll__check_ok(coll_request_free(request));
        } else {
            coll__check_ok(coll_wait(request, 5));
            for (int i = 0; i < COUNT; i++)
                coll__check(y[i] == size * (size - 1) / 2 + size * (i + round));
            coll__check_ok(coll_request_free(request));
        }
        coll__check_ok(coll_wait(barrier, 5)); /* the allreduce has ended everywhere: it comes before */
        coll__check_ok(coll_request_free(barrier));
        if (round % 2 == 0)
            coll__check_ok(coll_comm_free(comm));
    }
    coll__check_ok(coll_barrier(world));
    coll__check_ok(coll_finalize());
    return 0;
}

/* Memory and descriptors stay what they are, however many communicators come and go; some outlive others. */
static int many_splits(int rank, int size, void *arg) {
    (void)arg;
    coll_comm_t *world, *kept[4] = {0};
    coll__check_ok(coll_init(NULL, &world));
    size_t before = 0;
    int fds = 0;
    for (int round = 0; round < 400; round++) {
        coll_comm_t *comm;
        int sum, color = round % 3 ? rank % 2 : 0;
        coll__check_ok(coll_comm_split(world, color, -rank, &comm));
        coll__check_ok(coll_allreduce(&rank, &sum, 1, COLL_INT32, COLL_SUM, comm));
        int expected = 0;
        for (int i = 0; i < size; i++)
            expected += round % 3 == 0 || i % 2 == rank % 2 ? i : 0;
        coll__check(sum == expected);
        int place = (round * 7 + rank) % 4; /* another order on each rank */
        if (kept[place])
            coll__check_ok(coll_comm_free(kept[place]));
        kept[place] = comm;
        if (round == 100) {
            before = mallinfo2().uordblks;
            fds = open_fds();
        }
    }
    size_t after = mallinfo2().uordblks;
    coll__check(open_fds() == fds);
    if (after > before + 65536)
        fprintf(stderr, "%zu bytes in use after 100 splits, %zu after 400\n", before, after);
    coll__check(after <= before + 65536);
    coll__check_ok(coll_finalize());
    return 0;
}

/* ---- over the end ---- */

static int finalized_in_flight(int rank, int size, void *arg) {
    (void)size;
    if (arg)
        setenv("COLL_TUNE", arg, 1);
    coll_comm_t *world;
    coll_request_t *request, *recv;
    static double x[COUNT], y[COUNT];
    static char never[10];
    coll__check_ok(coll_init(NULL, &world));
    coll__check_ok(coll_barrier(world));
    if (rank == 0)
        coll__check_ok(coll_iallreduce(x, y, COUNT, COLL_FLOAT64, COLL_SUM, world, &request)); /* alone */
    coll__check_ok(coll_irecv(never, sizeof never, COLL_INT8, COLL_ANY_SOURCE, 3, world, &recv));
    double start = wall();
    coll__check_ok(coll_finalize());
    coll__check(wall() - start < 8);
    int done = 0;
    coll__check(coll_test(recv, &done) == COLL_ERR_CLOSED && done == 1);
    coll__check(coll_wait(recv, 1) == COLL_ERR_CLOSED);
    coll__check_ok(coll_request_free(recv));
    if (rank == 0) {
        coll__check(coll_start(request) == COLL_ERR_CLOSED);
        coll__check(coll_wait(request, 1) == COLL_ERR_CLOSED);
        coll__check_ok(coll_request_free(request));
    }
    coll__check(coll_barrier(world) == COLL_ERR_CLOSED);
    coll__check_ok(coll_finalize());
    return 0;
}

/* ---- threads ---- */

static void *wait_in_thread(void *request) {
    return (void *)(intptr_t)coll_wait(request, 10);
}

static int two_wait(int rank, int size, void *arg) {
    (void)size, (void)arg;
    coll_comm_t *world;
    coll__check_ok(coll_init(NULL, &world));
    for (int round = 0; round < 20; round++) {
        coll_request_t *request;
        pthread_t thread;
        void *status;
        if (rank == round % 2)
            usleep(round * 500);
        coll__check_ok(coll_ibarrier(world, &request));
        coll__check(pthread_create(&thread, NULL, wait_in_thread, request) == 0);
        coll__check_ok(coll_wait(request, 10));
        coll__check(pthread_join(thread, &status) == 0 && status == NULL);
        coll__check_ok(coll_request_free(request));
    }
    coll__check_ok(coll_finalize());
    return 0;
}

/* ---- interrupted ---- */

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

/* ---- errors of one rank alone ---- */

/* More of them in a row than the node's channel has slots, and the communicator still works. */
static int bad_calls(int rank, int size, void *arg) {
    (void)arg;
    enum { IN_A_ROW = 12 };
    coll_comm_t *world;
    coll__check_ok(coll_init(NULL, &world));
    coll__check_ok(coll_barrier(world));
    double x[2] = {1, 2}, y[2];
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < IN_A_ROW; i++) {
            if (rank == 1)
                usleep(3000); /* the others are in the call already */
            coll__check(coll_allreduce(x, y, 2, COLL_FLOAT64, rank == 1 ? COLL_BAND : COLL_SUM, world) ==
                        (rank == 1 ? COLL_ERR_TYPE : COLL_ERR_PEER));
        }
        coll__check_ok(coll_allreduce(x, y, 2, COLL_FLOAT64, COLL_SUM, world));
        coll__check(y[0] == size && y[1] == 2 * size);
    }
    coll__check_ok(coll_finalize());
    return 0;
}

/* Calls of two communicators differ at the same moment: each is found out. */
static int two_mismatches(int rank, int size, void *arg) {
    (void)size;
    if (arg)
        setenv("COLL_TUNE", arg, 1);
    coll_comm_t *world, *comm[2];
    coll_request_t *request[2];
    double x[3] = {1, 2, 3}, y[2][3];
    coll__check_ok(coll_init(NULL, &world));
    for (int i = 0; i < 2; i++)
        coll__check_ok(coll_comm_dup(world, &comm[i]));
    coll__check_ok(coll_barrier(world));
    if (rank == 1)
        usleep(50 * 1000);
    for (int i = 0; i < 2; i++)
        coll__check_ok(coll_iallreduce(x, y[i], rank == 1 ? 3 : 2, COLL_FLOAT64, COLL_SUM, comm[i], &request[i]));
    double start = wall();
    for (int i = 0; i < 2; i++) {
        coll__check(coll_wait(request[i], 20) == COLL_ERR_MISMATCH);
        coll__check(strstr(coll_error_message(), "3 x float64") && strstr(coll_error_message(), "2 x float64"));
        coll__check_ok(coll_request_free(request[i]));
        coll__check_ok(coll_comm_free(comm[i]));
    }
    coll__check(wall() - start < 5);
    coll__check_ok(coll_barrier(world));
    coll__check_ok(coll_finalize());
    return 0;
}

#define RANKS_TEST(name, body, ranks, arg)                             \
    static void name(void **state) {                                   \
        (void)state;                                                   \
        assert_int_equal(coll__fork_ranks(ranks, 60.0, body, arg), 0); \
    }

RANKS_TEST(test_persistent_outlives, persistent_outlives, 3, NULL)
RANKS_TEST(test_freed_on_node, freed_in_flight, 3, NULL)
RANKS_TEST(test_freed_with_messages, freed_in_flight, 3, "allreduce:ring,barrier:dissemination")
RANKS_TEST(test_many_splits, many_splits, 4, NULL)
RANKS_TEST(test_finalized_on_node, finalized_in_flight, 2, NULL)
RANKS_TEST(test_finalized_with_messages, finalized_in_flight, 2, "allreduce:ring")
RANKS_TEST(test_two_wait, two_wait, 2, NULL)
RANKS_TEST(test_resumed, resumed, 2, NULL)
RANKS_TEST(test_timed_out_between, timed_out_between, 2, NULL)
RANKS_TEST(test_abandoned, abandoned, 2, NULL)
RANKS_TEST(test_interrupted_at_the_end, interrupted_at_the_end, 2, NULL)
RANKS_TEST(test_interrupted_threads, interrupted_threads, 2, NULL)
RANKS_TEST(test_bad_calls, bad_calls, 2, NULL)
RANKS_TEST(test_two_mismatches_on_node, two_mismatches, 2, NULL)
RANKS_TEST(test_two_mismatches_of_messages, two_mismatches, 2, "allreduce:ring")

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_persistent_outlives),
        cmocka_unit_test(test_freed_on_node),
        cmocka_unit_test(test_freed_with_messages),
        cmocka_unit_test(test_many_splits),
        cmocka_unit_test(test_finalized_on_node),
        cmocka_unit_test(test_finalized_with_messages),
        cmocka_unit_test(test_two_wait),
        cmocka_unit_test(test_resumed),
        cmocka_unit_test(test_timed_out_between),
        cmocka_unit_test(test_abandoned),
        cmocka_unit_test(test_interrupted_at_the_end),
        cmocka_unit_test(test_interrupted_threads),
        cmocka_unit_test(test_bad_calls),
        cmocka_unit_test(test_two_mismatches_on_node),
        cmocka_unit_test(test_two_mismatches_of_messages),
    };
    return cmocka_run_group_tests_name("requests", tests, NULL, NULL);
}
