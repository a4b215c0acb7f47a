/* Conversions of half precision: all 65536 values one way, every rounding situation the other way, at every CPU level.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "data/half.h"
#include "data/kernel.h"
#include "support/reference.h"

enum { ALL = 1 << 16 };
static uint16_t halves[ALL], narrowed[ALL];
static float wide[ALL];

static int is_nan_half(coll_dtype_t dtype, uint16_t half) {
    return (half & 0x7fff) > (dtype == COLL_FLOAT16 ? 0x7c00 : 0x7f80);
}

static void widen(const coll__kernel_set_t *set, coll_dtype_t dtype, size_t count) {
    (dtype == COLL_FLOAT16 ? set->widen_float16 : set->widen_bfloat16)(halves, wide, count);
}

static void narrow(const coll__kernel_set_t *set, coll_dtype_t dtype, size_t count) {
    (dtype == COLL_FLOAT16 ? set->narrow_float16 : set->narrow_bfloat16)(wide, narrowed, count);
}

static void each_level(void (*check)(const coll__kernel_set_t *set, coll_dtype_t dtype)) {
    for (int level = 0; level <= (int)coll__cpu_level(); level++) {
        check(coll__kernel_set_at((coll__cpu_level_t)level), COLL_FLOAT16);
        check(coll__kernel_set_at((coll__cpu_level_t)level), COLL_BFLOAT16);
    }
}

static void check_all_values(const coll__kernel_set_t *set, coll_dtype_t dtype) {
    for (int i = 0; i < ALL; i++)
        halves[i] = (uint16_t)i;
    widen(set, dtype, ALL);
    narrow(set, dtype, ALL);
    for (int i = 0; i < ALL; i++) {
        double expected = coll__reference_from_half(dtype, (uint16_t)i);
        if (is_nan_half(dtype, (uint16_t)i)) {
            assert_true(isnan(wide[i]));
            assert_int_equal(narrowed[i], i | (dtype == COLL_FLOAT16 ? 0x200 : 0x40)); /* its payload, made quiet */
        } else {
            assert_true(wide[i] == expected && !signbit(wide[i]) == !signbit(expected));
            assert_int_equal(narrowed[i], i);
        }
    }
}

static void test_all_values_survive_the_round_trip(void **state) {
    (void)state;
    each_level(check_all_values);
}

/* Between each half and the next: the middle (a tie) and its neighbours. */
static void check_ties(const coll__kernel_set_t *set, coll_dtype_t dtype) {
    const int infinity = dtype == COLL_FLOAT16 ? 0x7c00 : 0x7f80;
    for (int step = -1; step <= 1; step++) {
        for (int i = 0; i < infinity; i++) {
            double low = coll__reference_from_half(dtype, (uint16_t)i);
            double high = i + 1 < infinity ? coll__reference_from_half(dtype, (uint16_t)(i + 1))
                                           : ldexp(1, dtype == COLL_FLOAT16 ? 16 : 128);
            float middle = (float)((low + high) / 2);
            wide[i] = step < 0 ? nextafterf(middle, 0) : step > 0 ? nextafterf(middle, INFINITY) : middle;
            wide[i + infinity] = -wide[i];
        }
        narrow(set, dtype, (size_t)(2 * infinity));
        for (int i = 0; i < 2 * infinity; i++)
            assert_int_equal(narrowed[i], coll__reference_to_half(dtype, wide[i]));
    }
}

static void test_ties_go_to_even(void **state) {
    (void)state;
    each_level(check_ties);
}

static void check_random_floats(const coll__kernel_set_t *set, coll_dtype_t dtype) {
    uint64_t random = 5;
    for (int i = 0; i < ALL; i++)
        wide[i] = coll__float_of_bits((uint32_t)coll__reference_random(&random));
    narrow(set, dtype, ALL);
    for (int i = 0; i < ALL; i++) {
        if (isnan(wide[i]))
            assert_true(is_nan_half(dtype, narrowed[i]));
        else
            assert_int_equal(narrowed[i], coll__reference_to_half(dtype, wide[i]));
    }
}

static void test_any_float(void **state) {
    (void)state;
    each_level(check_random_floats);
}

static void test_known_values(void **state) {
    (void)state;
    assert_int_equal(coll__to_float16(1.0f), 0x3c00);
    assert_int_equal(coll__to_float16(65504.0f), 0x7bff);
    assert_int_equal(coll__to_float16(65519.996f), 0x7bff);
    assert_int_equal(coll__to_float16(65520.0f), 0x7c00);
    assert_int_equal(coll__to_float16(0x1p-24f), 0x0001);
    assert_int_equal(coll__to_float16(0x1p-25f), 0x0000);
    assert_int_equal(coll__to_float16(0x1.8p-25f), 0x0001);
    assert_int_equal(coll__to_float16(-0.0f), 0x8000);
    assert_int_equal(coll__to_bfloat16(1.0f), 0x3f80);
    assert_int_equal(coll__to_bfloat16(3.4028235e38f), 0x7f80);
    assert_true(coll__from_float16(0x3555) == 0.333251953125f);
    assert_true(coll__from_bfloat16(0x4049) == 3.140625f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_values_survive_the_round_trip),
        cmocka_unit_test(test_ties_go_to_even),
        cmocka_unit_test(test_any_float),
        cmocka_unit_test(test_known_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
