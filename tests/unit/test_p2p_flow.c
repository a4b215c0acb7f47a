/* Point-to-point messages over the simulated network: credits, operations that end early, peers that are gone or send
 * what no peer may send. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/status.h"
#include "p2p/p2p_private.h"
#include "support/p2p_ends.h"

enum { PACKET = 64, CREDITS = 4, LONG = 1000 };

/* ---- credits ---- */

static void credits_are_spent_and_come_back(void **state) {
    (void)state;
    coll__p2p_ends_t ends;
    coll__p2p_try_t send[3 * CREDITS];
    int value = 5, in;
    coll__p2p_ends_open(&ends, 2, PACKET, CREDITS);
    const coll__p2p_counters_t *counters = coll__p2p_counters(ends.end[0].p2p);
    for (uint64_t i = 0; i < CREDITS + 3; i++)
        coll__p2p_try_send(&ends, &send[i], 0, 1, coll__p2p_tag(i), &value, sizeof value);
    assert_int_equal(counters->eager, CREDITS);
    assert_int_equal(counters->credit_stalls, 3);
    assert_int_equal(counters->rendezvous, 3);
    assert_int_equal(coll__p2p_ends_run(&ends), 0); /* kept in memory of their own: all credits are back */
    for (int i = 0; i < CREDITS; i++)
        coll__p2p_try_send(&ends, &send[CREDITS + 3 + i], 0, 1, coll__p2p_tag(100), &value, sizeof value);
    assert_int_equal(counters->eager, 2 * CREDITS);
    assert_int_equal(counters->credit_stalls, 3);
    for (uint64_t i = 0; i < CREDITS + 3; i++) {
        coll__p2p_try_t recv;
        coll__p2p_try_recv(&ends, &recv, 1, 0, coll__p2p_tag(i), &in, sizeof in);
        assert_int_equal(coll__p2p_ends_run(&ends), 0);
        assert_true(coll__p2p_try_is(recv, 0) && coll__p2p_try_is(send[i], 0));
    }
    coll__p2p_purge(ends.end[1].p2p, 1, NULL);
    coll__p2p_ends_still_work(&ends, 0, 1);
    coll__p2p_ends_close(&ends);
}

/* What is kept for receives that do not come is bounded: then credits stay, and senders announce instead. */
static void memory_of_early_messages_is_bounded(void **state) {
    (void)state;
    enum { LARGE = 4 << 20, FIT = COLL__P2P_UNEXPECTED_BYTES / LARGE - 1, MESSAGES = FIT + 8 };
    coll__p2p_ends_t ends;
    static coll__p2p_try_t send[MESSAGES + 1];
    char *out = calloc(1, LARGE), *in = calloc(1, LARGE);
    coll__p2p_ends_open(&ends, 2, LARGE, CREDITS);
    const coll__p2p_counters_t *counters = coll__p2p_counters(ends.end[0].p2p);
    for (uint64_t i = 0; i < MESSAGES; i++) {
        coll__p2p_try_send(&ends, &send[i], 0, 1, coll__p2p_tag(i), out, LARGE);
        assert_int_equal(coll__p2p_ends_run(&ends), 0);
    }
    assert_true(counters->eager >= FIT && counters->eager <= FIT + CREDITS);
    assert_int_equal(counters->rendezvous, MESSAGES - counters->eager);
    for (uint64_t i = 0; i < MESSAGES; i++) {
        coll__p2p_try_t recv;
        coll__p2p_try_recv(&ends, &recv, 1, 0, coll__p2p_tag(i), in, LARGE);
        assert_int_equal(coll__p2p_ends_run(&ends), 0);
        assert_true(coll__p2p_try_is(recv, 0) && coll__p2p_try_is(send[i], 0));
    }
    uint64_t eager = counters->eager;
    for (int i = 0; i < CREDITS; i++)
        coll__p2p_try_send(&ends, &send[i], 0, 1, coll__p2p_tag(1), out, 8);
    assert_true(counters->eager >= eager + CREDITS / 2); /* up to half of them may ride on a packet yet to come */
    coll__p2p_ends_close(&ends);
    free(out);
    free(in);
}

