/* Point-to-point messages over the simulated network: what meets what, credits, and how operations end early. */
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

static coll__envelope_t tag(uint64_t number) {
    return (coll__envelope_t){.comm = 1, .match = COLL__MATCH_USER | number};
}

static const coll__envelope_t any_tag = {.comm = 1, .match = COLL__MATCH_ANY_TAG};

static coll__envelope_t call(uint64_t sequence, uint64_t fingerprint) {
    return (coll__envelope_t){.comm = 1, .match = sequence, .fingerprint = fingerprint};
}

#define is_done(try, value) ((try).ends == 1 && (try).status == (value))

/* After whatever happened before: messages of every kind still get through in both directions. */
static void still_works(coll__p2p_ends_t *ends, int a, int b) {
    static char out[LONG], in[LONG];
    for (int turn = 0; turn < 2; turn++, a ^= b, b ^= a, a ^= b)
        for (size_t bytes = 0; bytes <= LONG; bytes += 100) {
            coll__p2p_try_t send, recv;
            memset(out, (int)bytes / 8 + turn, sizeof out);
            memset(in, 0, sizeof in);
            coll__p2p_try_recv(ends, &recv, b, a, tag(9999), in, sizeof in);
            coll__p2p_try_send(ends, &send, a, b, tag(9999), out, bytes);
            assert_int_equal(coll__p2p_ends_run(ends), 0);
            assert_true(is_done(send, 0) && is_done(recv, 0));
            assert_int_equal(recv.op.bytes, bytes);
            assert_memory_equal(in, out, bytes);
        }
}

/* ---- what meets what ---- */

static void receives_of_a_tag_meet_in_order(void **state) {
    (void)state;
    coll__p2p_ends_t ends;
    for (int early = 0; early < 2; early++) { /* receives before messages, and after */
        coll__p2p_ends_open(&ends, 2, PACKET, CREDITS);
        static const uint64_t sent[] = {1, 2, 1, 3, 2, 1}, wanted[] = {3, 1, 1, 2, 1, 2};
        static const int meets[] = {3, 0, 2, 1, 5, 4};
        coll__p2p_try_t send[6], recv[6];
        int in[6], out[6] = {0, 1, 2, 3, 4, 5};
        for (int i = 0; i < 6 && !early; i++)
            coll__p2p_try_recv(&ends, &recv[i], 1, 0, tag(wanted[i]), &in[i], sizeof in[i]);
        for (int i = 0; i < 6; i++)
            coll__p2p_try_send(&ends, &send[i], 0, 1, tag(sent[i]), &out[i], sizeof out[i]);
        assert_int_equal(coll__p2p_ends_run(&ends), 0);
        assert_int_equal(ends.end[1].unexpected, early ? 6 : 0);
        for (int i = 0; i < 6 && early; i++)
            coll__p2p_try_recv(&ends, &recv[i], 1, 0, tag(wanted[i]), &in[i], sizeof in[i]);
        assert_int_equal(coll__p2p_ends_run(&ends), 0);
        for (int i = 0; i < 6; i++) {
            assert_true(is_done(recv[i], 0) && is_done(send[i], 0));
            assert_int_equal(recv[i].op.bytes, sizeof(int));
            assert_int_equal(in[i], meets[i]);
        }
        coll__p2p_ends_close(&ends);
    }
}

