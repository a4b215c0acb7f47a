/* When something is wrong, every rank is told what, in bounded time, and nobody hangs. */
#include <coll.h>
#include <dirent.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "support/ranks.h"

static double seconds(void) {
    return (double)coll__now_ns() / 1e9;
}

static int message_has(const char *text) {
    if (strstr(coll_error_message(), text))
        return 1;
    fprintf(stderr, "message is: %s\n     wanted: %s\n", coll_error_message(), text);
    return 0;
}

static int names_only(int rank) {
    int ranks[8];
    size_t count = coll_error_ranks(ranks, 8);
    if (count == 1 && ranks[0] == rank)
        return 1;
    fprintf(stderr, "names %zu ranks, first %d, wanted only %d: %s\n", count, count ? ranks[0] : -1, rank,
            coll_error_message());
    return 0;
}

/* ---- an error on one rank only, or the same on all ---- */

static int bad_root(int rank, int size, void *arg) {
    (void)arg;
    coll_comm_t *comm;
    double x = rank, y = 0;
    coll__check_ok(coll_init(NULL, &comm));
    for (int round = 0; round < 50; round++) {
        /* all make the mistake */
        coll__check(coll_reduce(&x, &y, 1, COLL_FLOAT64, COLL_SUM, round % 2 ? -1 : size, comm) == COLL_ERR_ARG);
        coll__check(message_has("root is"));
        coll__check_ok(coll_allreduce(&x, &y, 1, COLL_FLOAT64, COLL_SUM, comm));
        coll__check(y == size * (size - 1) / 2.0);
        /* one does, the others are told at once */
        double start = seconds();
        int wrong = round % size;
        int status = coll_allreduce(&x, rank == wrong ? NULL : &y, 1, COLL_FLOAT64, COLL_SUM, comm);
        if (rank == wrong) {
            coll__check(status == COLL_ERR_ARG && message_has("recv is NULL"));
        } else {
            coll__check(status == COLL_ERR_PEER && message_has("recv is NULL") && names_only(wrong));
        }
        coll__check(seconds() - start < 2);
        coll__check_ok(coll_allreduce(&x, &y, 1, COLL_FLOAT64, COLL_SUM, comm));
        coll__check(y == size * (size - 1) / 2.0);
    }
    coll__check(coll_allreduce(&x, &y, 1, COLL_FLOAT64, COLL_BAND, comm) == COLL_ERR_TYPE && message_has("int32"));
    coll__check_ok(coll_barrier(comm));
    coll__check_ok(coll_finalize());
    return 0;
}

/* ---- peers that stop, die or leave (F4) ---- */

static int stopped(int rank, int size, void *arg) {
    int victim = *(int *)arg;
    coll_comm_t *comm;
    double x = 1, y;
    coll__check_ok(coll_init(NULL, &comm));
    coll__check_ok(coll_barrier(comm));
    coll__check_ok(coll_comm_set_timeout(comm, 0.5));
    coll__check(coll__ranks_meet(10) == 0);
    if (rank == victim) {
        pause();
        return 0;
    }
    if (rank == (victim + 1) % size)
        coll__rank_signal(victim, SIGSTOP);
    usleep(100000);
    double start = seconds();
    int status = coll_allreduce(&x, &y, 1, COLL_FLOAT64, COLL_SUM, comm);
    double took = seconds() - start;
    coll__check(status == COLL_ERR_TIMEOUT);
    coll__check(took > 0.4 && took < 1.5);
    coll__check(names_only(victim));
    coll__check(coll_barrier(comm) == COLL_ERR_CLOSED);
    start = seconds();
    coll__check_ok(coll_finalize());
    coll__check(seconds() - start < 3);
    return 0;
}

