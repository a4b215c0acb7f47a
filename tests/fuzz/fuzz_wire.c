/* Random and damaged packets, always the same ones, into the point-to-point layer: nothing out of bounds (each packet
 * and each buffer is memory of its own, for the address sanitizer to watch), nothing invalid accepted, and an error
 * names who sent it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "p2p/p2p_private.h"
#include "support/p2p_ends.h"
#include "support/reference.h"

enum { PACKET = 64, CREDITS = 8, RECEIVES = 6 };

static uint64_t seed;

static size_t below(size_t limit) {
    return (size_t)(coll__reference_random(&seed) % limit);
}

static uint64_t interesting(void) {
    static const uint64_t values[] = {
        0, 1, 2, 47, 48, 63, 64, 65, 1000, INT32_MAX, UINT32_MAX, UINT64_MAX, UINT64_MAX - 47, UINT64_C(1) << 63};
    return below(3) ? values[below(sizeof values / sizeof values[0])] : coll__reference_random(&seed);
}

static coll__envelope_t random_envelope(void) {
    coll__envelope_t envelope = {.comm = below(2), .match = below(3), .fingerprint = 0};
    if (below(2))
        envelope.match |= COLL__MATCH_USER;
    else
        envelope.fingerprint = 7 + (below(8) == 0);
    return envelope;
}

/* A packet that a peer might send, then damaged more or less. */
static size_t random_packet(unsigned char *packet, size_t room) {
    coll__envelope_t envelope = random_envelope();
    size_t bytes = below(PACKET + 1);
    coll__wire_header_t header = {.kind = (uint8_t)(1 + below(COLL__WIRE_KINDS - 1)),
                                  .version = COLL__WIRE_VERSION,
                                  .credits = (uint16_t)(below(10) == 0),
                                  .id = (uint32_t)below(20),
                                  .comm = envelope.comm,
                                  .match = envelope.match,
                                  .fingerprint = envelope.fingerprint,
                                  .bytes = bytes,
                                  .bulk_id = (uint32_t)below(20)};
    size_t length = sizeof header + (header.kind == COLL__WIRE_EAGER ? bytes : 0);
    switch (below(8)) {
    case 0:
        header.bytes = interesting();
        break;
    case 1:
        header.credits = (uint16_t)interesting();
        break;
    case 2:
        length = below(room + 1);
        break;
    case 3:
        ((unsigned char *)&header)[below(sizeof header)] ^= (unsigned char)(1 << below(8));
        break;
    case 4:
        for (size_t i = 0; i < sizeof header; i++)
            ((unsigned char *)&header)[i] = (unsigned char)below(256);
        break;
    default: /* whole */
        break;
    }
    for (size_t i = 0; i < room; i++)
        packet[i] = (unsigned char)below(256);
    memcpy(packet, &header, sizeof header < room ? sizeof header : room);
    return length;
}

static void checks_of_headers(void **state) {
    (void)state;
    seed = 5;
    int valid = 0, invalid = 0;
    for (int round = 0; round < 200000; round++) {
        unsigned char made[sizeof(coll__wire_header_t) + PACKET];
        size_t length = random_packet(made, sizeof made);
        coll__wire_header_t *packet = malloc(length ? length : 1); /* exactly as long: a read beyond is seen */
        memcpy(packet, made, length);
        const char *wrong = coll__wire_check(packet, length);
        if (wrong) {
            assert_true(strlen(wrong) > 10);
            invalid++;
        } else {
            assert_true(length >= sizeof *packet && packet->version == COLL__WIRE_VERSION && packet->zero == 0);
            assert_true(packet->kind >= COLL__WIRE_EAGER && packet->kind < COLL__WIRE_KINDS);
            if (packet->kind == COLL__WIRE_EAGER)
                assert_int_equal(packet->bytes, length - sizeof *packet);
            valid++;
        }
        free(packet);
    }
    assert_true(valid > 50000 && invalid > 20000);
}

/* Receives and sends come and go at rank 0 while rank 1's packets arrive. */
struct traffic {
    coll__p2p_ends_t ends;
    coll__p2p_try_t recv[RECEIVES], send[RECEIVES];
    char *in[RECEIVES], *out[RECEIVES];
    bool active[RECEIVES], sending[RECEIVES];
};

