/* Phases that start and end an algorithm: own input, trees, folds in rank order; see phase.h. */
#include "algo/phase.h"

#include "pattern/ring.h"

void coll__phase_own(const coll__plan_t *plan, coll__builder_t *builder, coll__ref_t target) {
    if (!plan->in_place)
        coll__build_copy(builder, coll__send_at(0), target, coll__plan_bytes(plan));
}

bool coll__phase_alone(const coll__plan_t *plan, coll__builder_t *builder) {
    if (plan->size > 1)
        return false;
    coll__phase_own(plan, builder, coll__recv_at(0));
    return true;
}

coll__ref_t coll__phase_tree_fold(coll__builder_t *builder, const coll__tree_t *tree, coll__ref_t own, coll__ref_t into,
                                  size_t bytes) {
    coll__ref_t part = own;
    if (tree->child_count > 0) {
        coll__ref_t slots[2] = {coll__build_scratch(builder, bytes)};
        if (tree->child_count > 1)
            slots[1] = coll__build_scratch(builder, bytes);
        for (int i = 0; i <= tree->child_count; i++) {
            if (i < tree->child_count)
                coll__build_recv(builder, tree->children[i], slots[i % 2], bytes);
            if (i > 0) {
                coll__build_reduce(builder, part, slots[(i - 1) % 2], into, bytes);
                part = into;
            }
            if (i < tree->child_count)
                coll__build_round(builder);
        }
    }
    if (tree->parent >= 0)
        coll__build_send(builder, tree->parent, part, bytes);
    coll__build_round(builder);
    return part;
}

void coll__phase_tree_spread(coll__builder_t *builder, const coll__tree_t *tree, coll__ref_t at, size_t bytes) {
    if (tree->parent >= 0)
        coll__build_recv(builder, tree->parent, at, bytes);
    coll__build_round(builder);
    for (int i = tree->child_count - 1; i >= 0; i--)
        coll__build_send(builder, tree->children[i], at, bytes);
    coll__build_round(builder);
}

void coll__phase_exchange_fold(coll__builder_t *builder, const coll__blocks_t *blocks, coll__ref_t target) {
    int rank = blocks->rank, size = blocks->size;
    size_t bytes = coll__block_bytes(blocks, rank);
    coll__ref_t slots = coll__build_scratch(builder, (size_t)(size - 1) * bytes);
    for (int step = 1; step < size; step++) { /* each rank begins with another peer, so that none is flooded */
        int to = coll__ring_at(rank, step, size), from = coll__ring_at(rank, -step, size);
        size_t slot = (size_t)(from < rank ? from : from - 1);
        coll__build_recv(builder, from, coll__ref_plus(slots, slot * bytes), bytes);
        coll__build_send(builder, to, coll__block_at(blocks, to), coll__block_bytes(blocks, to));
    }
    coll__build_round(builder);
    coll__build_fold(builder, rank, size, coll__block_at(blocks, rank), slots, target, bytes);
    coll__build_round(builder);
}
