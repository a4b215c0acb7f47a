/* Recursive doubling and halving for any number of ranks.
 *
 * The core is the largest power of two in P; the P - core ranks too many are folded into neighbours: of the first
 * 2 (P - core) ranks, each odd one hands its part to the even one before it and gets the result from there at the end.
 * The others have a place in the core, 0 .. core - 1, in the order of their ranks, and meet place ^ 2^level. A group of
 * 2^level places stands for consecutive ranks: folds keep rank order, and gathered blocks are contiguous.
 */
#ifndef COLL__DOUBLING_H
#define COLL__DOUBLING_H

#include <stdbool.h>
#include <stdint.h>

typedef struct coll__doubling {
    int size;
    int core;   /* largest power of two <= size */
    int levels; /* log2 of core */
    int extra;  /* size - core */
    int place;  /* in the core; -1: this rank is folded into `fold` */
    int fold;   /* the other rank of the folded pair; -1: none */
} coll__doubling_t;

coll__doubling_t coll__doubling(int rank, int size);

/* The longest chain of messages through folding in, all levels and folding out: a chain through all levels leads from a
 * place to its complement, so it can begin with one fold and end with another if both places have one. */
int coll__doubling_rounds(int size);

/* Messages of all ranks together, folding in and out included. */
int64_t coll__doubling_messages(int size);

/* The rank at a place. All ranks below it are those that lower places stand for; place == core gives size. */
static inline int coll__doubling_rank(const coll__doubling_t *doubling, int place) {
    return place < doubling->extra ? 2 * place : place + doubling->extra;
}

/* Whom this rank (which has a place) meets on a level. */
static inline int coll__doubling_peer(const coll__doubling_t *doubling, int level) {
    return coll__doubling_rank(doubling, doubling->place ^ (1 << level));
}

/* On that level this rank is on the side of the higher ranks. */
static inline bool coll__doubling_upper(const coll__doubling_t *doubling, int level) {
    return doubling->place >> level & 1;
}

#endif
