/* Names, listening sockets and connections, on IPv4 and IPv6 alike. */
#ifndef COLL__BOOTSTRAP_TCP_H
#define COLL__BOOTSTRAP_TCP_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>

enum { COLL__TCP_ADDRESSES = 8, COLL__TCP_NAME_BYTES = 64 };

typedef union coll__tcp_address {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
} coll__tcp_address_t;

typedef struct coll__tcp_addresses {
    int count;
    coll__tcp_address_t at[COLL__TCP_ADDRESSES];
} coll__tcp_addresses_t;

/* All addresses of a host. A name that resolves to loopback only, and this machine's own name or localhost if nobody
 * can resolve it, means loopback in both families. COLL_ERR_BOOTSTRAP names the host. */
int coll__tcp_resolve(const char *host, int port, coll__tcp_addresses_t *addresses);

/* Listens on every address of `host` that is this machine's own; on the wildcard address if none is (rank 0 behind an
 * address translation). COLL_ERR_BOOTSTRAP names address and port when the port is taken. `fds` has room for
 * COLL__TCP_ADDRESSES. */
int coll__tcp_listen(const char *host, int port, int *fds, int *count);

/* Does this socket listen where only this machine reaches it? */
bool coll__tcp_is_on_loopback(int fd);

/* Tries each address once. A connected, nonblocking, tuned socket, or -1 with the reason in errno. */
int coll__tcp_connect(const coll__tcp_addresses_t *addresses, int64_t deadline);

/* Options of an open connection: no delay, and a silent peer (power loss, cut cable) is noticed in about 20 s.
 */
void coll__tcp_tune(int fd);

/* "address:port", "[address]:port" */
void coll__tcp_name(const coll__tcp_address_t *address, char name[COLL__TCP_NAME_BYTES]);

#endif
