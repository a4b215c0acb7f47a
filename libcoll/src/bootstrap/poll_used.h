/* poll() over an array with empty places. It refuses an array that is longer than the descriptors this process may have
 * (ulimit -n), even if most places hold -1; only those in use are shown to it. */
#ifndef COLL__BOOTSTRAP_POLL_USED_H
#define COLL__BOOTSTRAP_POLL_USED_H

#include <poll.h>
#include <stddef.h>

/* As poll(), revents of empty places are 0. `polls` is followed by room for `count` more. */
int coll__poll_used(struct pollfd *polls, size_t count, int timeout_ms);

#endif
