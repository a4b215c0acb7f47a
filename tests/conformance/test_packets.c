/* What every transport promises about packets: whole, once, in order, with back-pressure and fairness. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/ends.h"

enum { MAX = COLL__ENDS_PACKET };

/* Contents of the n-th packet from one end to another: nothing in it needs to be trusted to check it. */
static unsigned char pattern(int from, int to, size_t n, size_t at) {
    uint32_t x = (uint32_t)(at + n * 131 + (size_t)from * 7919 + (size_t)to * 104729);
    return (unsigned char)(x * 2654435761u >> 24);
}

/* Lengths that go round all residues, with the borders of rings, slots and eager limits among them. */
static size_t length(size_t n) {
    static const size_t special[] = {0, 8, 48, 56, 57, 64, 120, 121, 2040, 2048, 2049, 4096, 8192, MAX - 1, MAX};
    const size_t count = sizeof special / sizeof *special;
    return n % 3 == 0 ? special[n / 3 % count] : n * 37 % 700;
}

static size_t header_length(size_t n, size_t bytes) {
    size_t header = n % 9 * 8;
    return header < bytes ? header : bytes / 8 * 8;
}

typedef struct stream {
    size_t sent[COLL__ENDS_MAX][COLL__ENDS_MAX]; /* [from][to] */
    size_t received[COLL__ENDS_MAX][COLL__ENDS_MAX];
    size_t (*length)(size_t n);
} stream_t;

static void check_packet(coll__end_t *end, int peer, const void *packet, size_t bytes) {
    stream_t *stream = end->ends->test;
    size_t n = stream->received[peer][end->rank]++;
    assert_true(n < stream->sent[peer][end->rank]);
    assert_int_equal(bytes, stream->length(n));
    for (size_t i = 0; i < bytes; i++)
        if (((const unsigned char *)packet)[i] != pattern(peer, end->rank, n, i))
            fail_msg("byte %zu of packet %zu from %d to %d is wrong", i, n, peer, end->rank);
}

static void begin(coll__ends_t *ends, stream_t *stream, size_t (*length_of)(size_t)) {
    memset(stream, 0, sizeof *stream);
    stream->length = length_of;
    ends->test = stream;
    for (int rank = 0; rank < ends->size; rank++)
        ends->end[rank].on_packet = check_packet;
}

/* Sends the next packet of a stream: 1 sent, 0 no room. */
static int send_next(coll__ends_t *ends, stream_t *stream, int from, int to) {
    static _Alignas(8) unsigned char bytes[(1 << 20) + 64];
    size_t n = stream->sent[from][to], total = stream->length(n), header = header_length(n, total);
    for (size_t i = 0; i < total; i++)
        bytes[i] = pattern(from, to, n, i);
    int status = ends->ops->send(ends->end[from].transport, to, bytes, header, bytes + header, total - header);
    memset(bytes, 0xee, total); /* send() has copied it, or it is gone */
    if (status < 0)
        fail_msg("send: %s", coll_error_message());
    if (status == 0)
        stream->sent[from][to]++;
    return status == 0;
}

static bool all_received(const coll__ends_t *ends, const stream_t *stream, size_t each) {
    for (int from = 0; from < ends->size; from++)
        for (int i = 0; i < coll__ends_peer_count(ends); i++)
            if (stream->received[from][coll__ends_peer(ends, from, i)] < each)
                return false;
    return true;
}

static void exchange(coll__ends_t *ends, stream_t *stream, size_t each) {
    coll__ends_loop(ends, all_received(ends, stream, each)) {
        for (int from = 0; from < ends->size; from++) {
            for (int i = 0; i < coll__ends_peer_count(ends); i++) {
                int to = coll__ends_peer(ends, from, i);
                for (int burst = 0; burst < 1 + from * 3 && stream->sent[from][to] < each; burst++)
                    if (!send_next(ends, stream, from, to))
                        break;
            }
        }
    }
}

/* All to all at once, in both directions: order, contents, no loss. A few polls more find no duplicate. */
static void order(coll__ends_t *ends) {
    stream_t stream;
    enum { EACH = 500 };
    begin(ends, &stream, length);
    exchange(ends, &stream, EACH);
    for (int i = 0; i < 20; i++)
        assert_true(coll__ends_poll(ends) >= 0);
    for (int rank = 0; rank < ends->size; rank++)
        assert_int_equal(ends->end[rank].packets, EACH * coll__ends_peer_count(ends));
}