/* ---- given up ---- */

static int refuse_bulk_send(coll__transport_t *transport, int peer, uint32_t id, const void *buffer, size_t bytes,
                            void *cookie) {
    (void)transport, (void)peer, (void)id, (void)buffer, (void)bytes, (void)cookie;
    return COLL__AGAIN;
}

static int refuse_bulk_recv(coll__transport_t *transport, int peer, uint32_t id, void *buffer, size_t bytes,
                            void *cookie) {
    (void)transport, (void)peer, (void)id, (void)buffer, (void)bytes, (void)cookie;
    return COLL__AGAIN;
}

static int fail_bulk_recv(coll__transport_t *transport, int peer, uint32_t id, void *buffer, size_t bytes,
                          void *cookie) {
    (void)transport, (void)peer, (void)id, (void)buffer, (void)bytes, (void)cookie;
    return coll__error(COLL_ERR_TRANSPORT, "no");
}

static void receives_given_up(void **state) {
    (void)state;
    coll__p2p_ends_t ends;
    static char out[LONG], in[LONG];
    coll__p2p_try_t send, recv, any, kept;
    coll__p2p_ends_open(&ends, 2, PACKET, CREDITS);
    coll__p2p_t *p2p = ends.end[1].p2p;
    coll__p2p_try_recv(&ends, &recv, 1, 0, coll__p2p_tag(1), in, LONG);
    coll__p2p_try_recv(&ends, &any, 1, COLL__PEER_ANY, coll__p2p_tag(1), in, LONG);
    coll__p2p_try_recv(&ends, &kept, 1, 0, coll__p2p_tag(1), in, LONG);
    assert_int_equal(recv.op.state, COLL__OP_POSTED);
    coll__p2p_cancel(p2p, &recv.op);
    coll__p2p_cancel(p2p, &any.op);
    coll__p2p_cancel(p2p, &any.op); /* it is not there any more: nothing happens */
    coll__p2p_try_send(&ends, &send, 0, 1, coll__p2p_tag(1), out, LONG);
    assert_int_equal(coll__p2p_ends_run(&ends), 0);
    assert_true(!recv.ends && !any.ends && coll__p2p_try_is(kept, 0) && coll__p2p_try_is(send, 0));

    ends.end[1].ops.bulk_recv = refuse_bulk_recv; /* waits for room */
    coll__p2p_try_recv(&ends, &recv, 1, 0, coll__p2p_tag(2), in, LONG);
    coll__p2p_try_send(&ends, &send, 0, 1, coll__p2p_tag(2), out, LONG);
    assert_int_equal(coll__p2p_ends_run(&ends), 0);
    assert_int_equal(recv.op.state, COLL__OP_BULK_RECV);
    assert_false(coll__p2p_drained(p2p));
    coll__p2p_cancel(p2p, &recv.op);
    assert_true(coll__p2p_drained(p2p));
    coll__p2p_cancel(ends.end[0].p2p, &send.op);

    coll__p2p_try_recv(&ends, &recv, 1, 0, coll__p2p_tag(3), in, LONG); /* now it finds room later */
    coll__p2p_try_send(&ends, &send, 0, 1, coll__p2p_tag(3), out, LONG);
    assert_int_equal(coll__p2p_ends_run(&ends), 0);
    assert_false(recv.ends);
    ends.end[1].ops.bulk_recv = ends.end[0].ops.bulk_recv;
    assert_int_equal(coll__p2p_ends_run(&ends), 0);
    assert_true(coll__p2p_try_is(recv, 0) && coll__p2p_try_is(send, 0));

    ends.end[0].deaf = true; /* its data do not come: the transport has the buffer */
    coll__p2p_try_send(&ends, &send, 0, 1, coll__p2p_tag(4), out, LONG);
    coll__p2p_try_recv(&ends, &recv, 1, 0, coll__p2p_tag(4), in, LONG);
    for (int i = 0; i < 100 && recv.op.state != COLL__OP_BULK; i++) {
        coll__p2p_progress(p2p);
        ends.end[0].transport->ops->poll(ends.end[0].transport); /* only its clock */
    }
    assert_int_equal(recv.op.state, COLL__OP_BULK);
    coll__p2p_cancel(p2p, &recv.op);
    memset(in, 'x', sizeof in);
    ends.end[0].deaf = false;
    assert_int_equal(coll__p2p_ends_run(&ends), 0);
    assert_true(recv.ends == 0 && in[0] == 'x' && in[LONG - 1] == 'x');

    ends.end[1].ops.bulk_recv = fail_bulk_recv;
    coll__p2p_try_recv(&ends, &recv, 1, 0, coll__p2p_tag(5), in, LONG);
    coll__p2p_try_send(&ends, &send, 0, 1, coll__p2p_tag(5), out, LONG);
    assert_int_equal(coll__p2p_ends_run(&ends), 0);
    assert_true(coll__p2p_try_is(recv, COLL_ERR_TRANSPORT));
    coll__p2p_cancel(ends.end[0].p2p, &send.op);
    ends.end[1].ops.bulk_recv = ends.end[0].ops.bulk_recv;
    coll__p2p_ends_still_work(&ends, 0, 1);
    coll__p2p_ends_close(&ends);
}

