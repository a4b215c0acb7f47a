/* Rabenseifner's allreduce: reduce-scatter by recursive halving, allgather by recursive doubling. As few bytes as the
 * ring when P is a power of two, in 2 log2 P rounds instead of 2 (P - 1): for medium and long data. */
#include "algo/algo_table.h"
#include "algo/phase.h"

static void build(const coll__plan_t *plan, coll__builder_t *builder) {
    if (coll__phase_alone(plan, builder))
        return;
    coll__doubling_t doubling = coll__doubling(plan->rank, plan->size);
    coll__ref_t result = coll__recv_at(0);
    size_t element = plan->element, bytes = coll__plan_bytes(plan);
    coll__phase_halving_fold(plan, builder, &doubling, result);
    if (doubling.place < 0) {
        coll__build_recv(builder, doubling.fold, result, bytes);
        return;
    }
    for (int level = doubling.levels - 1; level >= 0; level--) {
        coll__range_t whole = coll__halving_range(plan->count, doubling.place, level);
        bool upper = coll__doubling_upper(&doubling, level);
        coll__range_t mine = coll__range_half(whole, upper), theirs = coll__range_half(whole, !upper);
        int peer = coll__doubling_peer(&doubling, level);
        coll__build_send(builder, peer, coll__ref_plus(result, mine.begin * element),
                         coll__range_count(mine) * element);
        coll__build_recv(builder, peer, coll__ref_plus(result, theirs.begin * element),
                         coll__range_count(theirs) * element);
        coll__build_round(builder);
    }
    if (doubling.fold >= 0)
        coll__build_send(builder, doubling.fold, result, bytes);
}

static uint64_t rounds(const coll__plan_t *plan) {
    coll__doubling_t doubling = coll__doubling(0, plan->size);
    return (uint64_t)(2 * doubling.levels + (doubling.extra ? 2 : 0));
}

static uint64_t messages(const coll__plan_t *plan) {
    coll__doubling_t doubling = coll__doubling(0, plan->size);
    return 2 * ((uint64_t)doubling.core * (uint64_t)doubling.levels + (uint64_t)doubling.extra);
}

/* Two that meet exchange one whole range between them, so the rounding of halves does not matter: (core - 1) n for each
 * phase, and n in and out for each rank too many. */
static uint64_t bytes(const coll__plan_t *plan) {
    return 2 * (uint64_t)(plan->size - 1) * coll__plan_bytes(plan);
}

const coll__algo_t coll__allreduce_rabenseifner = {
    .operation = COLL_OP_ALLREDUCE,
    .name = "rabenseifner",
    .summary = "reduce-scatter by recursive halving, allgather by recursive doubling",
    .restrictions = "",
    .rounds_text = "2 floor(log2 P); 2 more if P is not a power of two",
    .bytes_text = "2 (C - 1) / C n, C the largest power of two in P; n more if C is not P",
    .source = "Rabenseifner, Optimization of collective reduction operations, 2004",
    .build = build,
    .rounds = rounds,
    .messages = messages,
    .bytes = bytes,
};
