/* libfabric opened at run time.
 *
 * It is not linked, so that a job on one node starts on a machine without it, and so that one build serves old and new
 * releases. Only the functions in coll__fabric_library_t are looked up by name, with the ABI version FABRIC_1.3: every
 * libfabric since 1.9 exports it, whatever release the headers are of, and the structs of later ABIs only grow at
 * their ends. libfabric itself allocates each of them (dupinfo(NULL) makes the hints).
 *
 * Some builds pull in PSM, whose constructors replace the handlers of SIGINT, SIGSEGV and others. They are told not to
 * (IPATH_NO_BACKTRACE, HFI_NO_BACKTRACE), and the handlers are put back after loading and after the first look at the
 * providers, which loads more.
 */
#ifdef COLL_HAVE_LIBFABRIC

#include "transport/ofi/fabric.h"

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

#define INSTALL "install libfabric1 (Debian), or let LD_LIBRARY_PATH name the folder of a libfabric.so.1"

/* ---- signal handlers, kept as the program has them ---- */

enum { SIGNALS = 65 };

typedef struct handlers {
    struct sigaction action[SIGNALS];
    bool known[SIGNALS];
} handlers_t;

static void handlers_save(handlers_t *handlers) {
    for (int number = 1; number < SIGNALS; number++)
        handlers->known[number] = sigaction(number, NULL, &handlers->action[number]) == 0;
}

static void handlers_restore(const handlers_t *handlers) {
    for (int number = 1; number < SIGNALS; number++) {
        if (handlers->known[number] && number != SIGKILL && number != SIGSTOP)
            sigaction(number, &handlers->action[number], NULL);
    }
}

/* ---- the library ---- */

static int symbol(void *handle, const char *name, const char *version, void *function, size_t bytes) {
    void *address = dlvsym(handle, name, version);
    memcpy(function, &address, bytes);
    return address != NULL;
}

#define SYMBOL(field, name, version) symbol(handle, name, version, &library->field, sizeof library->field)

static int load(coll__fabric_library_t *library) {
    setenv("IPATH_NO_BACKTRACE", "1", 0);
    setenv("HFI_NO_BACKTRACE", "1", 0);
    void *handle = dlopen("libfabric.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
        const char *reason = dlerror();
        return coll__error(COLL_ERR_UNSUPPORTED,
                           "libfabric, which carries messages between nodes, could not be loaded (%s): " INSTALL,
                           reason ? reason : "no reason given");
    }
    struct link_map *map = NULL;
    dlinfo(handle, RTLD_DI_LINKMAP, &map);
    snprintf(library->path, sizeof library->path, "%s", map && map->l_name[0] ? map->l_name : "libfabric.so.1");

    uint32_t (*version)(void) = NULL;
    void *address = dlsym(handle, "fi_version");
    memcpy(&version, &address, sizeof version);
    if (!version)
        return coll__error(COLL_ERR_UNSUPPORTED, "%s has no fi_version(), so it is not a libfabric: " INSTALL,
                           library->path);
    library->version = version();
    bool complete = SYMBOL(getinfo, "fi_getinfo", "FABRIC_1.3") && SYMBOL(freeinfo, "fi_freeinfo", "FABRIC_1.3") &&
                    SYMBOL(dupinfo, "fi_dupinfo", "FABRIC_1.3") && SYMBOL(fabric, "fi_fabric", "FABRIC_1.1") &&
                    SYMBOL(strerror, "fi_strerror", "FABRIC_1.0");
    if (FI_VERSION_LT(library->version, COLL__FABRIC_NEEDED) || !complete)
        return coll__error(
            COLL_ERR_UNSUPPORTED,
            "%s is libfabric %u.%u, %s; %u.%u or newer is needed: take it off LD_LIBRARY_PATH or " INSTALL,
            library->path, FI_MAJOR(library->version), FI_MINOR(library->version),
            complete ? "which is too old" : "and lacks functions of ABI FABRIC_1.3", FI_MAJOR(COLL__FABRIC_NEEDED),
            FI_MINOR(COLL__FABRIC_NEEDED));
    return COLL_SUCCESS;
}

int coll__fabric_load(const coll__fabric_library_t **library) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static coll__fabric_library_t loaded;
    static bool done;
    int status = COLL_SUCCESS;
    pthread_mutex_lock(&lock);
    if (!done) {
        handlers_t handlers;
        handlers_save(&handlers);
        status = load(&loaded);
        handlers_restore(&handlers);
        done = status == COLL_SUCCESS;
    }
    pthread_mutex_unlock(&lock);
    *library = status == COLL_SUCCESS ? &loaded : NULL;
    return status;
}

