/* Rabenseifner's reduce: reduce-scatter by recursive halving, then the parts go to the root. Each rank sends about n
 * bytes and folds about n, where a tree makes its inner ranks fold n log2 P times: for long data.
 *
 * The parts go to the root directly rather than up a tree: they cross the network once, for the root alone. */
#include "algo/algo_table.h"
#include "algo/phase.h"

static void build(const coll__plan_t *plan, coll__builder_t *builder) {
    if (coll__phase_alone(plan, builder))
        return;
    coll__doubling_t doubling = coll__doubling(plan->rank, plan->size);
    bool is_root = plan->rank == plan->root;
    size_t element = plan->element;
    coll__ref_t into = coll__recv_at(0);
    if (!is_root && doubling.place >= 0)
        into = coll__build_scratch(builder, coll__plan_bytes(plan));
    coll__phase_halving_fold(plan, builder, &doubling, into);
    if (!is_root && doubling.place >= 0) {
        coll__range_t mine = coll__halving_range(plan->count, doubling.place, doubling.levels);
        coll__build_send(builder, plan->root, coll__ref_plus(into, mine.begin * element),
                         coll__range_count(mine) * element);
    }
    for (int place = 0; is_root && place < doubling.core; place++) {
        coll__range_t theirs = coll__halving_range(plan->count, place, doubling.levels);
        if (place != doubling.place)
            coll__build_recv(builder, coll__doubling_rank(&doubling, place), coll__recv_at(theirs.begin * element),
                             coll__range_count(theirs) * element);
    }
}

/* The longest chain begins with a fold into place q, passes all levels to its complement and goes on to the root,
 * unless that is the root: with one fold only, into place 0, the complement is the last rank. */
static uint64_t rounds(const coll__plan_t *plan) {
    coll__doubling_t doubling = coll__doubling(plan->root, plan->size);
    if (plan->size == 1)
        return 0;
    bool ends_at_root = doubling.extra == 1 && doubling.place == doubling.core - 1;
    return (uint64_t)(doubling.levels + 1 + (doubling.extra > 0 && !ends_at_root));
}

static uint64_t messages(const coll__plan_t *plan) {
    coll__doubling_t doubling = coll__doubling(plan->root, plan->size);
    uint64_t core = (uint64_t)doubling.core;
    return (uint64_t)doubling.extra + core * (uint64_t)doubling.levels + core - (doubling.place >= 0);
}

/* Folding in: n for each rank too many. A level of halving: n / 2 from each rank of the core at first, then half of
 * that, ...: (core - 1) n in all, whatever the rounding, since two that meet send one whole range between them. */
static uint64_t bytes(const coll__plan_t *plan) {
    coll__doubling_t doubling = coll__doubling(plan->root, plan->size);
    uint64_t elements = (uint64_t)(plan->size - 1) * plan->count + plan->count;
    if (doubling.place >= 0)
        elements -= coll__range_count(coll__halving_range(plan->count, doubling.place, doubling.levels));
    return elements * plan->element;
}

const coll__algo_t coll__reduce_rabenseifner = {
    .operation = COLL_OP_REDUCE,
    .name = "rabenseifner",
    .summary = "reduce-scatter by recursive halving, then gather at the root",
    .restrictions = "",
    .rounds_text = "floor(log2 P) + 1; 1 more if P is not a power of two (not for root P - 1 of P = 2^k + 1)",
    .bytes_text = "n",
    .source = "Rabenseifner, Optimization of collective reduction operations, 2004",
    .build = build,
    .rounds = rounds,
    .messages = messages,
    .bytes = bytes,
};
