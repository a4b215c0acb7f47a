/* Recursive-doubling allgather: on level k, groups of 2^k ranks exchange all they have, in place. The fewest rounds and
 * no local copies; beyond a power of two, the folded ranks get all blocks in a message of their own, which Bruck
 * avoids. */
#include "algo/algo_table.h"
#include "algo/phase.h"

static void build(const coll__plan_t *plan, coll__builder_t *builder) {
    size_t block = coll__plan_bytes(plan);
    coll__phase_own(plan, builder, coll__recv_at((size_t)plan->rank * block));
    coll__phase_doubling_allgather(builder, plan->rank, plan->size, coll__recv_at(0), block);
}

static uint64_t rounds(const coll__plan_t *plan) {
    return (uint64_t)coll__doubling_rounds(plan->size);
}

static uint64_t messages(const coll__plan_t *plan) {
    return (uint64_t)coll__doubling_messages(plan->size);
}

static uint64_t bytes(const coll__plan_t *plan) {
    return coll__doubling_allgather_blocks(plan->size) * coll__plan_bytes(plan);
}

const coll__algo_t coll__allgather_recursive_doubling = {
    .operation = COLL_OP_ALLGATHER,
    .name = "recursive_doubling",
    .summary = "exchange all blocks so far with the rank 2^k away, for every k",
    .restrictions = "",
    .rounds_text = "floor(log2 P); 1 more if P is not a power of two, 2 more if it is above 3/2 of the power below",
    .bytes_text = "(P - 1) n; less than 2.4 P n if P is not a power of two",
    .source = "Thakur, Rabenseifner and Gropp, Optimization of collective communication operations in MPICH, 2005",
    .build = build,
    .rounds = rounds,
    .messages = messages,
    .bytes = bytes,
};
