/* Allgather by recursive doubling, for any number of ranks; see phase.h and pattern/doubling.h. */
#include "algo/phase.h"

typedef struct gather {
    coll__builder_t *builder;
    coll__ref_t base;
    size_t block;
} gather_t;

static void send_blocks(const gather_t *gather, int peer, int begin, int end) {
    coll__build_send(gather->builder, peer, coll__ref_plus(gather->base, (size_t)begin * gather->block),
                     (size_t)(end - begin) * gather->block);
}

static void recv_blocks(const gather_t *gather, int peer, int begin, int end) {
    coll__build_recv(gather->builder, peer, coll__ref_plus(gather->base, (size_t)begin * gather->block),
                     (size_t)(end - begin) * gather->block);
}

void coll__phase_doubling_allgather(coll__builder_t *builder, int rank, int size, coll__ref_t base, size_t block) {
    gather_t gather = {builder, base, block};
    coll__doubling_t doubling = coll__doubling(rank, size);
    int fold = doubling.fold;
    if (doubling.place < 0) {
        send_blocks(&gather, fold, rank, rank + 1);
        coll__build_round(builder);
        recv_blocks(&gather, fold, 0, size);
        coll__build_round(builder);
        return;
    }
    if (fold >= 0)
        recv_blocks(&gather, fold, fold, fold + 1);
    coll__build_round(builder);
    for (int level = 0; level < doubling.levels; level++) {
        int group = 1 << level, mine = doubling.place & -group, theirs = mine ^ group;
        int peer = coll__doubling_peer(&doubling, level);
        send_blocks(&gather, peer, coll__doubling_rank(&doubling, mine), coll__doubling_rank(&doubling, mine + group));
        recv_blocks(&gather, peer, coll__doubling_rank(&doubling, theirs),
                    coll__doubling_rank(&doubling, theirs + group));
        coll__build_round(builder);
    }
    if (fold >= 0)
        send_blocks(&gather, fold, 0, size);
    coll__build_round(builder);
}

/* On a level, the 2^level places of each group send the blocks of the whole group: 2^level P in all. */
uint64_t coll__doubling_allgather_blocks(int size) {
    coll__doubling_t doubling = coll__doubling(0, size);
    uint64_t ranks = (uint64_t)size, extra = (uint64_t)doubling.extra;
    return ranks * (uint64_t)(doubling.core - 1) + extra + extra * ranks;
}
