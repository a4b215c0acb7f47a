/* The kernels, for whatever CPU level is being compiled: kernels_<level>.c sets the target and includes this file.
 *
 * Plain loops that the compiler vectorises. A target is one of the operands or apart from both, so no iteration depends
 * on another one; INDEPENDENT says that to the compiler, which else would fall back to one element at a time when it
 * finds the target equal to an operand. Conditions are combined with | and & because branches do not vectorise.
 * Integers are added and multiplied as unsigned, which wraps; the signed types share those kernels, and bool those of
 * uint8. The build compiles these files with -O3 and without fused multiply-adds, so that every level gives the same
 * bits.
 */
#include <stdint.h>

#include "data/half.h"
#include "data/kernel.h"

#if defined(__clang__)
#define INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#elif defined(__GNUC__)
#define INDEPENDENT _Pragma("GCC ivdep")
#else
#define INDEPENDENT
#endif

/* GCC 12 makes one instruction of the products and the alternating -, + of a complex multiplication even when told not
 * to fuse. It leaves a product alone that is marked as not to be reassociated. */
#if defined(__has_builtin)
#if __has_builtin(__builtin_assoc_barrier)
#define ROUNDED(product) __builtin_assoc_barrier(product)
#endif
#endif
#if !defined(ROUNDED)
#define ROUNDED(product) (product)
#endif

/* One copy of each loop: kernels that are made of others call them once for a block. */
#define FUNCTION static __attribute__((noinline)) void

/* result: an expression of a and b. */
#define KERNEL(op, name, type, result)                                                      \
    FUNCTION op##_##name(const void *left, const void *right, void *target, size_t count) { \
        const type *lefts = left, *rights = right;                                          \
        type *targets = target;                                                             \
        INDEPENDENT                                                                         \
        for (size_t i = 0; i < count; i++) {                                                \
            const type a = lefts[i], b = rights[i];                                         \
            targets[i] = (type)(result);                                                    \
        }                                                                                   \
    }

/* left_wins: an expression of values a, b and indices a_index, b_index. */
#define PAIR_KERNEL(op, name, type, left_wins)                                              \
    FUNCTION op##_##name(const void *left, const void *right, void *target, size_t count) { \
        const type *lefts = left, *rights = right;                                          \
        type *targets = target;                                                             \
        INDEPENDENT                                                                         \
        for (size_t i = 0; i < count / 2; i++) {                                            \
            const type a = lefts[2 * i], a_index = lefts[2 * i + 1];                        \
            const type b = rights[2 * i], b_index = rights[2 * i + 1];                      \
            const int keep = (left_wins);                                                   \
            targets[2 * i] = keep ? a : b;                                                  \
            targets[2 * i + 1] = keep ? a_index : b_index;                                  \
        }                                                                                   \
    }

#define LOGIC_KERNELS(name, type)                 \
    KERNEL(land, name, type, (a != 0) & (b != 0)) \
    KERNEL(lor, name, type, (a != 0) | (b != 0))  \
    KERNEL(lxor, name, type, (a != 0) != (b != 0))

#define INTEGER_ORDER_KERNELS(name, type)                                        \
    KERNEL(min, name, type, a < b ? a : b)                                       \
    KERNEL(max, name, type, a > b ? a : b)                                       \
    PAIR_KERNEL(minloc, name, type, (a < b) | ((a == b) & (a_index <= b_index))) \
    PAIR_KERNEL(maxloc, name, type, (a > b) | ((a == b) & (a_index <= b_index)))

/* `wide` keeps the product of two small unsigned integers from becoming a signed overflow. */
#define UNSIGNED_KERNELS(name, type, wide)        \
    KERNEL(sum, name, type, ((wide)a + (wide)b))  \
    KERNEL(prod, name, type, ((wide)a * (wide)b)) \
    KERNEL(band, name, type, (a & b))             \
    KERNEL(bor, name, type, (a | b))              \
    KERNEL(bxor, name, type, (a ^ b))             \
    LOGIC_KERNELS(name, type)                     \
    INTEGER_ORDER_KERNELS(name, type)

/* A NaN is kept by min and max, the left one first; for minloc and maxloc it is beyond every number, as in numpy's
 * argmin and argmax. */
