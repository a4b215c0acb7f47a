/* Ordered pairwise reduce: each rank gets block r of every rank's input, folds these in rank order, and sends the
 * result to the root. The strict order of the linear reduce, with the work and the room spread over all ranks: for long
 * data. */
#include "algo/algo_table.h"
#include "algo/phase.h"

static void build(const coll__plan_t *plan, coll__builder_t *builder) {
    if (coll__phase_alone(plan, builder))
        return;
    int rank = plan->rank, root = plan->root;
    coll__blocks_t input = {coll__send_at(0), coll__cut(plan->count, plan->size), plan->element, rank, plan->size, 0};
    coll__blocks_t result = input;
    result.base = coll__recv_at(0);
    size_t mine = coll__block_bytes(&input, rank);
    coll__ref_t target = rank == root ? coll__block_at(&result, rank) : coll__build_scratch(builder, mine);
    coll__phase_exchange_fold(builder, &input, target);
    if (rank != root)
        coll__build_send(builder, root, target, mine);
    for (int peer = 0; rank == root && peer < plan->size; peer++)
        if (peer != root)
            coll__build_recv(builder, peer, coll__block_at(&result, peer), coll__block_bytes(&result, peer));
}

static uint64_t rounds(const coll__plan_t *plan) {
    return plan->size > 1 ? 2 : 0;
}

static uint64_t messages(const coll__plan_t *plan) {
    return (uint64_t)(plan->size - 1) * (uint64_t)(plan->size + 1);
}

static uint64_t bytes(const coll__plan_t *plan) {
    coll__cut_t cut = coll__cut(plan->count, plan->size);
    return ((uint64_t)plan->size * plan->count - coll__cut_count(cut, plan->root)) * plan->element;
}

const coll__algo_t coll__reduce_ordered_pairwise = {
    .operation = COLL_OP_REDUCE,
    .name = "ordered_pairwise",
    .summary = "exchange of blocks, fold in rank order, gather at the root",
    .restrictions = "",
    .rounds_text = "2",
    .bytes_text = "n",
    .source = "Thakur, Rabenseifner and Gropp, Optimization of collective communication operations in MPICH, 2005",
    .ordered = true,
    .build = build,
    .rounds = rounds,
    .messages = messages,
    .bytes = bytes,
};
