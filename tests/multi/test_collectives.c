/* Every collective in every form, between real processes, against sums that are easy to do by hand. */
#include <coll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/ranks.h"

/* Around the packet size (8 KiB), around the number of ranks, and large enough for several bulk slots. */
static const size_t COUNTS[] = {0, 1, 2, 3, 7, 64, 1000, 1023, 1024, 1025, 5000, 100003};
enum { MOST = 100003, COUNT_OF_COUNTS = sizeof COUNTS / sizeof COUNTS[0] };

static double value(int rank, size_t i) {
    return (double)((size_t)(rank + 1) * 1000 + i % 997);
}

static double *filled(int rank, size_t count) {
    double *x = malloc((count + 1) * sizeof *x);
    for (size_t i = 0; i < count; i++)
        x[i] = value(rank, i);
    x[count] = -77; /* a canary */
    return x;
}

static int is_sum(const double *y, size_t count, int size) {
    for (size_t i = 0; i < count; i++) {
        double sum = 0;
        for (int rank = 0; rank < size; rank++)
            sum += value(rank, i);
        if (y[i] != sum)
            return 0;
    }
    return 1;
}

static int all_of(coll_comm_t *comm, int rank, int size, size_t count) {
    double *x = filled(rank, count), *y = filled(rank, count), *before = filled(rank, count);
    double *wide = malloc(((size_t)size * count + 1) * sizeof *wide);
    wide[(size_t)size * count] = -78;

    coll__check_ok(coll_allreduce(x, y, count, COLL_FLOAT64, COLL_SUM, comm));
    coll__check(is_sum(y, count, size) && y[count] == -77);
    coll__check(memcmp(x, before, count * sizeof *x) == 0);
    coll__check_ok(coll_allreduce(COLL_IN_PLACE, x, count, COLL_FLOAT64, COLL_SUM, comm));
    coll__check(is_sum(x, count, size) && x[count] == -77);

    for (int root = 0; root < size; root++) {
        double *input = filled(rank, count), *output = filled(rank, count);
        coll__check_ok(coll_reduce(input, rank == root ? output : NULL, count, COLL_FLOAT64, COLL_SUM, root, comm));
        coll__check(memcmp(input, before, count * sizeof *input) == 0);
        coll__check(rank != root || (is_sum(output, count, size) && output[count] == -77));
        coll__check_ok(coll_broadcast(input, count, COLL_FLOAT64, root, comm));
        for (size_t i = 0; i < count; i++)
            coll__check(input[i] == value(root, i));
        coll__check(input[count] == -77);
        free(input);
        free(output);
    }

    coll__check_ok(coll_allgather(before, wide, count, COLL_FLOAT64, comm));
    for (int from = 0; from < size; from++)
        for (size_t i = 0; i < count; i++)
            coll__check(wide[(size_t)from * count + i] == value(from, i));
    coll__check(wide[(size_t)size * count] == -78);
    memset(wide, 0, (size_t)size * count * sizeof *wide);
    memcpy(wide + (size_t)rank * count, before, count * sizeof *wide);
    coll__check_ok(coll_allgather(COLL_IN_PLACE, wide, count, COLL_FLOAT64, comm));
    for (int from = 0; from < size; from++)
        for (size_t i = 0; i < count; i++)
            coll__check(wide[(size_t)from * count + i] == value(from, i));

    coll__check_ok(coll_barrier(comm));
    free(x);
    free(y);
    free(before);
    free(wide);
    return 0;
}

static int every_size(int rank, int size, void *arg) {
    (void)arg;
    coll_comm_t *comm;
    coll__check_ok(coll_init(NULL, &comm));
    coll__check(coll_comm_rank(comm) == rank && coll_comm_size(comm) == size);
    for (int i = 0; i < COUNT_OF_COUNTS; i++)
        if (all_of(comm, rank, size, COUNTS[i])) {
            fprintf(stderr, "(rank %d of %d, count %zu)\n", rank, size, COUNTS[i]);
            return 1;
        }
    coll__check_ok(coll_finalize());
    return 0;
}