/* A message takes the receive that was posted first, whether that names its sender and tag or not. */
static void any_source_and_any_tag_keep_their_place(void **state) {
    (void)state;
    coll__p2p_ends_t ends;
    coll__p2p_try_t send, recv[4];
    int in[4], value = 1;
    coll__p2p_ends_open(&ends, 3, PACKET, CREDITS);
    coll__p2p_try_recv(&ends, &recv[0], 2, COLL__PEER_ANY, tag(5), &in[0], sizeof(int));
    coll__p2p_try_recv(&ends, &recv[1], 2, 0, tag(5), &in[1], sizeof(int));
    coll__p2p_try_recv(&ends, &recv[2], 2, 0, any_tag, &in[2], sizeof(int));
    coll__p2p_try_recv(&ends, &recv[3], 2, COLL__PEER_ANY, any_tag, &in[3], sizeof(int));
    static const int takes[] = {0, 1, 2, 3};
    for (int i = 0; i < 4; i++) {
        coll__p2p_try_send(&ends, &send, 0, 2, tag(5), &value, sizeof value);
        assert_int_equal(coll__p2p_ends_run(&ends), 0);
        for (int k = 0; k < 4; k++)
            assert_int_equal(recv[k].ends, k <= i);
        assert_int_equal(recv[takes[i]].op.peer, 0);
        assert_int_equal(recv[takes[i]].op.envelope.match, COLL__MATCH_USER | 5);
    }
    /* The other way round: the one that names them comes first. */
    coll__p2p_try_recv(&ends, &recv[0], 2, 1, tag(6), &in[0], sizeof(int));
    coll__p2p_try_recv(&ends, &recv[1], 2, COLL__PEER_ANY, any_tag, &in[1], sizeof(int));
    coll__p2p_try_send(&ends, &send, 0, 2, tag(6), &value, sizeof value); /* not from 1 */
    assert_int_equal(coll__p2p_ends_run(&ends), 0);
    assert_true(!recv[0].ends && is_done(recv[1], 0));
    coll__p2p_try_send(&ends, &send, 1, 2, tag(6), &value, sizeof value);
    assert_int_equal(coll__p2p_ends_run(&ends), 0);
    assert_true(is_done(recv[0], 0) && recv[0].op.peer == 1);
    coll__p2p_ends_close(&ends);
}

/* Those that came before their receive: from any source in order of arrival; a collective's never meet any tag. */
static void early_messages_wait(void **state) {
    (void)state;
    coll__p2p_ends_t ends;
    coll__p2p_try_t send[4], recv[4];
    int in[4], out[4] = {0, 1, 2, 3};
    coll__p2p_ends_open(&ends, 3, PACKET, CREDITS);
    static const int from[] = {1, 0, 1, 0};
    coll__p2p_try_t collective, other;
    int value = 77;
    coll__p2p_try_send(&ends, &collective, 0, 2, call(5, 9), &value, sizeof value);
    coll__p2p_try_send(&ends, &other, 0, 2, (coll__envelope_t){.comm = 2, .match = COLL__MATCH_USER | 1}, &value,
                       sizeof value);
    assert_int_equal(coll__p2p_ends_run(&ends), 0);
    for (int i = 0; i < 4; i++) {
        coll__p2p_try_send(&ends, &send[i], from[i], 2, tag((uint64_t)i), &out[i], sizeof out[i]);
        assert_int_equal(coll__p2p_ends_run(&ends), 0);
    }
    assert_int_equal(coll__p2p_counters(ends.end[2].p2p)->unexpected, 6);
    for (int i = 0; i < 4; i++) {
        coll__p2p_try_recv(&ends, &recv[i], 2, i == 3 ? 0 : COLL__PEER_ANY, any_tag, &in[i], sizeof(int));
        assert_true(is_done(recv[i], 0)); /* at once */
        assert_true(in[i] == i && recv[i].op.peer == from[i]);
        assert_int_equal(recv[i].op.envelope.match, COLL__MATCH_USER | (uint64_t)i);
    }
    coll__p2p_try_recv(&ends, &recv[0], 2, 0, call(5, 9), &in[0], sizeof(int));
    assert_true(is_done(recv[0], 0) && in[0] == 77);
    coll__p2p_ends_close(&ends);
}

static void too_long(void **state) {
    (void)state;
    coll__p2p_ends_t ends;
    static char out[LONG], in[LONG];
    for (int early = 0; early < 2; early++)
        for (int eager = 0; eager < 2; eager++) {
            coll__p2p_try_t send, recv;
            size_t bytes = eager ? PACKET : LONG, room = bytes - 1;
            coll__p2p_ends_open(&ends, 2, PACKET, CREDITS);
            memset(in, 'x', sizeof in);
            if (!early)
                coll__p2p_try_recv(&ends, &recv, 1, 0, tag(1), in, room);
            coll__p2p_try_send(&ends, &send, 0, 1, tag(1), out, bytes);
            assert_int_equal(coll__p2p_ends_run(&ends), 0);
            if (early)
                coll__p2p_try_recv(&ends, &recv, 1, 0, tag(1), in, room);
            assert_true(is_done(recv, COLL_ERR_TRUNCATE));
            assert_int_equal(recv.op.bytes, bytes);
            assert_non_null(
                strstr(coll_error_message(), eager ? "64 bytes came for a buffer of 63" : "1000 bytes came"));
            assert_int_equal(coll__p2p_ends_run(&ends), 0);
            assert_true(is_done(send, 0)); /* its sender is free */
            for (size_t i = 0; i < sizeof in; i++)
                assert_int_equal(in[i], 'x');
            still_works(&ends, 0, 1);
            coll__p2p_ends_close(&ends);
        }
}

