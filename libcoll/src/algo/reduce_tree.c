/* Reduce up a k-nomial tree rotated to the root. Subtrees are runs of places counted from the root, so operands are in
 * rank order only as far as the ring's end; where that matters, the tree is rooted at rank 0, which hands the result
 * on. */
#include "algo/reduce_tree.h"

#include "algo/phase.h"

static int tree_root(const coll__plan_t *plan) {
    return plan->commutative ? plan->root : 0;
}

void coll__reduce_tree_build(const coll__plan_t *plan, coll__builder_t *builder, int arity) {
    size_t bytes = coll__plan_bytes(plan);
    if (coll__phase_alone(plan, builder))
        return;
    int top = tree_root(plan);
    coll__tree_t tree;
    coll__tree_knomial(&tree, plan->rank, plan->size, top, arity);
    coll__ref_t into = coll__recv_at(0);
    if (plan->rank != plan->root && tree.child_count > 0)
        into = coll__build_scratch(builder, bytes);
    coll__ref_t part = coll__phase_tree_fold(builder, &tree, coll__send_at(0), into, bytes);
    if (top != plan->root) {
        if (plan->rank == top)
            coll__build_send(builder, plan->root, part, bytes);
        else if (plan->rank == plan->root)
            coll__build_recv(builder, top, coll__recv_at(0), bytes);
    }
}

uint64_t coll__reduce_tree_rounds(const coll__plan_t *plan, int arity) {
    return (uint64_t)(coll__tree_depth(plan->size, arity) + (tree_root(plan) != plan->root));
}

uint64_t coll__reduce_tree_messages(const coll__plan_t *plan) {
    return (uint64_t)(plan->size - 1 + (tree_root(plan) != plan->root));
}
