/* Damaged or hostile records in shared memory end in an error that names the peer, never in an access out of bounds;
 * other peers are not disturbed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/ends.h"
#include "transport/shm/end.h"
#include "transport/shm/shm.h"

enum { ENDS = 3 };

static coll__ends_t ends;

static int open_ends(void **state) {
    (void)state;
    return coll__ends_open(&ends, &coll__transport_shm, ENDS, COLL__ENDS_PACKET);
}

static int close_ends(void **state) {
    (void)state;
    coll__ends_close(&ends);
    return 0;
}

static coll__shm_t *shm(int rank) {
    return (coll__shm_t *)ends.end[rank].transport;
}

static coll__shm_peer_t *peer_of(int rank, int peer) {
    return shm(rank)->peer_of[peer];
}

/* Rank 1 writes this record to rank 0. */
static void forge(uint32_t kind, uint32_t length, const coll__ring_slot_t *slot) {
    coll__ring_out_t *out = &peer_of(1, 0)->out;
    unsigned char *body = coll__ring_reserve(out, 1);
    assert_non_null(body);
    if (slot)
        memcpy(body, slot, sizeof *slot);
    coll__ring_publish(out, 1, (coll__ring_kind_t)kind, length);
}

static void send(int from, int to) {
    static const char zeros[64];
    assert_int_equal(coll__transport_shm.send(ends.end[from].transport, to, zeros, 8, zeros, 8), 0);
}

static void expect_damage(void) {
    int rank = -1, packets = ends.end[0].packets;
    send(2, 0);
    assert_int_equal(coll__transport_shm.poll(ends.end[0].transport), COLL_ERR_TRANSPORT);
    assert_int_equal(coll_error_ranks(&rank, 1), 1);
    assert_int_equal(rank, 1);
    assert_non_null(strstr(coll_error_message(), "rank 1"));
    assert_int_equal(ends.end[0].packets, packets + 1); /* rank 2's */
    /* It stays so until the peer is given up; then the others go on. */
    assert_int_equal(coll__transport_shm.poll(ends.end[0].transport), COLL_ERR_TRANSPORT);
    coll__transport_shm.forget(ends.end[0].transport, 1);
    assert_int_equal(coll__transport_shm.poll(ends.end[0].transport), 0);
    send(2, 0);
    assert_int_equal(coll__transport_shm.poll(ends.end[0].transport), 1);
    assert_int_equal(coll__transport_shm.arm(ends.end[0].transport), 0);
}

static void unknown_kind(void **state) {
    (void)state;
    forge(77, 8, NULL);
    expect_damage();
}

static void packet_beyond_the_inline_limit(void **state) {
    (void)state;
    forge(COLL__RING_PACKET, (uint32_t)shm(0)->inline_max + 1, NULL);
    expect_damage();
}

static void packet_beyond_the_ring(void **state) {
    (void)state;
    coll__ring_out_t *out = &peer_of(1, 0)->out;
    while (out->head % out->count != out->count - 1) {
        send(1, 0);
        assert_int_equal(coll__transport_shm.poll(ends.end[0].transport), 1);
    }
    forge(COLL__RING_PACKET, 200, NULL); /* four cells, and one is left */
    expect_damage();
}

static void packet_of_no_slot(void **state) {
    (void)state;
    forge(COLL__RING_SLOT, 4096, &(coll__ring_slot_t){.slot = (uint32_t)shm(0)->region.slots});
    expect_damage();
}

static void packet_beyond_its_slot(void **state) {
    (void)state;
    forge(COLL__RING_SLOT, COLL__ENDS_PACKET + 1, &(coll__ring_slot_t){.slot = 0});
    expect_damage();
}

/* Pieces of a transfer of 100,000 bytes that rank 0 waits for. */
static void forged_piece(uint32_t length, coll__ring_slot_t record) {
    static char target[100000];
    record.id = 9;
    assert_int_equal(coll__transport_shm.bulk_recv(ends.end[0].transport, 1, 9, target, sizeof target, target), 0);
    forge(COLL__RING_BULK, 1000, &(coll__ring_slot_t){.id = 9, .serial = 5, .offset = 0, .total = sizeof target});
    assert_int_equal(coll__transport_shm.poll(ends.end[0].transport), 1);
    forge(COLL__RING_BULK, length, &record);
}

static void empty_piece(void **state) {
    (void)state;
    forged_piece(0, (coll__ring_slot_t){.serial = 5, .offset = 1000, .total = 100000});
    expect_damage();
}

static void long_piece(void **state) {
    (void)state;
    forged_piece(COLL__SHM_PIECE + 1, (coll__ring_slot_t){.serial = 5, .offset = 1000, .total = 100000});
    expect_damage();
}

static void piece_of_no_slot(void **state) {
    (void)state;
    forged_piece(1000, (coll__ring_slot_t){.slot = UINT32_MAX, .serial = 5, .offset = 1000, .total = 100000});
    expect_damage();
}

static void piece_out_of_order(void **state) {
    (void)state;
    forged_piece(1000, (coll__ring_slot_t){.serial = 5, .offset = UINT64_MAX - 500, .total = 100000});
    expect_damage();
}