#define NAN_WINS(better) \
    ((better) | ((a != a) & (b == b)) | (((a == b) | ((a != a) & (b != b))) & (a_index <= b_index)))
#define REAL_KERNELS(name, type)                          \
    KERNEL(sum, name, type, (a + b))                      \
    KERNEL(prod, name, type, (a * b))                     \
    KERNEL(min, name, type, ((a < b) | (a != a)) ? a : b) \
    KERNEL(max, name, type, ((a > b) | (a != a)) ? a : b) \
    LOGIC_KERNELS(name, type)                             \
    PAIR_KERNEL(minloc, name, type, NAN_WINS(a < b))      \
    PAIR_KERNEL(maxloc, name, type, NAN_WINS(a > b))

#define COMPLEX_KERNELS(name, type, part_name)                                              \
    FUNCTION sum_##name(const void *left, const void *right, void *target, size_t count) {  \
        sum_##part_name(left, right, target, 2 * count);                                    \
    }                                                                                       \
    FUNCTION prod_##name(const void *left, const void *right, void *target, size_t count) { \
        const type *lefts = left, *rights = right;                                          \
        type *targets = target;                                                             \
        INDEPENDENT                                                                         \
        for (size_t i = 0; i < count; i++) {                                                \
            const type a = lefts[2 * i], a_imaginary = lefts[2 * i + 1];                    \
            const type b = rights[2 * i], b_imaginary = rights[2 * i + 1];                  \
            targets[2 * i] = ROUNDED(a * b) - ROUNDED(a_imaginary * b_imaginary);           \
            targets[2 * i + 1] = ROUNDED(a * b_imaginary) + ROUNDED(a_imaginary * b);       \
        }                                                                                   \
    }

UNSIGNED_KERNELS(uint8, uint8_t, uint32_t)
UNSIGNED_KERNELS(uint16, uint16_t, uint32_t)
UNSIGNED_KERNELS(uint32, uint32_t, uint32_t)
UNSIGNED_KERNELS(uint64, uint64_t, uint64_t)
INTEGER_ORDER_KERNELS(int8, int8_t)
INTEGER_ORDER_KERNELS(int16, int16_t)
INTEGER_ORDER_KERNELS(int32, int32_t)
INTEGER_ORDER_KERNELS(int64, int64_t)
REAL_KERNELS(float32, float)
REAL_KERNELS(float64, double)
COMPLEX_KERNELS(complex64, float, float32)
COMPLEX_KERNELS(complex128, double, float64)

/* ---- half precision: through float32, a block at a time that stays in the first-level cache ---- */

FUNCTION widen_bfloat16(const uint16_t *from, float *to, size_t count) {
    for (size_t i = 0; i < count; i++)
        to[i] = coll__from_bfloat16(from[i]);
}

FUNCTION narrow_bfloat16(const float *from, uint16_t *to, size_t count) {
    for (size_t i = 0; i < count; i++)
        to[i] = coll__to_bfloat16(from[i]);
}

FUNCTION widen_float16(const uint16_t *from, float *to, size_t count) {
    size_t i = 0;
#if defined(KERNEL_F16C)
    for (; i + 8 <= count; i += 8)
        _mm256_storeu_ps(to + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)(from + i))));
#endif
    for (; i < count; i++)
        to[i] = coll__from_float16(from[i]);
}

FUNCTION narrow_float16(const float *from, uint16_t *to, size_t count) {
    size_t i = 0;
#if defined(KERNEL_F16C)
    for (; i + 8 <= count; i += 8)
        _mm_storeu_si128((__m128i *)(void *)(to + i),
                         _mm256_cvtps_ph(_mm256_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT));
#endif
    for (; i < count; i++)
        to[i] = coll__to_float16(from[i]);
}

enum { HALF_BLOCK = 512 };

#define HALF_KERNEL(op, name)                                                               \
    FUNCTION op##_##name(const void *left, const void *right, void *target, size_t count) { \
        const uint16_t *lefts = left, *rights = right;                                      \
        uint16_t *targets = target;                                                         \
        float a[HALF_BLOCK], b[HALF_BLOCK];                                                 \
        for (size_t done = 0; done < count; done += HALF_BLOCK) {                           \
            size_t block = count - done < HALF_BLOCK ? count - done : HALF_BLOCK;           \
            widen_##name(lefts + done, a, block);                                           \
            widen_##name(rights + done, b, block);                                          \
            op##_float32(a, b, a, block);                                                   \
            narrow_##name(a, targets + done, block);                                        \
        }                                                                                   \
    }

