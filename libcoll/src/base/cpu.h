/* What the processor and the operating system give this process. */
#ifndef COLL__CPU_H
#define COLL__CPU_H

#include <stdint.h>

/* CPUs that this process may use: the affinity mask and the cgroup quota (v1 and v2, rounded up) counted; >= 1. */
int coll__cpu_count(void);

/* The affinity mask itself, so that the CPUs of several processes together can be counted: ranks that a launcher has
 * pinned have one each. All zero where the machine has more CPUs than fit. */
enum { COLL__CPU_MASK_WORDS = 16 };
void coll__cpu_mask(uint64_t mask[COLL__CPU_MASK_WORDS]);

/* Feature levels for kernels, each containing the ones before. */
typedef enum coll__cpu_level { COLL__CPU_BASE, COLL__CPU_AVX2, COLL__CPU_AVX512, COLL__CPU_LEVELS } coll__cpu_level_t;
coll__cpu_level_t coll__cpu_level(void); /* asked once */
const char *coll__cpu_level_name(coll__cpu_level_t level);

static inline void coll__cpu_pause(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

enum { COLL__CACHE_LINE = 64 };

#endif
