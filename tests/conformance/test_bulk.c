/* What every transport promises about bulk data: whole, into the right buffer, given up when told so. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/ends.h"

enum { MARGIN = 64, MEBIBYTE = 1 << 20 };

/* One transfer as a test sees it: two buffers that are not aligned, with margins that must stay untouched. */
typedef struct transfer {
    int from, to;
    uint32_t id;
    size_t bytes;
    unsigned char *source, *target; /* where the data begin */
    unsigned char *source_block, *target_block;
    int sent, received; /* how often each end was told */
    bool cancelled;
} transfer_t;

static unsigned char pattern(uint32_t seed, size_t at) {
    return (unsigned char)((((uint32_t)at + seed * 40503u) * 2654435761u) >> 24);
}

static void make(transfer_t *transfer, int from, int to, uint32_t id, size_t bytes) {
    *transfer = (transfer_t){.from = from, .to = to, .id = id, .bytes = bytes};
    transfer->source_block = malloc(bytes + 2 * MARGIN);
    transfer->target_block = malloc(bytes + 2 * MARGIN);
    assert_non_null(transfer->source_block);
    assert_non_null(transfer->target_block);
    transfer->source = transfer->source_block + MARGIN - 1 - id % 13;
    transfer->target = transfer->target_block + MARGIN - 1 - id % 7;
    for (size_t i = 0; i < bytes; i++)
        transfer->source[i] = pattern(id, i);
    memset(transfer->target_block, 0xcc, bytes + 2 * MARGIN);
}

static bool untouched(const unsigned char *begin, const unsigned char *end) {
    while (begin < end && *begin == 0xcc)
        begin++;
    return begin == end;
}

static void check_and_free(transfer_t *transfer) {
    const unsigned char *end = transfer->target_block + transfer->bytes + 2 * MARGIN;
    if (!transfer->cancelled) {
        assert_int_equal(transfer->sent, 1);
        assert_int_equal(transfer->received, 1);
        assert_memory_equal(transfer->source, transfer->target, transfer->bytes);
    }
    assert_true(untouched(transfer->target_block, transfer->target));
    assert_true(untouched(transfer->target + transfer->bytes, end));
    free(transfer->source_block);
    free(transfer->target_block);
}

static void count_done(coll__end_t *end, void *cookie, int status) {
    transfer_t *transfer = (transfer_t *)((uintptr_t)cookie & ~(uintptr_t)1);
    bool receives = (uintptr_t)cookie & 1;
    assert_int_equal(status, 0);
    assert_int_equal(end->rank, receives ? transfer->to : transfer->from);
    assert_false(transfer->cancelled);
    *(receives ? &transfer->received : &transfer->sent) += 1;
}

static void listen_all(coll__ends_t *ends) {
    for (int rank = 0; rank < ends->size; rank++)
        ends->end[rank].on_bulk = count_done;
}

/* Cookies of the two ends of a transfer. */
static void *send_cookie(transfer_t *transfer) {
    return transfer;
}
static void *receive_cookie(transfer_t *transfer) {
    return (char *)transfer + 1;
}

static void receive(coll__ends_t *ends, transfer_t *transfer) {
    assert_int_equal(ends->ops->bulk_recv(ends->end[transfer->to].transport, transfer->from, transfer->id,
                                          transfer->target, transfer->bytes, receive_cookie(transfer)),
                     0);
}
static void send(coll__ends_t *ends, transfer_t *transfer) {
    assert_int_equal(ends->ops->bulk_send(ends->end[transfer->from].transport, transfer->to, transfer->id,
                                          transfer->source, transfer->bytes, send_cookie(transfer)),
                     0);
}

static bool all_done(const transfer_t *transfers, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (!transfers[i].sent || !transfers[i].received)
            return false;
    return true;
}

static void await(coll__ends_t *ends, transfer_t *transfers, size_t count) {
    coll__ends_until(ends, all_done(transfers, count));
    for (size_t i = 0; i < count; i++)
        check_and_free(&transfers[i]);
}

