/* The division of AVG. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "data/data.h"
#include "support/reference.h"

enum { COUNT = 1100, LARGEST_ELEMENT = 16 };
static _Alignas(16) unsigned char values[COUNT * LARGEST_ELEMENT], expected[COUNT * LARGEST_ELEMENT];

static void test_against_the_reference(void **state) {
    (void)state;
    static const int ranks[] = {1, 2, 3, 7, 200, 70000, 2147483647};
    for (int dtype = 0; dtype < COLL_DTYPE_COUNT; dtype++) {
        if (!coll_op_supports(COLL_AVG, (coll_dtype_t)dtype))
            continue;
        for (size_t i = 0; i < sizeof ranks / sizeof ranks[0]; i++) {
            coll__reference_fill((coll_dtype_t)dtype, values, COUNT, i);
            memcpy(expected, values, sizeof values);
            coll__reference_divide((coll_dtype_t)dtype, expected, COUNT, ranks[i]);
            coll__data_finish(COLL_AVG, (coll_dtype_t)dtype, values, COUNT, ranks[i]);
            long wrong = coll__reference_differ((coll_dtype_t)dtype, values, expected, COUNT);
            if (wrong >= 0)
                fail_msg("%s over %d ranks: element %ld", coll_dtype_name((coll_dtype_t)dtype), ranks[i], wrong);
        }
    }
}

static void test_integers_truncate_toward_zero(void **state) {
    (void)state;
    int32_t sums[] = {7, -7, 1, -1, 6};
    coll__data_finish(COLL_AVG, COLL_INT32, sums, 5, 2);
    const int32_t averages[] = {3, -3, 0, 0, 3};
    assert_memory_equal(sums, averages, sizeof sums);

    int8_t small[] = {127, -128}; /* more ranks than an int8 can count */
    coll__data_finish(COLL_AVG, COLL_INT8, small, 2, 300);
    assert_int_equal(small[0], 0);
    assert_int_equal(small[1], 0);
}

static void test_only_the_average_is_divided(void **state) {
    (void)state;
    for (coll_op_t op = 0; op < COLL_OP_COUNT; op++) {
        double value = 12;
        coll__data_finish(op, COLL_FLOAT64, &value, 1, 4);
        assert_true(value == (op == COLL_AVG ? 3 : 12));
    }
}

static void test_only_count_elements_change(void **state) {
    (void)state;
    for (int dtype = 0; dtype < COLL_DTYPE_COUNT; dtype++) {
        if (!coll_op_supports(COLL_AVG, (coll_dtype_t)dtype))
            continue;
        const size_t size = coll_dtype_size((coll_dtype_t)dtype);
        coll__reference_fill_small((coll_dtype_t)dtype, values, COUNT, 3);
        memcpy(expected, values, sizeof values);
        coll__data_finish(COLL_AVG, (coll_dtype_t)dtype, values, 515, 2);
        assert_memory_equal(values + 515 * size, expected + 515 * size, (COUNT - 515) * size);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_against_the_reference),
        cmocka_unit_test(test_integers_truncate_toward_zero),
        cmocka_unit_test(test_only_the_average_is_divided),
        cmocka_unit_test(test_only_count_elements_change),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
