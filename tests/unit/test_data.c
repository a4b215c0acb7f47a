/* Names, sizes and the check that operator and datatype go together. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "data/data.h"

/* What each operator works on, a digit a datatype in the order of coll.h: bool, int8 to 64, uint8 to 64, half
 * precision, float32 and 64, complex. Written out, not computed from the table. */
static const struct {
    coll_op_t op;
    const char *name;
    const char *works_on;
} operators[] = {
    {COLL_SUM, "sum", "1 1111 1111 11 11 11"},       {COLL_PROD, "prod", "1 1111 1111 11 11 11"},
    {COLL_MIN, "min", "1 1111 1111 11 11 00"},       {COLL_MAX, "max", "1 1111 1111 11 11 00"},
    {COLL_AVG, "avg", "0 1111 1111 11 11 11"},       {COLL_LAND, "land", "1 1111 1111 11 11 00"},
    {COLL_LOR, "lor", "1 1111 1111 11 11 00"},       {COLL_LXOR, "lxor", "1 1111 1111 11 11 00"},
    {COLL_BAND, "band", "1 1111 1111 00 00 00"},     {COLL_BOR, "bor", "1 1111 1111 00 00 00"},
    {COLL_BXOR, "bxor", "1 1111 1111 00 00 00"},     {COLL_MINLOC, "minloc", "0 1111 1111 11 11 00"},
    {COLL_MAXLOC, "maxloc", "0 1111 1111 11 11 00"},
};

static void test_operators(void **state) {
    (void)state;
    assert_int_equal(sizeof operators / sizeof operators[0], COLL_OP_COUNT);
    for (size_t i = 0; i < COLL_OP_COUNT; i++) {
        assert_string_equal(coll_op_name(operators[i].op), operators[i].name);
        const char *digit = operators[i].works_on;
        for (int dtype = 0; dtype < COLL_DTYPE_COUNT; dtype++, digit++) {
            digit += *digit == ' ';
            int expected = *digit == '1';
            assert_int_equal(coll_op_supports(operators[i].op, (coll_dtype_t)dtype), expected);
            assert_int_equal(coll__data_check(operators[i].op, (coll_dtype_t)dtype, 2), expected ? 0 : COLL_ERR_TYPE);
        }
        assert_int_equal(*digit, '\0');
    }
}

static void test_datatypes(void **state) {
    (void)state;
    static const struct {
        coll_dtype_t dtype;
        const char *name;
        size_t size;
    } all[] = {
        {COLL_BOOL, "bool", 1},       {COLL_INT8, "int8", 1},           {COLL_INT16, "int16", 2},
        {COLL_INT32, "int32", 4},     {COLL_INT64, "int64", 8},         {COLL_UINT8, "uint8", 1},
        {COLL_UINT16, "uint16", 2},   {COLL_UINT32, "uint32", 4},       {COLL_UINT64, "uint64", 8},
        {COLL_FLOAT16, "float16", 2}, {COLL_BFLOAT16, "bfloat16", 2},   {COLL_FLOAT32, "float32", 4},
        {COLL_FLOAT64, "float64", 8}, {COLL_COMPLEX64, "complex64", 8}, {COLL_COMPLEX128, "complex128", 16},
    };
    assert_int_equal(sizeof all / sizeof all[0], COLL_DTYPE_COUNT);
    for (size_t i = 0; i < COLL_DTYPE_COUNT; i++) {
        assert_string_equal(coll_dtype_name(all[i].dtype), all[i].name);
        assert_int_equal(coll_dtype_size(all[i].dtype), all[i].size);
    }
}

static void test_what_does_not_exist(void **state) {
    (void)state;
    assert_int_equal(coll_dtype_size(COLL_DTYPE_COUNT), 0);
    assert_int_equal(coll_dtype_size((coll_dtype_t)-1), 0);
    assert_string_equal(coll_dtype_name((coll_dtype_t)99), "no such datatype");
    assert_string_equal(coll_op_name(-1), "no such operator");
    assert_string_equal(coll_op_name(COLL_OP_COUNT), "no such operator");
    assert_int_equal(coll_op_supports(COLL_OP_COUNT, COLL_INT8), 0);
    assert_int_equal(coll_op_supports(COLL_SUM, COLL_DTYPE_COUNT), 0);

    assert_int_equal(coll__data_check(COLL_OP_COUNT, COLL_INT8, 1), COLL_ERR_ARG);
    assert_string_equal(coll_error_message(), "op is 13, allowed are 0 (sum) to 12 (maxloc)");
    assert_int_equal(coll__data_check(-1, COLL_INT8, 1), COLL_ERR_ARG);
    assert_int_equal(coll__data_check(COLL_SUM, (coll_dtype_t)15, 1), COLL_ERR_ARG);
    assert_string_equal(coll_error_message(), "dtype is 15, allowed are 0 (bool) to 14 (complex128)");
    assert_int_equal(coll__data_check(COLL_SUM, (coll_dtype_t)-1, 1), COLL_ERR_ARG);
}

static void test_message_lists_what_is_allowed(void **state) {
    (void)state;
    assert_int_equal(coll__data_check(COLL_BAND, COLL_FLOAT64, 1), COLL_ERR_TYPE);
    assert_string_equal(coll_error_message(),
                        "op band does not apply to float64, allowed are bool, int8, int16, int32, "
                        "int64, uint8, uint16, uint32, uint64");
}

static void test_pairs_need_an_even_count(void **state) {
    (void)state;
    assert_int_equal(coll__data_check(COLL_MINLOC, COLL_INT32, 4), 0);
    assert_int_equal(coll__data_check(COLL_MINLOC, COLL_INT32, 0), 0);
    assert_int_equal(coll__data_check(COLL_MAXLOC, COLL_INT32, 3), COLL_ERR_ARG);
    assert_string_equal(coll_error_message(),
                        "count is 3, but op maxloc works on pairs (value, index): it must be even");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_operators),
        cmocka_unit_test(test_datatypes),
        cmocka_unit_test(test_what_does_not_exist),
        cmocka_unit_test(test_message_lists_what_is_allowed),
        cmocka_unit_test(test_pairs_need_an_even_count),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
