/* The reference operators, on elements as plain structs. */
#include "support/reference.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* One element, or the value or index of a pair. Integers use `bits` (sign-extended if signed), others the doubles. */
typedef struct element {
    uint64_t bits;
    double real, imaginary;
} element_t;

enum kind { SIGNED, UNSIGNED, REAL, COMPLEX };

static enum kind kind_of(coll_dtype_t dtype) {
    switch (dtype) {
    case COLL_INT8:
    case COLL_INT16:
    case COLL_INT32:
    case COLL_INT64:
        return SIGNED;
    case COLL_FLOAT16:
    case COLL_BFLOAT16:
    case COLL_FLOAT32:
    case COLL_FLOAT64:
        return REAL;
    case COLL_COMPLEX64:
    case COLL_COMPLEX128:
        return COMPLEX;
    default:
        return UNSIGNED;
    }
}

uint64_t coll__reference_random(uint64_t *state) { /* splitmix64: Steele, Lea, Flood, OOPSLA 2014 */
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* ---- half precision ---- */

static void half_form(coll_dtype_t dtype, int *mantissa_bits, int *bias) {
    *mantissa_bits = dtype == COLL_FLOAT16 ? 10 : 7;
    *bias = dtype == COLL_FLOAT16 ? 15 : 127;
}

double coll__reference_from_half(coll_dtype_t dtype, uint16_t half) {
    int mantissa_bits, bias;
    half_form(dtype, &mantissa_bits, &bias);
    int exponent = (half & 0x7fff) >> mantissa_bits, mantissa = half & ((1 << mantissa_bits) - 1);
    double magnitude;
    if (exponent == 2 * bias + 1)
        magnitude = mantissa != 0 ? NAN : INFINITY;
    else if (exponent == 0)
        magnitude = ldexp(mantissa, 1 - bias - mantissa_bits);
    else
        magnitude = ldexp(mantissa + (1 << mantissa_bits), exponent - bias - mantissa_bits);
    return half & 0x8000 ? -magnitude : magnitude;
}

uint16_t coll__reference_to_half(coll_dtype_t dtype, double value) {
    int mantissa_bits, bias;
    half_form(dtype, &mantissa_bits, &bias);
    const uint16_t sign = signbit(value) ? 0x8000 : 0, infinity = (uint16_t)((2 * bias + 1) << mantissa_bits);
    if (isnan(value))
        return (uint16_t)(sign | infinity | 1 << (mantissa_bits - 1));
    double magnitude = fabs(value);
    if (magnitude == 0)
        return sign;
    if (isinf(value))
        return (uint16_t)(sign | infinity);
    int exponent = ilogb(magnitude);
    if (exponent < 1 - bias)
        exponent = 1 - bias;
    /* In units of the last place; nearbyint() rounds to nearest, ties to even. */
    double units = nearbyint(ldexp(magnitude, mantissa_bits - exponent));
    /* Units from 2^mantissa_bits on carry into the exponent by themselves, also to infinity. */
    long bits = (long)(exponent + bias - 1) * (1L << mantissa_bits) + (long)units;
    return (uint16_t)(sign | (bits < infinity ? bits : infinity));
}

/* ---- elements ---- */

static element_t load(coll_dtype_t dtype, const void *array, size_t index) {
    element_t element = {0, 0, 0};
    float f[2];
    double d[2];
    uint16_t half;
    const unsigned char *at = (const unsigned char *)array + index * coll_dtype_size(dtype);
    switch (dtype) {
    case COLL_FLOAT16:
    case COLL_BFLOAT16:
        memcpy(&half, at, sizeof half);
        element.real = coll__reference_from_half(dtype, half);
        break;
    case COLL_FLOAT32:
        memcpy(f, at, sizeof f[0]);
        element.real = f[0];
        break;
    case COLL_FLOAT64:
        memcpy(&element.real, at, sizeof element.real);
        break;
    case COLL_COMPLEX64:
        memcpy(f, at, sizeof f);
        element.real = f[0];
        element.imaginary = f[1];
        break;
    case COLL_COMPLEX128:
        memcpy(d, at, sizeof d);
        element.real = d[0];
        element.imaginary = d[1];
        break;
    default: {
        size_t size = coll_dtype_size(dtype);
        if (size == 1) {
            element.bits = *at;
        } else if (size == 2) {
            uint16_t v;
            memcpy(&v, at, sizeof v);
            element.bits = v;
        } else if (size == 4) {
            uint32_t v;
            memcpy(&v, at, sizeof v);
            element.bits = v;
        } else {
            memcpy(&element.bits, at, sizeof element.bits);
        }
        if (kind_of(dtype) == SIGNED && size < 8 && element.bits >> (8 * size - 1))
            element.bits |= ~UINT64_C(0) << (8 * size);
    }
    }
    return element;
}

static void store(coll_dtype_t dtype, void *array, size_t index, element_t element) {
    unsigned char *at = (unsigned char *)array + index * coll_dtype_size(dtype);
    float f[2] = {(float)element.real, (float)element.imaginary};
    double d[2] = {element.real, element.imaginary};
    uint8_t u8 = (uint8_t)element.bits;
    uint16_t u16 = (uint16_t)element.bits;
    uint32_t u32 = (uint32_t)element.bits;
    switch (dtype) {
    case COLL_FLOAT16:
    case COLL_BFLOAT16:
        u16 = coll__reference_to_half(dtype, element.real);
        memcpy(at, &u16, sizeof u16);
        break;
    case COLL_FLOAT32:
    case COLL_COMPLEX64:
        memcpy(at, f, coll_dtype_size(dtype));
        break;
    case COLL_FLOAT64:
    case COLL_COMPLEX128:
        memcpy(at, d, coll_dtype_size(dtype));
        break;
    case COLL_BOOL:
        u8 = element.bits != 0;
        memcpy(at, &u8, sizeof u8);
        break;
    default:
        switch (coll_dtype_size(dtype)) {
        case 1:
            memcpy(at, &u8, sizeof u8);
            break;
        case 2:
            memcpy(at, &u16, sizeof u16);
            break;
        case 4:
            memcpy(at, &u32, sizeof u32);
            break;
        default:
            memcpy(at, &element.bits, sizeof element.bits);
        }
    }
}

/* ---- operators ---- */

/* -1, 0, 1; a NaN is `nan_side` of everything else and equal to itself. */
static int compare(coll_dtype_t dtype, element_t a, element_t b, int nan_side) {
    switch (kind_of(dtype)) {
    case SIGNED:
        return ((int64_t)a.bits > (int64_t)b.bits) - ((int64_t)a.bits < (int64_t)b.bits);
    case UNSIGNED:
        return (a.bits > b.bits) - (a.bits < b.bits);
    default:
        if (isnan(a.real) || isnan(b.real))
            return nan_side * (!!isnan(a.real) - !!isnan(b.real));
        return (a.real > b.real) - (a.real < b.real);
    }
}

static int is_true(coll_dtype_t dtype, element_t a) {
    return kind_of(dtype) == REAL ? a.real != 0 || isnan(a.real) : a.bits != 0;
}

static element_t truth(int value) {
    return (element_t){(uint64_t)value, value, 0};
}

/* float32's results are exact in double before the one rounding of store(); half precision rounds to float32 between.
 */
static double rounded(coll_dtype_t dtype, double value) {
    return dtype == COLL_FLOAT64 || dtype == COLL_COMPLEX128 ? value : (double)(float)value;
}

static element_t multiply_complex(coll_dtype_t dtype, element_t a, element_t b) {
    double rr = rounded(dtype, a.real * b.real), ii = rounded(dtype, a.imaginary * b.imaginary);
    double ri = rounded(dtype, a.real * b.imaginary), ir = rounded(dtype, a.imaginary * b.real);
    return (element_t){0, rr - ii, ri + ir};
}

static element_t combine(coll_op_t op, coll_dtype_t dtype, element_t a, element_t b) {
    switch (op) {
    case COLL_SUM:
    case COLL_AVG:
        if (dtype == COLL_BOOL)
            return truth(a.bits || b.bits);
        return (element_t){a.bits + b.bits, rounded(dtype, a.real + b.real), a.imaginary + b.imaginary};
    case COLL_PROD:
        if (dtype == COLL_BOOL)
            return truth(a.bits && b.bits);
        if (kind_of(dtype) == COMPLEX)
            return multiply_complex(dtype, a, b);
        return (element_t){a.bits * b.bits, rounded(dtype, a.real * b.real), 0};
    case COLL_MIN: /* of two that compare equal, as zeros of unlike sign do, the right one, as numpy.minimum does */
        return isnan(a.real) || (!isnan(b.real) && compare(dtype, a, b, 0) < 0) ? a : b;
    case COLL_MAX:
        return isnan(a.real) || (!isnan(b.real) && compare(dtype, a, b, 0) > 0) ? a : b;
    case COLL_LAND:
        return truth(is_true(dtype, a) && is_true(dtype, b));
    case COLL_LOR:
        return truth(is_true(dtype, a) || is_true(dtype, b));
    case COLL_LXOR:
        return truth(is_true(dtype, a) != is_true(dtype, b));
    case COLL_BAND:
        return (element_t){a.bits & b.bits, 0, 0};
    case COLL_BOR:
        return (element_t){a.bits | b.bits, 0, 0};
    case COLL_BXOR:
        return (element_t){a.bits ^ b.bits, 0, 0};
    default:
        abort();
    }
}

static void combine_pair(coll_op_t op, coll_dtype_t dtype, const void *left, const void *right, void *target,
                         size_t pair) {
    element_t a = load(dtype, left, 2 * pair), a_index = load(dtype, left, 2 * pair + 1);
    element_t b = load(dtype, right, 2 * pair), b_index = load(dtype, right, 2 * pair + 1);
    int order = op == COLL_MINLOC ? compare(dtype, a, b, -1) : -compare(dtype, a, b, 1);
    int left_wins = order < 0 || (order == 0 && compare(dtype, a_index, b_index, 0) <= 0);
    store(dtype, target, 2 * pair, left_wins ? a : b);
    store(dtype, target, 2 * pair + 1, left_wins ? a_index : b_index);
}

void coll__reference_combine(coll_op_t op, coll_dtype_t dtype, const void *left, const void *right, void *target,
                             size_t count) {
    if (op == COLL_MINLOC || op == COLL_MAXLOC) {
        for (size_t pair = 0; pair < count / 2; pair++)
            combine_pair(op, dtype, left, right, target, pair);
        return;
    }
    for (size_t i = 0; i < count; i++)
        store(dtype, target, i, combine(op, dtype, load(dtype, left, i), load(dtype, right, i)));
}

void coll__reference_divide(coll_dtype_t dtype, void *values, size_t count, int ranks) {
    for (size_t i = 0; i < count; i++) {
        element_t a = load(dtype, values, i);
        if (kind_of(dtype) == SIGNED) { /* by magnitudes, so that it truncates whatever the language says */
            uint64_t magnitude = (int64_t)a.bits < 0 ? 0 - a.bits : a.bits;
            uint64_t quotient = magnitude / (uint64_t)ranks;
            a.bits = (int64_t)a.bits < 0 ? 0 - quotient : quotient;
        } else {
            a.bits /= (uint64_t)ranks;
        }
        double divisor = rounded(dtype, ranks);
        a.real = rounded(dtype, a.real / divisor);
        a.imaginary = rounded(dtype, a.imaginary / divisor);
        store(dtype, values, i, a);
    }
}

/* ---- data ---- */

static double special_real(uint64_t choice) {
    static const double values[] = {0.0,    -0.0,     1.0,    -1.0,   NAN,      INFINITY, -INFINITY, 65504.0, 65519.9,
                                    3.4e38, -3.4e38,  1e-45,  6e-8,   6.1e-5,   -6e-8,    1e-40,     2048.0,  1.7e308,
                                    1e-310, 2.2e-308, 1 / 3., 1000.5, -1000.25, 1024.0,   3.0,       2.0,     -7.0};
    return values[choice % (sizeof values / sizeof values[0])];
}

static uint64_t special_bits(uint64_t choice, size_t size) {
    const uint64_t top = UINT64_C(1) << (8 * size - 1);
    const uint64_t values[] = {0, 1, ~UINT64_C(0), top, top - 1, top + 1, 2, 3};
    return values[choice % (sizeof values / sizeof values[0])];
}

void coll__reference_fill(coll_dtype_t dtype, void *values, size_t count, uint64_t seed) {
    for (size_t i = 0; i < count; i++) {
        uint64_t choice = coll__reference_random(&seed), random = coll__reference_random(&seed);
        element_t element;
        if (choice % 3 == 0) {
            element.bits = special_bits(choice >> 8, coll_dtype_size(dtype) > 8 ? 8 : coll_dtype_size(dtype));
            element.real = special_real(choice >> 8);
            element.imaginary = special_real(choice >> 20);
        } else {
            element.bits = choice % 3 == 1 ? random : random % 16;
            element.real = ldexp((double)(int64_t)random, (int)(choice >> 8 & 31) - 63 - 8);
            element.imaginary = ldexp((double)(int64_t)(random * 7), (int)(choice >> 16 & 31) - 63 - 8);
        }
        if (dtype == COLL_BOOL)
            element.bits &= 1;
        store(dtype, values, i, element);
    }
}

void coll__reference_fill_small(coll_dtype_t dtype, void *values, size_t count, uint64_t seed) {
    for (size_t i = 0; i < count; i++) {
        uint64_t random = coll__reference_random(&seed);
        element_t element = {random % 4, (double)(random % 4), (double)(random >> 8 & 3)};
        if (dtype == COLL_BOOL)
            element.bits &= 1;
        store(dtype, values, i, element);
    }
}

void coll__reference_fill_pairs(coll_dtype_t dtype, void *values, size_t count, uint64_t seed) {
    coll__reference_fill(dtype, values, count, seed);
    for (size_t i = 1; i < count; i += 2)
        coll__reference_fill_small(dtype, (unsigned char *)values + i * coll_dtype_size(dtype), 1, seed + i);
}

static int same_real(double a, double b) {
    return (isnan(a) && isnan(b)) || (a == b && !signbit(a) == !signbit(b));
}

long coll__reference_differ(coll_dtype_t dtype, const void *a, const void *b, size_t count) {
    for (size_t i = 0; i < count; i++) {
        element_t x = load(dtype, a, i), y = load(dtype, b, i);
        if (x.bits != y.bits || !same_real(x.real, y.real) || !same_real(x.imaginary, y.imaginary))
            return (long)i;
    }
    return -1;
}