static void other_fingerprints_are_a_mismatch(void **state) {
    (void)state;
    coll__p2p_ends_t ends;
    static char out[LONG], in[LONG];
    for (int early = 0; early < 2; early++)
        for (int eager = 0; eager < 2; eager++) {
            coll__p2p_try_t send, recv;
            coll__p2p_ends_open(&ends, 3, PACKET, CREDITS);
            if (!early)
                coll__p2p_try_recv(&ends, &recv, 1, 2, call(3, 100), in, LONG);
            coll__p2p_try_send(&ends, &send, 2, 1, call(3, 101), out, eager ? 8 : LONG);
            assert_int_equal(coll__p2p_ends_run(&ends), 0);
            if (early) {
                coll__envelope_t mine = call(3, 100), same = call(3, 101), later = call(4, 100), theirs;
                int peer = -5;
                assert_int_equal(coll__p2p_find_foreign(ends.end[1].p2p, &same, &peer, &theirs), 0);
                assert_int_equal(coll__p2p_find_foreign(ends.end[1].p2p, &later, &peer, &theirs), 0);
                assert_int_equal(coll__p2p_find_foreign(ends.end[1].p2p, &mine, &peer, &theirs), 1);
                assert_true(peer == 2 && theirs.fingerprint == 101 && theirs.match == 3);
                coll__p2p_try_recv(&ends, &recv, 1, 2, mine, in, LONG);
            }
            assert_int_equal(coll__p2p_ends_run(&ends), 0);
            assert_true(is_done(recv, COLL_ERR_MISMATCH) && is_done(send, 0));
            assert_int_equal(ends.end[1].mismatches, 1);
            assert_int_equal(ends.end[1].mismatch_peer, 2);
            assert_true(ends.end[1].mine.fingerprint == 100 && ends.end[1].theirs.fingerprint == 101);
            still_works(&ends, 1, 2);
            coll__p2p_ends_close(&ends);
        }
}

static void empty_messages(void **state) {
    (void)state;
    coll__p2p_ends_t ends;
    coll__p2p_try_t send[CREDITS + 2], recv[CREDITS + 2];
    coll__p2p_ends_open(&ends, 2, PACKET, CREDITS);
    for (uint64_t i = 0; i < CREDITS + 2; i++) /* the last ones have no credit: by rendezvous */
        coll__p2p_try_send(&ends, &send[i], 0, 1, tag(i), NULL, 0);
    assert_int_equal(coll__p2p_counters(ends.end[0].p2p)->rendezvous, 2);
    for (uint64_t i = 0; i < CREDITS + 2; i++)
        coll__p2p_try_recv(&ends, &recv[i], 1, 0, tag(i), NULL, 0);
    assert_int_equal(coll__p2p_ends_run(&ends), 0);
    for (uint64_t i = 0; i < CREDITS + 2; i++)
        assert_true(is_done(send[i], 0) && is_done(recv[i], 0) && recv[i].op.bytes == 0);
    still_works(&ends, 0, 1);
    coll__p2p_ends_close(&ends);
}

/* ---- credits ---- */

