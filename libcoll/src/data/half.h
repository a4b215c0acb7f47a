/* float16 (IEEE binary16) and bfloat16 as bits, to and from float32, in plain arithmetic without branches so that loops
 * over them vectorise. Rounds to nearest, ties to even. A NaN stays a NaN, made quiet, with the upper bits of its
 * payload: what the conversion instructions of F16C do, so that every CPU level gives the same bits. */
#ifndef COLL__HALF_H
#define COLL__HALF_H

#include <stdint.h>
#include <string.h>

static inline uint32_t coll__float_bits(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline float coll__float_of_bits(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* condition ? yes : no, which a compiler does not turn into a branch around the arithmetic that makes `no`. */
static inline uint32_t coll__select(int condition, uint32_t yes, uint32_t no) {
    const uint32_t mask = 0u - (uint32_t)condition;
    return (yes & mask) | (no & ~mask);
}

static inline float coll__from_float16(uint16_t half) {
    const uint32_t rebias = (127 - 15) << 23;
    uint32_t magnitude = half & 0x7fffu;
    uint32_t normal = (magnitude << 13) + rebias;
    uint32_t special = normal + rebias; /* infinity and NaN: the exponent becomes all ones */
    uint32_t quiet = (uint32_t)(magnitude > 0x7c00) << 22;
    uint32_t subnormal = coll__float_bits((float)(int32_t)magnitude * 0x1p-24f); /* also zero */
    uint32_t bits =
        coll__select(magnitude >= 0x7c00, special | quiet, coll__select(magnitude >= 0x0400, normal, subnormal));
    return coll__float_of_bits(bits | (uint32_t)(half & 0x8000u) << 16);
}

static inline uint16_t coll__to_float16(float value) {
    const uint32_t rebias = (127 - 15) << 23;
    const uint32_t infinity = 0x7f800000, too_large = 0x47800000 /* 65536 */, smallest_normal = 0x38800000 /* 2^-14 */;
    uint32_t bits = coll__float_bits(value);
    uint32_t magnitude = bits & 0x7fffffff;
    uint32_t normal = (magnitude - rebias + 0xfff + (magnitude >> 13 & 1)) >> 13;
    /* One half has its last bit where a subnormal float16 has it, so the addition rounds there. */
    uint32_t subnormal = coll__float_bits(coll__float_of_bits(magnitude) + 0.5f) - coll__float_bits(0.5f);
    uint32_t nan = 0x7e00 | (magnitude >> 13 & 0x3ff);
    uint32_t finite = coll__select(magnitude >= smallest_normal, normal, subnormal);
    uint32_t half = coll__select(magnitude > infinity, nan, coll__select(magnitude >= too_large, 0x7c00, finite));
    return (uint16_t)(half | (bits >> 16 & 0x8000));
}

static inline float coll__from_bfloat16(uint16_t half) {
    return coll__float_of_bits((uint32_t)half << 16);
}

static inline uint16_t coll__to_bfloat16(float value) {
    uint32_t bits = coll__float_bits(value);
    uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
    uint32_t nan = bits >> 16 | 0x40;
    return (uint16_t)coll__select((bits & 0x7fffffff) > 0x7f800000, nan, rounded);
}

#endif
