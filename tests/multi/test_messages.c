/* Point-to-point: order, tags, any source, sizes around every change of protocol, more messages than credits. */
#include <coll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "support/ranks.h"

static const size_t SIZES[] = {0,    1,    8,    9,     255,   256,    257,     2048,
                               8191, 8192, 8193, 32768, 32769, 100000, 1 << 20, (5 << 20) + 3};
enum { COUNT_OF_SIZES = sizeof SIZES / sizeof SIZES[0] };

static void fill(unsigned char *bytes, size_t count, unsigned seed) {
    for (size_t i = 0; i < count; i++)
        bytes[i] = (unsigned char)(seed * 31 + i * 7 + (i >> 8));
}

static int is_filled(const unsigned char *bytes, size_t count, unsigned seed) {
    for (size_t i = 0; i < count; i++)
        if (bytes[i] != (unsigned char)(seed * 31 + i * 7 + (i >> 8)))
            return 0;
    return 1;
}

/* Everyone to everyone, itself included, every size, all at once. */
static int everyone(int rank, int size, void *arg) {
    (void)arg;
    coll_comm_t *comm;
    coll__check_ok(coll_init(NULL, &comm));
    int late = size > 1 && rank == 1; /* its receives are posted when the messages are there already */
    coll_request_t **requests = calloc((size_t)size * COUNT_OF_SIZES * 2, sizeof *requests);
    unsigned char **in = calloc((size_t)size * COUNT_OF_SIZES, sizeof *in);
    unsigned char **out = calloc((size_t)size * COUNT_OF_SIZES, sizeof *out);
    size_t count = 0;
    for (int phase = 0; phase < 2; phase++) {
        for (int peer = 0; peer < size; peer++)
            for (int s = 0; s < COUNT_OF_SIZES; s++) {
                size_t bytes = SIZES[s], at = (size_t)peer * COUNT_OF_SIZES + (size_t)s;
                if (phase == !late) {
                    out[at] = malloc(bytes + 1);
                    fill(out[at], bytes, (unsigned)(rank * 100 + s));
                    coll__check_ok(coll_isend(out[at], bytes, COLL_UINT8, peer, s, comm, &requests[count++]));
                } else {
                    in[at] = malloc(bytes + 1);
                    in[at][bytes] = 99;
                    coll__check_ok(coll_irecv(in[at], bytes, COLL_UINT8, peer, s, comm, &requests[count++]));
                }
            }
        if (late)
            usleep(50000);
    }
    coll__check_ok(coll_wait_all(requests, count, 40));
    for (size_t i = 0; i < count; i++)
        coll_request_free(requests[i]);
    for (int peer = 0; peer < size; peer++)
        for (int s = 0; s < COUNT_OF_SIZES; s++) {
            size_t at = (size_t)peer * COUNT_OF_SIZES + (size_t)s;
            coll__check(is_filled(in[at], SIZES[s], (unsigned)(peer * 100 + s)) && in[at][SIZES[s]] == 99);
            free(in[at]);
            free(out[at]);
        }
    free(in);
    free(out);
    free(requests);
    coll__check_ok(coll_finalize());
    return 0;
}

/* Small and large messages of one tag arrive in the order they were sent; other tags overtake them. */
static int ordered(int rank, int size, void *arg) {
    (void)size, (void)arg;
    enum { MESSAGES = 500 };
    coll_comm_t *comm;
    coll__check_ok(coll_init(NULL, &comm));
    size_t most = 20000;
    unsigned char *bytes = malloc(most);
    coll_recv_status_t status;
    if (rank == 1) {
        for (int i = 0; i < MESSAGES; i++) {
            size_t length = (size_t)i * 37 % most;
            fill(bytes, length, (unsigned)i);
            coll__check_ok(coll_send(bytes, length, COLL_UINT8, 0, 3, comm));
        }
        coll__check_ok(coll_send(NULL, 0, COLL_UINT8, 0, 4, comm));
    } else if (rank == 0) {
        coll_request_t *overtakes;
        coll__check_ok(coll_irecv(NULL, 0, COLL_UINT8, 1, 4, comm, &overtakes));
        for (int i = 0; i < MESSAGES; i++) {
            coll__check_ok(coll_recv(bytes, most, COLL_UINT8, i % 3 == 1 ? COLL_ANY_SOURCE : 1, 3, &status, comm));
            coll__check(status.source == 1 && status.tag == 3 && status.bytes == (size_t)i * 37 % most);
            coll__check(is_filled(bytes, status.bytes, (unsigned)i));
        }
        coll__check_ok(coll_wait(overtakes, 20));
        coll_request_free(overtakes);
    }
    free(bytes);
    coll__check_ok(coll_barrier(comm));
    coll__check_ok(coll_finalize());
    return 0;
}

