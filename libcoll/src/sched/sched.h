/* A schedule: the steps that one rank takes in one collective. Built by an algorithm, run by the engine, interpreted by
 * the simulator, drawn by the docs.
 *
 * Steps belong to rounds. Inside a round, steps are taken in the listed order: a SEND or RECV is only started, a REDUCE
 * or COPY is done at once. A round ends when all that it started has finished. Between two ranks, the k-th SEND of one
 * meets the k-th RECV of the other and has the same length (0 bytes are sent too).
 *
 * Buffers are named, not pointed to. COLL__BUF_SEND is the caller's input; in place it is the same memory as the
 * matching part of COLL__BUF_RECV (plan.in_place tells, so that no copy onto itself is planned). A broadcast has
 * COLL__BUF_RECV only, on every rank. On ranks other than the root, a reduce has no COLL__BUF_RECV.
 */
#ifndef COLL__SCHED_H
#define COLL__SCHED_H

#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "sched/plan.h"

typedef enum coll__step_kind {
    COLL__STEP_SEND,
    COLL__STEP_RECV,
    COLL__STEP_REDUCE,
    COLL__STEP_COPY,
    COLL__STEP_FOLD, /* many inputs in rank order, with one rounding at the end for half precision */
    COLL__STEP_NODE  /* the whole call, by the node layer on the shared segment */
} coll__step_kind_t;
typedef enum coll__buffer { COLL__BUF_SEND, COLL__BUF_RECV, COLL__BUF_SCRATCH, COLL__BUF_COUNT } coll__buffer_t;

typedef struct coll__ref {
    coll__buffer_t buffer;
    size_t offset; /* bytes */
} coll__ref_t;

static inline coll__ref_t coll__ref(coll__buffer_t buffer, size_t offset) {
    return (coll__ref_t){buffer, offset};
}

typedef struct coll__step {
    coll__step_kind_t kind;
    int round;
    int peer;     /* SEND, RECV: rank in the communicator */
    size_t bytes; /* a multiple of plan.element for REDUCE and FOLD */
    coll__ref_t
        source; /* SEND, COPY; REDUCE: the left operand (of lower ranks); FOLD: the others' inputs, back to back */
    coll__ref_t right;  /* REDUCE: the right operand; FOLD: this rank's input */
    coll__ref_t target; /* RECV, COPY, REDUCE, FOLD; may equal an operand */
    int inputs, place;  /* FOLD: how many inputs, and where among them `right` stands */
} coll__step_t;

typedef struct coll__sched {
    coll__step_t *steps;
    int step_count;
    int round_count; /* rounds with at least one step */
    size_t scratch_bytes;
} coll__sched_t;

/* ---- building: an algorithm calls these; coll__build_finish() reports if memory ran out ---- */

typedef struct coll__builder {
    coll__arena_t *arena;
    coll__step_t *steps;
    int step_count, capacity, round;
    size_t scratch_bytes;
    int status;
} coll__builder_t;

void coll__build_begin(coll__builder_t *builder, coll__arena_t *arena);
void coll__build_send(coll__builder_t *builder, int peer, coll__ref_t source, size_t bytes);
void coll__build_recv(coll__builder_t *builder, int peer, coll__ref_t target, size_t bytes);
void coll__build_reduce(coll__builder_t *builder, coll__ref_t left, coll__ref_t right, coll__ref_t target,
                        size_t bytes);
/* The fold of `inputs` inputs of `bytes` each in order: `own` is number `place`, the rest lie in `others` back to back.
 */
void coll__build_fold(coll__builder_t *builder, int place, int inputs, coll__ref_t own, coll__ref_t others,
                      coll__ref_t target, size_t bytes);
void coll__build_copy(coll__builder_t *builder, coll__ref_t source, coll__ref_t target, size_t bytes); /* 0: no step */
void coll__build_node(coll__builder_t *builder); /* the whole call as one node step */
/* What follows starts when all before has finished; empty rounds vanish. */
void coll__build_round(coll__builder_t *builder);
coll__ref_t coll__build_scratch(coll__builder_t *builder, size_t bytes); /* new scratch memory, aligned to 64 */
int coll__build_finish(coll__builder_t *builder, coll__sched_t *sched);  /* steps stay in the arena */

/* What makes the schedule for a plan: an algorithm's build function. It looks at the plan and nothing else. */
typedef void (*coll__build_fn)(const coll__plan_t *plan, coll__builder_t *builder);

/* ---- cache: schedules of one communicator by (build function, plan) ---- */

typedef struct coll__sched_cache coll__sched_cache_t;

coll__sched_cache_t *coll__sched_cache_create(size_t capacity); /* entries; the oldest unused one gives way */
/* Finds or builds. The schedule stays valid until it is released as often as it was got. */
int coll__sched_cache_get(coll__sched_cache_t *cache, coll__build_fn build, const coll__plan_t *plan,
                          const coll__sched_t **sched);
void coll__sched_cache_release(coll__sched_cache_t *cache, const coll__sched_t *sched);
void coll__sched_cache_free(coll__sched_cache_t *cache);

/* "round 0: recv 8 B from 1 into scratch+0" ... for logs and explain; returns the length as snprintf does. */
size_t coll__sched_print(const coll__sched_t *sched, char *text, size_t capacity);
/* "send+0", "recv+64", "scratch+0". */
void coll__ref_print(coll__ref_t ref, char *text, size_t capacity);

#endif
