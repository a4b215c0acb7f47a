/* A list of blocks, each at least twice the one before: the newest is the largest, so a reset that keeps only it soon
 * finds everything in one block and mallocs no more. */
#include "base/arena.h"

#include <stdalign.h>
#include <stdint.h>
#include <stdlib.h>

enum { ALIGNMENT = 16, SMALLEST_BLOCK = 256 };

struct coll__arena_block {
    struct coll__arena_block *next;
    size_t bytes; /* of data */
    alignas(ALIGNMENT) unsigned char data[];
};

void coll__arena_init(coll__arena_t *arena, size_t first_block) {
    *arena = (coll__arena_t){.first_block = first_block > SMALLEST_BLOCK ? first_block : SMALLEST_BLOCK};
}

static int add_block(coll__arena_t *arena, size_t bytes) {
    size_t size = arena->blocks == NULL ? arena->first_block : arena->blocks->bytes;
    if (arena->blocks != NULL && size <= SIZE_MAX / 2)
        size *= 2;
    if (size < bytes)
        size = bytes;
    if (size > SIZE_MAX - sizeof(struct coll__arena_block))
        return 0;
    struct coll__arena_block *block = malloc(sizeof *block + size);
    if (block == NULL)
        return 0;
    block->next = arena->blocks;
    block->bytes = size;
    arena->blocks = block;
    arena->used = 0;
    return 1;
}

void *coll__arena_alloc(coll__arena_t *arena, size_t bytes) {
    if (bytes > SIZE_MAX - (ALIGNMENT - 1))
        return NULL;
    size_t rounded = bytes == 0 ? ALIGNMENT : (bytes + ALIGNMENT - 1) & ~(size_t)(ALIGNMENT - 1);
    if (arena->blocks == NULL || rounded > arena->blocks->bytes - arena->used) {
        if (!add_block(arena, rounded))
            return NULL;
    }
    void *memory = arena->blocks->data + arena->used;
    arena->used += rounded;
    return memory;
}

static void free_blocks(struct coll__arena_block *block) {
    while (block != NULL) {
        struct coll__arena_block *next = block->next;
        free(block);
        block = next;
    }
}

void coll__arena_reset(coll__arena_t *arena) {
    if (arena->blocks != NULL) {
        free_blocks(arena->blocks->next);
        arena->blocks->next = NULL;
    }
    arena->used = 0;
}

void coll__arena_free(coll__arena_t *arena) {
    free_blocks(arena->blocks);
    arena->blocks = NULL;
    arena->used = 0;
}
