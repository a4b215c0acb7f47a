/* libfabric as a library that is opened when a job needs it, and the provider of it that a job uses. */
#ifndef COLL__FABRIC_H
#define COLL__FABRIC_H

#include <rdma/fabric.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/env.h"

/* The oldest libfabric that works here, and the interface version asked of any. */
#define COLL__FABRIC_NEEDED FI_VERSION(1, 17)

/* What libfabric exports by name; all else is reached through the objects these give. */
typedef struct coll__fabric_library {
    char path[512];
    uint32_t version;
    int (*getinfo)(uint32_t version, const char *node, const char *service, uint64_t flags, const struct fi_info *hints,
                   struct fi_info **info);
    void (*freeinfo)(struct fi_info *info);
    struct fi_info *(*dupinfo)(const struct fi_info *info);
    int (*fabric)(struct fi_fabric_attr *attr, struct fid_fabric **fabric, void *context);
    const char *(*strerror)(int error);
} coll__fabric_library_t;

/* Opens libfabric.so.1, once for the process: it is never closed again. About 200 ms for Debian's. Any thread. */
int coll__fabric_load(const coll__fabric_library_t **library);

/* The provider that the environment asks for, with what the transport requires of it, at the local address `node`
 * (text; NULL: the provider's own choice). The caller frees `info` with library->freeinfo(). */
int coll__fabric_info(const coll__fabric_library_t *library, const coll__env_t *env, const char *node,
                      struct fi_info **info);

/* The name to ask for: COLL_PROVIDER, or the form of tcp that this libfabric has. */
const char *coll__fabric_provider(const coll__fabric_library_t *library, const coll__env_t *env);

/* True for providers whose addresses are those of IP interfaces. */
bool coll__fabric_provider_is_ip(const char *provider);

/* Names of the providers that fit, for people: "tcp;ofi_rxm, udp;ofi_rxd". Returns how many. */
int coll__fabric_providers(const coll__fabric_library_t *library, char *text, size_t capacity);

#endif