static size_t every_length(size_t n) {
    return n < 300 ? n : n < 600 ? MAX - (n - 300) : (n - 600) * 97;
}

static void lengths(coll__ends_t *ends) {
    stream_t stream;
    begin(ends, &stream, every_length);
    exchange(ends, &stream, 600 + MAX / 97);
}

static size_t long_length(size_t n) {
    return n % 2 ? 48 : (1 << 20) + 48 - n;
}

/* COLL_PACKET_SIZE may be 1 MiB. */
static void long_packets(coll__ends_t *ends) {
    coll__ends_t *own = malloc(sizeof *own);
    stream_t stream;
    assert_non_null(own);
    if (coll__ends_open(own, ends->ops, ends->size, (1 << 20) + 48) < 0)
        fail_msg("open: %s", coll_error_message());
    begin(own, &stream, long_length);
    exchange(own, &stream, 6);
    coll__ends_close(own);
    free(own);
}

static size_t short_length(size_t n) {
    (void)n;
    return 64;
}

static size_t slot_length(size_t n) {
    (void)n;
    return MAX;
}

/* A receiver that does not poll stops its sender after a bounded number of packets; when it polls, all arrive. */
static void back_pressure(coll__ends_t *ends) {
    stream_t stream;
    enum { BOUND = 400 * 1000 };
    for (int longs = 0; longs < 2; longs++) {
        int to = coll__ends_peer(ends, 0, 0), refusals = 0;
        uint64_t again = ends->end[0].transport->counters.again;
        begin(ends, &stream, longs ? slot_length : short_length);
        /* Refused often, with polls between that may let the sender's own progress happen: it is really full. */
        while (refusals < 50) {
            if (!send_next(ends, &stream, 0, to)) {
                refusals++;
                if (to != 0)
                    assert_true(ends->ops->poll(ends->end[0].transport) >= 0);
            }
            assert_true(stream.sent[0][to] < BOUND);
        }
        assert_int_equal(ends->end[0].transport->counters.again, again + 50);
        size_t target = stream.sent[0][to] + 100;
        coll__ends_loop(ends, stream.received[0][to] == target) {
            if (stream.sent[0][to] < target)
                send_next(ends, &stream, 0, to);
        }
    }
}

/* A peer that does not poll costs the others nothing. */
static void stalled_peer(coll__ends_t *ends) {
    stream_t stream;
    if (ends->size < 3)
        return; /* needs a third: the rows with 3 and 5 ends have one */
    for (int longs = 0; longs < 2; longs++) {
        begin(ends, &stream, longs ? slot_length : short_length);
        ends->end[1].deaf = true;
        for (int i = 0; i < 100000 && send_next(ends, &stream, 0, 1); i++)
            continue;
        coll__ends_loop(ends, stream.received[0][2] == 500) {
            if (stream.sent[0][2] < 500)
                send_next(ends, &stream, 0, 2);
        }
        ends->end[1].deaf = false;
        coll__ends_until(ends, stream.received[0][1] == stream.sent[0][1]);
    }
}

/* Everybody sends to one as fast as it takes them: nobody is left behind. */
static void flood(coll__ends_t *ends) {
    stream_t stream;
    enum { EACH = 3000 };
    int peers = coll__ends_peer_count(ends);
    begin(ends, &stream, short_length);
    bool first = false;
    coll__ends_loop(ends, first) {
        for (int i = 0; i < peers; i++) {
            int from = coll__ends_peer(ends, 0, i);
            while (stream.sent[from][0] < EACH && send_next(ends, &stream, from, 0))
                continue;
            first |= stream.received[from][0] == EACH;
        }
    }
    for (int i = 0; i < peers; i++)
        assert_true(stream.received[coll__ends_peer(ends, 0, i)][0] >= EACH / 10);
    coll__ends_loop(ends, ends->end[0].packets == EACH * peers) {
        for (int i = 0; i < peers; i++) {
            int from = coll__ends_peer(ends, 0, i);
            while (stream.sent[from][0] < EACH && send_next(ends, &stream, from, 0))
                continue;
        }
    }
}

typedef struct hops {
    int64_t left;
    int64_t payload[3];
} hops_t;

typedef struct relay {
    hops_t waiting[COLL__ENDS_MAX][64]; /* answers that found no room */
    int waiting_for[COLL__ENDS_MAX][64];
    int waiting_count[COLL__ENDS_MAX];
    int ended;
} relay_t;

