/* Many inputs into one target. Block by block: the running result of a block stays in the first-level cache while the
 * inputs stream by, and the target's block is written last, when every input's block has been read - so the target may
 * be any of the inputs. */
#include <string.h>

#include "data/kernel.h"

enum { BLOCK_BYTES = 8192 };

static const void *at(const void *array, size_t bytes) {
    return (const unsigned char *)array + bytes;
}

static size_t smaller(size_t a, size_t b) {
    return a < b ? a : b;
}

static void fold_plain(coll__kernel_t kernel, size_t size, const void *const *inputs, int input_count, void *target,
                       size_t count) {
    _Alignas(COLL__CACHE_LINE) unsigned char result[BLOCK_BYTES];
    const size_t block = BLOCK_BYTES / size;
    for (size_t done = 0; done < count; done += block) {
        const size_t n = smaller(count - done, block), offset = done * size;
        const void *left = at(inputs[0], offset);
        for (int i = 1; i + 1 < input_count; i++) {
            kernel(left, at(inputs[i], offset), result, n);
            left = result;
        }
        kernel(left, at(inputs[input_count - 1], offset), (unsigned char *)target + offset, n);
    }
}

static void fold_half(coll__kernel_t kernel, void (*widen)(const uint16_t *, float *, size_t),
                      void (*narrow)(const float *, uint16_t *, size_t), const void *const *inputs, int input_count,
                      uint16_t *target, size_t count) {
    enum { BLOCK = BLOCK_BYTES / sizeof(float) };
    _Alignas(COLL__CACHE_LINE) float result[BLOCK], right[BLOCK];
    for (size_t done = 0; done < count; done += BLOCK) {
        const size_t n = smaller(count - done, BLOCK), offset = done * sizeof(uint16_t);
        widen(at(inputs[0], offset), result, n);
        for (int i = 1; i < input_count; i++) {
            widen(at(inputs[i], offset), right, n);
            kernel(result, right, result, n);
        }
        narrow(result, target + done, n);
    }
}

void coll__data_fold(coll_op_t op, coll_dtype_t dtype, const void *const *inputs, int input_count, void *target,
                     size_t count) {
    const coll__kernel_set_t *kernels = coll__kernel_set();
    if (input_count == 1) {
        if (inputs[0] != target && count > 0)
            memcpy(target, inputs[0], count * coll_dtype_size(dtype));
    } else if (dtype == COLL_FLOAT16) {
        fold_half(kernels->combine[op][COLL_FLOAT32], kernels->widen_float16, kernels->narrow_float16, inputs,
                  input_count, target, count);
    } else if (dtype == COLL_BFLOAT16) {
        fold_half(kernels->combine[op][COLL_FLOAT32], kernels->widen_bfloat16, kernels->narrow_bfloat16, inputs,
                  input_count, target, count);
    } else {
        fold_plain(kernels->combine[op][dtype], coll_dtype_size(dtype), inputs, input_count, target, count);
    }
}
