/* See ends.h. */
#include "support/ends.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "transport/shm/shm.h"
#include "transport/sim/sim.h"

static void on_packet(void *context, int peer, const void *packet, size_t bytes) {
    coll__end_t *end = context;
    assert_int_equal((uintptr_t)packet % 8, 0);
    assert_true(bytes <= end->transport->max_packet);
    end->packets++;
    if (end->on_packet)
        end->on_packet(end, peer, packet, bytes);
}

static void on_bulk(void *context, void *cookie, int status) {
    coll__end_t *end = context;
    end->bulk_done++;
    if (end->on_bulk)
        end->on_bulk(end, cookie, status);
}

static int open_surroundings(coll__ends_t *ends, size_t max_packet) {
    if (ends->ops == &coll__transport_shm &&
        coll__local_segment_open(&ends->segment, ends->size, coll__shm_region_bytes(ends->size, max_packet)) < 0)
        return coll__error(COLL_ERR_TRANSPORT, "the test could not make a segment");
    if (ends->ops == &coll__transport_sim) {
        static const coll__sim_link_t link = {
            .latency_ns = 1000, .overhead_ns = 100, .gap_ns = 50, .gap_per_byte_ns = 1};
        ends->sim_world = coll__sim_world_create(ends->size, NULL, link, link);
        if (!ends->sim_world)
            return coll__error(COLL_ERR_MEMORY, "the test could not make a simulated world");
    }
    return 0;
}

static int open_end(coll__ends_t *ends, int rank, size_t max_packet) {
    coll__end_t *end = &ends->end[rank];
    end->ends = ends;
    end->rank = rank;
    coll__transport_args_t args = {.env = &ends->env,
                                   .world_rank = rank,
                                   .world_size = ends->size,
                                   .max_packet = max_packet,
                                   .segment = &ends->segment.view[rank],
                                   .sim_world = ends->sim_world,
                                   .sink = {end, on_packet, on_bulk}};
    return ends->ops->open(&args, &end->transport);
}

static int connect_all(coll__ends_t *ends) {
    coll__transport_address_t address[COLL__ENDS_MAX];
    for (int rank = 0; rank < ends->size; rank++) {
        int status = ends->ops->address(ends->end[rank].transport, &address[rank]);
        if (status < 0)
            return status;
        if (strcmp(address[rank].identity, address[0].identity) != 0)
            return coll__error(COLL_ERR_INTERNAL, "ends have different identities");
    }
    for (int rank = 0; rank < ends->size; rank++) {
        int peers[COLL__ENDS_MAX];
        coll__transport_address_t theirs[COLL__ENDS_MAX];
        for (int i = 0; i < coll__ends_peer_count(ends); i++) {
            peers[i] = coll__ends_peer(ends, rank, i);
            theirs[i] = address[peers[i]];
        }
        int status = ends->ops->connect(ends->end[rank].transport, peers, theirs, coll__ends_peer_count(ends));
        if (status < 0)
            return status;
    }
    return 0;
}

int coll__ends_open(coll__ends_t *ends, const coll__transport_ops_t *ops, int size, size_t max_packet) {
    memset(ends, 0, sizeof *ends);
    ends->ops = ops;
    ends->size = size;
    int status = coll__env_read(&ends->env);
    if (status == 0)
        status = open_surroundings(ends, max_packet);
    for (int rank = 0; rank < size && status == 0; rank++)
        status = open_end(ends, rank, max_packet);
    if (status == 0)
        status = connect_all(ends);
    if (status < 0)
        coll__ends_close(ends);
    return status;
}

void coll__ends_close(coll__ends_t *ends) {
    for (int rank = 0; rank < ends->size; rank++) {
        if (ends->end[rank].transport)
            ends->ops->close(ends->end[rank].transport);
        ends->end[rank].transport = NULL;
    }
    if (ends->segment.base)
        coll__local_segment_close(&ends->segment);
    if (ends->sim_world)
        coll__sim_world_free(ends->sim_world);
    ends->segment.base = NULL;
    ends->sim_world = NULL;
}

int coll__ends_poll(coll__ends_t *ends) {
    int events = 0;
    for (int rank = 0; rank < ends->size; rank++) {
        if (ends->end[rank].deaf)
            continue;
        int got = ends->ops->poll(ends->end[rank].transport);
        if (got < 0)
            return got;
        events += got;
    }
    return events;
}

