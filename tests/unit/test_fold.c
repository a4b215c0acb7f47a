/* Folding many inputs: like one kernel after the other, over block borders, and in float32 throughout for half
 * precision. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "data/data.h"
#include "support/reference.h"

enum { INPUTS = 5, LONGEST = 8192 * 2 + 6, LARGEST_ELEMENT = 16 };
static unsigned char *inputs[INPUTS], *target, *expected;

static int setup(void **state) {
    (void)state;
    for (int i = 0; i < INPUTS; i++)
        inputs[i] = malloc(LONGEST * LARGEST_ELEMENT);
    target = malloc(LONGEST * LARGEST_ELEMENT);
    expected = malloc(LONGEST * LARGEST_ELEMENT);
    return 0;
}

static int teardown(void **state) {
    (void)state;
    for (int i = 0; i < INPUTS; i++)
        free(inputs[i]);
    free(target);
    free(expected);
    return 0;
}

static int is_half(coll_dtype_t dtype) {
    return dtype == COLL_FLOAT16 || dtype == COLL_BFLOAT16;
}

static void fill(coll_op_t op, coll_dtype_t dtype, int index, size_t count) {
    if (op == COLL_MINLOC || op == COLL_MAXLOC)
        coll__reference_fill_pairs(dtype, inputs[index], count, (uint64_t)index * 31 + 1);
    else
        coll__reference_fill(dtype, inputs[index], count, (uint64_t)index * 31 + 1);
}

/* The reference: step by step; half precision is decoded to float32 first and encoded last. */
static void fold_reference(coll_op_t op, coll_dtype_t dtype, int count_of_inputs, size_t count) {
    if (!is_half(dtype)) {
        memcpy(expected, inputs[0], count * coll_dtype_size(dtype));
        for (int i = 1; i < count_of_inputs; i++)
            coll__reference_combine(op, dtype, expected, inputs[i], expected, count);
        return;
    }
    float *left = malloc(count * sizeof *left), *right = malloc(count * sizeof *right);
    for (int i = 0; i < count_of_inputs; i++) {
        for (size_t k = 0; k < count; k++)
            (i == 0 ? left : right)[k] = (float)coll__reference_from_half(dtype, ((uint16_t *)(void *)inputs[i])[k]);
        if (i > 0)
            coll__reference_combine(op, COLL_FLOAT32, left, right, left, count);
    }
    for (size_t k = 0; k < count; k++)
        ((uint16_t *)(void *)expected)[k] = coll__reference_to_half(dtype, left[k]);
    free(left);
    free(right);
}

/* onto: the input that is the target too; -1: a place of its own. */
static void check(coll_op_t op, coll_dtype_t dtype, int count_of_inputs, size_t count, int onto) {
    const void *pointers[INPUTS];
    for (int i = 0; i < count_of_inputs; i++) {
        fill(op, dtype, i, count);
        pointers[i] = inputs[i];
    }
    fold_reference(op, dtype, count_of_inputs, count);
    unsigned char *result = onto < 0 ? target : inputs[onto];
    coll__data_fold(op, dtype, pointers, count_of_inputs, result, count);
    long wrong = coll__reference_differ(dtype, result, expected, count);
    if (wrong >= 0)
        fail_msg("%s %s, %d inputs, count %zu, onto %d: element %ld", coll_op_name(op), coll_dtype_name(dtype),
                 count_of_inputs, count, onto, wrong);
}

static void test_every_pair(void **state) {
    (void)state;
    for (coll_op_t op = 0; op < COLL_OP_COUNT; op++) {
        for (int dtype = 0; dtype < COLL_DTYPE_COUNT; dtype++) {
            if (coll_op_supports(op, (coll_dtype_t)dtype)) {
                for (int count_of_inputs = 1; count_of_inputs <= INPUTS; count_of_inputs++)
                    check(op, (coll_dtype_t)dtype, count_of_inputs, 130, -1);
            }
        }
    }
}

static void test_block_borders(void **state) {
    (void)state;
    static const size_t bytes[] = {8192 - 16, 8192, 8192 + 16, 16384 + 32};
    static const coll_dtype_t dtypes[] = {COLL_INT8, COLL_FLOAT16, COLL_FLOAT32, COLL_FLOAT64, COLL_COMPLEX128};
    for (size_t d = 0; d < sizeof dtypes / sizeof dtypes[0]; d++) {
        for (size_t i = 0; i < sizeof bytes / sizeof bytes[0]; i++)
            check(COLL_SUM, dtypes[d], 3, bytes[i] / coll_dtype_size(dtypes[d]), -1);
    }
    check(COLL_MINLOC, COLL_INT16, 4, 16384 / 2 + 2, -1);
    check(COLL_MAXLOC, COLL_BFLOAT16, 4, 16384 / 2 + 2, -1);
}

static void test_target_is_an_input(void **state) {
    (void)state;
    static const coll_dtype_t dtypes[] = {COLL_INT32, COLL_BFLOAT16, COLL_FLOAT64};
    for (size_t d = 0; d < sizeof dtypes / sizeof dtypes[0]; d++) {
        for (int onto = 0; onto < INPUTS; onto++)
            check(COLL_SUM, dtypes[d], INPUTS, 5001, onto);
    }
    check(COLL_SUM, COLL_INT32, 1, 77, 0);
    check(COLL_SUM, COLL_INT32, 2, 77, 1);
}

static void test_nothing_to_fold(void **state) {
    (void)state;
    const void *pointers[3] = {NULL, NULL, NULL};
    memset(target, 0x5a, 8);
    coll__data_fold(COLL_SUM, COLL_FLOAT64, pointers, 3, target, 0);
    coll__data_fold(COLL_SUM, COLL_FLOAT16, pointers, 1, target, 0);
    assert_int_equal(target[0], 0x5a);
}

/* 2048 + 1 is 2048 in float16, so step by step the ones would all be lost. */
static void test_half_precision_sums_in_float32(void **state) {
    (void)state;
    const uint16_t large = 0x6800 /* 2048 */, one = 0x3c00;
    const void *pointers[] = {&large, &one, &one, &one, &one};
    uint16_t sum = 0;
    coll__data_fold(COLL_SUM, COLL_FLOAT16, pointers, 5, &sum, 1);
    assert_int_equal(sum, 0x6802 /* 2052 */);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_pair),
        cmocka_unit_test(test_block_borders),
        cmocka_unit_test(test_target_is_an_input),
        cmocka_unit_test(test_nothing_to_fold),
        cmocka_unit_test(test_half_precision_sums_in_float32),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
