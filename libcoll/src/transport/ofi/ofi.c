/* The libfabric transport: messages between nodes. What it consists of is in ofi.h.
 *
 * Built without libfabric's headers, it is a transport that says so. */
#include <stdio.h>

#include "base/error.h"
#include "transport/transport_table.h"

#ifdef COLL_HAVE_LIBFABRIC

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/log.h"
#include "transport/ofi/interface.h"
#include "transport/ofi/ofi.h"

/* What address() puts into its bytes. */
typedef struct wire_address {
    uint64_t key;
    uint32_t bytes;
    uint32_t format; /* FI_SOCKADDR_IN, ... */
    unsigned char name[COLL__ADDRESS_BYTES - 16];
} wire_address_t;

_Static_assert(sizeof(wire_address_t) <= COLL__ADDRESS_BYTES, "an address fits");

static coll__ofi_t *of(coll__transport_t *transport) {
    return (coll__ofi_t *)transport;
}

static int probe(const coll__env_t *env, char *why, size_t why_bytes, char *detail, size_t detail_bytes) {
    const coll__fabric_library_t *library;
    char node[128], providers[256];
    coll__error_info_t error;
    if (coll__fabric_load(&library)) {
        coll__error_save(&error);
        snprintf(why, why_bytes, "%s", error.message);
        return 0;
    }
    coll__fabric_providers(library, providers, sizeof providers);
    struct fi_info *info = NULL;
    int status = coll__interface_address(env, node, sizeof node);
    bool ip = coll__fabric_provider_is_ip(coll__fabric_provider(library, env));
    if (!status)
        status = coll__fabric_info(library, env, ip || env->iface[0] ? node : NULL, &info);
    if (status) {
        coll__error_save(&error);
        snprintf(why, why_bytes, "%s", error.message);
    }
    snprintf(detail, detail_bytes, "libfabric %u.%u at %s; providers: %s; uses %s%s%s", FI_MAJOR(library->version),
             FI_MINOR(library->version), library->path, providers[0] ? providers : "none",
             info ? info->fabric_attr->prov_name : "none", info && ip ? " at " : "", info && ip ? node : "");
    if (info)
        library->freeinfo(info);
    return status == COLL_SUCCESS;
}

static void ofi_close(coll__transport_t *transport) {
    coll__ofi_t *ofi = of(transport);
    /* A child after fork shares the connections: closing them there would end the parent's. */
    if (ofi->process == getpid()) {
        if (ofi->strangers)
            coll__log(COLL__LOG_WARN, "%llu messages that no rank of this job sent were dropped",
                      (unsigned long long)ofi->strangers);
        for (int peer = 0; peer < ofi->world_size; peer++) {
            coll__ofi_bulk_forget(ofi, peer);
            coll__ofi_packets_forget(ofi, peer);
        }
        coll__ofi_endpoint_close(ofi);
        coll__ofi_buffers_close(ofi);
        free(ofi);
    }
}

static int ofi_open(const coll__transport_args_t *args, coll__transport_t **transport) {
    coll__ofi_t *ofi = calloc(1, sizeof *ofi + (size_t)args->world_size * sizeof *ofi->peers);
    if (!ofi)
        return coll__error(COLL_ERR_MEMORY, "out of memory for the libfabric transport");
    ofi->base = (coll__transport_t){.ops = &coll__transport_ofi, .sink = args->sink, .max_packet = args->max_packet};
    ofi->process = getpid();
    ofi->world_rank = args->world_rank;
    ofi->world_size = args->world_size;
    ofi->fd = -1;
    int status = COLL_SUCCESS;
    if (getrandom(&ofi->key, sizeof ofi->key, 0) != sizeof ofi->key)
        status = coll__error(COLL_ERR_TRANSPORT, "the system gives no random numbers");
    if (!status)
        status = coll__ofi_endpoint_open(ofi, args->env);
    if (!status)
        status = coll__ofi_buffers_open(ofi);
    if (!status)
        status = coll__ofi_slots_add(ofi);
    if (status) {
        ofi_close(&ofi->base);
        return status;
    }
    coll__log(COLL__LOG_DEBUG, "libfabric has %zu KiB of message buffers", ofi->memory / 1024);
    *transport = &ofi->base;
    return COLL_SUCCESS;
}

static int ofi_address(coll__transport_t *transport, coll__transport_address_t *address) {
    coll__ofi_t *ofi = of(transport);
    wire_address_t wire = {.key = ofi->key, .format = ofi->info->addr_format};
    size_t bytes = sizeof wire.name;
    int error = fi_getname(&ofi->endpoint->fid, wire.name, &bytes);
    if (error)
        return coll__error(COLL_ERR_TRANSPORT, "libfabric does not tell this process's address: %s",
                           ofi->library->strerror(-error));
    wire.bytes = (uint32_t)bytes;
    memset(address, 0, sizeof *address);
    snprintf(address->identity, sizeof address->identity, "%s %u.%u", ofi->info->fabric_attr->prov_name,
             FI_MAJOR(ofi->library->version), FI_MINOR(ofi->library->version));
    address->bytes = sizeof wire;
    memcpy(address->address, &wire, sizeof wire);
    return COLL_SUCCESS;
}

