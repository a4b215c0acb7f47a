/* What the bench needs from C: the bare figures that nothing built on shared memory can beat, and libcoll's calls in
 * a loop, so that what Python adds to them can be told apart. Times are nanoseconds a round; below 0 is a status.
 */
#include <sched.h>
#include <string.h>
#include <time.h>

enum { PYCOLL_PROBE_LINE = 128 }; /* bytes; two cache lines, which are fetched in pairs */

static double pycoll_probe_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static void pycoll_probe_pause(int yield) {
    if (yield) {
        sched_yield();
        return;
    }
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* Each of `size` processes raises its flag and waits for all the others': the least in which all can know of all.
 * `lines` is zeroed memory that they share, one line for each.
 */
PYCOLL_API double pycoll_probe_flags(void *lines, int rank, int size, int rounds, int yield) {
    char *flags = lines;
    uint64_t *mine = (uint64_t *)(flags + (size_t)rank * PYCOLL_PROBE_LINE);
    uint64_t at = *mine;
    double start = pycoll_probe_now();
    for (int i = 0; i < rounds; i++) {
        __atomic_store_n(mine, ++at, __ATOMIC_RELEASE);
        for (int peer = 0; peer < size; peer++) {
            const uint64_t *theirs = (const uint64_t *)(flags + (size_t)peer * PYCOLL_PROBE_LINE);
            while (__atomic_load_n(theirs, __ATOMIC_ACQUIRE) < at)
                pycoll_probe_pause(yield);
        }
    }
    return (pycoll_probe_now() - start) / rounds;
}

PYCOLL_API double pycoll_probe_copy(void *to, const void *from, size_t bytes, int rounds) {
    double start = pycoll_probe_now();
    for (int i = 0; i < rounds; i++) {
        memcpy(to, from, bytes);
        __asm__ volatile("" : : "r"(to), "r"(from) : "memory"); /* each copy counts */
    }
    return (pycoll_probe_now() - start) / rounds;
}

PYCOLL_API double pycoll_probe_allreduce(const void *x, void *out, size_t count, coll_dtype_t dtype, coll_op_t op,
                                         coll_comm_t *comm, int rounds) {
    double start = pycoll_probe_now();
    for (int i = 0; i < rounds; i++) {
        int status = coll_allreduce(x, out, count, dtype, op, comm);
        if (status)
            return status;
    }
    return (pycoll_probe_now() - start) / rounds;
}

PYCOLL_API double pycoll_probe_run(coll_request_t *request, int rounds) {
    double start = pycoll_probe_now();
    for (int i = 0; i < rounds; i++) {
        int status = coll_run(request, -1);
        if (status)
            return status;
    }
    return (pycoll_probe_now() - start) / rounds;
}
