/* Memory for arrays that take part in collectives: from the symmetric heap, which node peers reach in place; ordinary
 * memory where this system has no such heap. */
#include <stdint.h>
#include <stdlib.h>

#include "base/cpu.h"
#include "base/error.h"
#include "node/heap.h"

int coll_alloc(size_t bytes, void **memory) {
    if (!memory)
        return coll__error(COLL_ERR_ARG, "alloc: memory is NULL");
    *memory = NULL;
    int status = coll__heap_alloc(bytes, memory);
    if (status != COLL_ERR_UNSUPPORTED)
        return status;
    size_t line = COLL__CACHE_LINE;
    if (bytes > SIZE_MAX - line)
        return coll__error(COLL_ERR_MEMORY, "alloc: out of memory for %zu bytes", bytes);
    *memory = aligned_alloc(line, bytes ? (bytes + line - 1) / line * line : line);
    return *memory ? 0 : coll__error(COLL_ERR_MEMORY, "alloc: out of memory for %zu bytes", bytes);
}

int coll_free(void *memory) {
    if (memory && !coll__heap_free(memory))
        free(memory);
    return 0;
}
