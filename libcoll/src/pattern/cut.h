/* n elements cut into P consecutive parts whose lengths differ by at most one; the longer ones come first. */
#ifndef COLL__CUT_H
#define COLL__CUT_H

#include <stddef.h>

typedef struct coll__cut {
    size_t base;  /* elements of every part */
    size_t extra; /* this many parts have one more */
} coll__cut_t;

static inline coll__cut_t coll__cut(size_t count, int parts) {
    return (coll__cut_t){count / (size_t)parts, count % (size_t)parts};
}

/* Where part `part` begins; part == parts gives the end of the last one. */
static inline size_t coll__cut_begin(coll__cut_t cut, int part) {
    size_t index = (size_t)part;
    return index * cut.base + (index < cut.extra ? index : cut.extra);
}

static inline size_t coll__cut_count(coll__cut_t cut, int part) {
    return cut.base + ((size_t)part < cut.extra);
}

#endif
