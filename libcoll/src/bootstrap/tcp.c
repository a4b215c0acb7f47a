/* Sockets are close-on-exec and nonblocking, and writes never raise SIGPIPE (MSG_NOSIGNAL at each send). */
#include "bootstrap/tcp.h"

#include <arpa/inet.h>
#include <coll.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"

/* A connection attempt that nothing answers (packets dropped by a filter) gives way to the next address. */
static const int64_t attempt_ns = INT64_C(5000000000);

static socklen_t address_bytes(const coll__tcp_address_t *address) {
    return address->any.sa_family == AF_INET6 ? sizeof address->v6 : sizeof address->v4;
}

void coll__tcp_name(const coll__tcp_address_t *address, char name[COLL__TCP_NAME_BYTES]) {
    char text[INET6_ADDRSTRLEN] = "?";
    if (address->any.sa_family == AF_INET6) {
        inet_ntop(AF_INET6, &address->v6.sin6_addr, text, sizeof text);
        snprintf(name, COLL__TCP_NAME_BYTES, "[%s]:%d", text, ntohs(address->v6.sin6_port));
    } else {
        inet_ntop(AF_INET, &address->v4.sin_addr, text, sizeof text);
        snprintf(name, COLL__TCP_NAME_BYTES, "%s:%d", text, ntohs(address->v4.sin_port));
    }
}

static coll__tcp_address_t address_v4(in_addr_t host, int port) {
    return (coll__tcp_address_t){
        .v4 = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(host)}};
}

static coll__tcp_address_t address_v6(struct in6_addr host, int port) {
    return (coll__tcp_address_t){
        .v6 = {.sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port), .sin6_addr = host}};
}

/* Machines without an entry for their own name are common; so are containers without /etc/hosts. */
static bool means_this_machine(const char *host) {
    char own[256] = "";
    gethostname(own, sizeof own - 1);
    size_t short_name = strcspn(own, ".");
    return strcasecmp(host, "localhost") == 0 || strcasecmp(host, own) == 0 ||
           (strlen(host) == short_name && strncasecmp(host, own, short_name) == 0);
}

static bool is_loopback(const coll__tcp_address_t *address) {
    return address->any.sa_family == AF_INET6 ? IN6_IS_ADDR_LOOPBACK(&address->v6.sin6_addr)
                                              : ntohl(address->v4.sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
}

/* A name for loopback means it in both families: a hosts file often knows one, and the machine may have the other. */
static void add_loopback(coll__tcp_addresses_t *addresses, int port) {
    const coll__tcp_address_t both[] = {address_v4(INADDR_LOOPBACK, port), address_v6(in6addr_loopback, port)};
    for (int i = 0; i < 2; i++) {
        bool known = addresses->count == COLL__TCP_ADDRESSES;
        for (int j = 0; j < addresses->count; j++)
            known = known || memcmp(&addresses->at[j], &both[i], address_bytes(&both[i])) == 0;
        if (!known)
            addresses->at[addresses->count++] = both[i];
    }
}

int coll__tcp_resolve(const char *host, int port, coll__tcp_addresses_t *addresses) {
    /* Not AI_ADDRCONFIG: it does not count loopback, and would leave a machine with nothing else without addresses. */
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
    struct addrinfo *list = NULL;
    char service[16];
    snprintf(service, sizeof service, "%d", port);

    addresses->count = 0;
    bool only_loopback = true;
    int failed = getaddrinfo(host, service, &hints, &list), system_error = errno;
    for (struct addrinfo *i = failed ? NULL : list; i != NULL && addresses->count < COLL__TCP_ADDRESSES; i = i->ai_next)
        if (i->ai_family == AF_INET || i->ai_family == AF_INET6) {
            coll__tcp_address_t *address = &addresses->at[addresses->count++];
            *address = (coll__tcp_address_t){0};
            memcpy(address, i->ai_addr, i->ai_addrlen);
            only_loopback = only_loopback && is_loopback(address);
        }
    if (!failed)
        freeaddrinfo(list);

    unsigned char numeric[sizeof(struct in6_addr)];
    bool is_name = inet_pton(AF_INET, host, numeric) != 1 && inet_pton(AF_INET6, host, numeric) != 1;
    if (addresses->count > 0 ? is_name && only_loopback : means_this_machine(host))
        add_loopback(addresses, port);
    if (addresses->count > 0)
        return 0;
    const char *why = !failed                ? "it has no IP address"
                      : failed == EAI_SYSTEM ? strerror(system_error)
                                             : gai_strerror(failed);
    return coll__error(COLL_ERR_BOOTSTRAP, "cannot resolve the host '%s' where rank 0 listens: %s", host, why);
}

/* A listening socket, or -1 with errno. */
static int try_to_listen(const coll__tcp_address_t *address, bool both_families) {
    int fd = socket(address->any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -1;
    const int on = 1, only_v6 = !both_families;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on); /* connections of a job just ended do not hold the port */
    if (address->any.sa_family == AF_INET6)
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &only_v6, sizeof only_v6);
    if (bind(fd, &address->any, address_bytes(address)) == 0 && listen(fd, SOMAXCONN) == 0)
        return fd;
    int why = errno;
    close(fd);
    errno = why;
    return -1;
}

