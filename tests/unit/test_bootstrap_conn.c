/* Frames over a connection: in any pieces, in order, queued when the socket is full, and what comes of the end. */
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "bootstrap/conn.h"

typedef struct heard {
    int count;
    size_t bytes;
} heard_t;

/* Frame number i has i in `value` and i % 1000 payload bytes of i. */
static void take_numbered(void *context, const coll__frame_t *frame, const void *payload) {
    heard_t *heard = context;
    assert_int_equal(frame->value, heard->count);
    assert_int_equal(frame->bytes, heard->count % 1000);
    for (uint32_t i = 0; i < frame->bytes; i++)
        assert_int_equal(((const unsigned char *)payload)[i], heard->count & 0xff);
    heard->count++;
    heard->bytes += sizeof *frame + frame->bytes;
}

static coll__message_t *numbered(int i) {
    unsigned char payload[1000];
    memset(payload, i, sizeof payload);
    return coll__message_new((coll__frame_t){.type = 1, .value = (uint32_t)i, .bytes = (uint32_t)i % 1000}, payload);
}

static void open_pair(coll__conn_t *a, coll__conn_t *b) {
    int fds[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    coll__conn_open(a, fds[0]);
    coll__conn_open(b, fds[1]);
}

static void test_frames_come_whole_and_in_order(void **state) {
    (void)state;
    enum { FRAMES = 3000 };
    coll__conn_t from, to;
    open_pair(&from, &to);
    heard_t heard = {0};
    int queued = 0;
    for (int i = 0; i < FRAMES; i++) {
        coll__message_t *message = numbered(i);
        coll__conn_send(&from, message);
        coll__message_release(message);
        queued += from.out != NULL;
        assert_int_equal(coll__conn_interest(&from), POLLIN | (from.out != NULL ? POLLOUT : 0));
    }
    assert_true(queued > 0); /* more than the socket takes: the queue was used */
    while (heard.count < FRAMES) {
        assert_true(coll__conn_read(&to, take_numbered, &heard));
        coll__conn_flush(&from);
    }
    assert_null(from.out);
    assert_int_equal(from.out_bytes, 0);
    coll__conn_close(&from);
    assert_false(coll__conn_read(&to, take_numbered, &heard));
    coll__conn_close(&to);
    coll__conn_close(&to); /* twice is allowed */
}

static void test_bytes_may_come_one_by_one(void **state) {
    (void)state;
    coll__conn_t from, to;
    open_pair(&from, &to);
    heard_t heard = {0};
    for (int i = 0; i < 40; i++) {
        coll__message_t *message = numbered(i);
        const char *bytes = (const char *)&message->frame;
        for (size_t j = 0; j < sizeof message->frame + message->frame.bytes; j++) {
            assert_int_equal(heard.count, i);
            assert_int_equal(write(from.fd, bytes + j, 1), 1);
            assert_true(coll__conn_read(&to, take_numbered, &heard));
        }
        assert_int_equal(heard.count, i + 1);
        coll__message_release(message);
    }
    coll__conn_close(&from);
    coll__conn_close(&to);
}

static void test_what_was_said_before_the_end_is_heard(void **state) {
    (void)state;
    coll__conn_t from, to;
    open_pair(&from, &to);
    heard_t heard = {0};
    for (int i = 0; i < 30; i++) {
        coll__message_t *message = numbered(i);
        coll__conn_send(&from, message);
        coll__message_release(message);
    }
    assert_int_equal(write(from.fd, "half a", 6), 6);
    coll__conn_close(&from);
    assert_false(coll__conn_read(&to, take_numbered, &heard));
    assert_int_equal(heard.count, 30);
    coll__conn_close(&to);
}

static void test_shut_follows_what_is_queued(void **state) {
    (void)state;
    coll__conn_t from, to;
    open_pair(&from, &to);
    heard_t heard = {0};
    int sent = 0;
    for (; from.out_bytes < 100000; sent++) {
        coll__message_t *message = numbered(sent);
        coll__conn_send(&from, message);
        coll__message_release(message);
    }
    coll__conn_shut(&from);
    coll__message_t *late = numbered(sent);
    coll__conn_send(&from, late);
    coll__message_release(late);
    while (coll__conn_read(&to, take_numbered, &heard))
        coll__conn_flush(&from);
    assert_int_equal(heard.count, sent);
    coll__conn_close(&from);
    coll__conn_close(&to);
}

static void test_notices_are_lost_when_nobody_reads(void **state) {
    (void)state;
    coll__conn_t from, to;
    open_pair(&from, &to);
    int sent = 0, said = 0;
    for (int i = 0; i < 20000; i++) {
        coll__message_t *message = numbered(999);
        size_t lost = from.lost;
        said += !coll__conn_send_or_lose(&from, message);
        sent += from.lost == lost;
        coll__message_release(message);
    }
    assert_int_equal(said, 1); /* the loss is reported once */
    assert_int_equal(sent + (int)from.lost, 20000);
    assert_in_range(from.out_bytes, 4 << 20, (4 << 20) + 2000);
    coll__conn_close(&from);
    coll__conn_close(&to);
}

static void test_a_lost_peer_shows_when_reading(void **state) {
    (void)state;
    coll__conn_t from, to;
    open_pair(&from, &to);
    coll__conn_close(&to);
    heard_t heard = {0};
    for (int i = 0; i < 3; i++) { /* no signal, no error */
        coll__message_t *message = numbered(1);
        coll__conn_send(&from, message);
        coll__message_release(message);
    }
    assert_null(from.out);
    assert_false(coll__conn_read(&from, take_numbered, &heard));
    coll__conn_close(&from);
}

static void test_an_absurd_length_is_refused(void **state) {
    (void)state;
    coll__conn_t from, to;
    open_pair(&from, &to);
    const coll__frame_t frame = {.type = 1, .bytes = UINT32_MAX};
    heard_t heard = {0};
    assert_int_equal(write(from.fd, &frame, sizeof frame), sizeof frame);
    assert_false(coll__conn_read(&to, take_numbered, &heard));
    assert_int_equal(heard.count, 0);
    coll__conn_close(&from);
    coll__conn_close(&to);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_frames_come_whole_and_in_order),
        cmocka_unit_test(test_bytes_may_come_one_by_one),
        cmocka_unit_test(test_what_was_said_before_the_end_is_heard),
        cmocka_unit_test(test_shut_follows_what_is_queued),
        cmocka_unit_test(test_notices_are_lost_when_nobody_reads),
        cmocka_unit_test(test_a_lost_peer_shows_when_reading),
        cmocka_unit_test(test_an_absurd_length_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
