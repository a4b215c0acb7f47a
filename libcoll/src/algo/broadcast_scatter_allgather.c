/* Scatter and allgather: the root scatters P blocks down a binomial tree, then all gather them round the ring. The root
 * sends the data twice instead of log2 P times: for long data and many ranks (van de Geijn). */
#include "algo/algo_table.h"
#include "algo/phase.h"
#include "pattern/log2.h"
#include "pattern/ring.h"

/* Sends or receives what belongs to the subtree at `place`: consecutive blocks. */
static size_t subtree_bytes(const coll__blocks_t *blocks, int place) {
    int end = place + coll__tree_span(place, blocks->size, 2);
    return (coll__cut_begin(blocks->cut, end) - coll__cut_begin(blocks->cut, place)) * blocks->element;
}

static void scatter(coll__builder_t *builder, const coll__blocks_t *blocks) {
    coll__tree_t tree;
    coll__tree_knomial(&tree, blocks->rank, blocks->size, blocks->root, 2);
    if (tree.parent >= 0) {
        int place = coll__ring_at(blocks->rank, -blocks->root, blocks->size);
        coll__build_recv(builder, tree.parent, coll__block_at(blocks, place), subtree_bytes(blocks, place));
    }
    coll__build_round(builder);
    for (int i = tree.child_count - 1; i >= 0; i--) {
        int place = coll__ring_at(tree.children[i], -blocks->root, blocks->size);
        coll__build_send(builder, tree.children[i], coll__block_at(blocks, place), subtree_bytes(blocks, place));
    }
    coll__build_round(builder);
}

static void build(const coll__plan_t *plan, coll__builder_t *builder) {
    coll__blocks_t blocks = {
        coll__recv_at(0), coll__cut(plan->count, plan->size), plan->element, plan->rank, plan->size, plan->root};
    scatter(builder, &blocks);
    coll__phase_ring_allgather(builder, &blocks);
}

static uint64_t rounds(const coll__plan_t *plan) {
    return (uint64_t)(coll__log2_floor(plan->size) + plan->size - 1);
}

static uint64_t messages(const coll__plan_t *plan) {
    return (uint64_t)(plan->size - 1) * (uint64_t)(plan->size + 1);
}

/* Block b crosses as many edges of the tree as b has ones in base 2, and every edge of the ring but one. */
static uint64_t bytes(const coll__plan_t *plan) {
    coll__cut_t cut = coll__cut(plan->count, plan->size);
    uint64_t scattered = 0;
    for (int block = 0; block < plan->size; block++)
        scattered += (uint64_t)__builtin_popcount((unsigned)block) * coll__cut_count(cut, block);
    return scattered * plan->element + (uint64_t)(plan->size - 1) * coll__plan_bytes(plan);
}

const coll__algo_t coll__broadcast_scatter_allgather = {
    .operation = COLL_OP_BROADCAST,
    .name = "scatter_allgather",
    .summary = "binomial scatter of P blocks, then a ring allgather",
    .restrictions = "",
    .rounds_text = "floor(log2 P) + P - 1",
    .bytes_text = "2 (P - 1) / P n",
    .source = "Barnett, Gupta, Payne, Shuler, van de Geijn and Watts, Interprocessor collective communication library, "
              "1994",
    .build = build,
    .rounds = rounds,
    .messages = messages,
    .bytes = bytes,
};