#define HALF_KERNELS(name)    \
    HALF_KERNEL(sum, name)    \
    HALF_KERNEL(prod, name)   \
    HALF_KERNEL(min, name)    \
    HALF_KERNEL(max, name)    \
    HALF_KERNEL(land, name)   \
    HALF_KERNEL(lor, name)    \
    HALF_KERNEL(lxor, name)   \
    HALF_KERNEL(minloc, name) \
    HALF_KERNEL(maxloc, name)

HALF_KERNELS(float16)
HALF_KERNELS(bfloat16)

/* ---- the table ---- */

/* signed and unsigned: what depends on the order has kernels of its own. */
#define ORDER_ROWS(dtype, name)                                                                           \
    [COLL_MIN][dtype] = min_##name, [COLL_MAX][dtype] = max_##name, [COLL_MINLOC][dtype] = minloc_##name, \
    [COLL_MAXLOC][dtype] = maxloc_##name
#define ARITHMETIC_ROWS(dtype, name) \
    [COLL_SUM][dtype] = sum_##name, [COLL_AVG][dtype] = sum_##name, [COLL_PROD][dtype] = prod_##name
#define LOGIC_ROWS(dtype, name) \
    [COLL_LAND][dtype] = land_##name, [COLL_LOR][dtype] = lor_##name, [COLL_LXOR][dtype] = lxor_##name
#define BIT_ROWS(dtype, name) \
    [COLL_BAND][dtype] = band_##name, [COLL_BOR][dtype] = bor_##name, [COLL_BXOR][dtype] = bxor_##name
#define INTEGER_ROWS(dtype, name, unsigned_name)                                                      \
    ORDER_ROWS(dtype, name), ARITHMETIC_ROWS(dtype, unsigned_name), LOGIC_ROWS(dtype, unsigned_name), \
        BIT_ROWS(dtype, unsigned_name)
#define REAL_ROWS(dtype, name) ORDER_ROWS(dtype, name), ARITHMETIC_ROWS(dtype, name), LOGIC_ROWS(dtype, name)

const coll__kernel_set_t KERNEL_SET = {
    .combine =
        {
            [COLL_SUM][COLL_BOOL] = lor_uint8,          [COLL_MAX][COLL_BOOL] = lor_uint8,
            [COLL_BOR][COLL_BOOL] = lor_uint8,          [COLL_PROD][COLL_BOOL] = land_uint8,
            [COLL_MIN][COLL_BOOL] = land_uint8,         [COLL_BAND][COLL_BOOL] = land_uint8,
            [COLL_BXOR][COLL_BOOL] = lxor_uint8,        LOGIC_ROWS(COLL_BOOL, uint8),
            INTEGER_ROWS(COLL_INT8, int8, uint8),       INTEGER_ROWS(COLL_INT16, int16, uint16),
            INTEGER_ROWS(COLL_INT32, int32, uint32),    INTEGER_ROWS(COLL_INT64, int64, uint64),
            INTEGER_ROWS(COLL_UINT8, uint8, uint8),     INTEGER_ROWS(COLL_UINT16, uint16, uint16),
            INTEGER_ROWS(COLL_UINT32, uint32, uint32),  INTEGER_ROWS(COLL_UINT64, uint64, uint64),
            REAL_ROWS(COLL_FLOAT16, float16),           REAL_ROWS(COLL_BFLOAT16, bfloat16),
            REAL_ROWS(COLL_FLOAT32, float32),           REAL_ROWS(COLL_FLOAT64, float64),
            ARITHMETIC_ROWS(COLL_COMPLEX64, complex64), ARITHMETIC_ROWS(COLL_COMPLEX128, complex128),
        },
    .widen_float16 = widen_float16,
    .narrow_float16 = narrow_float16,
    .widen_bfloat16 = widen_bfloat16,
    .narrow_bfloat16 = narrow_bfloat16,
};
