/* The builder: steps appended to an array in an arena. Short enough that a small schedule costs tens of nanoseconds. */
#include "base/error.h"
#include "sched/sched.h"

#include <limits.h>
#include <string.h>

enum { FIRST_CAPACITY = 32, SCRATCH_ALIGNMENT = 64 };

void coll__build_begin(coll__builder_t *builder, coll__arena_t *arena) {
    *builder = (coll__builder_t){.arena = arena};
}

static int grow(coll__builder_t *builder) {
    coll__step_t *steps = NULL;
    int capacity = builder->capacity ? builder->capacity : FIRST_CAPACITY / 2;
    if (builder->status == 0 && capacity <= INT_MAX / 2) {
        capacity *= 2;
        steps = coll__arena_alloc(builder->arena, (size_t)capacity * sizeof *steps);
    }
    if (!steps) {
        builder->status = COLL_ERR_MEMORY;
        return -1;
    }
    if (builder->step_count)
        memcpy(steps, builder->steps, (size_t)builder->step_count * sizeof *steps);
    builder->steps = steps;
    builder->capacity = capacity;
    return 0;
}

/* The next step's place, or NULL. Steps are written where they stay: passed by value they cost four times as much. */
static coll__step_t *next(coll__builder_t *builder) {
    if (builder->step_count == builder->capacity && grow(builder) != 0)
        return NULL;
    return &builder->steps[builder->step_count++];
}

void coll__build_send(coll__builder_t *builder, int peer, coll__ref_t source, size_t bytes) {
    coll__step_t *step = next(builder);
    if (step)
        *step = (coll__step_t){
            .kind = COLL__STEP_SEND, .round = builder->round, .peer = peer, .bytes = bytes, .source = source};
}

void coll__build_recv(coll__builder_t *builder, int peer, coll__ref_t target, size_t bytes) {
    coll__step_t *step = next(builder);
    if (step)
        *step = (coll__step_t){
            .kind = COLL__STEP_RECV, .round = builder->round, .peer = peer, .bytes = bytes, .target = target};
}

void coll__build_reduce(coll__builder_t *builder, coll__ref_t left, coll__ref_t right, coll__ref_t target,
                        size_t bytes) {
    coll__step_t *step = bytes ? next(builder) : NULL;
    if (step)
        *step = (coll__step_t){.kind = COLL__STEP_REDUCE,
                               .round = builder->round,
                               .peer = -1,
                               .bytes = bytes,
                               .source = left,
                               .right = right,
                               .target = target};
}

void coll__build_fold(coll__builder_t *builder, int place, int inputs, coll__ref_t own, coll__ref_t others,
                      coll__ref_t target, size_t bytes) {
    coll__step_t *step = bytes ? next(builder) : NULL;
    if (step)
        *step = (coll__step_t){.kind = COLL__STEP_FOLD,
                               .round = builder->round,
                               .peer = -1,
                               .bytes = bytes,
                               .source = others,
                               .right = own,
                               .target = target,
                               .inputs = inputs,
                               .place = place};
}

void coll__build_copy(coll__builder_t *builder, coll__ref_t source, coll__ref_t target, size_t bytes) {
    coll__step_t *step = bytes ? next(builder) : NULL;
    if (step)
        *step = (coll__step_t){.kind = COLL__STEP_COPY,
                               .round = builder->round,
                               .peer = -1,
                               .bytes = bytes,
                               .source = source,
                               .target = target};
}

void coll__build_node(coll__builder_t *builder) {
    coll__step_t *step = next(builder);
    if (step)
        *step = (coll__step_t){.kind = COLL__STEP_NODE, .round = builder->round, .peer = -1};
}

void coll__build_round(coll__builder_t *builder) {
    int last = builder->step_count - 1;
    if (last >= 0 && builder->steps[last].round == builder->round)
        builder->round++;
}

coll__ref_t coll__build_scratch(coll__builder_t *builder, size_t bytes) {
    coll__ref_t scratch = coll__ref(COLL__BUF_SCRATCH, builder->scratch_bytes);
    builder->scratch_bytes += (bytes + SCRATCH_ALIGNMENT - 1) / SCRATCH_ALIGNMENT * SCRATCH_ALIGNMENT;
    return scratch;
}

int coll__build_finish(coll__builder_t *builder, coll__sched_t *sched) {
    if (builder->status)
        return coll__error(builder->status, "out of memory for a schedule of more than %d steps", builder->step_count);
    *sched = (coll__sched_t){
        .steps = builder->steps,
        .step_count = builder->step_count,
        .round_count = builder->step_count ? builder->steps[builder->step_count - 1].round + 1 : 0,
        .scratch_bytes = builder->scratch_bytes,
    };
    return 0;
}
