/* Reduce-scatter by recursive vector halving: on each level, two neighbouring groups of ranks exchange halves of what
 * they still care for, and each folds one. Distances double, so that a group is always a run of consecutive ranks and
 * operands stay in rank order. See phase.h. */
#include "algo/phase.h"

coll__range_t coll__halving_range(size_t count, int place, int levels) {
    coll__range_t range = {0, count};
    for (int level = 0; level < levels; level++)
        range = coll__range_half(range, place >> level & 1);
    return range;
}

void coll__phase_halving_fold(const coll__plan_t *plan, coll__builder_t *builder, const coll__doubling_t *doubling,
                              coll__ref_t into) {
    size_t element = plan->element, bytes = coll__plan_bytes(plan);
    coll__ref_t part = coll__send_at(0);
    if (doubling->place < 0) {
        coll__build_send(builder, doubling->fold, part, bytes);
        coll__build_round(builder);
        return;
    }
    size_t half = (plan->count - plan->count / 2) * element;
    coll__ref_t arriving = coll__build_scratch(builder, doubling->fold >= 0 ? bytes : half);
    if (doubling->fold >= 0) {
        coll__build_recv(builder, doubling->fold, arriving, bytes);
        coll__build_round(builder);
        coll__build_reduce(builder, part, arriving, into, bytes);
        part = into;
    }
    coll__range_t range = {0, plan->count};
    for (int level = 0; level < doubling->levels; level++) {
        bool upper = coll__doubling_upper(doubling, level);
        int peer = coll__doubling_peer(doubling, level);
        coll__range_t keep = coll__range_half(range, upper), give = coll__range_half(range, !upper);
        size_t keep_bytes = coll__range_count(keep) * element;
        coll__build_send(builder, peer, coll__ref_plus(part, give.begin * element), coll__range_count(give) * element);
        coll__build_recv(builder, peer, arriving, keep_bytes);
        coll__build_round(builder);
        coll__ref_t kept = coll__ref_plus(part, keep.begin * element);
        coll__build_reduce(builder, upper ? arriving : kept, upper ? kept : arriving,
                           coll__ref_plus(into, keep.begin * element), keep_bytes);
        part = into;
        range = keep;
    }
}
