/* The algorithm table and single schedules, for the command line, the docs and their drawings. Works before
 * coll_init(). */
#include "algo/algo.h"
#include "base/env.h"
#include "base/error.h"
#include "topo/topo.h"

#include <stdlib.h>
#include <string.h>

enum { SIZE_MAX_DRAWN = 1 << 20, REF_TEXT = 32 };
static const size_t count_max = (size_t)1 << 40; /* with so many ranks, sizes still fit 64 bits */

size_t coll_algo_count(void) {
    return coll__algo_count();
}

static int find(size_t index, const coll__algo_t **algo) {
    *algo = coll__algo_get(index);
    if (*algo)
        return 0;
    return coll__error(COLL_ERR_ARG, "there is no algorithm %zu; allowed are 0 to %zu", index, coll__algo_count() - 1);
}

int coll_algo_get(size_t index, coll_algo_info_t *info) {
    const coll__algo_t *algo;
    if (!info)
        return coll__error(COLL_ERR_ARG, "info is NULL");
    int status = find(index, &algo);
    if (status != 0)
        return status;
    *info = (coll_algo_info_t){
        .operation = algo->operation,
        .name = algo->name,
        .summary = algo->summary,
        .restrictions = algo->restrictions,
        .rounds = algo->rounds_text,
        .bytes = algo->bytes_text,
        .source = algo->source,
        .ordered = algo->ordered,
    };
    return 0;
}

struct coll_schedule {
    coll__arena_t arena; /* where the steps are */
    coll__sched_t sched;
    char source[REF_TEXT], target[REF_TEXT]; /* of the step shown last */
};

static int check(const coll__algo_t *algo, const coll__plan_t *plan) {
    if (plan->size < 1 || plan->size > SIZE_MAX_DRAWN)
        return coll__error(COLL_ERR_ARG, "size is %d, allowed are 1 to %d", plan->size, (int)SIZE_MAX_DRAWN);
    if (plan->rank < 0 || plan->rank >= plan->size)
        return coll__error(COLL_ERR_ARG, "rank is %d, allowed are 0 to %d", plan->rank, plan->size - 1);
    if (plan->root < 0 || plan->root >= plan->size)
        return coll__error(COLL_ERR_ARG, "root is %d, allowed are 0 to %d", plan->root, plan->size - 1);
    if (plan->count > count_max)
        return coll__error(COLL_ERR_ARG, "count is %zu, allowed are 0 to %zu", plan->count, count_max);
    if (algo->applies && !algo->applies(plan))
        return coll__error(COLL_ERR_ARG, "%s by %s cannot run on %d ranks: %s", coll_operation_name(plan->operation),
                           algo->name, plan->size, algo->restrictions);
    return 0;
}

/* Every rank on a node of its own. */
static int make_topo(int size, coll__topo_t **topo) {
    int *labels = malloc((size_t)size * sizeof *labels);
    if (!labels)
        return coll__error(COLL_ERR_MEMORY, "out of memory for the topology of %d ranks", size);
    for (int rank = 0; rank < size; rank++)
        labels[rank] = rank;
    int status = coll__topo_create(labels, size, topo);
    free(labels);
    return status;
}

static int build(const coll__algo_t *algo, const coll__plan_t *plan, coll_schedule_t **out) {
    coll_schedule_t *schedule = calloc(1, sizeof *schedule);
    if (!schedule)
        return coll__error(COLL_ERR_MEMORY, "out of memory for a schedule");
    coll__builder_t builder;
    coll__arena_init(&schedule->arena, 4096);
    coll__build_begin(&builder, &schedule->arena);
    algo->build(plan, &builder);
    int status = coll__build_finish(&builder, &schedule->sched);
    if (status != 0)
        coll_schedule_free(schedule);
    else
        *out = schedule;
    return status;
}

int coll_schedule_create(size_t index, int rank, int size, int root, size_t count, coll_schedule_t **schedule) {
    const coll__algo_t *algo;
    coll__env_t env;
    coll__topo_t *topo = NULL;
    if (!schedule)
        return coll__error(COLL_ERR_ARG, "schedule is NULL");
    *schedule = NULL;
    int status = find(index, &algo);
    if (status == 0)
        status = coll__env_read(&env); /* trees have COLL_ARITY */
    if (status != 0)
        return status;
    coll__plan_t plan = {.operation = algo->operation,
                         .dtype = COLL_FLOAT64,
                         .op = COLL_SUM,
                         .commutative = true,
                         .rank = rank,
                         .size = size,
                         .root = root,
                         .count = algo->operation == COLL_OP_BARRIER ? 0 : count,
                         .element = sizeof(double),
                         .arity = env.arity};
    status = check(algo, &plan);
    if (status == 0)
        status = make_topo(size, &topo);
    plan.topo = topo;
    if (status == 0)
        status = build(algo, &plan, schedule);
    coll__topo_free(topo);
    return status;
}

size_t coll_schedule_steps(const coll_schedule_t *schedule) {
    return schedule ? (size_t)schedule->sched.step_count : 0;
}

int coll_schedule_step(coll_schedule_t *schedule, size_t index, coll_step_info_t *info) {
    static const char *const kinds[] = {
        [COLL__STEP_SEND] = "send", [COLL__STEP_RECV] = "recv", [COLL__STEP_REDUCE] = "reduce",
        [COLL__STEP_COPY] = "copy", [COLL__STEP_FOLD] = "fold", [COLL__STEP_NODE] = "node"};
    if (!schedule || !info)
        return coll__error(COLL_ERR_ARG, "%s is NULL", schedule ? "info" : "schedule");
    if (index >= coll_schedule_steps(schedule))
        return coll__error(COLL_ERR_ARG, "there is no step %zu; the schedule has %zu", index,
                           coll_schedule_steps(schedule));
    const coll__step_t *step = &schedule->sched.steps[index];
    schedule->source[0] = schedule->target[0] = 0;
    if (step->kind != COLL__STEP_RECV)
        coll__ref_print(step->source, schedule->source, sizeof schedule->source);
    if (step->kind != COLL__STEP_SEND)
        coll__ref_print(step->target, schedule->target, sizeof schedule->target);
    *info = (coll_step_info_t){
        .kind = kinds[step->kind],
        .round = step->round,
        .peer = step->peer,
        .bytes = step->bytes,
        .source = schedule->source,
        .target = schedule->target,
    };
    return 0;
}

void coll_schedule_free(coll_schedule_t *schedule) {
    if (!schedule)
        return;
    coll__arena_free(&schedule->arena);
    free(schedule);
}
