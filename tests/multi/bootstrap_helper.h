/* For the tests of the bootstrap: joining with what the harness put into the environment. */
#ifndef COLL__TEST_BOOTSTRAP_HELPER_H
#define COLL__TEST_BOOTSTRAP_HELPER_H

#include <dirent.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

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

/* Does the error of this thread say so? */
static inline int message_has(const char *text) {
    if (strstr(coll_error_message(), text) != NULL)
        return 1;
    fprintf(stderr, "not '%s' in: %s\n", text, coll_error_message());
    return 0;
}

static inline int error_names_only(int rank) {
    int ranks[8];
    return coll_error_ranks(ranks, 8) == 1 && ranks[0] == rank;
}

static inline void nap_ms(int ms) {
    const struct timespec span = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L};
    nanosleep(&span, NULL);
}

/* A port that nobody uses now. */
static inline int free_port(void) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bind(fd, (struct sockaddr *)&address, bytes) != 0)
        abort();
    getsockname(fd, (struct sockaddr *)&address, &bytes);
    close(fd);
    return ntohs(address.sin_port);
}

/* A connection to a port of this machine, or -1. */
static inline int connect_to(int port) {
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connect(fd, (struct sockaddr *)&address, sizeof address) == 0)
        return fd;
    close(fd);
    return -1;
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
