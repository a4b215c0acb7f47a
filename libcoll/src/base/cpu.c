/* CPUs by affinity and cgroup quota; feature levels by cpuid. */
#include "base/cpu.h"

#include <errno.h>
#include <sched.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>
#if defined(__x86_64__) || defined(__i386__)
#include <cpuid.h>
#endif

#include "base/cgroup.h"

/* The kernel refuses a mask shorter than its own with EINVAL, so the mask grows until it fits. */
static int affinity_cpus(void) {
    enum { FIRST_MASK = 1024, LARGEST_MASK = 1 << 20 };
    for (int bits = FIRST_MASK; bits <= LARGEST_MASK; bits *= 2) {
        cpu_set_t *set = CPU_ALLOC(bits);
        if (set == NULL)
            break;
        size_t bytes = CPU_ALLOC_SIZE(bits);
        int failed = sched_getaffinity(0, bytes, set);
        int too_short = failed && errno == EINVAL;
        int cpus = failed ? 0 : CPU_COUNT_S(bytes, set);
        CPU_FREE(set);
        if (!failed)
            return cpus;
        if (!too_short)
            break;
    }
    return (int)sysconf(_SC_NPROCESSORS_ONLN);
}

void coll__cpu_mask(uint64_t mask[COLL__CPU_MASK_WORDS]) {
    cpu_set_t set;
    memset(mask, 0, COLL__CPU_MASK_WORDS * sizeof *mask);
    CPU_ZERO(&set);
    if (sched_getaffinity(0, sizeof set, &set) != 0)
        return;
    for (int cpu = 0; cpu < CPU_SETSIZE && cpu < COLL__CPU_MASK_WORDS * 64; cpu++)
        if (CPU_ISSET(cpu, &set))
            mask[cpu / 64] |= UINT64_C(1) << cpu % 64;
}

int coll__cpu_count(void) {
    int cpus = affinity_cpus();
    int quota = coll__cgroup_cpus("/proc/self/cgroup", "/sys/fs/cgroup");
    if (quota > 0 && quota < cpus)
        cpus = quota;
    return cpus > 1 ? cpus : 1;
}

static coll__cpu_level_t detect_level(void) {
#if defined(__x86_64__) || defined(__i386__)
    /* __builtin_cpu_supports also asks whether the operating system saves the wide registers; not every compiler knows
     * "f16c" there, and its registers are those of AVX. */
    unsigned eax, ebx, ecx, edx;
    __builtin_cpu_init();
    if (!__get_cpuid(1, &eax, &ebx, &ecx, &edx) || !(ecx & bit_F16C) || !__builtin_cpu_supports("avx2"))
        return COLL__CPU_BASE;
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl"))
        return COLL__CPU_AVX512;
    return COLL__CPU_AVX2;
#else
    return COLL__CPU_BASE;
#endif
}

coll__cpu_level_t coll__cpu_level(void) {
    static atomic_int known = -1; /* two threads that ask at once find the same */
    int level = atomic_load_explicit(&known, memory_order_relaxed);
    if (level < 0) {
        level = (int)detect_level();
        atomic_store_explicit(&known, level, memory_order_relaxed);
    }
    return (coll__cpu_level_t)level;
}

const char *coll__cpu_level_name(coll__cpu_level_t level) {
    static const char *const names[COLL__CPU_LEVELS] = {
        [COLL__CPU_BASE] = "base",
        [COLL__CPU_AVX2] = "avx2",
        [COLL__CPU_AVX512] = "avx512",
    };
    return (unsigned)level < COLL__CPU_LEVELS ? names[level] : "no such level";
}
