/* What the verifier's two parts share: verify_check.c looks at one rank's schedule alone, verify.c runs all together.
 */
#ifndef COLL__TEST_VERIFY_INTERNAL_H
#define COLL__TEST_VERIFY_INTERNAL_H

#include "support/verify.h"

/* A rank's memory; of a schedule that is run in place, SEND lies inside RECV. */
typedef struct coll__verify_memory {
    char *at[COLL__BUF_COUNT];
    size_t bytes[COLL__BUF_COUNT];
} coll__verify_memory_t;

typedef struct coll__verify_access {
    const char *begin, *end;
    bool writes;
    int step;
} coll__verify_access_t;

/* The faults that one rank's schedule shows by itself. `flights` has room for every step. */
bool coll__verify_check(const coll__plan_t *plan, const coll__sched_t *sched, int rank,
                        const coll__verify_memory_t *memory, coll__verify_access_t *flights, char *fault,
                        size_t fault_bytes);

#endif