static void lengths(coll__ends_t *ends) {
    static const size_t bytes[] = {1,           2,     7,     63,    4095,          16384,        32767,
                                   32768,       32769, 65536, 98305, 8 * 32768 + 1, MEBIBYTE - 1, 2 * MEBIBYTE + 3,
                                   5 * MEBIBYTE};
    listen_all(ends);
    for (size_t i = 0; i < sizeof bytes / sizeof *bytes; i++) {
        transfer_t transfer;
        make(&transfer, 0, coll__ends_peer(ends, 0, (int)i % coll__ends_peer_count(ends)), (uint32_t)i, bytes[i]);
        receive(ends, &transfer);
        send(ends, &transfer);
        await(ends, &transfer, 1);
    }
}

/* Many at once between all pairs, in both directions; receives are given in one order and sends in another. */
static void many(coll__ends_t *ends) {
    enum { EACH = 8 };
    int peers = coll__ends_peer_count(ends), count = ends->size * peers * EACH;
    transfer_t *transfers = calloc((size_t)count, sizeof *transfers);
    assert_non_null(transfers);
    listen_all(ends);
    for (int i = 0; i < count; i++) {
        int from = i % ends->size, to = coll__ends_peer(ends, from, i / ends->size % peers);
        make(&transfers[i], from, to, 0xffffff00u + (uint32_t)(i * 29 % 256), 1 + (size_t)(i * 7919) % 200000);
        receive(ends, &transfers[i]);
    }
    for (int i = 0; i < count; i++)
        send(ends, &transfers[(i * 37 + 11) % count]); /* 37 divides none of the counts: a permutation */
    coll__ends_until(ends, all_done(transfers, (size_t)count));
    for (int rank = 0; rank < ends->size; rank++) {
        const coll__transport_counters_t *got = &ends->end[rank].transport->counters;
        uint64_t sent = 0, received = 0;
        for (int i = 0; i < count; i++) {
            sent += transfers[i].from == rank ? transfers[i].bytes : 0;
            received += transfers[i].to == rank ? transfers[i].bytes : 0;
        }
        assert_int_equal(got->bulk_sent, peers * EACH);
        assert_int_equal(got->bulk_received, peers * EACH);
        assert_int_equal(got->bulk_bytes_sent, sent);
        assert_int_equal(got->bulk_bytes_received, received);
    }
    for (int i = 0; i < count; i++)
        check_and_free(&transfers[i]);
    free(transfers);
}

/* Packets go through while bulk data fill all there is. */
static void packets_meanwhile(coll__ends_t *ends) {
    enum { TRANSFERS = 3, PACKETS = 200 };
    int to = coll__ends_peer(ends, 0, 0), sent = 0;
    transfer_t transfers[TRANSFERS];
    static const char header[48], payload[8192];
    listen_all(ends);
    for (uint32_t i = 0; i < TRANSFERS; i++) {
        make(&transfers[i], 0, to, i, 5 * MEBIBYTE);
        receive(ends, &transfers[i]);
        send(ends, &transfers[i]);
    }
    coll__ends_loop(ends, ends->end[to].packets == PACKETS) {
        int status = sent < PACKETS ? ends->ops->send(ends->end[0].transport, to, header, sizeof header, payload,
                                                      sent % 2 ? sizeof payload : 8)
                                    : COLL__AGAIN;
        assert_true(status >= 0);
        sent += status == 0;
    }
    await(ends, transfers, TRANSFERS);
}

/* The receiver gives up, then takes up the same id from the same peer, while the data of the first are on their way. */
static void cancel_and_reuse(coll__ends_t *ends) {
    int to = coll__ends_peer(ends, 0, 0);
    listen_all(ends);
    for (int polls = 1; polls < 12; polls += 2) {
        transfer_t first, second;
        make(&first, 0, to, 7, 3 * MEBIBYTE);
        make(&second, 0, to, 7, 3 * MEBIBYTE - (size_t)polls / 5); /* the same length, and another */
        for (size_t i = 0; i < second.bytes; i++)
            second.source[i] = pattern(99, i);
        receive(ends, &first);
        send(ends, &first);
        for (int i = 0; i < polls; i++)
            assert_true(coll__ends_poll(ends) >= 0);
        bool finished = first.received;
        if (!finished) {
            first.cancelled = true;
            ends->ops->bulk_cancel(ends->end[to].transport, receive_cookie(&first));
            memset(first.target, 0xcc, first.bytes); /* the caller's again */
            first.cancelled = false;                 /* its sender may still be told */
        }
        receive(ends, &second);
        send(ends, &second);
        coll__ends_until(ends, second.sent && second.received && (first.sent || !finished));
        if (!finished) {
            assert_int_equal(first.received, 0);
            assert_true(untouched(first.target_block, first.target + first.bytes));
            if (!first.sent)
                ends->ops->bulk_cancel(ends->end[0].transport, send_cookie(&first));
            first.cancelled = true;
        }
        check_and_free(&second);
        check_and_free(&first);
    }
}

