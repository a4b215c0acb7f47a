/* The building blocks that algorithms share: each adds the steps of one phase for one rank. It ends its last round. */
#ifndef COLL__PHASE_H
#define COLL__PHASE_H

#include "pattern/cut.h"
#include "pattern/doubling.h"
#include "pattern/halving.h"
#include "pattern/tree.h"
#include "sched/sched.h"

static inline coll__ref_t coll__ref_plus(coll__ref_t ref, size_t bytes) {
    return coll__ref(ref.buffer, ref.offset + bytes);
}

/* The caller's input and where the result belongs. */
static inline coll__ref_t coll__send_at(size_t offset) {
    return coll__ref(COLL__BUF_SEND, offset);
}
static inline coll__ref_t coll__recv_at(size_t offset) {
    return coll__ref(COLL__BUF_RECV, offset);
}

/* Bytes of the plan's count. */
static inline size_t coll__plan_bytes(const coll__plan_t *plan) {
    return plan->count * plan->element;
}

/* Copies this rank's input to `target`, where its in-place input would be. */
void coll__phase_own(const coll__plan_t *plan, coll__builder_t *builder, coll__ref_t target);

/* For reductions: a communicator of one rank needs a copy at most. True if that was all. */
bool coll__phase_alone(const coll__plan_t *plan, coll__builder_t *builder);

/* ---- trees ---- */

/* Folds up the tree: this rank's `own` with what its children fold, in the order of places, into `into`; then sends it
 * to the parent. Returns where this rank's part is: `own` at a leaf. While one child's part is folded, the next
 * arrives. */
coll__ref_t coll__phase_tree_fold(coll__builder_t *builder, const coll__tree_t *tree, coll__ref_t own, coll__ref_t into,
                                  size_t bytes);

/* Hands `at` down the tree, largest subtree first. */
void coll__phase_tree_spread(coll__builder_t *builder, const coll__tree_t *tree, coll__ref_t at, size_t bytes);

/* ---- blocks ---- */

/* Blocks that belong to ranks: block b is part b of `cut`, in elements, counted from `base`, and belongs to the rank
 * at place b from `root`. */
typedef struct coll__blocks {
    coll__ref_t base;
    coll__cut_t cut;
    size_t element;
    int rank, size, root;
} coll__blocks_t;

static inline coll__ref_t coll__block_at(const coll__blocks_t *blocks, int block) {
    return coll__ref_plus(blocks->base, coll__cut_begin(blocks->cut, block) * blocks->element);
}
static inline size_t coll__block_bytes(const coll__blocks_t *blocks, int block) {
    return coll__cut_count(blocks->cut, block) * blocks->element;
}

/* Allgather round the ring: each rank has its own block at the beginning, all blocks at the end. */
void coll__phase_ring_allgather(coll__builder_t *builder, const coll__blocks_t *blocks);

/* Allgather of equal blocks by recursive doubling, block b of rank b. */
void coll__phase_doubling_allgather(coll__builder_t *builder, int rank, int size, coll__ref_t base, size_t block);
uint64_t coll__doubling_allgather_blocks(int size); /* blocks sent by all ranks together */

/* ---- folds in rank order ---- */

/* Every rank sends the others their blocks of its input, and folds what it gets of its own block, in rank order, into
 * `target`. blocks->base is the input; blocks->root is 0. */
void coll__phase_exchange_fold(coll__builder_t *builder, const coll__blocks_t *blocks, coll__ref_t target);

/* ---- recursive halving ---- */

/* Reduce-scatter by recursive vector halving and distance doubling within the core, ranks too many folded in first. At
 * the end this rank (if it has a place) has the result for coll__halving_range() of its place, at that offset of
 * `into`, which is as long as the input and may be the input. */
void coll__phase_halving_fold(const coll__plan_t *plan, coll__builder_t *builder, const coll__doubling_t *doubling,
                              coll__ref_t into);

/* The elements that a place is left with after `levels` halvings. */
coll__range_t coll__halving_range(size_t count, int place, int levels);

#endif
