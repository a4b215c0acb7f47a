/* See local_segment.h. */
#include "support/local_segment.h"

#include <errno.h>
#include <poll.h>
#include <stdint.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PAGE = 4096 };

static size_t round_up(size_t bytes) {
    return (bytes + PAGE - 1) / PAGE * PAGE;
}

int coll__local_segment_open(coll__local_segment_t *local, int size, size_t transport_bytes) {
    size_t lines = round_up((size_t)size * sizeof(coll__segment_line_t));
    memset(local, 0, sizeof *local);
    if (size > COLL__LOCAL_SEGMENT_MAX) {
        errno = EINVAL;
        return -1;
    }
    local->bytes = lines + round_up(transport_bytes);
    local->base = mmap(NULL, local->bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (local->base == MAP_FAILED)
        return -1;
    for (; local->size < size; local->size++) {
        int rank = local->size;
        local->world_rank[rank] = rank;
        local->wake_fd[rank] = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
        if (local->wake_fd[rank] < 0) {
            coll__local_segment_close(local);
            return -1;
        }
        local->view[rank] = (coll__segment_t){.base = local->base,
                                              .bytes = local->bytes,
                                              .local_rank = rank,
                                              .local_size = size,
                                              .world_rank = local->world_rank,
                                              .wake_fd = local->wake_fd,
                                              .lines = local->base,
                                              .transport = (char *)local->base + lines,
                                              .transport_bytes = transport_bytes};
    }
    return 0;
}

void coll__local_segment_close(coll__local_segment_t *local) {
    for (int rank = 0; rank < local->size; rank++)
        close(local->wake_fd[rank]);
    munmap(local->base, local->bytes);
}

int coll__local_segment_park(coll__segment_t *view, int (*ready)(void *), void *arg, int timeout_ms) {
    atomic_int *sleeping = &view->lines[view->local_rank].sleeping;
    atomic_store_explicit(sleeping, 1, memory_order_relaxed);
    atomic_thread_fence(memory_order_seq_cst);
    int result = 0;
    if (!ready(arg)) {
        struct pollfd wake = {.fd = view->wake_fd[view->local_rank], .events = POLLIN};
        result = poll(&wake, 1, timeout_ms) == 1 ? 1 : -1;
    }
    atomic_store_explicit(sleeping, 0, memory_order_relaxed);
    uint64_t count;
    if (read(view->wake_fd[view->local_rank], &count, sizeof count) < 0 && errno != EAGAIN)
        return -1;
    return result;
}