static int killed(int rank, int size, void *arg) {
    (void)size;
    int victim = *(int *)arg;
    coll_comm_t *comm;
    double x[1000] = {0}, y[1000];
    coll__check_ok(coll_init(NULL, &comm));
    if (rank == victim)
        coll__rank_signal_after(rank, SIGKILL, 0.05);
    double start = seconds();
    int status = 0;
    while (status == 0 && seconds() - start < 20)
        status = coll_allreduce(x, y, 1000, COLL_FLOAT64, COLL_SUM, comm);
    coll__check(status == COLL_ERR_RANK_FAILED);
    coll__check(seconds() - start < 2.2);
    coll__check(names_only(victim));
    coll__check(coll_barrier(comm) == COLL_ERR_CLOSED);
    start = seconds();
    coll__check_ok(coll_finalize());
    coll__check(seconds() - start < 3);
    return 0;
}

static int left_early(int rank, int size, void *arg) {
    (void)arg;
    coll_comm_t *comm;
    coll__check_ok(coll_init(NULL, &comm));
    coll__check_ok(coll_barrier(comm));
    if (rank == size - 1) {
        coll__check_ok(coll_finalize());
        return 0;
    }
    double start = seconds();
    coll__check(coll_barrier(comm) == COLL_ERR_RANK_FAILED);
    coll__check(names_only(size - 1) && message_has("left the job"));
    coll__check(seconds() - start < 4);
    coll__check_ok(coll_finalize());
    return 0;
}

/* A receive from anybody ends when nobody is left; before that, the last one may still send. */
static int left_by_all(int rank, int size, void *arg) {
    (void)arg;
    coll_comm_t *comm;
    int value = rank;
    coll__check_ok(coll_init(NULL, &comm));
    coll__check_ok(coll_barrier(comm));
    if (rank == 0) {
        coll_recv_status_t got;
        double start = seconds();
        coll__check_ok(coll_recv(&value, 1, COLL_INT32, COLL_ANY_SOURCE, COLL_ANY_TAG, &got, comm));
        coll__check(got.source == size - 1 && value == size - 1);
        coll__check(coll_recv(&value, 1, COLL_INT32, COLL_ANY_SOURCE, COLL_ANY_TAG, &got, comm) ==
                    COLL_ERR_RANK_FAILED);
        int ranks[8];
        coll__check(coll_error_ranks(ranks, 8) == (size_t)size - 1 && message_has("left the job"));
        coll__check(seconds() - start < 8);
    } else if (rank == size - 1) {
        usleep(2500000);
        coll__check_ok(coll_send(&value, 1, COLL_INT32, 0, 7, comm));
    }
    coll__check_ok(coll_finalize());
    return 0;
}

static int aborted(int rank, int size, void *arg) {
    (void)size, (void)arg;
    coll_comm_t *comm;
    coll__check_ok(coll_init(NULL, &comm));
    if (rank == 1) {
        coll__check_ok(coll_comm_abort(comm, "the input file is damaged", 3));
    } else {
        coll__check(coll_barrier(comm) == COLL_ERR_PEER && message_has("the input file is damaged") && names_only(1));
    }
    coll__check_ok(coll_finalize());
    return 0;
}

/* A late rank is no error (F5), and a new communicator works after a sibling broke. */
static int late_and_siblings(int rank, int size, void *arg) {
    (void)arg;
    coll_comm_t *world, *a, *b;
    double x = 1, y;
    coll__check_ok(coll_init(NULL, &world));
    coll__check_ok(coll_comm_dup(world, &a));
    coll__check_ok(coll_comm_dup(world, &b));
    if (rank == 0)
        usleep(1500000);
    coll__check_ok(coll_allreduce(&x, &y, 1, COLL_FLOAT64, COLL_SUM, a));
    coll__check(y == size);
    coll__check_ok(coll_comm_set_timeout(a, 0.3));
    if (rank != 0)
        coll__check(coll_barrier(a) == COLL_ERR_TIMEOUT && names_only(0));
    coll__check_ok(coll_allreduce(&x, &y, 1, COLL_FLOAT64, COLL_SUM, b));
    coll__check(y == size);
    if (rank == 0) {
        usleep(500000); /* the others' word has come by now, also on a busy machine */
        coll__check(coll_barrier(a) == COLL_ERR_TIMEOUT && message_has("reported by"));
    }
    coll__check_ok(coll_barrier(world));
    coll__check_ok(coll_finalize());
    return 0;
}