static int any_source(int rank, int size, void *arg) {
    (void)arg;
    enum { EACH = 100 };
    coll_comm_t *comm;
    coll__check_ok(coll_init(NULL, &comm));
    if (rank) {
        for (int i = 0; i < EACH; i++)
            coll__check_ok(coll_send(&i, 1, COLL_INT32, 0, 10 + rank, comm));
    } else {
        int next[64] = {0};
        for (int i = 0; i < EACH * (size - 1); i++) {
            int value;
            coll_recv_status_t status;
            coll__check_ok(coll_recv(&value, 1, COLL_INT32, COLL_ANY_SOURCE, COLL_ANY_TAG, &status, comm));
            coll__check(status.source >= 1 && status.source < size && status.tag == 10 + status.source);
            coll__check(status.bytes == sizeof value && value == next[status.source]++);
        }
    }
    coll__check_ok(coll_barrier(comm));
    coll__check_ok(coll_finalize());
    return 0;
}

/* A message that is too long fails its receive only; the next one is right. Messages on two communicators do not mix.
 */
static int too_long(int rank, int size, void *arg) {
    (void)size, (void)arg;
    coll_comm_t *comm, *other;
    unsigned char bytes[20000];
    coll__check_ok(coll_init(NULL, &comm));
    coll__check_ok(coll_comm_dup(comm, &other));
    for (int round = 0; round < 10; round++) {
        size_t length = round % 2 ? 100 : 20000;
        if (rank == 1) {
            fill(bytes, length, 1);
            coll__check_ok(coll_send(bytes, length, COLL_UINT8, 0, 0, comm));
            fill(bytes, length, 2);
            coll__check_ok(coll_send(bytes, length, COLL_UINT8, 0, 0, other));
        } else if (rank == 0) {
            memset(bytes, 77, sizeof bytes);
            coll__check(coll_recv(bytes, length - 1, COLL_UINT8, 1, 0, NULL, comm) == COLL_ERR_TRUNCATE);
            coll__check(bytes[length - 1] == 77);
            coll__check_ok(coll_recv(bytes, length, COLL_UINT8, 1, 0, NULL, other));
            coll__check(is_filled(bytes, length, 2));
        }
    }
    coll__check_ok(coll_barrier(comm));
    coll__check_ok(coll_finalize());
    return 0;
}

static int small_packets_flow(int rank, int size, void *arg) {
    (void)size, (void)arg;
    enum { MESSAGES = 100000 };
    coll_comm_t *comm;
    coll__check_ok(coll_init(NULL, &comm));
    uint64_t value;
    if (rank == 1)
        for (uint64_t i = 0; i < MESSAGES; i++)
            coll__check_ok(coll_send(&i, 1, COLL_UINT64, 0, 0, comm));
    if (rank == 0) {
        usleep(200000);
        for (uint64_t i = 0; i < MESSAGES; i++) {
            coll__check_ok(coll_recv(&value, 1, COLL_UINT64, 1, 0, NULL, comm));
            coll__check(value == i);
        }
    }
    coll__check_ok(coll_barrier(comm));
    coll__check_ok(coll_finalize());
    return 0;
}

static void at(int ranks, coll__rank_body_t body) {
    assert_int_equal(coll__fork_ranks(ranks, 60, body, NULL), 0);
}

static void test_everyone(void **state) {
    (void)state;
    at(1, everyone);
    at(2, everyone);
    at(5, everyone);
}

static void test_ordered(void **state) {
    (void)state;
    at(2, ordered);
}

static void test_any_source(void **state) {
    (void)state;
    at(2, any_source);
    at(6, any_source);
}

static void test_too_long(void **state) {
    (void)state;
    at(2, too_long);
}

static void test_flow(void **state) {
    (void)state;
    at(2, small_packets_flow);
}

static void test_over_ofi(void **state) {
    (void)state;
    setenv("COLL_TRANSPORT", "ofi", 1);
    at(3, everyone);
    at(2, ordered);
    at(3, any_source);
    at(2, too_long);
    unsetenv("COLL_TRANSPORT");
}

static void test_two_credits(void **state) {
    (void)state;
    setenv("COLL_NPACKETS", "2", 1);
    setenv("COLL_PACKET_SIZE", "256", 1);
    at(3, everyone);
    at(2, ordered);
    unsetenv("COLL_NPACKETS");
    unsetenv("COLL_PACKET_SIZE");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_everyone),    cmocka_unit_test(test_ordered), cmocka_unit_test(test_any_source),
        cmocka_unit_test(test_too_long),    cmocka_unit_test(test_flow),    cmocka_unit_test(test_over_ofi),
        cmocka_unit_test(test_two_credits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
