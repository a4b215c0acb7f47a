/* See p2p_ends.h. */
#include "support/p2p_ends.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "transport/sim/sim.h"
#include "transport/transport_table.h"

static bool on_unexpected(void *context, int peer, const coll__envelope_t *envelope) {
    (void)peer, (void)envelope;
    coll__p2p_end_t *end = context;
    end->unexpected++;
    return !end->refuses;
}

static void on_mismatch(void *context, int peer, const coll__envelope_t *mine, const coll__envelope_t *theirs) {
    coll__p2p_end_t *end = context;
    end->mismatches++;
    end->mismatch_peer = peer;
    end->mine = *mine;
    end->theirs = *theirs;
}

void coll__p2p_ends_open(coll__p2p_ends_t *ends, int size, size_t packet_size, int credits) {
    static const coll__sim_link_t link = {.latency_ns = 1000, .overhead_ns = 100, .gap_ns = 50, .gap_per_byte_ns = 0.1};
    static const coll__env_t env;
    memset(ends, 0, sizeof *ends);
    ends->size = size;
    ends->world = coll__sim_world_create(size, NULL, link, link);
    assert_non_null(ends->world);
    for (int rank = 0; rank < size; rank++) {
        coll__p2p_end_t *end = &ends->end[rank];
        coll__p2p_hooks_t hooks = {.context = end, .unexpected = on_unexpected, .mismatch = on_mismatch};
        assert_int_equal(coll__p2p_create(size, packet_size, credits, &hooks, &end->p2p), 0);
        coll__transport_args_t args = {.env = &env,
                                       .world_rank = rank,
                                       .world_size = size,
                                       .max_packet = coll__p2p_max_packet(packet_size),
                                       .sim_world = ends->world,
                                       .sink = coll__p2p_sink(end->p2p)};
        assert_int_equal(coll__transport_sim.open(&args, &end->transport), 0);
        end->ops = coll__transport_sim;
        end->transport->ops = &end->ops;
    }
    for (int rank = 0; rank < size; rank++)
        for (int peer = 0; peer < size; peer++) {
            coll__transport_address_t address;
            if (peer == rank)
                continue;
            assert_int_equal(coll__transport_sim.address(ends->end[peer].transport, &address), 0);
            assert_int_equal(coll__transport_sim.connect(ends->end[rank].transport, &peer, &address, 1), 0);
            coll__p2p_route(ends->end[rank].p2p, peer, ends->end[rank].transport);
        }
}

void coll__p2p_ends_close(coll__p2p_ends_t *ends) {
    for (int rank = 0; rank < ends->size; rank++)
        coll__transport_sim.close(ends->end[rank].transport);
    for (int rank = 0; rank < ends->size; rank++)
        coll__p2p_free(ends->end[rank].p2p);
    coll__sim_world_free(ends->world);
}

int coll__p2p_ends_run(coll__p2p_ends_t *ends) {
    for (int idle = 0; idle < 10;) { /* the virtual clock needs all ranks to be asked in turn */
        int events = 0;
        for (int rank = 0; rank < ends->size; rank++) {
            int moved = ends->end[rank].deaf ? 0 : coll__p2p_progress(ends->end[rank].p2p);
            if (moved < 0)
                return moved;
            events += moved;
        }
        idle = events ? 0 : idle + 1;
    }
    return 0;
}

static void on_done(coll__p2p_op_t *op, int status) {
    coll__p2p_try_t *try = op->owner;
    try->ends++;
    try->status = status;
}

static void prepare(coll__p2p_try_t *try) {
    memset(try, 0, sizeof *try);
    try->op.done = on_done;
    try->op.owner = try;
    try->status = 999;
}

void coll__p2p_try_send(coll__p2p_ends_t *ends, coll__p2p_try_t *try, int from, int to, coll__envelope_t envelope,
                        const void *buffer, size_t bytes) {
    prepare(try);
    coll__p2p_send(ends->end[from].p2p, &try->op, to, &envelope, buffer, bytes);
}

void coll__p2p_try_recv(coll__p2p_ends_t *ends, coll__p2p_try_t *try, int at, int from, coll__envelope_t envelope,
                        void *buffer, size_t bytes) {
    prepare(try);
    coll__p2p_recv(ends->end[at].p2p, &try->op, from, &envelope, buffer, bytes);
}

coll__envelope_t coll__p2p_tag(uint64_t tag) {
    return (coll__envelope_t){.comm = 1, .match = COLL__MATCH_USER | tag};
}

coll__envelope_t coll__p2p_call(uint64_t sequence, uint64_t fingerprint) {
    return (coll__envelope_t){.comm = 1, .match = sequence, .fingerprint = fingerprint};
}

void coll__p2p_ends_still_work(coll__p2p_ends_t *ends, int a, int b) {
    enum { LONG = 1000 };
    static char out[LONG], in[LONG];
    for (int turn = 0; turn < 2; turn++, a ^= b, b ^= a, a ^= b)
        for (size_t bytes = 0; bytes <= LONG; bytes += 100) {
            coll__p2p_try_t send, recv;
            memset(out, (int)bytes / 8 + turn, sizeof out);
            memset(in, 0, sizeof in);
            coll__p2p_try_recv(ends, &recv, b, a, coll__p2p_tag(9999), in, sizeof in);
            coll__p2p_try_send(ends, &send, a, b, coll__p2p_tag(9999), out, bytes);
            assert_int_equal(coll__p2p_ends_run(ends), 0);
            assert_true(coll__p2p_try_is(send, 0) && coll__p2p_try_is(recv, 0));
            assert_int_equal(recv.op.bytes, bytes);
            assert_memory_equal(in, out, bytes);
        }
}
