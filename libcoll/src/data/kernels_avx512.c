/* Kernels for CPUs with AVX-512 (F, BW, DQ, VL). The target reaches to the end of the file. */
#include "data/kernel.h"

#if defined(__x86_64__)
#include <immintrin.h>

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,f16c,avx512f,avx512bw,avx512dq,avx512vl"))), \
                             apply_to = function)
#else
#pragma GCC target("avx2,f16c,avx512f,avx512bw,avx512dq,avx512vl")
#endif

#define KERNEL_F16C
#define KERNEL_SET coll__kernels_avx512
#include "data/kernel_body.h"

#if defined(__clang__)
#pragma clang attribute pop
#endif
#endif