/* Both sides give up in the middle; the same id then carries other data. */
static void cancel_both(coll__ends_t *ends) {
    int to = coll__ends_peer(ends, 0, 0);
    listen_all(ends);
    for (int polls = 0; polls < 6; polls++) {
        transfer_t first, second;
        make(&first, 0, to, 3, 4 * MEBIBYTE);
        receive(ends, &first);
        send(ends, &first);
        for (int i = 0; i < polls; i++)
            assert_true(coll__ends_poll(ends) >= 0);
        if (!first.sent)
            ends->ops->bulk_cancel(ends->end[0].transport, send_cookie(&first));
        if (!first.received)
            ends->ops->bulk_cancel(ends->end[to].transport, receive_cookie(&first));
        first.cancelled = true;
        memset(first.source, 0xdd, first.bytes);
        memset(first.target, 0xcc, first.bytes);
        make(&second, 0, to, 3, 4 * MEBIBYTE);
        receive(ends, &second);
        send(ends, &second);
        await(ends, &second, 1);
        assert_true(untouched(first.target_block, first.target + first.bytes));
        check_and_free(&first);
    }
}

/* A peer is forgotten in the middle: its transfers end without a word and leave the buffers alone, those of others go
 * on. */
static void forget(coll__ends_t *ends) {
    int gone = coll__ends_peer(ends, 0, 0);
    transfer_t lost[2], kept[2];
    listen_all(ends);
    make(&lost[0], 0, gone, 1, 5 * MEBIBYTE);
    make(&lost[1], gone, 0, 1, 5 * MEBIBYTE);
    for (int i = 0; i < 2; i++) {
        receive(ends, &lost[i]);
        send(ends, &lost[i]);
    }
    if (ends->size > 2) {
        make(&kept[0], 0, 2, 2, 2 * MEBIBYTE);
        make(&kept[1], 2, 0, 2, 2 * MEBIBYTE);
        for (int i = 0; i < 2; i++) {
            receive(ends, &kept[i]);
            send(ends, &kept[i]);
        }
    }
    for (int i = 0; i < 3; i++)
        assert_true(coll__ends_poll(ends) >= 0);

    ends->end[gone].deaf = gone != 0; /* as a dead process is */
    ends->ops->forget(ends->end[0].transport, gone);
    int told = ends->end[0].bulk_done;
    memset(lost[0].source, 0xdd, lost[0].bytes);
    memset(lost[1].target, 0xcc, lost[1].bytes);
    if (ends->size > 2)
        await(ends, kept, 2);
    for (int i = 0; i < 50; i++)
        assert_true(coll__ends_poll(ends) >= 0);
    assert_true(ends->end[0].bulk_done <= told + (ends->size > 2 ? 2 : 0));
    assert_true(untouched(lost[1].target_block, lost[1].target + lost[1].bytes));

    static const char header[8];
    int status = ends->ops->send(ends->end[0].transport, gone, header, sizeof header, NULL, 0);
    assert_int_equal(status, COLL_ERR_RANK_FAILED);
    ends->ops->forget(ends->end[0].transport, gone); /* again: nothing */
    coll__ends_close(ends);                          /* before the buffers of the dead end go */
    for (int i = 0; i < 2; i++) {
        lost[i].cancelled = true;
        check_and_free(&lost[i]);
    }
}

/* Transfers that are begun from inside callbacks: a packet asks, bulk data answer, and the end of one begins the next.
 */
typedef struct chain {
    transfer_t transfer[8];
    size_t begun;
} chain_t;