/* Fills the way to a peer that does not listen: the next packet waits here. */
static int fill(coll__p2p_ends_t *ends, coll__p2p_try_t *sends, int most) {
    int count = 0;
    ends->end[1].deaf = true;
    do
        coll__p2p_try_send(ends, &sends[count++], 0, 1, coll__p2p_tag(7), NULL, 0);
    while (sends[count - 1].op.state != COLL__OP_QUEUED && count < most);
    assert_true(count < most);
    return count;
}

enum { MOST = 5000 };

static void sends_given_up(void **state) {
    (void)state;
    coll__p2p_ends_t ends;
    static char out[LONG], in[LONG];
    static coll__p2p_try_t fills[MOST];
    coll__p2p_try_t eager, announced, recv;
    coll__p2p_ends_open(&ends, 2, PACKET, MOST);
    coll__p2p_t *p2p = ends.end[0].p2p;
    int count = fill(&ends, fills, MOST);
    coll__p2p_try_send(&ends, &eager, 0, 1, coll__p2p_tag(8), out, 8);
    coll__p2p_try_send(&ends, &announced, 0, 1, coll__p2p_tag(8), out, LONG);
    assert_true(eager.op.state == COLL__OP_QUEUED && announced.op.state == COLL__OP_QUEUED);
    assert_false(coll__p2p_drained(p2p));
    int credits = p2p->peers[1].credits;
    coll__p2p_cancel(p2p, &eager.op);
    coll__p2p_cancel(p2p, &announced.op);
    coll__p2p_cancel(p2p, &fills[count - 1].op);
    assert_true(coll__p2p_drained(p2p));
    assert_int_equal(p2p->peers[1].credits, credits + 2);
    ends.end[1].deaf = false;
    assert_int_equal(coll__p2p_ends_run(&ends), 0);
    assert_int_equal(ends.end[1].unexpected, count - 1); /* neither of those came */
    coll__p2p_purge(ends.end[1].p2p, 1, NULL);

    coll__p2p_try_send(&ends, &announced, 0, 1, coll__p2p_tag(8), out, LONG);
    assert_int_equal(coll__p2p_ends_run(&ends), 0);
    assert_int_equal(announced.op.state, COLL__OP_ANNOUNCED);
    coll__p2p_cancel(p2p, &announced.op);
    coll__p2p_try_recv(&ends, &recv, 1, 0, coll__p2p_tag(8), in, LONG); /* its answer comes too late */
    assert_int_equal(coll__p2p_ends_run(&ends), 0);
    assert_true(!announced.ends && !recv.ends);
    coll__p2p_cancel(ends.end[1].p2p, &recv.op);

    ends.end[0].ops.bulk_send = refuse_bulk_send;
    coll__p2p_try_send(&ends, &announced, 0, 1, coll__p2p_tag(9), out, LONG);
    coll__p2p_try_recv(&ends, &recv, 1, 0, coll__p2p_tag(9), in, LONG);
    assert_int_equal(coll__p2p_ends_run(&ends), 0);
    assert_int_equal(announced.op.state, COLL__OP_BULK_SEND);
    coll__p2p_cancel(p2p, &announced.op);
    coll__p2p_cancel(ends.end[1].p2p, &recv.op);
    ends.end[0].ops.bulk_send = ends.end[1].ops.bulk_send;
    assert_int_equal(coll__p2p_ends_run(&ends), 0);
    assert_true(!announced.ends && !recv.ends);
    coll__p2p_ends_still_work(&ends, 0, 1);
    coll__p2p_ends_close(&ends);
}

