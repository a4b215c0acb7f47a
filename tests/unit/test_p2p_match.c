/* Point-to-point messages over the simulated network: which message meets which receive, and what becomes of the
 * others. */
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

static const coll__envelope_t any_tag = {.comm = 1, .match = COLL__MATCH_ANY_TAG};

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
            coll__p2p_try_recv(&ends, &recv[i], 1, 0, coll__p2p_tag(wanted[i]), &in[i], sizeof in[i]);
        for (int i = 0; i < 6; i++)
            coll__p2p_try_send(&ends, &send[i], 0, 1, coll__p2p_tag(sent[i]), &out[i], sizeof out[i]);
        assert_int_equal(coll__p2p_ends_run(&ends), 0);
        assert_int_equal(ends.end[1].unexpected, early ? 6 : 0);
        for (int i = 0; i < 6 && early; i++)
            coll__p2p_try_recv(&ends, &recv[i], 1, 0, coll__p2p_tag(wanted[i]), &in[i], sizeof in[i]);
        assert_int_equal(coll__p2p_ends_run(&ends), 0);
        for (int i = 0; i < 6; i++) {
            assert_true(coll__p2p_try_is(recv[i], 0) && coll__p2p_try_is(send[i], 0));
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
    coll__p2p_try_recv(&ends, &recv[0], 2, COLL__PEER_ANY, coll__p2p_tag(5), &in[0], sizeof(int));
    coll__p2p_try_recv(&ends, &recv[1], 2, 0, coll__p2p_tag(5), &in[1], sizeof(int));
    coll__p2p_try_recv(&ends, &recv[2], 2, 0, any_tag, &in[2], sizeof(int));
    coll__p2p_try_recv(&ends, &recv[3], 2, COLL__PEER_ANY, any_tag, &in[3], sizeof(int));
    static const int takes[] = {0, 1, 2, 3};
    for (int i = 0; i < 4; i++) {
        coll__p2p_try_send(&ends, &send, 0, 2, coll__p2p_tag(5), &value, sizeof value);
        assert_int_equal(coll__p2p_ends_run(&ends), 0);
        for (int k = 0; k < 4; k++)
            assert_int_equal(recv[k].ends, k <= i);
        assert_int_equal(recv[takes[i]].op.peer, 0);
        assert_int_equal(recv[takes[i]].op.envelope.match, COLL__MATCH_USER | 5);
    }
    /* The other way round: the one that names them comes first. */
    coll__p2p_try_recv(&ends, &recv[0], 2, 1, coll__p2p_tag(6), &in[0], sizeof(int));
    coll__p2p_try_recv(&ends, &recv[1], 2, COLL__PEER_ANY, any_tag, &in[1], sizeof(int));
    coll__p2p_try_send(&ends, &send, 0, 2, coll__p2p_tag(6), &value, sizeof value); /* not from 1 */
    assert_int_equal(coll__p2p_ends_run(&ends), 0);
    assert_true(!recv[0].ends && coll__p2p_try_is(recv[1], 0));
    coll__p2p_try_send(&ends, &send, 1, 2, coll__p2p_tag(6), &value, sizeof value);
    assert_int_equal(coll__p2p_ends_run(&ends), 0);
    assert_true(coll__p2p_try_is(recv[0], 0) && recv[0].op.peer == 1);
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
    coll__p2p_try_send(&ends, &collective, 0, 2, coll__p2p_call(5, 9), &value, sizeof value);
    coll__p2p_try_send(&ends, &other, 0, 2, (coll__envelope_t){.comm = 2, .match = COLL__MATCH_USER | 1}, &value,
                       sizeof value);
    assert_int_equal(coll__p2p_ends_run(&ends), 0);
    for (int i = 0; i < 4; i++) {
        coll__p2p_try_send(&ends, &send[i], from[i], 2, coll__p2p_tag((uint64_t)i), &out[i], sizeof out[i]);
        assert_int_equal(coll__p2p_ends_run(&ends), 0);
    }
    assert_int_equal(coll__p2p_counters(ends.end[2].p2p)->unexpected, 6);
    for (int i = 0; i < 4; i++) {
        coll__p2p_try_recv(&ends, &recv[i], 2, i == 3 ? 0 : COLL__PEER_ANY, any_tag, &in[i], sizeof(int));
        assert_true(coll__p2p_try_is(recv[i], 0)); /* at once */
        assert_true(in[i] == i && recv[i].op.peer == from[i]);
        assert_int_equal(recv[i].op.envelope.match, COLL__MATCH_USER | (uint64_t)i);
    }
    coll__p2p_try_recv(&ends, &recv[0], 2, 0, coll__p2p_call(5, 9), &in[0], sizeof(int));
    assert_true(coll__p2p_try_is(recv[0], 0) && in[0] == 77);
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
                coll__p2p_try_recv(&ends, &recv, 1, 0, coll__p2p_tag(1), in, room);
            coll__p2p_try_send(&ends, &send, 0, 1, coll__p2p_tag(1), out, bytes);
            assert_int_equal(coll__p2p_ends_run(&ends), 0);
            if (early)
                coll__p2p_try_recv(&ends, &recv, 1, 0, coll__p2p_tag(1), in, room);
            assert_true(coll__p2p_try_is(recv, COLL_ERR_TRUNCATE));
            assert_int_equal(recv.op.bytes, bytes);
            assert_non_null(
                strstr(coll_error_message(), eager ? "64 bytes came for a buffer of 63" : "1000 bytes came"));
            assert_int_equal(coll__p2p_ends_run(&ends), 0);
            assert_true(coll__p2p_try_is(send, 0)); /* its sender is free */
            for (size_t i = 0; i < sizeof in; i++)
                assert_int_equal(in[i], 'x');
            coll__p2p_ends_still_work(&ends, 0, 1);
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
                coll__p2p_try_recv(&ends, &recv, 1, 2, coll__p2p_call(3, 100), in, LONG);
            coll__p2p_try_send(&ends, &send, 2, 1, coll__p2p_call(3, 101), out, eager ? 8 : LONG);
            assert_int_equal(coll__p2p_ends_run(&ends), 0);
            if (early) {
                coll__envelope_t mine = coll__p2p_call(3, 100), same = coll__p2p_call(3, 101),
                                 later = coll__p2p_call(4, 100), theirs;
                int peer = -5;
                assert_int_equal(coll__p2p_find_foreign(ends.end[1].p2p, &same, &peer, &theirs), 0);
                assert_int_equal(coll__p2p_find_foreign(ends.end[1].p2p, &later, &peer, &theirs), 0);
                assert_int_equal(coll__p2p_find_foreign(ends.end[1].p2p, &mine, &peer, &theirs), 1);
                assert_true(peer == 2 && theirs.fingerprint == 101 && theirs.match == 3);
                coll__p2p_try_recv(&ends, &recv, 1, 2, mine, in, LONG);
            }
            assert_int_equal(coll__p2p_ends_run(&ends), 0);
            assert_true(coll__p2p_try_is(recv, COLL_ERR_MISMATCH) && coll__p2p_try_is(send, 0));
            assert_int_equal(ends.end[1].mismatches, 1);
            assert_int_equal(ends.end[1].mismatch_peer, 2);
            assert_true(ends.end[1].mine.fingerprint == 100 && ends.end[1].theirs.fingerprint == 101);
            coll__p2p_ends_still_work(&ends, 1, 2);
            coll__p2p_ends_close(&ends);
        }
}

