/* The local address for traffic between nodes.
 *
 * COLL_IFACE decides if it is set. Otherwise the kernel is asked for the source address of the route to the host where
 * rank 0 listens: the ranks meet over that network, so it reaches. A host name may resolve to a loopback address on its
 * own host (Debian's 127.0.1.1), where it tells nothing about the others; the first interface that is up is taken
 * then. "localhost" and literal loopback addresses mean that all ranks are on this host, and loopback is right.
 */
#ifdef COLL_HAVE_LIBFABRIC

#include "transport/ofi/interface.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/error.h"

static bool is_ip(const struct sockaddr *address) {
    return address && (address->sa_family == AF_INET || address->sa_family == AF_INET6);
}

static socklen_t length_of(const struct sockaddr *address) {
    return address->sa_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
}

static bool to_text(const struct sockaddr *address, char *text, size_t capacity) {
    return getnameinfo(address, length_of(address), text, (socklen_t)capacity, NULL, 0, NI_NUMERICHOST) == 0;
}

static bool is_loopback(const struct sockaddr *address) {
    if (address->sa_family == AF_INET)
        return ntohl(((const struct sockaddr_in *)address)->sin_addr.s_addr) >> 24 == 127;
    return IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)address)->sin6_addr);
}

static bool is_link_local(const struct sockaddr *address) {
    return address->sa_family == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&((const struct sockaddr_in6 *)address)->sin6_addr);
}

/* How much an address of an interface is to be preferred; 0: not usable. */
static int rank_address(const struct ifaddrs *entry) {
    if (!is_ip(entry->ifa_addr) || !(entry->ifa_flags & IFF_UP) || is_link_local(entry->ifa_addr))
        return 0;
    return entry->ifa_addr->sa_family == AF_INET ? 2 : 1;
}

static void list_interfaces(const struct ifaddrs *list, char *text, size_t capacity) {
    size_t used = 0;
    text[0] = '\0';
    for (const struct ifaddrs *entry = list; entry; entry = entry->ifa_next) {
        char address[INET6_ADDRSTRLEN + 20];
        if (!rank_address(entry) || used >= capacity || !to_text(entry->ifa_addr, address, sizeof address))
            continue;
        used += (size_t)snprintf(text + used, capacity - used, "%s%s (%s)", used ? ", " : "", entry->ifa_name, address);
    }
}

/* COLL_IFACE: the name of an interface or one of this host's addresses. */
static int from_name(const struct ifaddrs *list, const char *wanted, char *text, size_t capacity) {
    const struct ifaddrs *best = NULL;
    for (const struct ifaddrs *entry = list; entry; entry = entry->ifa_next) {
        char address[INET6_ADDRSTRLEN + 20];
        if (!rank_address(entry))
            continue;
        bool is_it = strcmp(entry->ifa_name, wanted) == 0 ||
                     (to_text(entry->ifa_addr, address, sizeof address) && strcmp(address, wanted) == 0);
        if (is_it && (!best || rank_address(entry) > rank_address(best)))
            best = entry;
    }
    if (best && to_text(best->ifa_addr, text, capacity))
        return COLL_SUCCESS;
    char there[512];
    list_interfaces(list, there, sizeof there);
    return coll__error(
        COLL_ERR_CONFIG,
        "COLL_IFACE is \"%s\"; this host has no such interface that is up, and no such address; it has %s", wanted,
        there[0] ? there : "none");
}

/* The source address of the route to `host`. No packet is sent. */
static bool from_route(const char *host, char *text, size_t capacity, bool *loopback) {
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_DGRAM}, *list = NULL;
    if (getaddrinfo(host, "9", &hints, &list))
        return false;
    bool found = false;
    for (const struct addrinfo *entry = list; entry && !found; entry = entry->ai_next) {
        int fd = socket(entry->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        if (fd < 0)
            continue;
        struct sockaddr_storage local;
        socklen_t length = sizeof local;
        found = connect(fd, entry->ai_addr, entry->ai_addrlen) == 0 &&
                getsockname(fd, (struct sockaddr *)&local, &length) == 0 &&
                to_text((struct sockaddr *)&local, text, capacity);
        if (found)
            *loopback = is_loopback((struct sockaddr *)&local);
        close(fd);
    }
    freeaddrinfo(list);
    return found;
}

static bool means_loopback(const char *host) {
    struct in6_addr ipv6;
    return strcmp(host, "localhost") == 0 || strncmp(host, "127.", 4) == 0 ||
           (inet_pton(AF_INET6, host, &ipv6) == 1 && IN6_IS_ADDR_LOOPBACK(&ipv6));
}

/* The first interface that is up and not loopback, else loopback. */
static bool first_up(const struct ifaddrs *list, char *text, size_t capacity) {
    const struct ifaddrs *best = NULL;
    int best_rank = 0;
    for (const struct ifaddrs *entry = list; entry; entry = entry->ifa_next) {
        int rank = rank_address(entry);
        if (rank && !(entry->ifa_flags & IFF_LOOPBACK))
            rank += 2;
        if (rank <= best_rank)
            continue;
        best = entry;
        best_rank = rank;
    }
    return best && to_text(best->ifa_addr, text, capacity);
}

int coll__interface_address(const coll__env_t *env, char *text, size_t capacity) {
    struct ifaddrs *list = NULL;
    if (getifaddrs(&list))
        return coll__error(COLL_ERR_TRANSPORT, "the host's network interfaces cannot be listed");
    int status = COLL_SUCCESS;
    bool loopback = false;
    if (env->iface[0])
        status = from_name(list, env->iface, text, capacity);
    else if (!env->addr[0] || !from_route(env->addr, text, capacity, &loopback) ||
             (loopback && !means_loopback(env->addr))) {
        if (!first_up(list, text, capacity))
            status = coll__error(COLL_ERR_TRANSPORT, "no network interface of this host is up, not even loopback");
    }
    freeifaddrs(list);
    return status;
}

#endif
