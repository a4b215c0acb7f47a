/* Waking a peer that sleeps on its eventfd. */
#include "base/segment.h"

#include <errno.h>
#include <stdint.h>
#include <unistd.h>

void coll__segment_wake(const coll__segment_t *segment, int local_rank) {
    /* The flag falls before the write: a sleeper that woke and went to sleep again would otherwise lose its new flag.
     */
    atomic_store_explicit(&segment->lines[local_rank].sleeping, 0, memory_order_seq_cst);

    const uint64_t one = 1;
    ssize_t written;
    do
        written = write(segment->wake_fd[local_rank], &one, sizeof one);
    while (written < 0 && errno == EINTR);
    /* EAGAIN means that the counter is full, so the sleeper wakes anyway; a peer that is gone needs no waking. */
}