static void begin_next(coll__ends_t *ends) {
    chain_t *chain = ends->test;
    if (chain->begun == sizeof chain->transfer / sizeof *chain->transfer)
        return;
    transfer_t *transfer = &chain->transfer[chain->begun];
    int from = (int)chain->begun % ends->size;
    make(transfer, from, coll__ends_peer(ends, from, 0), (uint32_t)chain->begun++, 100000);
    receive(ends, transfer);
    send(ends, transfer);
}

static void begin_on_packet(coll__end_t *end, int peer, const void *packet, size_t bytes) {
    (void)peer, (void)packet, (void)bytes;
    begin_next(end->ends);
}

static void begin_on_bulk(coll__end_t *end, void *cookie, int status) {
    count_done(end, cookie, status);
    if ((uintptr_t)cookie & 1)
        begin_next(end->ends);
}

static void from_callbacks(coll__ends_t *ends) {
    chain_t chain = {.begun = 0};
    ends->test = &chain;
    for (int rank = 0; rank < ends->size; rank++) {
        ends->end[rank].on_packet = begin_on_packet;
        ends->end[rank].on_bulk = begin_on_bulk;
    }
    static const char header[8];
    coll__ends_send(ends, 0, coll__ends_peer(ends, 0, 0), header, sizeof header, NULL, 0);
    coll__ends_until(ends, chain.begun == 8 && all_done(chain.transfer, 8));
    await(ends, chain.transfer, 8);
}

/* The end of one transfer gives up all others of that end, from inside the callback. */
static void cancel_others(coll__end_t *end, void *cookie, int status) {
    transfer_t *transfers = end->ends->test;
    count_done(end, cookie, status);
    for (int i = 0; i < 6; i++) {
        transfer_t *other = &transfers[i];
        if (end->rank == other->to && !other->received)
            end->ends->ops->bulk_cancel(end->transport, receive_cookie(other));
        if (end->rank == other->from && !other->sent)
            end->ends->ops->bulk_cancel(end->transport, send_cookie(other));
    }
}

static void cancel_in_callback(coll__ends_t *ends) {
    transfer_t transfers[6];
    int to = coll__ends_peer(ends, 0, 0);
    ends->test = transfers;
    for (int rank = 0; rank < ends->size; rank++)
        ends->end[rank].on_bulk = cancel_others;
    for (uint32_t i = 0; i < 6; i++) {
        make(&transfers[i], 0, to, i, i == 4 ? 1000 : MEBIBYTE);
        receive(ends, &transfers[i]);
    }
    for (int i = 0; i < 6; i++)
        send(ends, &transfers[(i + 4) % 6]);
    coll__ends_until(ends, ends->end[0].bulk_done && ends->end[to].bulk_done);
    for (int i = 0; i < 50; i++)
        assert_true(coll__ends_poll(ends) >= 0);
    int sent = 0, received = 0;
    for (int i = 0; i < 6; i++) {
        sent += transfers[i].sent;
        received += transfers[i].received;
        if (transfers[i].received)
            assert_memory_equal(transfers[i].source, transfers[i].target, transfers[i].bytes);
        transfers[i].cancelled = true;
        check_and_free(&transfers[i]);
    }
    assert_true(sent + received >= 1 && sent <= 1 && received <= 1);
}

static void wrong_arguments(coll__ends_t *ends) {
    char byte = 0;
    coll__transport_t *transport = ends->end[0].transport;
    assert_true(ends->ops->bulk_send(transport, ends->size, 1, &byte, 1, &byte) < 0);
    assert_true(ends->ops->bulk_recv(transport, -1, 1, &byte, 1, &byte) < 0);
    ends->ops->bulk_cancel(transport, &byte); /* no such transfer */
    assert_int_equal(ends->ops->drained(transport), 1);
}

int main(int argc, char **argv) {
    static const coll__ends_check_t checks[] = {
        {"1 byte to 5 MiB", lengths},
        {"many at once, all to all", many},
        {"packets meanwhile", packets_meanwhile},
        {"cancelled by the receiver, the id taken up again", cancel_and_reuse},
        {"cancelled by both, the id taken up again", cancel_both},
        {"a forgotten peer", forget},
        {"begun from callbacks", from_callbacks},
        {"cancelled in a callback", cancel_in_callback},
        {"wrong arguments", wrong_arguments},
    };
    return coll__ends_run(argc, argv, "bulk data", checks, sizeof checks / sizeof *checks);
}