static void answer(coll__end_t *end, int peer, const hops_t *hops) {
    relay_t *relay = end->ends->test;
    int status = end->ends->ops->send(end->transport, peer, &hops->left, 8, hops->payload, sizeof hops->payload);
    if (status < 0)
        fail_msg("send in a callback: %s", coll_error_message());
    if (status == COLL__AGAIN) {
        int at = relay->waiting_count[end->rank]++;
        assert_true(at < 64);
        relay->waiting[end->rank][at] = *hops;
        relay->waiting_for[end->rank][at] = peer;
    }
}

static void bounce(coll__end_t *end, int peer, const void *packet, size_t bytes) {
    relay_t *relay = end->ends->test;
    hops_t hops;
    assert_int_equal(bytes, sizeof hops);
    memcpy(&hops, packet, sizeof hops);
    for (int i = 0; i < 3; i++)
        assert_int_equal(hops.payload[i], hops.left * (i + 1));
    if (hops.left == 0) {
        relay->ended++;
        return;
    }
    hops = (hops_t){hops.left - 1, {hops.left - 1, 2 * (hops.left - 1), 3 * (hops.left - 1)}};
    answer(end, peer, &hops);
}

/* Packets that are answered from inside the callback, many chains at once. */
static void answers_in_callbacks(coll__ends_t *ends) {
    relay_t relay = {0};
    enum { CHAINS = 8, HOPS = 300 };
    int started = 0;
    ends->test = &relay;
    for (int rank = 0; rank < ends->size; rank++)
        ends->end[rank].on_packet = bounce;
    for (int rank = 0; rank < ends->size; rank++)
        for (int chain = 0; chain < CHAINS; chain++, started++)
            answer(&ends->end[rank], coll__ends_peer(ends, rank, chain % coll__ends_peer_count(ends)),
                   &(hops_t){HOPS, {HOPS, 2 * HOPS, 3 * HOPS}});
    coll__ends_loop(ends, relay.ended == started) {
        for (int rank = 0; rank < ends->size; rank++) {
            int count = relay.waiting_count[rank];
            relay.waiting_count[rank] = 0;
            for (int i = 0; i < count; i++) {
                hops_t hops = relay.waiting[rank][i];
                answer(&ends->end[rank], relay.waiting_for[rank][i], &hops);
            }
        }
    }
}

static void counters(coll__ends_t *ends) {
    stream_t stream;
    enum { EACH = 90 };
    begin(ends, &stream, length);
    exchange(ends, &stream, EACH);
    uint64_t bytes = 0, peers = (uint64_t)coll__ends_peer_count(ends);
    for (size_t n = 0; n < EACH; n++)
        bytes += length(n);
    for (int rank = 0; rank < ends->size; rank++) {
        const coll__transport_counters_t *got = &ends->end[rank].transport->counters;
        assert_int_equal(got->messages_sent, EACH * peers);
        assert_int_equal(got->messages_received, EACH * peers);
        assert_int_equal(got->bytes_sent, bytes * peers);
        assert_int_equal(got->bytes_received, bytes * peers);
        assert_int_equal(got->bulk_sent + got->bulk_received, 0);
        assert_int_equal(got->bulk_bytes_sent + got->bulk_bytes_received, 0);
    }
}

/* A packet longer than max_packet or for nobody is an error, and does no harm. */
static void wrong_arguments(coll__ends_t *ends) {
    stream_t stream;
    static const char zeros[MAX + 8];
    coll__transport_t *transport = ends->end[0].transport;
    begin(ends, &stream, length);
    assert_true(ends->ops->send(transport, coll__ends_peer(ends, 0, 0), zeros, 8, zeros, MAX - 7) < 0);
    assert_true(ends->ops->send(transport, ends->size, zeros, 8, zeros, 8) < 0);
    assert_true(ends->ops->send(transport, -1, zeros, 8, zeros, 8) < 0);
    exchange(ends, &stream, 10);
}

int main(int argc, char **argv) {
    static const coll__ends_check_t checks[] = {
        {"order and contents, all to all", order},
        {"every length", lengths},
        {"packets of 1 MiB", long_packets},
        {"back-pressure", back_pressure},
        {"a stalled peer", stalled_peer},
        {"a flood from all to one is fair", flood},
        {"answers sent from callbacks", answers_in_callbacks},
        {"counters", counters},
        {"wrong arguments", wrong_arguments},
    };
    return coll__ends_run(argc, argv, "packets", checks, sizeof checks / sizeof *checks);
}
