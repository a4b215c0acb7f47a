/* Memory for arrays that take part in collectives: aligned to a cache line, and to huge pages where it is large. */
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "base/cpu.h"
#include "base/error.h"

static const size_t HUGE_PAGE = 2 << 20;

int coll_alloc(size_t bytes, void **memory) {
    if (!memory) return coll__error(COLL_ERR_ARG, "alloc: memory is NULL");
    *memory = NULL;
    size_t alignment = bytes >= HUGE_PAGE ? HUGE_PAGE : COLL__CACHE_LINE;
    if (bytes > SIZE_MAX - alignment) return coll__error(COLL_ERR_MEMORY, "alloc: out of memory for %zu bytes", bytes);
    size_t whole = bytes ? (bytes + alignment - 1) / alignment * alignment : alignment;
    void *made = aligned_alloc(alignment, whole);
    if (!made) return coll__error(COLL_ERR_MEMORY, "alloc: out of memory for %zu bytes", bytes);
    if (alignment == HUGE_PAGE) madvise(made, whole, MADV_HUGEPAGE); /* a wish: fewer page faults and TLB misses */
    *memory = made;
    return 0;
}

int coll_free(void *memory) {
    free(memory);
    return 0;
}
