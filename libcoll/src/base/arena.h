/* A bump allocator: many small pieces that live and die together. */
#ifndef COLL__ARENA_H
#define COLL__ARENA_H

#include <stddef.h>

typedef struct coll__arena {
    struct coll__arena_block *blocks; /* newest first */
    size_t used;                      /* in the newest block */
    size_t first_block;
} coll__arena_t;

void coll__arena_init(coll__arena_t *arena, size_t first_block);
void *coll__arena_alloc(coll__arena_t *arena, size_t bytes); /* aligned to 16; NULL when out of memory */
void coll__arena_reset(coll__arena_t *arena);                /* keeps the largest block: a warm arena does not malloc */
void coll__arena_free(coll__arena_t *arena);

#endif