void coll__ends_step(coll__ends_t *ends, int64_t deadline, const char *condition) {
    if (coll__ends_poll(ends) < 0)
        fail_msg("poll: %s", coll_error_message());
    if (coll__now_ns() > deadline)
        fail_msg("not true after %d s: %s", COLL__ENDS_PATIENCE, condition);
}

void coll__ends_send(coll__ends_t *ends, int from, int to, const void *header, size_t header_bytes, const void *payload,
                     size_t payload_bytes) {
    int status;
    coll__ends_until(ends, (status = ends->ops->send(ends->end[from].transport, to, header, header_bytes, payload,
                                                     payload_bytes)) != COLL__AGAIN);
    if (status != 0)
        fail_msg("send: %s", coll_error_message());
}

/* ---- suites ---- */

typedef struct row {
    const coll__transport_ops_t *ops;
    const coll__ends_check_t *check;
    coll__ends_t *ends;
    int size;
    char name[96];
} row_t;

static int open_row(void **state) {
    row_t *row = *state;
    row->ends = malloc(sizeof *row->ends);
    if (!row->ends)
        return -1;
    if (coll__ends_open(row->ends, row->ops, row->size, COLL__ENDS_PACKET) == 0)
        return 0;
    print_error("open: %s\n", coll_error_message());
    free(row->ends);
    return -1;
}

static void run_check(void **state) {
    const row_t *row = *state;
    row->check->run(row->ends);
}

static int close_row(void **state) { /* after a failed test too */
    row_t *row = *state;
    coll__ends_close(row->ends);
    free(row->ends);
    return 0;
}

static bool works(const coll__transport_ops_t *ops, char *why, size_t why_bytes) {
    coll__env_t env;
    char detail[512];
    if (coll__env_read(&env) < 0)
        fail_msg("the environment: %s", coll_error_message());
    return ops->probe(&env, why, why_bytes, detail, sizeof detail) == 1;
}

static void run_absent(void **state) {
    const row_t *row = *state;
    char why[512] = "";
    assert_false(works(row->ops, why, sizeof why));
    print_message("%s does not work here: %s\n", row->ops->name, why);
    assert_true(strlen(why) > 10);

    coll__ends_t *ends = malloc(sizeof *ends);
    assert_non_null(ends);
    assert_true(coll__ends_open(ends, row->ops, 2, COLL__ENDS_PACKET) < 0);
    assert_true(strlen(coll_error_message()) > 10);
    free(ends);
}

int coll__ends_run(int argc, char **argv, const char *suite, const coll__ends_check_t *checks, size_t count) {
    static const coll__transport_ops_t *const transports[] = {
#define ROW(name, summary) &coll__transport_##name,
        COLL__TRANSPORT_TABLE(ROW)
#undef ROW
    };
    static const int several[] = {2, 3, 5}, one[] = {1};
    enum { SIZES = 3 };
    size_t capacity = COLL__TRANSPORT_COUNT * SIZES * count, used = 0;
    row_t *rows = calloc(capacity, sizeof *rows);
    struct CMUnitTest *tests = calloc(capacity, sizeof *tests);
    const char *only = argc > 1 ? argv[1] : NULL;
    if (!rows || !tests)
        return 1;

    for (size_t t = 0; t < COLL__TRANSPORT_COUNT; t++) {
        const coll__transport_ops_t *ops = transports[t];
        char why[512];
        bool self = ops == &coll__transport_self, absent = !works(ops, why, sizeof why);
        if (only && strcmp(only, ops->name) != 0)
            continue;
        for (size_t c = 0; c < (absent ? 1 : count); c++) {
            for (size_t s = 0; s < (self || absent ? 1 : SIZES); s++) {
                row_t *row = &rows[used];
                *row = (row_t){.ops = ops, .check = &checks[c], .size = (self ? one : several)[s]};
                snprintf(row->name, sizeof row->name, absent ? "%s is absent" : "%s, %d ends: %s", ops->name, row->size,
                         checks[c].name);
                tests[used++] = (struct CMUnitTest){.name = row->name,
                                                    .test_func = absent ? run_absent : run_check,
                                                    .setup_func = absent ? NULL : open_row,
                                                    .teardown_func = absent ? NULL : close_row,
                                                    .initial_state = row};
            }
        }
    }
    int failed = _cmocka_run_group_tests(suite, tests, used, NULL, NULL);
    free(tests);
    free(rows);
    return failed;
}
