/* What every transport promises about sleeping, draining and the end: arm(), fd() or the wake fd, drained(), close().
 */
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "support/ends.h"

static const char zeros[COLL__ENDS_PACKET];
static char block[4][5 << 20];

static int arm(coll__ends_t *ends, int rank) {
    int status = ends->ops->arm(ends->end[rank].transport);
    assert_true(status == 0 || status == COLL__AGAIN);
    return status;
}

static int send(coll__ends_t *ends, int from, int to, size_t bytes) {
    int status = ends->ops->send(ends->end[from].transport, to, zeros, 8, zeros, bytes - 8);
    assert_true(status >= 0);
    return status;
}

/* Sends while the receiver does not poll, once there is a connection: a packet each way makes one. */
static void send_alone(coll__ends_t *ends, int from, int to, size_t bytes) {
    bool deaf = from != to;
    ends->end[to].deaf = deaf;
    coll__ends_until(ends, send(ends, from, to, bytes) == 0);
    ends->end[to].deaf = false;
}

static void meet(coll__ends_t *ends) {
    int each = coll__ends_peer_count(ends), met = 0;
    for (int rank = 0; rank < ends->size; rank++)
        for (int i = 0; i < each; i++)
            coll__ends_send(ends, rank, coll__ends_peer(ends, rank, i), zeros, 8, NULL, 0);
    coll__ends_loop(ends, met == ends->size) {
        met = 0;
        for (int rank = 0; rank < ends->size; rank++)
            met += ends->end[rank].packets == each;
    }
}

/* The descriptor that a sleeping engine would watch for this end, or -1: all its senders are in its own process. */
static int watched(const coll__ends_t *ends, int rank) {
    int fd = ends->ops->fd(ends->end[rank].transport);
    return fd < 0 && ends->segment.base ? ends->segment.wake_fd[rank] : fd;
}

static bool readable(int fd) {
    struct pollfd wait = {.fd = fd, .events = POLLIN};
    return poll(&wait, 1, 0) == 1;
}

/* As an engine does before it sleeps. */
static void fall_asleep(coll__ends_t *ends, int rank) {
    if (ends->segment.base)
        atomic_store(&ends->segment.view[rank].lines[rank].sleeping, 1);
}

/* Something came for the end that sleeps: it would wake, or, where there is nothing to sleep on, arm() would have said
 * so. */
static bool wakes(coll__ends_t *ends, int rank) {
    int fd = watched(ends, rank);
    return fd < 0 ? arm(ends, rank) == COLL__AGAIN : readable(fd);
}

static void awake(coll__ends_t *ends, int rank) {
    uint64_t count;
    if (ends->segment.base) {
        assert_int_equal(atomic_load(&ends->segment.view[rank].lines[rank].sleeping), 0);
        assert_int_equal(read(ends->segment.wake_fd[rank], &count, sizeof count), sizeof count);
    }
}

/* Polls all ends but `rank` until the condition holds. */
#define until_without(ends, rank, condition) \
    do {                                     \
        (ends)->end[rank].deaf = true;       \
        coll__ends_until(ends, condition);   \
        (ends)->end[rank].deaf = false;      \
    } while (0)

static bool all_armed(coll__ends_t *ends) {
    for (int rank = 0; rank < ends->size; rank++)
        if (arm(ends, rank) != 0)
            return false;
    return true;
}

static void packet_wakes(coll__ends_t *ends) {
    meet(ends);
    for (int i = 0; i < 20; i++) {
        int from = i % ends->size, to = coll__ends_peer(ends, from, i % coll__ends_peer_count(ends));
        size_t bytes = i % 2 ? 64 : COLL__ENDS_PACKET;
        coll__ends_until(ends, all_armed(ends));
        int seen = ends->end[to].packets;
        fall_asleep(ends, to);
        send_alone(ends, from, to, bytes);
        if (from == to)
            assert_int_equal(arm(ends, to), COLL__AGAIN);
        else
            until_without(ends, to, wakes(ends, to));
        awake(ends, to);
        coll__ends_until(ends, ends->end[to].packets == seen + 1);
    }
}

/* Nobody writes to a peer that is awake: that would cost a system call for each packet. */
static void no_needless_wake(coll__ends_t *ends) {
    if (!ends->segment.base)
        return; /* only shared memory has the flag */
    for (int i = 0; i < 10; i++)
        assert_int_equal(send(ends, 0, 1, 64), 0);
    assert_false(readable(ends->segment.wake_fd[1]));
    coll__ends_until(ends, ends->end[1].packets == 10);
    assert_false(readable(ends->segment.wake_fd[0]));
    assert_false(readable(ends->segment.wake_fd[1]));
}

