/* A range of elements halved again and again, as recursive halving does. The lower half is the shorter one. */
#ifndef COLL__HALVING_H
#define COLL__HALVING_H

#include <stdbool.h>
#include <stddef.h>

typedef struct coll__range {
    size_t begin, end; /* end is the first that is not in it */
} coll__range_t;

static inline size_t coll__range_count(coll__range_t range) {
    return range.end - range.begin;
}

static inline coll__range_t coll__range_half(coll__range_t range, bool upper) {
    size_t middle = range.begin + coll__range_count(range) / 2;
    return upper ? (coll__range_t){middle, range.end} : (coll__range_t){range.begin, middle};
}

#endif
