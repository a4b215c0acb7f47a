/* The layout of the shm transport's region: nothing overlaps, everything is aligned, and its size stays sane. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "transport/shm/pool.h"
#include "transport/shm/shm.h"

static void rings_and_pools_do_not_overlap(void **state) {
    (void)state;
    static const size_t packets[] = {256 + 48, 8192 + 48, 32768, 32769, (1 << 20) + 48};
    for (int size = 2; size <= 256; size += size < 10 ? 1 : 41) {
        for (size_t p = 0; p < sizeof packets / sizeof *packets; p++) {
            coll__shm_region_t region;
            coll__shm_region(&region, size, packets[p]);
            assert_int_equal(region.bytes, coll__shm_region_bytes(size, packets[p]));
            assert_int_equal(region.bytes % 4096, 0);
            assert_int_equal(region.slot_bytes % 4096, 0);
            assert_int_equal(region.cells & (region.cells - 1), 0);
            assert_true(region.slot_bytes >= packets[p] && region.slot_bytes >= COLL__SHM_PIECE);

            unsigned char *base = (unsigned char *)(uintptr_t)4096, *end = base; /* never touched */
            for (int to = 0; to < size; to++) {
                for (int from = 0; from < size; from++) {
                    unsigned char *ring = (unsigned char *)coll__shm_region_ring(&region, base, from, to);
                    assert_int_equal((size_t)ring % COLL__CACHE_LINE, 0);
                    assert_true(ring >= end);
                    end = ring + sizeof(coll__ring_t) + (size_t)region.cells * COLL__RING_CELL;
                }
            }
            for (int sender = 0; sender < size; sender++) {
                unsigned char *pool = coll__shm_region_pool(&region, base, sender);
                assert_int_equal((size_t)pool % 4096, 0);
                assert_true(pool >= end);
                end = pool + (size_t)region.slots * region.slot_bytes;
            }
            assert_true((size_t)(end - base) <= region.bytes);
        }
    }
}

static void size_is_bounded(void **state) {
    (void)state;
    assert_true(coll__shm_region_bytes(2, 8240) <= (size_t)2 << 20);
    assert_true(coll__shm_region_bytes(8, 8240) <= (size_t)8 << 20);
    assert_true(coll__shm_region_bytes(64, 8240) <= (size_t)256 << 20);
    assert_true(coll__shm_region_bytes(256, 8240) <= (size_t)3 << 30);
}

/* A message of 8 bytes with the header of the layer above is one line. */
static void small_message_is_one_cell(void **state) {
    (void)state;
    assert_int_equal(coll__ring_cells(48 + 8), 1);
    assert_int_equal(coll__ring_cells(48 + 9), 2);
    assert_int_equal(coll__ring_cells(0), 1);
    assert_int_equal(coll__ring_cells(sizeof(coll__ring_slot_t)), 1);
}

/* When the receiver has read everything and gives back quarters, the longest inline packet fits wherever the ring
 * stands. */
static void longest_inline_packet_always_fits(void **state) {
    (void)state;
    for (uint32_t count = 64; count <= 256; count *= 2) {
        uint32_t cells = coll__ring_cells(coll__ring_inline_max(count));
        assert_true(cells + (cells - 1) <= count - (count / 4 - 1));
    }
}

static void slots_are_shared_fairly(void **state) {
    (void)state;
    coll__shm_region_t region;
    coll__pool_t pool;
    enum { PEERS = 7 };
    coll__pool_held_t held[PEERS] = {0};
    coll__shm_region(&region, PEERS + 1, 8240);
    assert_int_equal(coll__pool_open(&pool, &region, NULL), 0);
    int given = 0;
    for (int peer = 0; peer < PEERS; peer++)
        for (; coll__pool_allows(&pool, &held[peer], COLL__POOL_BULK_LIMIT); given++)
            coll__pool_give(&pool, &held[peer], coll__pool_take(&pool), (uint32_t)given);
    for (int peer = 0; peer < PEERS; peer++) {
        assert_true(coll__pool_held_count(&held[peer]) >= 1); /* the last one too */
        assert_true(coll__pool_held_count(&held[peer]) <= COLL__POOL_BULK_LIMIT);
    }
    assert_int_equal(given, COLL__POOL_SHARED + PEERS);
    coll__pool_reclaim(&pool, &held[0], 2); /* of 0 to 7, the first three */
    assert_int_equal(coll__pool_held_count(&held[0]), COLL__POOL_BULK_LIMIT - 3);
    assert_true(coll__pool_allows(&pool, &held[6], COLL__POOL_BULK_LIMIT));
    for (int peer = 0; peer < PEERS; peer++)
        coll__pool_reclaim_all(&pool, &held[peer]);
    assert_int_equal(pool.free_count, region.slots);
    assert_int_equal(pool.shared_used, 0);
    coll__pool_close(&pool);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rings_and_pools_do_not_overlap), cmocka_unit_test(size_is_bounded),
        cmocka_unit_test(small_message_is_one_cell),      cmocka_unit_test(longest_inline_packet_always_fits),
        cmocka_unit_test(slots_are_shared_fairly),
    };
    return cmocka_run_group_tests_name("shm region", tests, NULL, NULL);
}
