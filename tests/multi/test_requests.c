/* The lives of requests and communicators: freed in every order, in flight or not, and over the end of the library. */
#include <arpa/inet.h>
#include <coll.h>
#include <dirent.h>
#include <malloc.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
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

/* Once more in the same process, with another place to meet: everything is as the first time. */
static int initialised_again(int rank, int size, void *arg) {
    (void)arg;
    coll_comm_t *world, *other;
    struct ports {
        atomic_int port;
    } *shared = coll__ranks_shared();
    coll__check_ok(coll_init(NULL, &world));
    coll__check_ok(coll_init(NULL, &other));
    coll__check(other == world);
    coll__check_ok(coll_barrier(world));
    coll__check_ok(coll_finalize());
    coll__check(coll_world(&other) == COLL_ERR_STATE);
    int fds = open_fds();
    for (int round = 0; round < 3; round++) {
        unsetenv("COLL_LISTEN_FD"); /* the socket of the first job */
        if (rank == 0) {
            int fd = socket(AF_INET, SOCK_STREAM, 0);
            struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
            socklen_t length = sizeof at;
            coll__check(bind(fd, (struct sockaddr *)&at, sizeof at) == 0 && listen(fd, 16) == 0);
            coll__check(getsockname(fd, (struct sockaddr *)&at, &length) == 0);
            char text[16];
            snprintf(text, sizeof text, "%d", fd);
            setenv("COLL_LISTEN_FD", text, 1);
            atomic_store(&shared->port, ntohs(at.sin_port));
        }
        coll__check(coll__ranks_meet(10) == 0);
        char port[16];
        snprintf(port, sizeof port, "%d", atomic_load(&shared->port));
        setenv("COLL_PORT", port, 1);
        coll__check_ok(coll_init(NULL, &world));
        int sum = 0;
        coll__check_ok(coll_allreduce(&rank, &sum, 1, COLL_INT32, COLL_SUM, world));
        coll__check(sum == size * (size - 1) / 2);
        coll__check_ok(coll_finalize());
        coll__check(coll__ranks_meet(10) == 0);
        coll__check(open_fds() == fds);
    }
    /* With the variables of a job that is over: an error that says what is wrong, before the timeout. */
    coll_init_opts_t opts = coll_init_opts_default();
    opts.timeout = 20;
    if (rank == 0) {
        double start = wall();
        coll__check(coll_init(&opts, &world) < 0);
        coll__check(strstr(coll_error_message(), "COLL_LISTEN_FD") != NULL);
        coll__check(wall() - start < 10);
    }
    return 0;
}

/* ---- the job is aborted ---- */

/* Also where calls are so quick that nobody ever waits, and where the caller itself goes on. */
static int aborted_while_busy(int rank, int size, void *arg) {
    (void)size, (void)arg;
    coll_comm_t *world, *comm;
    coll__check_ok(coll_init(NULL, &world));
    coll__check_ok(coll_comm_split(world, rank == 0, 0, &comm));
    coll__check_ok(coll_barrier(world));
    if (rank == 0) {
        usleep(100 * 1000);
        coll__check_ok(coll_comm_abort(world, "enough", 1));
    }
    double start = wall();
    int status;
    do
        status = coll_barrier(comm);
    while (status == 0 && wall() - start < 5);
    coll__check(status == COLL_ERR_PEER && strstr(coll_error_message(), "enough"));
    coll__check(coll_barrier(world) != 0);
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
RANKS_TEST(test_initialised_again, initialised_again, 2, NULL)
RANKS_TEST(test_aborted_while_busy, aborted_while_busy, 3, NULL)
RANKS_TEST(test_two_wait, two_wait, 2, NULL)
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
        cmocka_unit_test(test_initialised_again),
        cmocka_unit_test(test_aborted_while_busy),
        cmocka_unit_test(test_two_wait),
        cmocka_unit_test(test_bad_calls),
        cmocka_unit_test(test_two_mismatches_on_node),
        cmocka_unit_test(test_two_mismatches_of_messages),
    };
    return cmocka_run_group_tests_name("requests", tests, NULL, NULL);
}
