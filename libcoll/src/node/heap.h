/* Symmetric memory: a heap of this process that its node peers can map, so that collectives read and write arrays in it
 * in place.
 *
 * One sparse memfd for each process, mapped whole: a piece of memory is an offset in it, and a peer maps it once. Pages
 * are reserved (fallocate) before an allocation succeeds and given back when it is freed, so that running out of memory
 * is an error of the allocation, never a SIGBUS later. Works before coll_init(); safe from any thread.
 */
#ifndef COLL__HEAP_H
#define COLL__HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Aligned to 64 bytes, from 64 KiB on to a page. COLL_ERR_MEMORY; COLL_ERR_UNSUPPORTED where there can be no such heap.
 */
int coll__heap_alloc(size_t bytes, void **memory);
/* False: it is not a piece of the heap. What a forked child has from its parent stays as it is. */
bool coll__heap_free(void *memory);

/* The piece that `memory` lies in is never given to anybody else: a peer that an operation has given up on may still
 * write to it. */
void coll__heap_retain(const void *memory);

/* The memfd, made now if there is none yet, and how much of it there is to map; -1 where there can be none. */
int coll__heap_fd(size_t *bytes);

/* Does [memory, memory + bytes) lie in the heap? Then where. */
bool coll__heap_find(const void *memory, size_t bytes, uint64_t *offset);

size_t coll__heap_in_use(void); /* bytes handed out */

#endif
