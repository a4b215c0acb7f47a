/* For the tests of the bootstrap: joining with what the harness put into the environment. */
#ifndef COLL__TEST_BOOTSTRAP_HELPER_H
#define COLL__TEST_BOOTSTRAP_HELPER_H

#include <dirent.h>
#include <stdlib.h>
#include <sys/eventfd.h>

#include "base/clock.h"
#include "bootstrap/bootstrap.h"
#include "support/ranks.h"

static inline coll__job_opts_t opts_for(int rank, int size, double seconds) {
    const char *listen_fd = getenv("COLL_LISTEN_FD");
    return (coll__job_opts_t){
        .rank = rank,
        .size = size,
        .host = getenv("COLL_ADDR"),
        .port = atoi(getenv("COLL_PORT")),
        .listen_fd = listen_fd != NULL ? atoi(listen_fd) : -1,
        .secret = getenv("COLL_SECRET"),
        .deadline = coll__deadline_after(seconds),
        .wake_fd = -1,
    };
}

static inline int join(int rank, int size, double seconds, coll__job_t **job) {
    coll__job_opts_t opts = opts_for(rank, size, seconds);
    return coll__job_join(&opts, job);
}

/* 0, or COLL_ERR_TIMEOUT when it took as long as was allowed although nobody was missing. */
static inline int leave(coll__job_t *job, double seconds) {
    int64_t deadline = coll__deadline_after(seconds);
    coll__job_leave(job, deadline);
    return coll__now_ns() < deadline ? 0 : COLL_ERR_TIMEOUT;
}

static inline int open_descriptors(void) {
    DIR *directory = opendir("/proc/self/fd");
    int count = 0;
    while (readdir(directory) != NULL)
        count++;
    closedir(directory);
    return count;
}

#endif
