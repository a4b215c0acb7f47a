/* Ranks on a ring: who sits `step` places further (or, negative, before). Rooted patterns use it too: a rank's place
 * counted from the root is coll__ring_at(rank, -root, size), and back again with +root. */
#ifndef COLL__RING_H
#define COLL__RING_H

/* 0 <= rank < size and -size <= step <= size. */
static inline int coll__ring_at(int rank, int step, int size) {
    if (step >= size - rank) /* rank + step might overflow */
        return step - (size - rank);
    return rank + step < 0 ? rank + step + size : rank + step;
}

#endif
