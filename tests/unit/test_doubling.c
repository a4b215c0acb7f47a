/* Places for recursive doubling: every rank has one or is folded into one that has, in the order of ranks. */
#include "pattern/doubling.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void test_places(void **state) {
    (void)state;
    for (int size = 1; size <= 300; size++) {
        int next = 0;
        for (int rank = 0; rank < size; rank++) {
            coll__doubling_t doubling = coll__doubling(rank, size);
            assert_int_equal(doubling.core, 1 << doubling.levels);
            assert_true(doubling.core <= size && size < 2 * doubling.core);
            assert_int_equal(doubling.core + doubling.extra, size);
            if (doubling.place < 0) {
                assert_int_equal(doubling.fold, rank - 1);
                assert_int_equal(coll__doubling(rank - 1, size).fold, rank);
                continue;
            }
            assert_int_equal(doubling.place, next++);
            assert_int_equal(coll__doubling_rank(&doubling, doubling.place), rank);
            assert_int_equal(coll__doubling_rank(&doubling, doubling.core), size);
            assert_true(doubling.fold == -1 || doubling.fold == rank + 1);
            assert_int_equal(doubling.fold >= 0, doubling.place < doubling.extra);
        }
        assert_int_equal(next, coll__doubling(0, size).core);
    }
}

static void test_peers(void **state) {
    (void)state;
    for (int size = 1; size <= 300; size++)
        for (int rank = 0; rank < size; rank++) {
            coll__doubling_t mine = coll__doubling(rank, size);
            for (int level = 0; mine.place >= 0 && level < mine.levels; level++) {
                int peer = coll__doubling_peer(&mine, level);
                coll__doubling_t theirs = coll__doubling(peer, size);
                assert_true(peer >= 0 && peer < size && peer != rank);
                assert_int_equal(coll__doubling_peer(&theirs, level), rank);
                assert_int_equal(coll__doubling_upper(&mine, level), rank > peer);
            }
        }
}

/* The formula for the longest chain against a search: depth[place] on every level. */
static void test_rounds(void **state) {
    (void)state;
    for (int size = 1; size <= 300; size++) {
        coll__doubling_t doubling = coll__doubling(0, size);
        int depth[512], before[512], longest = 0;
        for (int place = 0; place < doubling.core; place++)
            depth[place] = place < doubling.extra;
        for (int level = 0; level < doubling.levels; level++) {
            for (int place = 0; place < doubling.core; place++)
                before[place] = depth[place];
            for (int place = 0; place < doubling.core; place++) {
                int arrived = before[place ^ (1 << level)] + 1;
                depth[place] = arrived > before[place] ? arrived : before[place];
            }
        }
        for (int place = 0; place < doubling.core; place++) {
            int last = depth[place] + (place < doubling.extra);
            longest = last > longest ? last : longest;
        }
        assert_int_equal(coll__doubling_rounds(size), longest);
        assert_int_equal(coll__doubling_messages(size), doubling.core * doubling.levels + 2 * doubling.extra);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_places),
        cmocka_unit_test(test_peers),
        cmocka_unit_test(test_rounds),
    };
    return cmocka_run_group_tests_name("doubling", tests, NULL, NULL);
}