/* Twenty at once, waited for in another order on each rank. */
static int in_flight(int rank, int size, void *arg) {
    (void)arg;
    enum { AT_ONCE = 20, ROUNDS = 30 };
    coll_comm_t *comm;
    coll__check_ok(coll_init(NULL, &comm));
    for (int round = 0; round < ROUNDS; round++) {
        coll_request_t *requests[AT_ONCE];
        double *x[AT_ONCE], *y[AT_ONCE];
        for (int i = 0; i < AT_ONCE; i++) {
            size_t count = COUNTS[(i + round) % (COUNT_OF_COUNTS - 1)];
            x[i] = filled(rank, count);
            y[i] = filled(rank, count * (size_t)size);
            switch (i % 4) {
            case 0:
                coll__check_ok(coll_iallreduce(x[i], y[i], count, COLL_FLOAT64, COLL_SUM, comm, &requests[i]));
                break;
            case 1:
                coll__check_ok(coll_ibroadcast(x[i], count, COLL_FLOAT64, i % size, comm, &requests[i]));
                break;
            case 2:
                coll__check_ok(coll_iallgather(x[i], y[i], count, COLL_FLOAT64, comm, &requests[i]));
                break;
            default:
                coll__check_ok(coll_ibarrier(comm, &requests[i]));
                break;
            }
        }
        for (int k = 0; k < AT_ONCE; k++) {
            int i = (k * 7 + rank * 3 + round) % AT_ONCE;
            size_t count = COUNTS[(i + round) % (COUNT_OF_COUNTS - 1)];
            coll__check_ok(coll_wait(requests[i], -1));
            if (i % 4 == 0)
                coll__check(is_sum(y[i], count, size));
            if (i % 4 == 1)
                for (size_t j = 0; j < count; j++)
                    coll__check(x[i][j] == value(i % size, j));
            if (i % 4 == 2 && count)
                coll__check(y[i][count * (size_t)(size - 1)] == value(size - 1, 0));
        }
        for (int i = 0; i < AT_ONCE; i++) {
            coll_request_free(requests[i]);
            free(x[i]);
            free(y[i]);
        }
    }
    coll__check_ok(coll_finalize());
    return 0;
}

static int persistent(int rank, int size, void *arg) {
    (void)arg;
    coll_comm_t *comm;
    coll__check_ok(coll_init(NULL, &comm));
    enum { HANDLES = 3 };
    static const size_t counts[HANDLES] = {100003, 1000, 1};
    coll_request_t *handle[HANDLES];
    double *x[HANDLES], *y[HANDLES];
    for (int i = 0; i < HANDLES; i++) {
        x[i] = filled(rank, counts[i]);
        y[i] = filled(rank, counts[i]);
        coll__check_ok(coll_allreduce_init(x[i], y[i], counts[i], COLL_FLOAT64, COLL_SUM, comm, &handle[i]));
    }
    for (int round = 0; round < 100; round++) {
        int i = round % HANDLES;
        memset(y[i], 0, counts[i] * sizeof *y[i]);
        if (round % 2) {
            coll__check_ok(coll_start(handle[i]));
            coll__check_ok(coll_wait(handle[i], 20));
        } else {
            coll__check_ok(coll_run(handle[i], 20));
        }
        coll__check(is_sum(y[i], counts[i], size));
    }
    coll__check_ok(coll_start(handle[0]));
    int done = 0;
    while (!done)
        coll__check_ok(coll_test(handle[0], &done));
    for (int i = 0; i < HANDLES; i++) {
        coll__check_ok(coll_request_free(handle[i]));
        free(x[i]);
        free(y[i]);
    }
    coll__check_ok(coll_finalize());
    return 0;
}

/* A handle that is dropped in flight still gives the peers their data. */
static int dropped(int rank, int size, void *arg) {
    (void)arg;
    coll_comm_t *comm;
    coll__check_ok(coll_init(NULL, &comm));
    double *x = filled(rank, MOST), *y = filled(rank, MOST);
    coll_request_t *request;
    coll__check_ok(coll_iallreduce(x, y, MOST, COLL_FLOAT64, COLL_SUM, comm, &request));
    if (rank == 0)
        coll__check_ok(coll_request_free(request));
    else
        coll__check_ok(coll_wait(request, 20));
    coll__check_ok(coll_barrier(comm));
    if (rank != 0) {
        coll__check(is_sum(y, MOST, size));
        coll_request_free(request);
    }
    coll__check_ok(coll_finalize());
    free(x);
    free(y);
    return 0;
}

static int communicators(int rank, int size, void *arg) {
    (void)arg;
    coll_comm_t *world, *half, *copy, *node;
    coll__check_ok(coll_init(NULL, &world));
    for (int round = 0; round < 100; round++) {
        coll__check_ok(coll_comm_split(world, rank % 2, -rank, &half));
        int members = (size + 1 - rank % 2) / 2;
        coll__check(coll_comm_size(half) == members);
        coll__check(coll_comm_world_rank(half, coll_comm_rank(half)) == rank);
        double one = 1, sum = 0;
        for (int i = 0; i <= rank % 2; i++) /* the groups make different numbers of calls */
            coll__check_ok(coll_allreduce(&one, &sum, 1, COLL_FLOAT64, COLL_SUM, half));
        coll__check(sum == members);
        coll__check_ok(coll_comm_free(half));
        coll__check(coll_barrier(half) == COLL_ERR_CLOSED);
    }
    coll__check_ok(coll_comm_split(world, rank == 0 ? COLL_UNDEFINED : 3, 0, &half));
    coll__check((rank == 0) == (half == NULL));
    coll__check_ok(coll_comm_dup(world, &copy));
    coll__check_ok(coll_comm_node(copy, &node));
    coll__check(coll_comm_size(node) == size && coll_comm_local_size(node) == size && coll_comm_node_count(node) == 1);
    coll__check_ok(coll_barrier(node));
    coll__check_ok(coll_barrier(copy));
    if (half)
        coll__check_ok(coll_barrier(half));
    coll__check(coll_comm_free(world) == COLL_ERR_ARG);
    coll__check_ok(coll_finalize());
    coll__check(coll_barrier(copy) == COLL_ERR_CLOSED);
    return 0;
}