static void credits_are_spent_and_come_back(void **state) {
    (void)state;
    coll__p2p_ends_t ends;
    coll__p2p_try_t send[3 * CREDITS];
    int value = 5, in;
    coll__p2p_ends_open(&ends, 2, PACKET, CREDITS);
    const coll__p2p_counters_t *counters = coll__p2p_counters(ends.end[0].p2p);
    for (uint64_t i = 0; i < CREDITS + 3; i++)
        coll__p2p_try_send(&ends, &send[i], 0, 1, tag(i), &value, sizeof value);
    assert_int_equal(counters->eager, CREDITS);
    assert_int_equal(counters->credit_stalls, 3);
    assert_int_equal(counters->rendezvous, 3);
    assert_int_equal(coll__p2p_ends_run(&ends), 0); /* kept in memory of their own: all credits are back */
    for (int i = 0; i < CREDITS; i++)
        coll__p2p_try_send(&ends, &send[CREDITS + 3 + i], 0, 1, tag(100), &value, sizeof value);
    assert_int_equal(counters->eager, 2 * CREDITS);
    assert_int_equal(counters->credit_stalls, 3);
    for (uint64_t i = 0; i < CREDITS + 3; i++) {
        coll__p2p_try_t recv;
        coll__p2p_try_recv(&ends, &recv, 1, 0, tag(i), &in, sizeof in);
        assert_int_equal(coll__p2p_ends_run(&ends), 0);
        assert_true(is_done(recv, 0) && is_done(send[i], 0));
    }
    coll__p2p_purge(ends.end[1].p2p, 1, NULL);
    still_works(&ends, 0, 1);
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
        coll__p2p_try_send(&ends, &send[i], 0, 1, tag(i), out, LARGE);
        assert_int_equal(coll__p2p_ends_run(&ends), 0);
    }
    assert_true(counters->eager >= FIT && counters->eager <= FIT + CREDITS);
    assert_int_equal(counters->rendezvous, MESSAGES - counters->eager);
    for (uint64_t i = 0; i < MESSAGES; i++) {
        coll__p2p_try_t recv;
        coll__p2p_try_recv(&ends, &recv, 1, 0, tag(i), in, LARGE);
        assert_int_equal(coll__p2p_ends_run(&ends), 0);
        assert_true(is_done(recv, 0) && is_done(send[i], 0));
    }
    uint64_t eager = counters->eager;
    for (int i = 0; i < CREDITS; i++)
        coll__p2p_try_send(&ends, &send[i], 0, 1, tag(1), out, 8);
    assert_true(counters->eager >= eager + CREDITS / 2); /* up to half of them may ride on a packet yet to come */
    coll__p2p_ends_close(&ends);
    free(out);
    free(in);
}

/* ---- refused, purged ---- */

static void messages_nobody_will_want(void **state) {
    (void)state;
    coll__p2p_ends_t ends;
    static char out[LONG];
    coll__p2p_try_t send[4 * CREDITS];
    coll__p2p_ends_open(&ends, 2, PACKET, CREDITS);
    ends.end[1].refuses = true;
    for (int i = 0; i < 4 * CREDITS; i++) {
        coll__p2p_try_send(&ends, &send[i], 0, 1, call(2, 3), out, i % 2 ? 8 : LONG);
        assert_int_equal(coll__p2p_ends_run(&ends), 0);
        assert_true(is_done(send[i], 0)); /* eager, or told that it is not wanted */
    }
    assert_int_equal(coll__p2p_counters(ends.end[0].p2p)->credit_stalls, 0);
    ends.end[1].refuses = false;
    still_works(&ends, 0, 1);
    coll__p2p_ends_close(&ends);
}

