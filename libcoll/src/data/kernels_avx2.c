/* Kernels for CPUs with AVX2 and F16C. The target reaches to the end of the file. */
#include "data/kernel.h"

#if defined(__x86_64__)
#include <immintrin.h>

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,f16c"))), apply_to = function)
#else
#pragma GCC target("avx2,f16c")
#endif

#define KERNEL_F16C
#define KERNEL_SET coll__kernels_avx2
#include "data/kernel_body.h"

#if defined(__clang__)
#pragma clang attribute pop
#endif
#endif