/* A rank that knocks too early can meet itself, and then has the port for a moment. */
static int listen_at(const coll__tcp_address_t *address, bool both_families) {
    int fd = try_to_listen(address, both_families);
    for (int i = 0; i < 5 && fd < 0 && errno == EADDRINUSE; i++) {
        poll(NULL, 0, 4);
        fd = try_to_listen(address, both_families);
    }
    return fd;
}

static int listen_failed(const coll__tcp_address_t *address, int why) {
    char name[COLL__TCP_NAME_BYTES];
    coll__tcp_name(address, name);
    return coll__error(COLL_ERR_BOOTSTRAP, "rank 0 cannot listen at %s: %s%s", name, strerror(why),
                       why == EADDRINUSE ? "; choose another port, or end the job that uses it" : "");
}

/* The machine may lack the address (it is another's, or translated) or the whole family. */
static bool not_here(int why) {
    return why == EADDRNOTAVAIL || why == EAFNOSUPPORT || why == EINVAL || why == EPROTONOSUPPORT;
}

int coll__tcp_listen(const char *host, int port, int *fds, int *count) {
    coll__tcp_addresses_t addresses;
    *count = 0;
    int status = coll__tcp_resolve(host, port, &addresses);
    for (int i = 0; status == 0 && i < addresses.count; i++) {
        int fd = listen_at(&addresses.at[i], false);
        if (fd >= 0)
            fds[(*count)++] = fd;
        else if (!not_here(errno))
            status = listen_failed(&addresses.at[i], errno);
    }
    if (status == 0 && *count == 0) {
        coll__tcp_address_t any = address_v6(in6addr_any, port);
        fds[0] = listen_at(&any, true);
        if (fds[0] < 0 && not_here(errno)) {
            any = address_v4(INADDR_ANY, port);
            fds[0] = listen_at(&any, true);
        }
        if (fds[0] >= 0)
            *count = 1;
        else
            status = listen_failed(&any, errno);
    }
    while (status != 0 && *count > 0)
        close(fds[--*count]);
    return status;
}

bool coll__tcp_is_on_loopback(int fd) {
    coll__tcp_address_t here = {0};
    socklen_t bytes = sizeof here;
    return getsockname(fd, &here.any, &bytes) == 0 && is_loopback(&here);
}

/* With nobody listening, a connection to a local port can be given that very port as its own and meet itself. */
static bool connected_to_itself(int fd) {
    coll__tcp_address_t here = {0}, there = {0};
    socklen_t here_bytes = sizeof here, there_bytes = sizeof there;
    if (getsockname(fd, &here.any, &here_bytes) != 0 || getpeername(fd, &there.any, &there_bytes) != 0)
        return false;
    if (here.any.sa_family == AF_INET6)
        return here.v6.sin6_port == there.v6.sin6_port &&
               memcmp(&here.v6.sin6_addr, &there.v6.sin6_addr, sizeof here.v6.sin6_addr) == 0;
    return here.v4.sin_port == there.v4.sin_port && here.v4.sin_addr.s_addr == there.v4.sin_addr.s_addr;
}

/* 0 or an errno. */
static int connect_at(int fd, const coll__tcp_address_t *address, int64_t deadline) {
    if (connect(fd, &address->any, address_bytes(address)) != 0) {
        if (errno != EINPROGRESS)
            return errno;
        struct pollfd ready = {.fd = fd, .events = POLLOUT};
        int events;
        do {
            int64_t left = deadline - coll__now_ns();
            events = left <= 0 ? 0 : poll(&ready, 1, (int)(left / 1000000) + 1);
            if (left <= 0)
                return ETIMEDOUT;
        } while (events == 0 || (events < 0 && errno == EINTR));
        int why = 0;
        socklen_t bytes = sizeof why;
        if (events < 0 || getsockopt(fd, SOL_SOCKET, SO_ERROR, &why, &bytes) != 0)
            return errno;
        if (why != 0)
            return why;
    }
    if (connected_to_itself(fd)) {
        const struct linger drop = {.l_onoff = 1, .l_linger = 0}; /* no TIME_WAIT that would hold rank 0's port */
        setsockopt(fd, SOL_SOCKET, SO_LINGER, &drop, sizeof drop);
        return ECONNREFUSED;
    }
    return 0;
}

int coll__tcp_connect(const coll__tcp_addresses_t *addresses, int64_t deadline) {
    int why = ETIMEDOUT;
    for (int i = 0; i < addresses->count; i++) {
        int fd = socket(addresses->at[i].any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (fd < 0) {
            why = errno;
            continue;
        }
        int64_t limit = coll__now_ns() + attempt_ns;
        why = connect_at(fd, &addresses->at[i], limit < deadline ? limit : deadline);
        if (why == 0) {
            coll__tcp_tune(fd);
            return fd;
        }
        close(fd);
    }
    errno = why;
    return -1;
}

void coll__tcp_tune(int fd) {
    /* Probes after 10 s of silence, every 3 s; a host that answers nothing for 20 s is given up, whether data is on its
     * way to it or not. That holds as well for a peer which is stopped and has let its window be full for that long;
     * with the few bytes that go over these connections a window does not fill in practice. A stopped process whose
     * window is open keeps its connection: its kernel answers the probes. */
    const int on = 1, idle_s = 10, interval_s = 3, probes = 5;
    const unsigned unanswered_ms = 20000;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof idle_s);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval_s, sizeof interval_s);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
    setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &unanswered_ms, sizeof unanswered_ms);
}
