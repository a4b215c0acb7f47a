/* The end of an average: one division of the folded sum. */
#include "data/half.h"
#include "data/kernel.h"

#define DIVIDE(type, divisor_type)                                     \
    do {                                                               \
        type *elements = values;                                       \
        const divisor_type divisor = (divisor_type)ranks;              \
        for (size_t i = 0; i < count; i++)                             \
            elements[i] = (type)((divisor_type)elements[i] / divisor); \
    } while (0)

enum { BLOCK = 512 };

static void divide_half(void (*widen)(const uint16_t *, float *, size_t),
                        void (*narrow)(const float *, uint16_t *, size_t), uint16_t *elements, size_t count,
                        int ranks) {
    float wide[BLOCK];
    for (size_t done = 0; done < count; done += BLOCK) {
        size_t block = count - done < BLOCK ? count - done : BLOCK;
        widen(elements + done, wide, block);
        for (size_t i = 0; i < block; i++)
            wide[i] /= (float)ranks;
        narrow(wide, elements + done, block);
    }
}

void coll__data_finish(coll_op_t op, coll_dtype_t dtype, void *values, size_t count, int ranks) {
    if (op != COLL_AVG)
        return;
    const coll__kernel_set_t *kernels = coll__kernel_set();
    switch (dtype) {
    /* Small integers are divided as wider ones, which hold the number of ranks. */
    case COLL_INT8:
        DIVIDE(int8_t, int32_t);
        break;
    case COLL_INT16:
        DIVIDE(int16_t, int32_t);
        break;
    case COLL_INT32:
        DIVIDE(int32_t, int32_t);
        break;
    case COLL_INT64:
        DIVIDE(int64_t, int64_t);
        break;
    case COLL_UINT8:
        DIVIDE(uint8_t, uint32_t);
        break;
    case COLL_UINT16:
        DIVIDE(uint16_t, uint32_t);
        break;
    case COLL_UINT32:
        DIVIDE(uint32_t, uint32_t);
        break;
    case COLL_UINT64:
        DIVIDE(uint64_t, uint64_t);
        break;
    case COLL_FLOAT16:
        divide_half(kernels->widen_float16, kernels->narrow_float16, values, count, ranks);
        break;
    case COLL_BFLOAT16:
        divide_half(kernels->widen_bfloat16, kernels->narrow_bfloat16, values, count, ranks);
        break;
    case COLL_COMPLEX64:
        count *= 2;
        /* fall through */
    case COLL_FLOAT32:
        DIVIDE(float, float);
        break;
    case COLL_COMPLEX128:
        count *= 2;
        /* fall through */
    case COLL_FLOAT64:
        DIVIDE(double, double);
        break;
    case COLL_BOOL:
    case COLL_DTYPE_COUNT:
        break;
    }
}