static void keep_busy(struct traffic *traffic, int i) {
    if (traffic->active[i] && !traffic->recv[i].ends && below(4) == 0)
        coll__p2p_cancel(traffic->ends.end[0].p2p, &traffic->recv[i].op);
    else if (traffic->active[i] && !traffic->recv[i].ends)
        return;
    free(traffic->in[i]);
    size_t room = below(PACKET + 20);
    traffic->in[i] = malloc(room ? room : 1);
    coll__envelope_t envelope = random_envelope();
    if (envelope.match & COLL__MATCH_USER && below(3) == 0)
        envelope.match = COLL__MATCH_ANY_TAG;
    traffic->active[i] = true;
    coll__p2p_try_recv(&traffic->ends, &traffic->recv[i], 0, below(3) ? 1 : COLL__PEER_ANY, envelope, traffic->in[i],
                       room);
}

static void keep_sending(struct traffic *traffic, int i) {
    if (traffic->sending[i] && !traffic->send[i].ends && below(4) == 0)
        coll__p2p_cancel(traffic->ends.end[0].p2p, &traffic->send[i].op);
    else if (traffic->sending[i] && !traffic->send[i].ends)
        return;
    free(traffic->out[i]);
    size_t bytes = below(3 * PACKET);
    traffic->out[i] = calloc(1, bytes ? bytes : 1);
    traffic->sending[i] = true;
    coll__p2p_try_send(&traffic->ends, &traffic->send[i], 0, 1, random_envelope(), traffic->out[i], bytes);
}

static void stop(struct traffic *traffic) {
    for (int i = 0; i < RECEIVES; i++) {
        if (traffic->active[i])
            coll__p2p_cancel(traffic->ends.end[0].p2p, &traffic->recv[i].op);
        if (traffic->sending[i])
            coll__p2p_cancel(traffic->ends.end[0].p2p, &traffic->send[i].op);
        free(traffic->in[i]);
        free(traffic->out[i]);
    }
    coll__p2p_ends_close(&traffic->ends);
}

static void packets_from_a_peer(void **state) {
    (void)state;
    seed = 3;
    int errors = 0, fine = 0, received = 0;
    for (int job = 0; job < 60; job++) {
        struct traffic traffic = {.in = {NULL}};
        coll__p2p_ends_open(&traffic.ends, 2, PACKET, CREDITS);
        coll__sink_t sink = coll__p2p_sink(traffic.ends.end[0].p2p);
        for (int round = 0; round < 500; round++) {
            keep_busy(&traffic, (int)below(RECEIVES));
            keep_sending(&traffic, (int)below(RECEIVES));
            traffic.ends.end[0].refuses = below(4) == 0;
            unsigned char made[sizeof(coll__wire_header_t) + PACKET];
            size_t length = random_packet(made, sizeof made);
            unsigned char *packet = malloc(length ? length : 1);
            memcpy(packet, made, length);
            const char *wrong = coll__wire_check(packet, length);
            sink.packet(sink.context, 1, packet, length);
            free(packet);
            int status = coll__p2p_progress(traffic.ends.end[0].p2p);
            if (wrong)
                assert_int_equal(status, COLL_ERR_TRANSPORT);
            if (status < 0) {
                int rank = -1;
                assert_int_equal(status, COLL_ERR_TRANSPORT);
                assert_non_null(strstr(coll_error_message(), "from rank 1 is not valid: "));
                assert_true(coll_error_ranks(&rank, 1) == 1 && rank == 1);
            }
            errors += status < 0;
            fine += status >= 0;
            coll__p2p_progress(
                traffic.ends.end[1].p2p); /* answers what it is asked; its answers come among the others */
            for (int i = 0; i < RECEIVES; i++)
                received += traffic.active[i] && traffic.recv[i].ends == 1 && traffic.recv[i].status == 0;
            if (below(50) == 0)
                coll__p2p_purge(traffic.ends.end[0].p2p, below(2), NULL);
        }
        stop(&traffic);
    }
    assert_true(errors > 3000 && fine > 10000 && received > 3000);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(checks_of_headers),
        cmocka_unit_test(packets_from_a_peer),
    };
    return cmocka_run_group_tests_name("fuzz/wire", tests, NULL, NULL);
}