static void piece_beyond_the_end(void **state) {
    (void)state;
    forged_piece(32768, (coll__ring_slot_t){.serial = 5, .offset = 1000, .total = 100000});
    for (uint64_t offset = 1000 + 32768; offset + 32768 <= 100000; offset += 32768)
        forge(COLL__RING_BULK, 32768, &(coll__ring_slot_t){.id = 9, .serial = 5, .offset = offset, .total = 100000});
    for (int i = 0; i < 3; i++)
        assert_true(coll__transport_shm.poll(ends.end[0].transport) >= 0);
    forge(COLL__RING_BULK, 32768, &(coll__ring_slot_t){.id = 9, .serial = 5, .offset = 99304, .total = 100000});
    expect_damage();
}

/* Pieces that belong to no receive are late, not wrong: those of another transfer, from its middle, of another length.
 */
static void late_pieces(void **state) {
    (void)state;
    forged_piece(1000, (coll__ring_slot_t){.serial = 4, .offset = 1000, .total = 100000});
    forge(COLL__RING_BULK, 1000, &(coll__ring_slot_t){.id = 8, .serial = 4, .offset = 0, .total = 1000});
    static char other[1000];
    assert_int_equal(coll__transport_shm.bulk_recv(ends.end[0].transport, 1, 7, other, sizeof other, other), 0);
    forge(COLL__RING_BULK, 500, &(coll__ring_slot_t){.id = 7, .serial = 3, .offset = 500, .total = 1000});
    forge(COLL__RING_BULK, 500, &(coll__ring_slot_t){.id = 7, .serial = 3, .offset = 0, .total = 2000});
    memset(coll__shm_region_pool(&shm(0)->region, ends.segment.view[0].transport, 1), 1, 1000);
    for (int i = 0; i < 3; i++)
        assert_true(coll__transport_shm.poll(ends.end[0].transport) >= 0);
    assert_int_equal(ends.end[0].bulk_done, 0);
    for (size_t i = 0; i < sizeof other; i++)
        assert_int_equal(other[i], 0);
}

/* The receiver claims to have read what was never written. */
static void false_read(void **state) {
    (void)state;
    static const char zeros[64], block[100000];
    coll__ring_out_t *out = &peer_of(0, 1)->out;
    while (coll__transport_shm.send(ends.end[0].transport, 1, zeros, 8, zeros, 8) == 0)
        continue;
    atomic_store(&out->ring->read, out->head + 1);
    assert_int_equal(coll__transport_shm.send(ends.end[0].transport, 1, zeros, 8, zeros, 8), COLL_ERR_TRANSPORT);
    assert_int_equal(coll__transport_shm.bulk_send(ends.end[0].transport, 1, 1, block, sizeof block, &out), 0);
    assert_int_equal(coll__transport_shm.poll(ends.end[0].transport), COLL_ERR_TRANSPORT);
    coll__transport_shm.forget(ends.end[0].transport, 1);
    assert_int_equal(coll__transport_shm.poll(ends.end[0].transport), 0);
    send(2, 0);
    send(0, 2);
}

static void wrong_address(void **state) {
    (void)state;
    coll__transport_t *transport;
    coll__transport_args_t args = {
        .world_rank = 0, .world_size = ENDS, .max_packet = COLL__ENDS_PACKET, .segment = &ends.segment.view[0]};
    assert_int_equal(coll__transport_shm.open(&args, &transport), 0);
    coll__transport_address_t address;
    assert_int_equal(coll__transport_shm.address(transport, &address), 0);
    int peer = 1; /* whose local rank is not 0 */
    assert_int_equal(coll__transport_shm.connect(transport, &peer, &address, 1), COLL_ERR_TRANSPORT);
    memset(address.address, 0xff, sizeof address.address);
    assert_int_equal(coll__transport_shm.connect(transport, &peer, &address, 1), COLL_ERR_TRANSPORT);
    address.bytes = 0;
    assert_int_equal(coll__transport_shm.connect(transport, &peer, &address, 1), COLL_ERR_TRANSPORT);
    coll__transport_shm.close(transport);
}

static void no_segment(void **state) {
    (void)state;
    coll__transport_t *transport;
    coll__segment_t segment = ends.segment.view[0];
    coll__transport_args_t args = {
        .world_rank = 0, .world_size = 1, .max_packet = COLL__ENDS_PACKET, .segment = &segment};
    segment.transport_bytes /= 2;
    assert_int_equal(coll__transport_shm.open(&args, &transport), COLL_ERR_INTERNAL);
    segment.base = NULL;
    assert_int_equal(coll__transport_shm.open(&args, &transport), COLL_ERR_STATE);
}

int main(void) {
#define test(name) cmocka_unit_test_setup_teardown(name, open_ends, close_ends)
    const struct CMUnitTest tests[] = {
        test(unknown_kind),
        test(packet_beyond_the_inline_limit),
        test(packet_beyond_the_ring),
        test(packet_of_no_slot),
        test(packet_beyond_its_slot),
        test(empty_piece),
        test(long_piece),
        test(piece_of_no_slot),
        test(piece_out_of_order),
        test(piece_beyond_the_end),
        test(late_pieces),
        test(false_read),
        test(wrong_address),
        test(no_segment),
    };
#undef test
    return cmocka_run_group_tests_name("damaged shared memory", tests, NULL, NULL);
}