static void purge(void **state) {
    (void)state;
    coll__p2p_ends_t ends;
    static char out[LONG], in[LONG];
    coll__p2p_try_t send[6], recv;
    coll__p2p_ends_open(&ends, 2, PACKET, CREDITS);
    for (uint64_t i = 0; i < 6; i++)
        coll__p2p_try_send(&ends, &send[i], 0, 1, call(i / 2, 0), out, i % 2 ? LONG : 8);
    coll__p2p_try_t other;
    coll__p2p_try_send(&ends, &other, 0, 1, (coll__envelope_t){.comm = 2, .match = 1}, out, LONG);
    assert_int_equal(coll__p2p_ends_run(&ends), 0);
    uint64_t one = 1;
    coll__p2p_purge(ends.end[1].p2p, 1, &one);
    assert_int_equal(coll__p2p_ends_run(&ends), 0);
    assert_true(is_done(send[3], 0) && !send[1].ends && !send[5].ends && !other.ends);
    coll__p2p_try_recv(&ends, &recv, 1, 0, call(0, 0), in, LONG); /* of call 0 there is still all */
    assert_true(is_done(recv, 0));
    coll__p2p_purge(ends.end[1].p2p, 1, NULL);
    assert_int_equal(coll__p2p_ends_run(&ends), 0);
    assert_true(is_done(send[1], 0) && is_done(send[5], 0) && !other.ends);
    coll__p2p_try_recv(&ends, &recv, 1, 0, (coll__envelope_t){.comm = 2, .match = 1}, in, LONG);
    assert_int_equal(coll__p2p_ends_run(&ends), 0);
    assert_true(is_done(recv, 0) && is_done(other, 0));
    still_works(&ends, 0, 1);
    coll__p2p_ends_close(&ends);
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
    coll__p2p_try_recv(&ends, &recv, 1, 0, tag(1), in, LONG);
    coll__p2p_try_recv(&ends, &any, 1, COLL__PEER_ANY, tag(1), in, LONG);
    coll__p2p_try_recv(&ends, &kept, 1, 0, tag(1), in, LONG);
    assert_int_equal(recv.op.state, COLL__OP_POSTED);
    coll__p2p_cancel(p2p, &recv.op);
    coll__p2p_cancel(p2p, &any.op);
    coll__p2p_cancel(p2p, &any.op); /* it is not there any more: nothing happens */
    coll__p2p_try_send(&ends, &send, 0, 1, tag(1), out, LONG);
    assert_int_equal(coll__p2p_ends_run(&ends), 0);
    assert_true(!recv.ends && !any.ends && is_done(kept, 0) && is_done(send, 0));

    ends.end[1].ops.bulk_recv = refuse_bulk_recv; /* waits for room */
    coll__p2p_try_recv(&ends, &recv, 1, 0, tag(2), in, LONG);
    coll__p2p_try_send(&ends, &send, 0, 1, tag(2), out, LONG);
    assert_int_equal(coll__p2p_ends_run(&ends), 0);
    assert_int_equal(recv.op.state, COLL__OP_BULK_RECV);
    assert_false(coll__p2p_drained(p2p));
    coll__p2p_cancel(p2p, &recv.op);
    assert_true(coll__p2p_drained(p2p));
    coll__p2p_cancel(ends.end[0].p2p, &send.op);

    coll__p2p_try_recv(&ends, &recv, 1, 0, tag(3), in, LONG); /* now it finds room later */
    coll__p2p_try_send(&ends, &send, 0, 1, tag(3), out, LONG);
    assert_int_equal(coll__p2p_ends_run(&ends), 0);
    assert_false(recv.ends);
    ends.end[1].ops.bulk_recv = ends.end[0].ops.bulk_recv;
    assert_int_equal(coll__p2p_ends_run(&ends), 0);
    assert_true(is_done(recv, 0) && is_done(send, 0));

    ends.end[0].deaf = true; /* its data do not come: the transport has the buffer */
    coll__p2p_try_send(&ends, &send, 0, 1, tag(4), out, LONG);
    coll__p2p_try_recv(&ends, &recv, 1, 0, tag(4), in, LONG);
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
    coll__p2p_try_recv(&ends, &recv, 1, 0, tag(5), in, LONG);
    coll__p2p_try_send(&ends, &send, 0, 1, tag(5), out, LONG);
    assert_int_equal(coll__p2p_ends_run(&ends), 0);
    assert_true(is_done(recv, COLL_ERR_TRANSPORT));
    coll__p2p_cancel(ends.end[0].p2p, &send.op);
    ends.end[1].ops.bulk_recv = ends.end[0].ops.bulk_recv;
    still_works(&ends, 0, 1);
    coll__p2p_ends_close(&ends);
}