/* Symmetric and ordinary arrays, at odd offsets, mixed among the ranks in every way that 3 bits can say. */
static int symmetric(int rank, int size, void *arg) {
    (void)arg;
    enum { LARGE = 70001, SHIFT = 3 };
    static const size_t counts[] = {5, 1025, 20000, LARGE};
    coll_comm_t *comm;
    void *memory[2];
    coll__check_ok(coll_alloc((LARGE + 2 * SHIFT) * sizeof(double), &memory[0])); /* before init too */
    coll__check_ok(coll_init(NULL, &comm));
    coll__check_ok(coll_alloc((LARGE * (size_t)size + 2 * SHIFT) * sizeof(double), &memory[1]));
    double *plain[2] = {malloc((LARGE + 2 * SHIFT) * sizeof(double)),
                        malloc((LARGE * (size_t)size + 2 * SHIFT) * sizeof(double))};
    for (int mix = 0; mix < 16; mix++)
        for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++) {
            size_t count = counts[c];
            bool in = (mix >> (rank + 0) % 4) & 1, out = (mix >> (rank + 1) % 4) & 1;
            double *x = (in ? memory[0] : plain[0]), *y = (out ? memory[1] : plain[1]);
            x += SHIFT;
            y += SHIFT;
            for (size_t i = 0; i < count; i++)
                x[i] = value(rank, i);
            y[count] = x[count] = x[-1] = -5;
            coll__check_ok(coll_allreduce(x, y, count, COLL_FLOAT64, COLL_SUM, comm));
            coll__check(is_sum(y, count, size) && y[count] == -5);
            for (size_t i = 0; i < count; i++)
                coll__check(x[i] == value(rank, i));
            for (int root = 0; root < size; root++) {
                memset(y, 0, count * sizeof *y);
                coll__check_ok(coll_reduce(x, rank == root ? y : NULL, count, COLL_FLOAT64, COLL_SUM, root, comm));
                coll__check(rank != root || is_sum(y, count, size));
                coll__check(x[-1] == -5 && x[count] == -5 && x[0] == value(rank, 0));
                memcpy(y, x, count * sizeof *y);
                coll__check_ok(coll_broadcast(y, count, COLL_FLOAT64, root, comm));
                for (size_t i = 0; i < count; i++)
                    coll__check(y[i] == value(root, i));
            }
            coll__check_ok(coll_allgather(x, y, count, COLL_FLOAT64, comm));
            for (int from = 0; from < size; from++)
                for (size_t i = 0; i < count; i++)
                    coll__check(y[(size_t)from * count + i] == value(from, i));
            coll__check_ok(coll_allreduce(COLL_IN_PLACE, x, count, COLL_FLOAT64, COLL_SUM, comm));
            coll__check(is_sum(x, count, size) && x[-1] == -5 && x[count] == -5);
        }
    coll__check_ok(coll_free(memory[0]));
    coll__check_ok(coll_free(memory[1]));
    coll__check(coll_alloc((size_t)1 << 60, &memory[0]) == COLL_ERR_MEMORY);
    free(plain[0]);
    free(plain[1]);
    coll__check_ok(coll_finalize());
    return 0;
}

static void at(int ranks, coll__rank_body_t body) {
    assert_int_equal(coll__fork_ranks(ranks, 60, body, NULL), 0);
}

static void test_every_size(void **state) {
    (void)state;
    at(1, every_size);
    at(2, every_size);
    at(3, every_size);
    at(4, every_size);
    at(5, every_size);
    at(8, every_size);
}

static void test_every_size_over_ofi(void **state) {
    (void)state;
    setenv("COLL_TRANSPORT", "ofi", 1);
    at(2, every_size);
    at(3, every_size);
    unsetenv("COLL_TRANSPORT");
}

static void test_deterministic(void **state) {
    (void)state;
    setenv("COLL_DETERMINISTIC", "1", 1);
    at(3, every_size);
    at(4, every_size);
    unsetenv("COLL_DETERMINISTIC");
}

