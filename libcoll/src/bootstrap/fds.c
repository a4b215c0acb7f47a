/* SOCK_SEQPACKET keeps a packet and its descriptors together. The user id comes from the kernel (SO_PEERCRED), not from
 * what the peer says. */
#include "bootstrap/fds.h"

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"

static int open_socket(const char *name, struct sockaddr_un *address, socklen_t *bytes) {
    memset(address, 0, sizeof *address);
    address->sun_family = AF_UNIX;
    int length = snprintf(address->sun_path + 1, sizeof address->sun_path - 1, "%s", name);
    *bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
    return socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
}

static int give_up(int fd) {
    int why = errno;
    if (fd >= 0)
        close(fd);
    errno = why;
    return -1;
}

int coll__fds_listen(const char *name) {
    struct sockaddr_un address;
    socklen_t bytes;
    int fd = open_socket(name, &address, &bytes);
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, bytes) != 0 || listen(fd, SOMAXCONN) != 0)
        return give_up(fd);
    return fd;
}

int coll__fds_connect(const char *name) {
    struct sockaddr_un address;
    socklen_t bytes;
    int fd = open_socket(name, &address, &bytes);
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, bytes) != 0)
        return give_up(fd);
    return fd;
}

int coll__fds_peer(int fd, pid_t *pid) {
    struct ucred peer;
    socklen_t bytes = sizeof peer;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) != 0 || peer.uid != geteuid())
        return -1;
    *pid = peer.pid;
    return 0;
}

typedef union control {
    struct cmsghdr header;
    char space[CMSG_SPACE(COLL__FDS_AT_ONCE * sizeof(int))];
} control_t;

int coll__fds_send(int fd, const void *packet, size_t bytes, const int *fds, int fd_count) {
    control_t control;
    struct iovec part = {(void *)packet, bytes};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    if (fd_count > 0) {
        memset(&control, 0, sizeof control);
        message.msg_control = &control;
        message.msg_controllen = CMSG_SPACE((size_t)fd_count * sizeof(int));
        struct cmsghdr *rights = CMSG_FIRSTHDR(&message);
        rights->cmsg_level = SOL_SOCKET;
        rights->cmsg_type = SCM_RIGHTS;
        rights->cmsg_len = CMSG_LEN((size_t)fd_count * sizeof(int));
        memcpy(CMSG_DATA(rights), fds, (size_t)fd_count * sizeof(int));
    }
    ssize_t sent;
    do
        sent = sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    while (sent < 0 && errno == EINTR);
    return sent < 0 ? -1 : 0;
}

static void close_all(const int *fds, int count) {
    for (int i = 0; i < count; i++)
        close(fds[i]);
}

int coll__fds_receive(int fd, void *packet, size_t bytes, int *fds, int fd_count) {
    control_t control;
    struct iovec part = {packet, bytes};
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    ssize_t got;
    do
        got = recvmsg(fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    while (got < 0 && errno == EINTR);
    if (got < 0)
        return -1;
    int came[COLL__FDS_AT_ONCE], came_count = 0;
    for (struct cmsghdr *i = CMSG_FIRSTHDR(&message); i != NULL; i = CMSG_NXTHDR(&message, i))
        if (i->cmsg_level == SOL_SOCKET && i->cmsg_type == SCM_RIGHTS && came_count == 0) {
            came_count = (int)((i->cmsg_len - CMSG_LEN(0)) / sizeof(int));
            memcpy(came, CMSG_DATA(i), (size_t)came_count * sizeof(int));
        }
    bool cut = (message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0;
    if ((size_t)got == bytes && came_count == fd_count && !cut) {
        if (fd_count > 0)
            memcpy(fds, came, (size_t)fd_count * sizeof(int));
        return 0;
    }
    close_all(came, came_count);
    /* The kernel cuts the control data short when this process may not open more descriptors. */
    errno = got == 0 ? ECONNRESET : (message.msg_flags & MSG_CTRUNC) != 0 ? EMFILE : EPROTO;
    return -1;
}

/* True when the socket is ready, or worth another look; false with ETIMEDOUT. */
static bool wait_ready(int fd, short events, int64_t deadline) {
    int64_t left = deadline - coll__now_ns();
    if (left <= 0) {
        errno = ETIMEDOUT;
        return false;
    }
    struct pollfd ready = {.fd = fd, .events = events};
    poll(&ready, 1, left > INT64_C(1000000000) ? 1000 : (int)(left / 1000000) + 1);
    return true;
}

int coll__fds_send_wait(int fd, const void *packet, size_t bytes, const int *fds, int fd_count, int64_t deadline) {
    for (;;) {
        if (coll__fds_send(fd, packet, bytes, fds, fd_count) == 0)
            return 0;
        /* ETOOMANYREFS: too many descriptors of this user are on their way; they will be received. */
        if (errno == ETOOMANYREFS) {
            if (coll__now_ns() >= deadline)
                return -1;
            poll(NULL, 0, 1);
        } else if ((errno != EAGAIN && errno != EWOULDBLOCK) || !wait_ready(fd, POLLOUT, deadline))
            return -1;
    }
}

int coll__fds_receive_wait(int fd, void *packet, size_t bytes, int *fds, int fd_count, int64_t deadline) {
    for (;;) {
        if (coll__fds_receive(fd, packet, bytes, fds, fd_count) == 0)
            return 0;
        if ((errno != EAGAIN && errno != EWOULDBLOCK) || !wait_ready(fd, POLLIN, deadline))
            return -1;
    }
}