static int ofi_connect(coll__transport_t *transport, const int *peers, const coll__transport_address_t *addresses,
                       int count) {
    coll__ofi_t *ofi = of(transport);
    for (int i = 0; i < count; i++) {
        coll__ofi_peer_t *peer = &ofi->peers[peers[i]];
        wire_address_t wire;
        if (addresses[i].bytes != sizeof wire)
            return coll__error(COLL_ERR_INTERNAL, "the libfabric address of rank %d has %u bytes, not %zu", peers[i],
                               addresses[i].bytes, sizeof wire);
        memcpy(&wire, addresses[i].address, sizeof wire);
        if (wire.format != ofi->info->addr_format || wire.bytes > sizeof wire.name)
            return coll__error(
                COLL_ERR_CONFIG,
                "rank %d and rank %d use addresses of different families (IPv4 and IPv6?): set COLL_IFACE "
                "to an address of the same family on every node",
                ofi->world_rank, peers[i]);
        int inserted = fi_av_insert(ofi->av, wire.name, 1, &peer->address, 0, NULL);
        if (inserted != 1)
            return coll__error(COLL_ERR_TRANSPORT, "libfabric does not take the address of rank %d: %s", peers[i],
                               inserted < 0 ? ofi->library->strerror(-inserted) : "not valid");
        peer->key = wire.key;
        peer->known = true;
    }
    return COLL_SUCCESS;
}

static int ofi_send(coll__transport_t *transport, int peer, const void *header, size_t header_bytes,
                    const void *payload, size_t payload_bytes) {
    int status = coll__ofi_packet_send(of(transport), peer, header, header_bytes, payload, payload_bytes);
    if (status == COLL__AGAIN)
        transport->counters.again++;
    return status;
}

static int ofi_bulk_send(coll__transport_t *transport, int peer, uint32_t id, const void *buffer, size_t bytes,
                         void *cookie) {
    return coll__ofi_bulk_send(of(transport), peer, id, buffer, bytes, cookie);
}

static int ofi_bulk_recv(coll__transport_t *transport, int peer, uint32_t id, void *buffer, size_t bytes,
                         void *cookie) {
    return coll__ofi_bulk_recv(of(transport), peer, id, buffer, bytes, cookie);
}

static int ofi_poll(coll__transport_t *transport) {
    int events = coll__ofi_packets_poll(of(transport));
    return events < 0 ? events : events + coll__ofi_bulk_poll(of(transport));
}

static int ofi_arm(coll__transport_t *transport) {
    coll__ofi_t *ofi = of(transport);
    if (ofi->finished || ofi->posted == 0)
        return COLL__AGAIN;
    struct fid *queue = &ofi->cq->fid;
    if (fi_trywait(ofi->fabric, &queue, 1) != FI_SUCCESS)
        return COLL__AGAIN;
    struct pollfd now = {.fd = ofi->fd, .events = POLLIN}; /* what has come since, a sleeper would wake for at once */
    return poll(&now, 1, 0) == 0 ? COLL_SUCCESS : COLL__AGAIN;
}

static int ofi_fd(coll__transport_t *transport) {
    return of(transport)->fd;
}

static int ofi_drained(coll__transport_t *transport) {
    return !of(transport)->busy && of(transport)->messages_out == 0;
}

static void ofi_forget(coll__transport_t *transport, int peer) {
    coll__ofi_bulk_forget(of(transport), peer);
    coll__ofi_packets_forget(of(transport), peer);
}

static void ofi_bulk_cancel(coll__transport_t *transport, void *cookie) {
    coll__ofi_bulk_cancel(of(transport), cookie);
}

const coll__transport_ops_t coll__transport_ofi = {
    .name = "ofi",
    .probe = probe,
    .open = ofi_open,
    .address = ofi_address,
    .connect = ofi_connect,
    .send = ofi_send,
    .bulk_send = ofi_bulk_send,
    .bulk_recv = ofi_bulk_recv,
    .poll = ofi_poll,
    .arm = ofi_arm,
    .fd = ofi_fd,
    .drained = ofi_drained,
    .forget = ofi_forget,
    .bulk_cancel = ofi_bulk_cancel,
    .close = ofi_close,
};

#else

#define WITHOUT \
    "this build has no libfabric support: install libfabric's headers (Debian: libfabric-dev) and build again"

static int probe(const coll__env_t *env, char *why, size_t why_bytes, char *detail, size_t detail_bytes) {
    (void)env;
    snprintf(why, why_bytes, "%s", WITHOUT);
    if (detail_bytes)
        detail[0] = '\0';
    return 0;
}

static int ofi_open(const coll__transport_args_t *args, coll__transport_t **transport) {
    (void)args;
    *transport = NULL;
    return coll__error(COLL_ERR_UNSUPPORTED, "%s", WITHOUT);
}

/* open() never succeeds, so nothing else is ever called. */
const coll__transport_ops_t coll__transport_ofi = {.name = "ofi", .probe = probe, .open = ofi_open};

#endif
