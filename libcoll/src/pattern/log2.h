/* Binary logarithms of rank counts. */
#ifndef COLL__LOG2_H
#define COLL__LOG2_H

/* value >= 1. */
static inline int coll__log2_floor(int value) {
    return 31 - __builtin_clz((unsigned)value);
}

static inline int coll__log2_ceil(int value) {
    return value == 1 ? 0 : coll__log2_floor(value - 1) + 1;
}

#endif
