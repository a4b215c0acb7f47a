/* The places in use are gathered behind the array, polled there, and their answers carried back. */
#include "bootstrap/poll_used.h"

int coll__poll_used(struct pollfd *polls, size_t count, int timeout_ms) {
    struct pollfd *used = polls + count;
    nfds_t used_count = 0;
    for (size_t i = 0; i < count; i++) {
        polls[i].revents = 0;
        if (polls[i].fd >= 0)
            used[used_count++] = polls[i];
    }
    int ready = poll(used, used_count, timeout_ms);
    used_count = 0;
    for (size_t i = 0; ready > 0 && i < count; i++)
        if (polls[i].fd >= 0)
            polls[i].revents = used[used_count++].revents;
    return ready;
}