/* Fills the way to a peer that does not listen: the next packet waits here. */
static int fill(coll__p2p_ends_t *ends, coll__p2p_try_t *sends, int most) {
    int count = 0;
    ends->end[1].deaf = true;
    do
        coll__p2p_try_send(ends, &sends[count++], 0, 1, tag(7), NULL, 0);
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
    coll__p2p_try_send(&ends, &eager, 0, 1, tag(8), out, 8);
    coll__p2p_try_send(&ends, &announced, 0, 1, tag(8), out, LONG);
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

    coll__p2p_try_send(&ends, &announced, 0, 1, tag(8), out, LONG);
    assert_int_equal(coll__p2p_ends_run(&ends), 0);
    assert_int_equal(announced.op.state, COLL__OP_ANNOUNCED);
    coll__p2p_cancel(p2p, &announced.op);
    coll__p2p_try_recv(&ends, &recv, 1, 0, tag(8), in, LONG); /* its answer comes too late */
    assert_int_equal(coll__p2p_ends_run(&ends), 0);
    assert_true(!announced.ends && !recv.ends);
    coll__p2p_cancel(ends.end[1].p2p, &recv.op);

    ends.end[0].ops.bulk_send = refuse_bulk_send;
    coll__p2p_try_send(&ends, &announced, 0, 1, tag(9), out, LONG);
    coll__p2p_try_recv(&ends, &recv, 1, 0, tag(9), in, LONG);
    assert_int_equal(coll__p2p_ends_run(&ends), 0);
    assert_int_equal(announced.op.state, COLL__OP_BULK_SEND);
    coll__p2p_cancel(p2p, &announced.op);
    coll__p2p_cancel(ends.end[1].p2p, &recv.op);
    ends.end[0].ops.bulk_send = ends.end[1].ops.bulk_send;
    assert_int_equal(coll__p2p_ends_run(&ends), 0);
    assert_true(!announced.ends && !recv.ends);
    still_works(&ends, 0, 1);
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
    coll__p2p_try_send(&ends, &queued, 0, 1, tag(8), out, LONG);
    coll__p2p_forget(ends.end[0].p2p, 1);
    coll__p2p_forget(ends.end[0].p2p, 1);
    assert_true(is_done(fills[count - 1], COLL_ERR_RANK_FAILED) && is_done(queued, COLL_ERR_RANK_FAILED));
    assert_true(coll__p2p_drained(ends.end[0].p2p));
    coll__p2p_try_send(&ends, &later, 0, 1, tag(8), out, 8);
    coll__p2p_try_send(&ends, &later_long, 0, 1, tag(8), out, LONG);
    assert_true(is_done(later, COLL_ERR_RANK_FAILED) && is_done(later_long, COLL_ERR_RANK_FAILED));
    assert_non_null(strstr(coll_error_message(), "rank 1 of the world is gone"));
    coll__p2p_forget(ends.end[0].p2p, 0); /* itself, to whom there is no way: nothing happens */
    ends.end[1].deaf = false;
    still_works(&ends, 0, 2);
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
    coll__p2p_try_recv(&ends, &recv, 1, 0, tag(1), &value, sizeof value);
    coll__p2p_try_send(&ends, &send, 0, 1, tag(1), &value, sizeof value);
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
    coll__p2p_try_recv(&ends, &recv, 0, 1, tag(1), in, 0);
    deliver(&ends, 0, 2, &header, sizeof header);
    header = (coll__wire_header_t){
        .kind = COLL__WIRE_RTS, .version = COLL__WIRE_VERSION, .comm = 1, .match = COLL__MATCH_USER | 1, .bytes = 70};
    deliver(&ends, 0, 1, &header, sizeof header);
    assert_true(is_done(recv, COLL_ERR_TRUNCATE));
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
    coll__p2p_try_send(&ends, &other, 0, 1, tag(2), ends.end, LONG);
    assert_int_equal(coll__p2p_ends_run(&ends), 0);
    header = (coll__wire_header_t){.kind = COLL__WIRE_NACK, .version = COLL__WIRE_VERSION, .id = other.op.id};
    deliver(&ends, 0, 2, &header, sizeof header);
    assert_int_equal(coll__p2p_ends_run(&ends), 0);
    assert_false(other.ends);
    coll__p2p_cancel(ends.end[0].p2p, &other.op);
    coll__p2p_purge(ends.end[1].p2p, 1, NULL);
    still_works(&ends, 0, 1);
    coll__p2p_ends_close(&ends);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(receives_of_a_tag_meet_in_order),
        cmocka_unit_test(any_source_and_any_tag_keep_their_place),
        cmocka_unit_test(early_messages_wait),
        cmocka_unit_test(too_long),
        cmocka_unit_test(other_fingerprints_are_a_mismatch),
        cmocka_unit_test(empty_messages),
        cmocka_unit_test(credits_are_spent_and_come_back),
        cmocka_unit_test(memory_of_early_messages_is_bounded),
        cmocka_unit_test(messages_nobody_will_want),
        cmocka_unit_test(purge),
        cmocka_unit_test(receives_given_up),
        cmocka_unit_test(sends_given_up),
        cmocka_unit_test(the_peer_is_gone),
        cmocka_unit_test(arm_and_drained),
        cmocka_unit_test(damaged_packets_are_errors),
    };
    return cmocka_run_group_tests_name("p2p", tests, NULL, NULL);
}
