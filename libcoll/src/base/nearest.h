/* "Did you mean ...?": the known name that is fewest typing mistakes away. */
#ifndef COLL__NEAREST_H
#define COLL__NEAREST_H

#include <stddef.h>

/* Insertions, deletions and replacements that turn one word into the other; the first 63 bytes count. */
size_t coll__edit_distance(const char *a, const char *b);

/* The name with the smallest distance, the first one if several have it; NULL if there are no names. */
const char *coll__nearest(const char *word, const char *const *names, size_t count);

#endif
