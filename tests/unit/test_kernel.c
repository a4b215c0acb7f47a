/* Every operator x datatype x CPU level against the reference: odd counts, odd places, target equal to an operand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "data/kernel.h"
#include "support/reference.h"

enum { LONGEST = 1100, MARGIN = 4, PLACES = LONGEST + 2 * MARGIN, LARGEST_ELEMENT = 16 };
enum { APART, ONTO_LEFT, ONTO_RIGHT, ALIASES };

/* Separate allocations of the exact size would hide alignments; these are aligned, and `shift` elements move within. */
static _Alignas(64) unsigned char lefts[PLACES * LARGEST_ELEMENT], rights[PLACES * LARGEST_ELEMENT],
    targets[PLACES * LARGEST_ELEMENT], expected[PLACES * LARGEST_ELEMENT];

static int is_pair_op(coll_op_t op) {
    return op == COLL_MINLOC || op == COLL_MAXLOC;
}

/* `shift`: where the first pair begins. */
static void fill(coll_op_t op, coll_dtype_t dtype, unsigned char *block, size_t places, size_t shift, uint64_t seed) {
    if (is_pair_op(op))
        coll__reference_fill_pairs(dtype, block + shift * coll_dtype_size(dtype), places - shift, seed);
    else
        coll__reference_fill(dtype, block, places, seed);
}

static void check(coll__cpu_level_t level, coll_op_t op, coll_dtype_t dtype, size_t count, int alias, size_t shift) {
    const size_t places = count + 2 * MARGIN, size = coll_dtype_size(dtype), bytes = places * size;
    const size_t right_shift = shift * 3 % MARGIN;
    unsigned char *left = lefts + shift * size, *right = rights + right_shift * size;
    fill(op, dtype, lefts, places, shift, count * 64 + shift);
    fill(op, dtype, rights, places, right_shift, count * 64 + shift + 7777);
    unsigned char *block = alias == ONTO_LEFT ? lefts : alias == ONTO_RIGHT ? rights : targets;
    unsigned char *target = alias == ONTO_LEFT    ? left
                            : alias == ONTO_RIGHT ? right
                                                  : targets + (shift * 2 % MARGIN) * size;
    if (alias == APART)
        memset(targets, 0xa5, bytes);

    memcpy(expected, block, bytes);
    coll__reference_combine(op, dtype, left, right, expected + (target - block), count);
    coll__data_kernel_at(level, op, dtype)(left, right, target, count);

    size_t offset = (size_t)(target - block);
    long wrong = coll__reference_differ(dtype, target, expected + offset, count);
    if (wrong >= 0)
        fail_msg("%s %s at level %s, count %zu, alias %d, shift %zu: element %ld", coll_op_name(op),
                 coll_dtype_name(dtype), coll__cpu_level_name(level), count, alias, shift, wrong);
    assert_memory_equal(block, expected, offset);
    assert_memory_equal(target + count * size, expected + offset + count * size, bytes - offset - count * size);
}

static void check_level(coll__cpu_level_t level) {
    static const size_t counts[] = {0, 1, 2, 3, 5, 7, 8, 15, 16, 17, 31, 33, 64, 66, 127, 511, 513, LONGEST};
    if (level > coll__cpu_level()) {
        print_message("level %s: this CPU cannot run it\n", coll__cpu_level_name(level));
        skip();
    }
    int pairs = 0;
    for (coll_op_t op = 0; op < COLL_OP_COUNT; op++) {
        for (int dtype = 0; dtype < COLL_DTYPE_COUNT; dtype++) {
            if (!coll_op_supports(op, (coll_dtype_t)dtype))
                continue;
            pairs++;
            for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
                size_t count = is_pair_op(op) ? counts[i] / 2 * 2 : counts[i];
                for (int alias = 0; alias < ALIASES; alias++)
                    check(level, op, (coll_dtype_t)dtype, count, alias, (i + (size_t)alias) % MARGIN);
            }
        }
    }
    assert_true(pairs > 100);
}

static void test_base(void **state) {
    (void)state;
    check_level(COLL__CPU_BASE);
}

static void test_avx2(void **state) {
    (void)state;
    check_level(COLL__CPU_AVX2);
}

static void test_avx512(void **state) {
    (void)state;
    check_level(COLL__CPU_AVX512);
}

static void test_table_is_full(void **state) {
    (void)state;
    for (int level = 0; level < COLL__CPU_LEVELS; level++) {
        for (coll_op_t op = 0; op < COLL_OP_COUNT; op++) {
            for (int dtype = 0; dtype < COLL_DTYPE_COUNT; dtype++) {
                int kernel = coll__data_kernel_at((coll__cpu_level_t)level, op, (coll_dtype_t)dtype) != NULL;
                assert_int_equal(kernel, coll_op_supports(op, (coll_dtype_t)dtype));
            }
        }
    }
}

/* The levels agree in every bit, except that the payload of a NaN made from two NaNs is the compiler's choice. */
static void test_levels_agree(void **state) {
    (void)state;
    for (int level = 1; level <= (int)coll__cpu_level(); level++) {
        for (coll_op_t op = 0; op < COLL_OP_COUNT; op++) {
            for (int dtype = 0; dtype < COLL_DTYPE_COUNT; dtype++) {
                if (!coll_op_supports(op, (coll_dtype_t)dtype))
                    continue;
                fill(op, (coll_dtype_t)dtype, lefts, LONGEST, 0, 1);
                fill(op, (coll_dtype_t)dtype, rights, LONGEST, 0, 2);
                coll__data_kernel_at(COLL__CPU_BASE, op, (coll_dtype_t)dtype)(lefts, rights, expected, LONGEST);
                coll__data_kernel_at((coll__cpu_level_t)level, op, (coll_dtype_t)dtype)(lefts, rights, targets,
                                                                                        LONGEST);
                assert_int_equal(coll__reference_differ((coll_dtype_t)dtype, targets, expected, LONGEST), -1);
            }
        }
    }
}

/* A fused multiply-add would give another last bit here: (1+e)(1+e) - (1+2e) is e^2 when fused, 0 when rounded. */
static void test_products_are_not_fused(void **state) {
    (void)state;
    const double e = 0x1p-30;
    const double left[] = {1 + e, 1}, right[] = {1 + e, 1 + 2 * e};
    for (int level = 0; level <= (int)coll__cpu_level(); level++) {
        double product[2];
        coll__data_kernel_at((coll__cpu_level_t)level, COLL_PROD, COLL_COMPLEX128)(left, right, product, 1);
        assert_true(product[0] == 0.0);
    }
}

static void test_choice(void **state) {
    (void)state;
    assert_ptr_equal(coll__kernel_set(), coll__kernel_set_at(coll__cpu_level()));
    assert_ptr_equal(coll__data_kernel(COLL_SUM, COLL_FLOAT64),
                     coll__data_kernel_at(coll__cpu_level(), COLL_SUM, COLL_FLOAT64));
    assert_null(coll__data_kernel(COLL_OP_COUNT, COLL_FLOAT64));
    assert_null(coll__data_kernel(-1, COLL_FLOAT64));
    assert_null(coll__data_kernel(COLL_SUM, COLL_DTYPE_COUNT));
    assert_null(coll__data_kernel(COLL_MIN, COLL_COMPLEX64));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_base),         cmocka_unit_test(test_avx2),
        cmocka_unit_test(test_avx512),       cmocka_unit_test(test_table_is_full),
        cmocka_unit_test(test_levels_agree), cmocka_unit_test(test_products_are_not_fused),
        cmocka_unit_test(test_choice),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
