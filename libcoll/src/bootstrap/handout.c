/* The lowest rank listens at an abstract unix socket whose name only members of the job can compute. A peer proves by a
 * token that it is one (and by its uid that it is this user), and brings its eventfd. When all are there, each in turn
 * gets the lot and confirms it: a user may have only so many descriptors on their way at a time. pidfds are made by the
 * lowest rank from what the kernel says about the connections, so that nobody needs to be believed, and are good in
 * any pid namespace. */
#include "bootstrap/handout.h"

#include <errno.h>
#include <poll.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "bootstrap/fds.h"
#include "bootstrap/poll_used.h"

enum { TURN_MS = 50 }; /* between looks at whether the peers still live */

static const int64_t ms_ns = 1000000;

typedef struct hello {
    uint32_t local_rank;
    unsigned char token[COLL__MAC_BYTES];
} hello_t; /* with an eventfd */

typedef struct welcome {
    unsigned char token[COLL__MAC_BYTES];
    uint64_t transport_bytes, node_bytes;
    uint32_t local_size;
    uint32_t has_pidfds;
} welcome_t; /* with the memfd */

typedef struct caller {
    int fd;
    pid_t pid;
} caller_t;

/* A value for this node of this job and its segment, by purpose. */
static void derive(const coll__job_t *job, const coll__handout_t *handout, const char *purpose, uint32_t local_rank,
                   unsigned char out[COLL__MAC_BYTES]) {
    struct {
        unsigned char id[COLL__NONCE_BYTES];
        int32_t lowest;
        uint32_t local_rank;
    } data = {.lowest = handout->ranks[0], .local_rank = local_rank};
    memcpy(data.id, job->id, sizeof data.id);
    coll__auth_derive(&job->key, purpose, &data, sizeof data, out);
}

static void socket_name(const coll__job_t *job, const coll__handout_t *handout, char name[64]) {
    unsigned char value[COLL__MAC_BYTES];
    char digits[33];
    derive(job, handout, "segment name", 0, value);
    snprintf(name, 64, "libcoll-%s", sodium_bin2hex(digits, sizeof digits, value, 16));
}

static bool token_is_right(const coll__job_t *job, const coll__handout_t *handout, const char *purpose,
                           uint32_t local_rank, const unsigned char token[COLL__MAC_BYTES]) {
    unsigned char expected[COLL__MAC_BYTES];
    derive(job, handout, purpose, local_rank, expected);
    return coll__auth_equal(expected, token);
}

void coll__handout_close(coll__handout_t *handout) {
    for (int i = 0; i < handout->local_size; i++) {
        if (i != handout->local_rank && handout->wake_fds[i] >= 0) {
            close(handout->wake_fds[i]);
            handout->wake_fds[i] = -1;
        }
        if (handout->pidfds[i] >= 0)
            close(handout->pidfds[i]);
        handout->pidfds[i] = -1;
    }
    if (handout->memfd >= 0)
        close(handout->memfd);
    handout->memfd = -1;
}

/* An error about these ranks, or about one. */
static int fail(int status, const int *ranks, int count, const char *what) {
    char text[200];
    coll__error(status, "%s %s", coll__ranks_text(ranks, count, text, sizeof text), what);
    coll__error_add_ranks(ranks, (size_t)count);
    return status;
}

static int fail_errno(int rank, const char *what) {
    char text[300];
    snprintf(text, sizeof text, "%s: %s%s", what, strerror(errno),
             errno == EMFILE ? " (raise the limit with ulimit -n)" : "");
    return fail(errno == ETIMEDOUT ? COLL_ERR_TIMEOUT : COLL_ERR_BOOTSTRAP, &rank, 1, text);
}

static bool is_gone(const coll__job_t *job, int rank) {
    return coll__job_peer_state(job, rank) != COLL__PEER_ALIVE;
}

/* ---- the lowest rank ---- */

/* The ranks that are not here yet, or of these only those that will not come any more. */
static int absent(const coll__job_t *job, const coll__handout_t *handout, const caller_t *members, bool gone,
                  int *ranks) {
    int count = 0;
    for (int i = 1; i < handout->local_size; i++)
        if (members[i].fd < 0 && (!gone || is_gone(job, handout->ranks[i])))
            ranks[count++] = handout->ranks[i];
    return count;
}