static void the_peer_is_gone(void **state) {
    (void)state;
    coll__p2p_ends_t ends;
    static char out[LONG];
    static coll__p2p_try_t fills[MOST];
    coll__p2p_try_t queued, later, later_long;
    coll__p2p_ends_open(&ends, 3, PACKET, MOST);
    int count = fill(&ends, fills, MOST);
    coll__p2p_try_send(&ends, &queued, 0, 1, coll__p2p_tag(8), out, LONG);
    coll__p2p_forget(ends.end[0].p2p, 1);
    coll__p2p_forget(ends.end[0].p2p, 1);
    assert_true(coll__p2p_try_is(fills[count - 1], COLL_ERR_RANK_FAILED) &&
                coll__p2p_try_is(queued, COLL_ERR_RANK_FAILED));
    assert_true(coll__p2p_drained(ends.end[0].p2p));
    coll__p2p_try_send(&ends, &later, 0, 1, coll__p2p_tag(8), out, 8);
    coll__p2p_try_send(&ends, &later_long, 0, 1, coll__p2p_tag(8), out, LONG);
    assert_true(coll__p2p_try_is(later, COLL_ERR_RANK_FAILED) && coll__p2p_try_is(later_long, COLL_ERR_RANK_FAILED));
    assert_non_null(strstr(coll_error_message(), "rank 1 of the world is gone"));
    coll__p2p_forget(ends.end[0].p2p, 0); /* itself, to whom there is no way: nothing happens */
    ends.end[1].deaf = false;
    coll__p2p_ends_still_work(&ends, 0, 2);
    coll__p2p_ends_close(&ends);
}

/* ---- the ways out ---- */

static void arm_and_drained(void **state) {
    (void)state;
    coll__p2p_ends_t ends;
    int value = 1, fds[4], count = 9;
    coll__p2p_try_t send, recv;
    coll__p2p_ends_open(&ends, 2, PACKET, CREDITS);
    assert_int_equal(coll__p2p_arm(ends.end[1].p2p, fds, &count), 0);
    assert_int_equal(count, 0); /* the simulated network has no descriptor */
    coll__p2p_try_recv(&ends, &recv, 1, 0, coll__p2p_tag(1), &value, sizeof value);
    coll__p2p_try_send(&ends, &send, 0, 1, coll__p2p_tag(1), &value, sizeof value);
    assert_int_equal(coll__p2p_arm(ends.end[1].p2p, fds, &count), COLL__AGAIN);
    assert_int_equal(coll__p2p_ends_run(&ends), 0);
    assert_int_equal(coll__p2p_arm(ends.end[1].p2p, fds, &count), 0);
    assert_true(coll__p2p_drained(ends.end[0].p2p));
    coll__p2p_ends_close(&ends);
}