/* ---- callers' mistakes (F10) ---- */

static int misused(int rank, int size, void *arg) {
    (void)rank, (void)size, (void)arg;
    coll_comm_t *comm, *copy;
    coll_request_t *request;
    double x = 1, y;
    coll__check(coll_world(&comm) == COLL_ERR_STATE);
    coll__check(coll_barrier(NULL) < 0);
    coll__check(coll_init(NULL, NULL) == COLL_ERR_ARG);
    coll__check_ok(coll_init(NULL, &comm));
    coll__check_ok(coll_init(NULL, &copy));
    coll__check(copy == comm);
    coll__check(coll_barrier(NULL) == COLL_ERR_ARG && message_has("comm is NULL"));
    coll__check_ok(coll_comm_dup(comm, &copy));
    coll__check_ok(coll_comm_free(copy));
    coll__check(coll_barrier(copy) == COLL_ERR_CLOSED && coll_comm_rank(copy) == COLL_ERR_CLOSED);
    coll__check(coll_comm_free(copy) == COLL_ERR_CLOSED);
    coll__check(coll_iallreduce(&x, &y, 1, COLL_FLOAT64, COLL_SUM, comm, NULL) == COLL_ERR_ARG);
    coll__check(coll_wait(NULL, 1) == COLL_ERR_ARG);
    coll__check(coll_start(NULL) == COLL_ERR_ARG);
    coll__check_ok(coll_request_free(NULL));
    coll__check(coll_allreduce(&x, &y, 1, (coll_dtype_t)99, COLL_SUM, comm) == COLL_ERR_ARG &&
                message_has("dtype is 99"));
    coll__check(coll_allreduce(&x, &y, 1, COLL_FLOAT64, 77, comm) < 0);
    coll__check(coll_allreduce(&x, &y, SIZE_MAX / 4, COLL_FLOAT64, COLL_SUM, comm) == COLL_ERR_ARG);
    coll__check(coll_allreduce(&x, &y, 3, COLL_INT64, COLL_MINLOC, comm) == COLL_ERR_ARG);
    coll__check(coll_send(&x, 1, COLL_FLOAT64, size, 0, comm) == COLL_ERR_ARG && message_has("dest is"));
    coll__check(coll_send(&x, 1, COLL_FLOAT64, 0, -5, comm) == COLL_ERR_ARG && message_has("tag is"));
    coll__check_ok(coll_ibarrier(comm, &request));
    coll__check(coll_start(request) == COLL_ERR_ARG);
    coll__check_ok(coll_wait(request, 10));
    coll__check_ok(coll_wait(request, 10));
    coll_request_t *kept;
    coll__check_ok(coll_barrier_init(comm, &kept));
    coll__check_ok(coll_finalize());
    coll__check_ok(coll_finalize());
    coll__check(coll_start(kept) == COLL_ERR_CLOSED);
    coll__check_ok(coll_request_free(kept));
    coll__check_ok(coll_request_free(request));
    coll__check(coll_barrier(comm) == COLL_ERR_CLOSED);
    return 0;
}