/* ---- providers ---- */

static int getinfo(const coll__fabric_library_t *library, const char *node, const struct fi_info *hints,
                   struct fi_info **info) {
    handlers_t handlers;
    handlers_save(&handlers);
    int error = library->getinfo(COLL__FABRIC_NEEDED, node, NULL, node ? FI_SOURCE : 0, hints, info);
    handlers_restore(&handlers);
    return error;
}

static struct fi_info *make_hints(const coll__fabric_library_t *library, const char *provider) {
    struct fi_info *hints = library->dupinfo(NULL);
    if (!hints)
        return NULL;
    hints->caps = FI_MSG | FI_MULTI_RECV;
    hints->mode = FI_CONTEXT | FI_CONTEXT2;
    hints->ep_attr->type = FI_EP_RDM;
    hints->tx_attr->msg_order = FI_ORDER_SAS;
    hints->rx_attr->msg_order = FI_ORDER_SAS;
    hints->domain_attr->threading = FI_THREAD_DOMAIN;
    hints->domain_attr->control_progress = FI_PROGRESS_MANUAL;
    hints->domain_attr->data_progress = FI_PROGRESS_MANUAL;
    hints->domain_attr->resource_mgmt = FI_RM_ENABLED;
    hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_VIRT_ADDR;
    if (provider && !(hints->fabric_attr->prov_name = strdup(provider))) {
        library->freeinfo(hints);
        return NULL;
    }
    return hints;
}

const char *coll__fabric_provider(const coll__fabric_library_t *library, const coll__env_t *env) {
    bool asked_for_tcp = !env->provider[0] || strcmp(env->provider, "tcp") == 0;
    if (!asked_for_tcp)
        return env->provider;
    /* Until 1.17 the tcp provider knows connections only, and rxm makes a reliable datagram endpoint of them. */
    return FI_VERSION_GE(library->version, FI_VERSION(1, 18)) ? "tcp" : "tcp;ofi_rxm";
}

bool coll__fabric_provider_is_ip(const char *provider) {
    static const char *const names[] = {"tcp", "net", "sockets", "udp", "verbs"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        size_t length = strlen(names[i]);
        if (strncmp(provider, names[i], length) == 0 && (!provider[length] || provider[length] == ';'))
            return true;
    }
    return false;
}

int coll__fabric_providers(const coll__fabric_library_t *library, char *text, size_t capacity) {
    if (capacity)
        text[0] = '\0';
    struct fi_info *hints = make_hints(library, NULL), *list = NULL;
    if (!hints || getinfo(library, NULL, hints, &list))
        list = NULL;
    int count = 0;
    size_t used = 0;
    for (const struct fi_info *info = list; info && used < capacity; info = info->next) {
        const char *name = info->fabric_attr->prov_name;
        const struct fi_info *earlier = list; /* a provider is there once for each of its addresses */
        while (earlier != info && strcmp(earlier->fabric_attr->prov_name, name) != 0)
            earlier = earlier->next;
        if (earlier == info)
            used += (size_t)snprintf(text + used, capacity - used, "%s%s", count++ ? ", " : "", name);
    }
    if (list)
        library->freeinfo(list);
    if (hints)
        library->freeinfo(hints);
    return count;
}

int coll__fabric_info(const coll__fabric_library_t *library, const coll__env_t *env, const char *node,
                      struct fi_info **info) {
    *info = NULL;
    const char *provider = coll__fabric_provider(library, env);
    unsigned major = FI_MAJOR(library->version), minor = FI_MINOR(library->version);
    if (FI_VERSION_LT(library->version, FI_VERSION(1, 18)) && strncmp(provider, "net", 3) == 0)
        return coll__error(COLL_ERR_CONFIG,
                           "COLL_PROVIDER is \"%s\": in libfabric %u.%u its descriptor stays readable, so that waiting "
                           "takes a whole core; use tcp",
                           provider, major, minor);
    struct fi_info *hints = make_hints(library, provider);
    if (!hints)
        return coll__error(COLL_ERR_MEMORY, "out of memory for the hints to libfabric");
    int error = getinfo(library, node, hints, info);
    library->freeinfo(hints);
    if (!error)
        return COLL_SUCCESS;
    char providers[256];
    coll__fabric_providers(library, providers, sizeof providers);
    return coll__error(COLL_ERR_CONFIG,
                       "libfabric %u.%u (%s) has no provider \"%s\" that fits%s%s: %s; COLL_PROVIDER can be one of: %s",
                       major, minor, library->path, provider, node ? " at address " : "", node ? node : "",
                       library->strerror(-error), providers[0] ? providers : "none");
}

#endif