static void empty_messages(void **state) {
    (void)state;
    coll__p2p_ends_t ends;
    coll__p2p_try_t send[CREDITS + 2], recv[CREDITS + 2];
    coll__p2p_ends_open(&ends, 2, PACKET, CREDITS);
    for (uint64_t i = 0; i < CREDITS + 2; i++) /* the last ones have no credit: by rendezvous */
        coll__p2p_try_send(&ends, &send[i], 0, 1, coll__p2p_tag(i), NULL, 0);
    assert_int_equal(coll__p2p_counters(ends.end[0].p2p)->rendezvous, 2);
    for (uint64_t i = 0; i < CREDITS + 2; i++)
        coll__p2p_try_recv(&ends, &recv[i], 1, 0, coll__p2p_tag(i), NULL, 0);
    assert_int_equal(coll__p2p_ends_run(&ends), 0);
    for (uint64_t i = 0; i < CREDITS + 2; i++)
        assert_true(coll__p2p_try_is(send[i], 0) && coll__p2p_try_is(recv[i], 0) && recv[i].op.bytes == 0);
    coll__p2p_ends_still_work(&ends, 0, 1);
    coll__p2p_ends_close(&ends);
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
        coll__p2p_try_send(&ends, &send[i], 0, 1, coll__p2p_call(2, 3), out, i % 2 ? 8 : LONG);
        assert_int_equal(coll__p2p_ends_run(&ends), 0);
        assert_true(coll__p2p_try_is(send[i], 0)); /* eager, or told that it is not wanted */
    }
    assert_int_equal(coll__p2p_counters(ends.end[0].p2p)->credit_stalls, 0);
    ends.end[1].refuses = false;
    coll__p2p_ends_still_work(&ends, 0, 1);
    coll__p2p_ends_close(&ends);
}

static void purge(void **state) {
    (void)state;
    coll__p2p_ends_t ends;
    static char out[LONG], in[LONG];
    coll__p2p_try_t send[6], recv;
    coll__p2p_ends_open(&ends, 2, PACKET, CREDITS);
    for (uint64_t i = 0; i < 6; i++)
        coll__p2p_try_send(&ends, &send[i], 0, 1, coll__p2p_call(i / 2, 0), out, i % 2 ? LONG : 8);
    coll__p2p_try_t other;
    coll__p2p_try_send(&ends, &other, 0, 1, (coll__envelope_t){.comm = 2, .match = 1}, out, LONG);
    assert_int_equal(coll__p2p_ends_run(&ends), 0);
    uint64_t one = 1;
    coll__p2p_purge(ends.end[1].p2p, 1, &one);
    assert_int_equal(coll__p2p_ends_run(&ends), 0);
    assert_true(coll__p2p_try_is(send[3], 0) && !send[1].ends && !send[5].ends && !other.ends);
    coll__p2p_try_recv(&ends, &recv, 1, 0, coll__p2p_call(0, 0), in, LONG); /* of call 0 there is still all */
    assert_true(coll__p2p_try_is(recv, 0));
    coll__p2p_purge(ends.end[1].p2p, 1, NULL);
    assert_int_equal(coll__p2p_ends_run(&ends), 0);
    assert_true(coll__p2p_try_is(send[1], 0) && coll__p2p_try_is(send[5], 0) && !other.ends);
    coll__p2p_try_recv(&ends, &recv, 1, 0, (coll__envelope_t){.comm = 2, .match = 1}, in, LONG);
    assert_int_equal(coll__p2p_ends_run(&ends), 0);
    assert_true(coll__p2p_try_is(recv, 0) && coll__p2p_try_is(other, 0));
    coll__p2p_ends_still_work(&ends, 0, 1);
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
        cmocka_unit_test(messages_nobody_will_want),
        cmocka_unit_test(purge),
    };
    return cmocka_run_group_tests_name("p2p_match", tests, NULL, NULL);
}
