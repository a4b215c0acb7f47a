/* Calls that do not match: every rank is told which rank called what, and none hangs (cases F1, F2). */
#include <coll.h>
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

static double seconds(void) {
    return (double)coll__now_ns() / 1e9;
}

static int message_has(const char *text) {
    if (strstr(coll_error_message(), text))
        return 1;
    fprintf(stderr, "message is: %s\n     wanted: %s\n", coll_error_message(), text);
    return 0;
}

static int mismatched_dtype(int rank, int size, void *arg) {
    (void)size, (void)arg;
    coll_comm_t *comm;
    static double x[1001], y[1001];
    coll__check_ok(coll_init(NULL, &comm));
    coll__check_ok(coll_allreduce(x, y, 1000, COLL_FLOAT64, COLL_SUM, comm));
    double start = seconds();
    int status = coll_allreduce(x, y, 1000, rank == 1 ? COLL_FLOAT32 : COLL_FLOAT64, COLL_SUM, comm);
    coll__check(status == COLL_ERR_MISMATCH);
    coll__check(seconds() - start < 2);
    coll__check(message_has("1000 x float64") && message_has("1000 x float32") && message_has("rank 1 called"));
    coll__check(strcmp(coll_error_operation(), "allreduce") == 0 && coll_error_sequence() == 2);
    coll__check(coll_barrier(comm) == COLL_ERR_CLOSED && message_has("broken"));
    coll__check_ok(coll_finalize());
    return 0;
}

static int mismatched_count(int rank, int size, void *arg) {
    (void)size;
    size_t count = *(size_t *)arg;
    coll_comm_t *comm;
    double *x = calloc(count + 1, sizeof *x), *y = calloc(count + 1, sizeof *y);
    coll__check_ok(coll_init(NULL, &comm));
    coll__check(coll_allreduce(x, y, count + (rank == 2), COLL_FLOAT64, COLL_SUM, comm) == COLL_ERR_MISMATCH);
    char with[64];
    snprintf(with, sizeof with, "%zu x float64", count);
    coll__check(message_has(with));
    snprintf(with, sizeof with, "%zu x float64", count + 1);
    coll__check(message_has(with));
    coll__check_ok(coll_finalize());
    free(x);
    free(y);
    return 0;
}

/* Each waits for another, and no message of one call meets a receive of the other: only what the ranks say about their
 * waiting shows it. Their bindings look after signals meanwhile, and are slow to come back. */
static int mismatched_while_interrupted(int rank, int size, void *arg) {
    (void)size, (void)arg;
    coll_comm_t *comm;
    double x[8] = {0}, y[8];
    setenv("COLL_TUNE", "allreduce:recursive_doubling;broadcast:binomial", 1);
    coll__check_ok(coll_init(NULL, &comm));
    coll__check_ok(coll_set_interruptible(1));
    coll__check_ok(coll_comm_set_timeout(comm, 60));
    double start = seconds();
    int status =
        rank == 1 ? coll_broadcast(x, 8, COLL_FLOAT64, 0, comm) : coll_allreduce(x, y, 8, COLL_FLOAT32, COLL_SUM, comm);
    while (status == COLL_ERR_INTERRUPTED) {
        usleep(300 * 1000);
        status = coll_resume(comm);
    }
    coll__check(status == COLL_ERR_MISMATCH);
    coll__check(seconds() - start < 3);
    coll__check_ok(coll_finalize());
    return 0;
}

/* Every pair of operations, also those in which no rank sends the other anything. */
static int mismatched_operation(int rank, int size, void *arg) {
    (void)size;
    int which[2] = {*(int *)arg / 8, *(int *)arg % 8};
    coll_comm_t *comm;
    static double x[64], y[256];
    coll__check_ok(coll_init(NULL, &comm));
    double start = seconds();
    int status;
    switch (which[rank == 1]) {
    case 0:
        status = coll_allreduce(x, y, 8, COLL_FLOAT64, COLL_SUM, comm);
        break;
    case 1:
        status = coll_broadcast(x, 8, COLL_FLOAT64, 0, comm);
        break;
    case 2:
        status = coll_reduce(x, y, 8, COLL_FLOAT64, COLL_SUM, 0, comm);
        break;
    case 3:
        status = coll_allgather(x, y, 8, COLL_FLOAT64, comm);
        break;
    default:
        status = coll_barrier(comm);
        break;
    }
    /* A rank that needed nothing from the others may have gone on: a later call says it. */
    while (status == 0 && seconds() - start < 3) {
        usleep(10000);
        status = coll_barrier(comm);
    }
    if (status != COLL_ERR_MISMATCH)
        fprintf(stderr, "case %d/%d rank %d: %s\n", which[0], which[1], rank, coll_error_message());
    coll__check(status == COLL_ERR_MISMATCH);
    coll__check(seconds() - start < 3);
    coll__check_ok(coll_finalize());
    return 0;
}

static void at(int ranks, coll__rank_body_t body, void *arg) {
    assert_int_equal(coll__fork_ranks(ranks, 30, body, arg), 0);
}

static void test_mismatch(void **state) {
    (void)state;
    at(3, mismatched_dtype, NULL);
    at(2, mismatched_dtype, NULL);
    for (size_t count = 1000; count <= 1 << 20; count += (1 << 20) - 1000)
        at(3, mismatched_count, &count);
    at(3, mismatched_while_interrupted, NULL);
}

static void test_mismatched_operations(void **state) {
    (void)state;
    for (int a = 0; a < 5; a++)
        for (int b = 0; b < 5; b++) {
            int arg = 8 * a + b;
            if (a != b)
                at(2 + (a + b) % 2, mismatched_operation, &arg);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mismatch),
        cmocka_unit_test(test_mismatched_operations),
    };
    return cmocka_run_group_tests_name("mismatches", tests, NULL, NULL);
}