static void deliver(coll__p2p_ends_t *ends, int at, int from, const coll__wire_header_t *header, size_t bytes) {
    coll__sink_t sink = coll__p2p_sink(ends->end[at].p2p);
    sink.packet(sink.context, from, header, bytes);
}

/* Progress tells of a packet that no peer may send, whatever else goes wrong meanwhile. */
static void damaged_packets_are_errors(void **state) {
    (void)state;
    coll__p2p_ends_t ends;
    coll__p2p_try_t recv, other;
    char in[8];
    coll__p2p_ends_open(&ends, 3, PACKET, CREDITS);
    coll__wire_header_t header = {.kind = 77, .version = COLL__WIRE_VERSION};
    coll__p2p_try_recv(&ends, &recv, 0, 1, coll__p2p_tag(1), in, 0);
    deliver(&ends, 0, 2, &header, sizeof header);
    header = (coll__wire_header_t){
        .kind = COLL__WIRE_RTS, .version = COLL__WIRE_VERSION, .comm = 1, .match = COLL__MATCH_USER | 1, .bytes = 70};
    deliver(&ends, 0, 1, &header, sizeof header);
    assert_true(coll__p2p_try_is(recv, COLL_ERR_TRUNCATE));
    assert_int_equal(coll__p2p_progress(ends.end[0].p2p), COLL_ERR_TRANSPORT);
    assert_string_equal(coll_error_message(), "a packet of 48 bytes from rank 2 is not valid: its kind is unknown");
    assert_int_equal(coll__p2p_ends_run(&ends), 0); /* told once */

    header = (coll__wire_header_t){.kind = COLL__WIRE_CREDIT, .version = COLL__WIRE_VERSION, .credits = 1};
    deliver(&ends, 0, 1, &header, sizeof header); /* one that was never spent */
    assert_int_equal(coll__p2p_progress(ends.end[0].p2p), COLL_ERR_TRANSPORT);
    assert_non_null(strstr(coll_error_message(), "from rank 1 is not valid: it gives back more credits"));

    /* Answers to what was never asked are no harm. */
    for (int kind = COLL__WIRE_CTS; kind <= COLL__WIRE_NACK; kind++) {
        header = (coll__wire_header_t){.kind = (uint8_t)kind, .version = COLL__WIRE_VERSION, .id = 1, .bulk_id = 5};
        deliver(&ends, 0, 1, &header, sizeof header);
        assert_int_equal(coll__p2p_ends_run(&ends), 0);
    }
    /* Nor is an answer by another peer than the one that was asked. */
    coll__p2p_try_send(&ends, &other, 0, 1, coll__p2p_tag(2), ends.end, LONG);
    assert_int_equal(coll__p2p_ends_run(&ends), 0);
    header = (coll__wire_header_t){.kind = COLL__WIRE_NACK, .version = COLL__WIRE_VERSION, .id = other.op.id};
    deliver(&ends, 0, 2, &header, sizeof header);
    assert_int_equal(coll__p2p_ends_run(&ends), 0);
    assert_false(other.ends);
    coll__p2p_cancel(ends.end[0].p2p, &other.op);
    coll__p2p_purge(ends.end[1].p2p, 1, NULL);
    coll__p2p_ends_still_work(&ends, 0, 1);
    coll__p2p_ends_close(&ends);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(credits_are_spent_and_come_back),
        cmocka_unit_test(memory_of_early_messages_is_bounded),
        cmocka_unit_test(receives_given_up),
        cmocka_unit_test(sends_given_up),
        cmocka_unit_test(the_peer_is_gone),
        cmocka_unit_test(arm_and_drained),
        cmocka_unit_test(damaged_packets_are_errors),
    };
    return cmocka_run_group_tests_name("p2p_flow", tests, NULL, NULL);
}
