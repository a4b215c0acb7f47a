/* Rings, dissemination and logarithms: small formulas against their meaning, for every small P. */
#include "pattern/dissemination.h"
#include "pattern/log2.h"
#include "pattern/ring.h"

#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static void test_ring(void **state) {
    (void)state;
    for (int size = 1; size <= 70; size++)
        for (int rank = 0; rank < size; rank++)
            for (int step = -size; step <= size; step++)
                assert_int_equal(coll__ring_at(rank, step, size), (rank + step + 2 * size) % size);
}

static void test_log2(void **state) {
    (void)state;
    for (int value = 1; value <= 5000; value++) {
        int floor = coll__log2_floor(value), ceil = coll__log2_ceil(value);
        assert_true(1 << floor <= value && value < 1 << (floor + 1));
        assert_true(value <= 1 << ceil && (ceil == 0 || 1 << (ceil - 1) < value));
    }
    assert_int_equal(coll__log2_floor(INT_MAX), 30);
    assert_int_equal(coll__log2_ceil(INT_MAX), 31);
}

/* Whom I tell expects it from me, and in the end everybody has heard from everybody; one round less is not enough. */
static void test_dissemination(void **state) {
    (void)state;
    for (int size = 2; size <= 40; size++) {
        bool heard[40][40] = {{false}};
        for (int rank = 0; rank < size; rank++)
            heard[rank][rank] = true;
        for (int round = 0; round < coll__dissemination_rounds(size); round++) {
            assert_false(heard[0][1]); /* the last to be heard of */
            bool before[40][40];
            memcpy(before, heard, sizeof before);
            for (int rank = 0; rank < size; rank++) {
                int to = coll__dissemination_to(rank, round, size);
                assert_int_equal(coll__dissemination_from(to, round, size), rank);
                for (int other = 0; other < size; other++)
                    heard[to][other] = heard[to][other] || before[rank][other];
            }
        }
        for (int rank = 0; rank < size; rank++)
            for (int other = 0; other < size; other++)
                assert_true(heard[rank][other]);
    }
    assert_int_equal(coll__dissemination_rounds(1), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ring),
        cmocka_unit_test(test_log2),
        cmocka_unit_test(test_dissemination),
    };
    return cmocka_run_group_tests_name("ring", tests, NULL, NULL);
}
