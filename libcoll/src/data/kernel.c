/* Chooses kernels by the CPU. */
#include "data/kernel.h"

const coll__kernel_set_t *coll__kernel_set_at(coll__cpu_level_t level) {
#if defined(__x86_64__)
    switch (level) {
    case COLL__CPU_AVX512:
        return &coll__kernels_avx512;
    case COLL__CPU_AVX2:
        return &coll__kernels_avx2;
    default:
        break;
    }
#else
    (void)level;
#endif
    return &coll__kernels_base;
}

const coll__kernel_set_t *coll__kernel_set(void) {
    return coll__kernel_set_at(coll__cpu_level());
}

coll__kernel_t coll__data_kernel_at(coll__cpu_level_t level, coll_op_t op, coll_dtype_t dtype) {
    if (op < 0 || op >= COLL_OP_COUNT || (unsigned)dtype >= COLL_DTYPE_COUNT)
        return NULL;
    return coll__kernel_set_at(level)->combine[op][dtype];
}

coll__kernel_t coll__data_kernel(coll_op_t op, coll_dtype_t dtype) {
    return coll__data_kernel_at(coll__cpu_level(), op, dtype);
}
