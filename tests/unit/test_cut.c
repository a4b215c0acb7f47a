/* Cuts into parts and halves: complete, without overlap, as equal as whole elements allow. */
#include "pattern/cut.h"
#include "pattern/halving.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void test_cut(void **state) {
    (void)state;
    for (int parts = 1; parts <= 40; parts++)
        for (size_t count = 0; count <= 130; count++) {
            coll__cut_t cut = coll__cut(count, parts);
            size_t at = 0;
            for (int part = 0; part < parts; part++) {
                assert_int_equal(coll__cut_begin(cut, part), at);
                size_t length = coll__cut_count(cut, part);
                assert_true(length == count / (size_t)parts || length == count / (size_t)parts + 1);
                assert_true(part == 0 || length <= coll__cut_count(cut, part - 1));
                at += length;
            }
            assert_int_equal(at, count);
            assert_int_equal(coll__cut_begin(cut, parts), count);
        }
}

static void test_cut_beyond_32_bits(void **state) {
    (void)state;
    size_t count = ((size_t)1 << 40) + 3;
    coll__cut_t cut = coll__cut(count, 4);
    assert_true(coll__cut_begin(cut, 3) == 3 * ((size_t)1 << 38) + 3);
    assert_true(coll__cut_begin(cut, 3) + coll__cut_count(cut, 3) == count);
}

static void test_halves(void **state) {
    (void)state;
    for (size_t begin = 0; begin < 5; begin++)
        for (size_t count = 0; count < 50; count++) {
            coll__range_t whole = {begin, begin + count};
            coll__range_t lower = coll__range_half(whole, false), upper = coll__range_half(whole, true);
            assert_int_equal(lower.begin, whole.begin);
            assert_int_equal(lower.end, upper.begin);
            assert_int_equal(upper.end, whole.end);
            assert_true(coll__range_count(upper) - coll__range_count(lower) <= 1);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cut),
        cmocka_unit_test(test_cut_beyond_32_bits),
        cmocka_unit_test(test_halves),
    };
    return cmocka_run_group_tests_name("cut", tests, NULL, NULL);
}
