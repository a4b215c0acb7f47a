/* Time: a monotonic clock in nanoseconds and deadlines on it. */
#ifndef COLL__CLOCK_H
#define COLL__CLOCK_H

#include <stdint.h>
#include <time.h>

static inline int64_t coll__now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

/* A moment on coll__now_ns()'s clock. */
#define COLL__NEVER INT64_MAX

/* seconds <= 0 means no limit, as COLL_TIMEOUT=0 does. */
static inline int64_t coll__deadline_after(double seconds) {
    return seconds > 0 && seconds < 1e9 ? coll__now_ns() + (int64_t)(seconds * 1e9) : COLL__NEVER;
}

#endif