static void test_progress_thread(void **state) {
    (void)state;
    setenv("COLL_PROGRESS", "thread", 1);
    at(3, every_size);
    at(2, in_flight);
    unsetenv("COLL_PROGRESS");
}

static void test_small_packets(void **state) {
    (void)state;
    setenv("COLL_PACKET_SIZE", "256", 1);
    setenv("COLL_NPACKETS", "2", 1);
    at(3, every_size);
    at(4, in_flight);
    unsetenv("COLL_PACKET_SIZE");
    unsetenv("COLL_NPACKETS");
}

static void test_in_flight(void **state) {
    (void)state;
    at(2, in_flight);
    at(3, in_flight);
    at(5, in_flight);
}

static void test_persistent(void **state) {
    (void)state;
    at(1, persistent);
    at(2, persistent);
    at(4, persistent);
}

static void test_dropped(void **state) {
    (void)state;
    at(2, dropped);
    at(3, dropped);
}

static void test_communicators(void **state) {
    (void)state;
    at(3, communicators);
    at(4, communicators);
}

static void test_symmetric(void **state) {
    (void)state;
    at(1, symmetric);
    at(2, symmetric);
    at(3, symmetric);
    at(4, symmetric);
}

/* Every row of the table between real processes: forced, at a few sizes and numbers of ranks, where it applies. */
static int one_row(int rank, int size, void *arg) {
    (void)arg;
    coll_comm_t *comm;
    coll__check_ok(coll_init(NULL, &comm));
    int status = all_of(comm, rank, size, 5);
    if (status == 0)
        status = all_of(comm, rank, size, 3001);
    if (status == 0)
        status = all_of(comm, rank, size, 0);
    coll__check_ok(coll_finalize());
    return status;
}

static void test_every_row(void **state) {
    (void)state;
    for (size_t i = 0; i < coll_algo_count(); i++) {
        coll_algo_info_t row;
        assert_int_equal(coll_algo_get(i, &row), 0);
        char rule[128];
        snprintf(rule, sizeof rule, "%s:%s", coll_operation_name(row.operation), row.name);
        setenv("COLL_TUNE", rule, 1);
        at(4, one_row);
        if (strcmp(row.name, "neighbour_exchange") != 0)
            at(3, one_row); /* even numbers only */
        unsetenv("COLL_TUNE");
    }
}

/* In rank order with one rounding at the end, whatever the road: half precision is where a difference would show. */
static int half_sum(int rank, int size, void *arg) {
    (void)size, (void)arg;
    enum { HALVES = 5000 };
    coll_comm_t *comm;
    static uint16_t x[HALVES], y[HALVES];
    uint16_t *results = coll__ranks_shared();
    for (int i = 0; i < HALVES; i++)
        x[i] = (uint16_t)(0x3c00 + (rank * 7919 + i * 104729) % 0x0c00); /* 1 to 8 */
    coll__check_ok(coll_init(NULL, &comm));
    coll__check_ok(coll_allreduce(x, y, HALVES, COLL_FLOAT16, COLL_SUM, comm));
    if (rank == 0)
        memcpy(results, y, sizeof y);
    coll__check_ok(coll_reduce(x, y, HALVES, COLL_FLOAT16, COLL_SUM, 1, comm));
    if (rank == 1)
        memcpy(results + HALVES, y, sizeof y);
    coll__check_ok(coll_finalize());
    return 0;
}

static void test_deterministic_halves(void **state) {
    (void)state;
    enum { BYTES = 2 * 5000 * sizeof(uint16_t) };
    static const char *const tunes[] = {"", "allreduce:ordered,reduce:linear",
                                        "allreduce:ordered_pairwise,reduce:ordered_pairwise"};
    char *expected = malloc(BYTES);
    setenv("COLL_DETERMINISTIC", "1", 1);
    for (int i = 0; i < 3; i++) {
        setenv("COLL_TUNE", tunes[i], 1);
        at(5, half_sum);
        if (i == 0)
            memcpy(expected, coll__ranks_shared(), BYTES);
        assert_memory_equal(expected, coll__ranks_shared(), BYTES);
        assert_memory_equal(expected, expected + BYTES / 2, BYTES / 2);
    }
    unsetenv("COLL_TUNE");
    unsetenv("COLL_DETERMINISTIC");
    free(expected);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_size),    cmocka_unit_test(test_every_size_over_ofi),
        cmocka_unit_test(test_deterministic), cmocka_unit_test(test_progress_thread),
        cmocka_unit_test(test_small_packets), cmocka_unit_test(test_in_flight),
        cmocka_unit_test(test_persistent),    cmocka_unit_test(test_dropped),
        cmocka_unit_test(test_communicators), cmocka_unit_test(test_symmetric),
        cmocka_unit_test(test_every_row),     cmocka_unit_test(test_deterministic_halves),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