/* What has come and was not polled for keeps arm() from allowing sleep, from the first moment that it could be seen. */
static void pending_forbids_sleep(coll__ends_t *ends) {
    int to = coll__ends_peer(ends, 0, 0);
    meet(ends);
    coll__ends_until(ends, all_armed(ends));
    int seen = ends->end[to].packets;
    send_alone(ends, 0, to, 64);
    until_without(ends, to, arm(ends, to) == COLL__AGAIN);
    assert_int_equal(arm(ends, to), COLL__AGAIN); /* asking changes nothing */
    coll__ends_until(ends, ends->end[to].packets == seen + 1);
    coll__ends_until(ends, all_armed(ends));
}

/* A sender that found no room may sleep; it is woken when the receiver has made some. */
static void room_wakes(coll__ends_t *ends) {
    if (ends->size == 1)
        return; /* who sends to himself and sleeps has not polled */
    for (int longs = 0; longs < 2; longs++) {
        size_t bytes = longs ? COLL__ENDS_PACKET : 64;
        int refusals = 0;
        while (refusals < 20) {
            refusals += send(ends, 0, 1, bytes) == COLL__AGAIN;
            assert_true(ends->ops->poll(ends->end[0].transport) >= 0);
        }
        assert_int_equal(send(ends, 0, 1, bytes), COLL__AGAIN);
        until_without(ends, 1, arm(ends, 0) == 0);
        /* The same question again after arm(): still refused, so sleeping was right. */
        assert_int_equal(send(ends, 0, 1, bytes), COLL__AGAIN);
        assert_int_equal(arm(ends, 0), 0);
        fall_asleep(ends, 0);
        until_without(ends, 0, wakes(ends, 0));
        assert_int_equal(arm(ends, 0), COLL__AGAIN); /* so would a last look have told, had it come before the sleep */
        awake(ends, 0);
        coll__ends_until(ends, send(ends, 0, 1, bytes) == 0);
        coll__ends_until(ends, ends->end[1].packets == (int)ends->end[0].transport->counters.messages_sent);
    }
}

/* Bulk data to a receiver that does not poll: the sender may sleep, is not drained, and is woken. */
static void bulk_and_drained(coll__ends_t *ends) {
    int to = coll__ends_peer(ends, 0, 0);
    for (int i = 0; i < 3; i++) {
        int sent = ends->end[0].bulk_done;
        assert_int_equal(ends->ops->drained(ends->end[0].transport), 1);
        assert_int_equal(ends->ops->bulk_recv(ends->end[to].transport, 0, 1, block[0], sizeof block[0], &block[0]), 0);
        assert_int_equal(ends->ops->bulk_send(ends->end[0].transport, to, 1, block[1], sizeof block[1], &block[1]), 0);
        assert_int_equal(ends->ops->drained(ends->end[0].transport), 0);
        if (to != 0) {
            until_without(ends, to, arm(ends, 0) == 0);
            if (ends->end[0].bulk_done == sent) {
                assert_int_equal(ends->ops->drained(ends->end[0].transport), 0);
                fall_asleep(ends, 0);
                until_without(ends, 0, wakes(ends, 0));
                awake(ends, 0);
            }
        }
        coll__ends_until(ends, ends->end[0].bulk_done + ends->end[to].bulk_done * (to != 0) == (i + 1) * 2);
        coll__ends_until(ends, ends->ops->drained(ends->end[0].transport) == 1);
        coll__ends_until(ends, all_armed(ends));
    }
}

/* What is on its way when the ends close is lost without a leak or a write into a buffer that has gone. */
static void close_with_things_pending(coll__ends_t *ends) {
    for (int rank = 0; rank < ends->size; rank++) {
        int peer = coll__ends_peer(ends, rank, 0);
        coll__transport_t *transport = ends->end[rank].transport;
        for (int i = 0; i < 30; i++)
            send(ends, rank, peer, i % 2 ? 64 : COLL__ENDS_PACKET);
        char *mine = malloc(300000), *theirs = malloc(300000);
        assert_true(mine && theirs);
        memset(mine, rank, 300000);
        assert_int_equal(ends->ops->bulk_recv(ends->end[peer].transport, rank, 5, theirs, 300000, theirs), 0);
        assert_int_equal(ends->ops->bulk_send(transport, peer, 5, mine, 300000, mine), 0);
        assert_int_equal(ends->ops->bulk_recv(transport, peer, 6, block[0], 1000, &block[0]), 0);
        if (rank % 2)
            assert_true(ends->ops->poll(transport) >= 0);
        /* Buffers are the caller's again once their ends are closed or have given them up. */
        ends->ops->bulk_cancel(transport, mine);
        ends->ops->bulk_cancel(ends->end[peer].transport, theirs);
        free(mine);
        free(theirs);
    }
}

int main(int argc, char **argv) {
    static const coll__ends_check_t checks[] = {
        {"a packet wakes", packet_wakes},
        {"nobody wakes who is awake", no_needless_wake},
        {"what is pending forbids sleep", pending_forbids_sleep},
        {"room wakes the sender", room_wakes},
        {"bulk data: sleep, drained", bulk_and_drained},
        {"close with things pending", close_with_things_pending},
    };
    return coll__ends_run(argc, argv, "waiting", checks, sizeof checks / sizeof *checks);
}