static int forked(int rank, int size, void *arg) {
    (void)size, (void)arg;
    coll_comm_t *comm;
    coll__check_ok(coll_init(NULL, &comm));
    pid_t child = fork();
    if (child == 0) {
        int ok = coll_barrier(comm) == COLL_ERR_STATE && message_has("fork") && coll_finalize() == 0;
        _exit(ok ? 0 : 1);
    }
    int status = 0;
    coll__check_ok(coll_barrier(comm));
    waitpid(child, &status, 0);
    coll__check(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    coll__check_ok(coll_barrier(comm));
    coll__check_ok(coll_finalize());
    (void)rank;
    return 0;
}

/* A value that this version cannot honour is refused, not ignored. */
static int hierarchy(int rank, int size, void *arg) {
    (void)rank, (void)size, (void)arg;
    coll_comm_t *comm;
    setenv("COLL_HIER", "leader", 1);
    coll__check(coll_init(NULL, &comm) == COLL_ERR_CONFIG && message_has("COLL_HIER=leader"));
    setenv("COLL_HIER", "off", 1);
    coll__check_ok(coll_init(NULL, &comm));
    coll__check_ok(coll_finalize());
    return 0;
}

/* Variables that must agree (S3). */
static int disagreeing(int rank, int size, void *arg) {
    (void)size, (void)arg;
    coll_comm_t *comm;
    if (rank == 1)
        setenv("COLL_PACKET_SIZE", "4k", 1);
    coll__check(coll_init(NULL, &comm) == COLL_ERR_CONFIG);
    coll__check(message_has("COLL_PACKET_SIZE") && names_only(1));
    return 0;
}

static void at(int ranks, coll__rank_body_t body, void *arg) {
    assert_int_equal(coll__fork_ranks(ranks, 30, body, arg), 0);
}

static void test_bad_root(void **state) {
    (void)state;
    at(1 + 2, bad_root, NULL);
    at(2, bad_root, NULL);
}

static void test_stopped(void **state) {
    (void)state;
    for (int victim = 0; victim < 4; victim++)
        at(4, stopped, &victim);
    for (int victim = 0; victim < 2; victim++)
        at(2, stopped, &victim);
}

static void test_killed(void **state) {
    (void)state;
    for (int victim = 0; victim < 4; victim++)
        at(4, killed, &victim);
}

/* Lines of a file, or entries of a folder, that have `what` in them. */
static int count_of(const char *path, const char *what) {
    int count = 0;
    DIR *folder = opendir(path);
    if (folder) {
        for (struct dirent *entry; (entry = readdir(folder));)
            count += strstr(entry->d_name, what) != NULL;
        closedir(folder);
        return count;
    }
    FILE *file = fopen(path, "re");
    char line[512];
    while (file && fgets(line, sizeof line, file))
        count += strstr(line, what) != NULL;
    if (file)
        fclose(file);
    return count;
}

/* F8: fifty times, and nothing is left behind; other jobs of this machine may come and go meanwhile. */
static void test_killed_often(void **state) {
    (void)state;
    int files = count_of("/dev/shm", ""), sockets = count_of("/proc/net/unix", "libcoll");
    for (int round = 0; round < 50; round++) {
        int victim = round % 4;
        at(4, killed, &victim);
    }
    int tries = 200;
    while (tries && (count_of("/dev/shm", "") > files || count_of("/proc/net/unix", "libcoll") > sockets)) {
        usleep(50 * 1000);
        tries--;
    }
    assert_true(tries > 0);
}

static void test_killed_over_ofi(void **state) {
    (void)state;
    int victim = 1;
    setenv("COLL_TRANSPORT", "ofi", 1);
    at(3, killed, &victim);
    unsetenv("COLL_TRANSPORT");
}

static void test_left_early(void **state) {
    (void)state;
    at(2, left_early, NULL);
    at(4, left_early, NULL);
    at(3, left_by_all, NULL);
}

static void test_aborted(void **state) {
    (void)state;
    at(3, aborted, NULL);
}

static void test_late_and_siblings(void **state) {
    (void)state;
    at(3, late_and_siblings, NULL);
}

static void test_misused(void **state) {
    (void)state;
    at(1, misused, NULL);
    at(2, misused, NULL);
}

static void test_forked(void **state) {
    (void)state;
    at(2, forked, NULL);
}

static void test_hierarchy(void **state) {
    (void)state;
    at(1, hierarchy, NULL);
}

static void test_disagreeing(void **state) {
    (void)state;
    at(3, disagreeing, NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bad_root),        cmocka_unit_test(test_stopped),
        cmocka_unit_test(test_killed),          cmocka_unit_test(test_killed_often),
        cmocka_unit_test(test_killed_over_ofi), cmocka_unit_test(test_left_early),
        cmocka_unit_test(test_aborted),         cmocka_unit_test(test_late_and_siblings),
        cmocka_unit_test(test_misused),         cmocka_unit_test(test_forked),
        cmocka_unit_test(test_disagreeing),     cmocka_unit_test(test_hierarchy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
