/* The kernels of one CPU level, and which level is used. Internal to data/ and its tests. */
#ifndef COLL__KERNEL_H
#define COLL__KERNEL_H

#include "base/cpu.h"
#include "data/data.h"

typedef struct coll__kernel_set {
    coll__kernel_t combine[COLL_OP_COUNT][COLL_DTYPE_COUNT]; /* NULL: not supported */
    void (*widen_float16)(const uint16_t *from, float *to, size_t count);
    void (*narrow_float16)(const float *from, uint16_t *to, size_t count);
    void (*widen_bfloat16)(const uint16_t *from, float *to, size_t count);
    void (*narrow_bfloat16)(const float *from, uint16_t *to, size_t count);
} coll__kernel_set_t;

extern const coll__kernel_set_t coll__kernels_base;
#if defined(__x86_64__)
extern const coll__kernel_set_t coll__kernels_avx2, coll__kernels_avx512;
#endif

/* Of a level, or of the highest one below it that this build has; it may need a better CPU than this one. */
const coll__kernel_set_t *coll__kernel_set_at(coll__cpu_level_t level);
const coll__kernel_set_t *coll__kernel_set(void); /* for this CPU */

coll__kernel_t coll__data_kernel_at(coll__cpu_level_t level, coll_op_t op, coll_dtype_t dtype);

#endif
