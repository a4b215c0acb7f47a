/* What an operator gives, one element at a time, written apart from the library: no code of libcoll/src is used, and
 * half precision is decoded and encoded by arithmetic instead of by bits. */
#ifndef COLL__TEST_REFERENCE_H
#define COLL__TEST_REFERENCE_H

#include <coll.h>

/* target[i] = left[i] op right[i]; the pair must be supported. AVG adds. */
void coll__reference_combine(coll_op_t op, coll_dtype_t dtype, const void *left, const void *right, void *target,
                             size_t count);

/* The division at the end of AVG. */
void coll__reference_divide(coll_dtype_t dtype, void *values, size_t count, int ranks);

/* Fills with values of all magnitudes: zeros of both signs, NaN, infinities, largest, smallest and ordinary ones. */
void coll__reference_fill(coll_dtype_t dtype, void *values, size_t count, uint64_t seed);

/* Fills with small whole numbers that every datatype can add up exactly (bool: 0 and 1). */
void coll__reference_fill_small(coll_dtype_t dtype, void *values, size_t count, uint64_t seed);

/* Pairs for MINLOC and MAXLOC: values of coll__reference_fill(), indices of coll__reference_fill_small(). */
void coll__reference_fill_pairs(coll_dtype_t dtype, void *values, size_t count, uint64_t seed);

/* The first index at which two arrays differ, -1 if there is none. NaNs are equal whatever their bits, zeros of unlike
 * sign are not. */
long coll__reference_differ(coll_dtype_t dtype, const void *a, const void *b, size_t count);

double coll__reference_from_half(coll_dtype_t dtype, uint16_t half);
uint16_t coll__reference_to_half(coll_dtype_t dtype, double value);

/* A fixed sequence of random numbers. */
uint64_t coll__reference_random(uint64_t *state);

#endif