/* Who said something: a member with a right token becomes one, anybody else is dropped. */
static void examine(const coll__job_t *job, coll__handout_t *handout, caller_t *caller, caller_t *members) {
    hello_t hello;
    int wake_fd;
    if (coll__fds_receive(caller->fd, &hello, sizeof hello, &wake_fd, 1) != 0) {
        if (errno == EAGAIN || errno == EWOULDBLOCK)
            return;
    } else if (hello.local_rank >= 1 && hello.local_rank < (uint32_t)handout->local_size &&
               members[hello.local_rank].fd < 0 &&
               token_is_right(job, handout, "segment member", hello.local_rank, hello.token)) {
        handout->wake_fds[hello.local_rank] = wake_fd;
        members[hello.local_rank] = *caller;
        caller->fd = -1;
        return;
    } else
        close(wake_fd);
    close(caller->fd);
    caller->fd = -1;
}

/* Fills members[1..]. Callers who stay silent keep a place until the end; the places are for them and for those whose
 * word is under way. */
static int gather_members(coll__job_t *job, coll__handout_t *handout, int listener, caller_t *callers, int caller_count,
                          caller_t *members, int *ranks, int64_t deadline) {
    struct pollfd *polls = calloc(2 * ((size_t)caller_count + 1), sizeof *polls);
    if (polls == NULL)
        return coll__error(COLL_ERR_MEMORY, "no memory to hand out the node's segment");
    int status = 0, oldest = 0;
    while (status == 0 && absent(job, handout, members, false, ranks) > 0) {
        for (int i = 0; i < caller_count; i++)
            polls[i] = (struct pollfd){.fd = callers[i].fd, .events = POLLIN};
        polls[caller_count] = (struct pollfd){.fd = listener, .events = POLLIN};
        coll__poll_used(polls, (size_t)caller_count + 1, TURN_MS);
        for (int i = 0; i < caller_count; i++)
            if (callers[i].fd >= 0 && polls[i].revents != 0)
                examine(job, handout, &callers[i], members);

        caller_t caller;
        if (polls[caller_count].revents != 0 &&
            (caller.fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0) {
            if (coll__fds_peer(caller.fd, &caller.pid) != 0) {
                close(caller.fd);
            } else { /* the longest silent gives way */
                if (callers[oldest].fd >= 0)
                    close(callers[oldest].fd);
                callers[oldest] = caller;
                oldest = (oldest + 1) % caller_count;
            }
        }
        int count = absent(job, handout, members, true, ranks);
        if (count > 0)
            status = fail(COLL_ERR_BOOTSTRAP, ranks, count, "went away before the node's segment was shared");
        else if (coll__now_ns() >= deadline && (count = absent(job, handout, members, false, ranks)) > 0)
            status = fail(COLL_ERR_TIMEOUT, ranks, count, "did not come for the node's segment in time");
    }
    free(polls);
    return status;
}

static int pidfd_of(pid_t pid) {
    return pid > 0 ? (int)syscall(SYS_pidfd_open, pid, 0) : -1;
}

/* All or none: a kernel without them has none, and so has a node whose ranks do not see each other's pids. */
static bool open_pidfds(coll__handout_t *handout, const caller_t *members) {
    for (int i = 0; i < handout->local_size; i++) {
        handout->pidfds[i] = pidfd_of(i == 0 ? getpid() : members[i].pid);
        if (handout->pidfds[i] < 0) {
            while (i > 0) {
                close(handout->pidfds[--i]);
                handout->pidfds[i] = -1;
            }
            return false;
        }
    }
    return true;
}

/* Gives one member the lot, and waits until it says that it has it. */
static int give(coll__job_t *job, const coll__handout_t *handout, const welcome_t *welcome, const int *fds,
                int fd_count, int local_rank, int fd, int64_t deadline) {
    int rank = handout->ranks[local_rank], failed;
    failed = coll__fds_send_wait(fd, welcome, sizeof *welcome, &handout->memfd, 1, deadline);
    for (int first = 0; !failed && first < fd_count; first += COLL__FDS_AT_ONCE) {
        uint32_t place = (uint32_t)first;
        int count = fd_count - first < COLL__FDS_AT_ONCE ? fd_count - first : COLL__FDS_AT_ONCE;
        failed = coll__fds_send_wait(fd, &place, sizeof place, fds + first, count, deadline);
    }
    char confirmed;
    while (!failed) {
        int64_t turn = coll__now_ns() + TURN_MS * ms_ns;
        failed = coll__fds_receive_wait(fd, &confirmed, 1, NULL, 0, turn < deadline ? turn : deadline);
        if (!failed)
            return 0;
        if (errno == ETIMEDOUT && coll__now_ns() < deadline && !is_gone(job, rank))
            failed = 0;
    }
    return fail_errno(rank, "did not take the node's segment");
}

static int give_all(coll__job_t *job, coll__handout_t *handout, const caller_t *members, int64_t deadline) {
    int fd_count = handout->local_size;
    int *fds = malloc(2 * (size_t)fd_count * sizeof *fds);
    if (fds == NULL)
        return coll__error(COLL_ERR_MEMORY, "no memory to hand out the node's segment");
    memcpy(fds, handout->wake_fds, (size_t)handout->local_size * sizeof *fds);
    bool has_pidfds = open_pidfds(handout, members);
    if (has_pidfds) {
        memcpy(fds + fd_count, handout->pidfds, (size_t)handout->local_size * sizeof *fds);
        fd_count *= 2;
    }
    welcome_t welcome = {.transport_bytes = handout->transport_bytes,
                         .node_bytes = handout->node_bytes,
                         .local_size = (uint32_t)handout->local_size,
                         .has_pidfds = has_pidfds};
    derive(job, handout, "segment owner", 0, welcome.token);
    int status = 0;
    for (int i = 1; status == 0 && i < handout->local_size; i++)
        status = give(job, handout, &welcome, fds, fd_count, i, members[i].fd, deadline);
    free(fds);
    return status;
}

int coll__handout_give(coll__job_t *job, coll__handout_t *handout, int64_t deadline) {
    char name[64];
    socket_name(job, handout, name);
    int listener = coll__fds_listen(name);
    if (listener < 0)
        return fail_errno(job->rank, "cannot listen at a unix socket for the ranks of its node");

    int caller_count = handout->local_size + 16, status;
    caller_t *callers = malloc((size_t)(caller_count + handout->local_size) * sizeof *callers);
    int *ranks = malloc((size_t)handout->local_size * sizeof *ranks);
    if (callers != NULL && ranks != NULL) {
        caller_t *members = callers + caller_count;
        for (int i = 0; i < caller_count + handout->local_size; i++)
            callers[i].fd = -1;
        status = gather_members(job, handout, listener, callers, caller_count, members, ranks, deadline);
        if (status == 0)
            status = give_all(job, handout, members, deadline);
        for (int i = 0; i < caller_count + handout->local_size; i++)
            if (callers[i].fd >= 0)
                close(callers[i].fd);
    } else
        status = coll__error(COLL_ERR_MEMORY, "no memory to hand out the node's segment");
    free(callers);
    free(ranks);
    close(listener);
    if (status != 0)
        coll__handout_close(handout);
    else if (handout->pidfds[0] >= 0) {
        close(handout->pidfds[0]);
        handout->pidfds[0] = -1;
    }
    return status;
}

/* ---- the others ---- */

static int receive_turns(coll__job_t *job, const coll__handout_t *handout, int fd, void *packet, size_t bytes, int *fds,
                         int fd_count, int64_t deadline) {
    for (;;) {
        int64_t turn = coll__now_ns() + TURN_MS * ms_ns;
        if (coll__fds_receive_wait(fd, packet, bytes, fds, fd_count, turn < deadline ? turn : deadline) == 0)
            return 0;
        if (errno != ETIMEDOUT || coll__now_ns() >= deadline || is_gone(job, handout->ranks[0]))
            return fail_errno(handout->ranks[0], "does not hand out the node's segment");
    }
}

static int take_fds(coll__job_t *job, coll__handout_t *handout, int fd, bool has_pidfds, int64_t deadline) {
    int local_size = handout->local_size, fd_count = has_pidfds ? 2 * local_size : local_size, have = 0, status = 0;
    int *fds = malloc((size_t)fd_count * sizeof *fds);
    if (fds == NULL)
        return coll__error(COLL_ERR_MEMORY, "no memory to take the node's segment");
    while (status == 0 && have < fd_count) {
        uint32_t place;
        int count = fd_count - have < COLL__FDS_AT_ONCE ? fd_count - have : COLL__FDS_AT_ONCE;
        status = receive_turns(job, handout, fd, &place, sizeof place, fds + have, count, deadline);
        if (status == 0)
            have += count;
    }
    for (int i = 0; i < have; i++) {
        int local = i % local_size;
        if (local == handout->local_rank)
            close(fds[i]); /* a copy of what this rank has */
        else if (i < local_size)
            handout->wake_fds[local] = fds[i];
        else
            handout->pidfds[local] = fds[i];
    }
    free(fds);
    return status;
}

static int take(coll__job_t *job, coll__handout_t *handout, int fd, int64_t deadline) {
    int lowest = handout->ranks[0];
    pid_t pid;
    if (coll__fds_peer(fd, &pid) != 0)
        return fail(COLL_ERR_BOOTSTRAP, &lowest, 1, "belongs to another user: the node's memory cannot be shared");

    hello_t hello = {.local_rank = (uint32_t)handout->local_rank};
    derive(job, handout, "segment member", hello.local_rank, hello.token);
    if (coll__fds_send_wait(fd, &hello, sizeof hello, &handout->wake_fds[handout->local_rank], 1, deadline) != 0)
        return fail_errno(lowest, "does not hand out the node's segment");

    welcome_t welcome;
    int status = receive_turns(job, handout, fd, &welcome, sizeof welcome, &handout->memfd, 1, deadline);
    if (status != 0)
        return status;
    if (!token_is_right(job, handout, "segment owner", 0, welcome.token))
        return fail(COLL_ERR_BOOTSTRAP, &lowest, 1, "is not who handed out the node's segment");
    if (welcome.local_size != (uint32_t)handout->local_size || welcome.transport_bytes != handout->transport_bytes ||
        welcome.node_bytes != handout->node_bytes)
        return fail(COLL_ERR_BOOTSTRAP, &lowest, 1,
                    "lays out the node's segment differently: the ranks' settings differ");
    status = take_fds(job, handout, fd, welcome.has_pidfds != 0, deadline);
    if (status == 0 && coll__fds_send_wait(fd, "", 1, NULL, 0, deadline) != 0)
        status = fail_errno(lowest, "does not hand out the node's segment");
    return status;
}

int coll__handout_take(coll__job_t *job, coll__handout_t *handout, int64_t deadline) {
    char name[64];
    socket_name(job, handout, name);
    int lowest = handout->ranks[0], fd;
    int64_t pause = ms_ns / 4;
    while ((fd = coll__fds_connect(name)) < 0) { /* the lowest rank may come later */
        if (errno != ECONNREFUSED && errno != EAGAIN)
            return fail_errno(lowest, "cannot be reached by a unix socket");
        if (is_gone(job, lowest))
            return fail(COLL_ERR_BOOTSTRAP, &lowest, 1, "went away before the node's segment was shared");
        if (coll__now_ns() >= deadline)
            return fail(
                COLL_ERR_TIMEOUT, &lowest, 1,
                "did not share the node's segment in time; ranks with the same COLL_NODE must be in one network "
                "namespace");
        const struct timespec span = {.tv_nsec = pause};
        nanosleep(&span, NULL);
        pause = pause < 10 * ms_ns ? pause * 3 / 2 : pause;
    }
    int status = take(job, handout, fd, deadline);
    close(fd);
    if (status != 0)
        coll__handout_close(handout);
    return status;
}
