/* Neighbour exchange: a rank talks to its two neighbours in turn, each time handing over the two blocks that it got
 * last. Half the rounds of the ring with the same bytes, both directions of a link in use; P must be even.
 *
 * After the first exchange, ranks 2q and 2q + 1 both have pair q. From then on rank 2q gets pairs q - 1, q + 1, q - 2,
 * and so on, from its lower and its upper neighbour in turn; rank 2q + 1 the mirror image of it. */
#include "algo/algo_table.h"
#include "algo/phase.h"
#include "pattern/ring.h"

static bool applies(const coll__plan_t *plan) {
    return plan->size % 2 == 0;
}

/* The pair that a rank has got by exchange number `step`. */
static int pair_after(const coll__plan_t *plan, int step) {
    int away = step % 2 == 1 ? -(step + 1) / 2 : step / 2;
    return coll__ring_at(plan->rank / 2, plan->rank % 2 == 0 ? away : -away, plan->size / 2);
}

static void build(const coll__plan_t *plan, coll__builder_t *builder) {
    int rank = plan->rank, size = plan->size;
    size_t block = coll__plan_bytes(plan);
    coll__phase_own(plan, builder, coll__recv_at((size_t)rank * block));
    coll__build_send(builder, rank ^ 1, coll__send_at(0), block);
    coll__build_recv(builder, rank ^ 1, coll__recv_at((size_t)(rank ^ 1) * block), block);
    coll__build_round(builder);
    for (int step = 1; step < size / 2; step++) {
        int peer = step % 2 == 0 ? rank ^ 1 : coll__ring_at(rank, rank % 2 == 0 ? -1 : 1, size);
        size_t out = (size_t)pair_after(plan, step - 1) * 2 * block, in = (size_t)pair_after(plan, step) * 2 * block;
        coll__build_send(builder, peer, coll__recv_at(out), 2 * block);
        coll__build_recv(builder, peer, coll__recv_at(in), 2 * block);
        coll__build_round(builder);
    }
}

static uint64_t rounds(const coll__plan_t *plan) {
    return (uint64_t)(plan->size / 2);
}

static uint64_t messages(const coll__plan_t *plan) {
    return (uint64_t)plan->size * rounds(plan);
}

static uint64_t bytes(const coll__plan_t *plan) {
    return (uint64_t)plan->size * (uint64_t)(plan->size - 1) * coll__plan_bytes(plan);
}

const coll__algo_t coll__allgather_neighbour_exchange = {
    .operation = COLL_OP_ALLGATHER,
    .name = "neighbour_exchange",
    .summary = "exchange the last two blocks with either neighbour in turn",
    .restrictions = "the number of ranks must be even",
    .rounds_text = "P / 2",
    .bytes_text = "(P - 1) n",
    .source = "Chen, Zhang, Zhang and Yuan, Performance evaluation of allgather algorithms on terascale Linux cluster "
              "with fast Ethernet, 2005",
    .applies = applies,
    .build = build,
    .rounds = rounds,
    .messages = messages,
    .bytes = bytes,
};
