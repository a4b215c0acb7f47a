/* What libfabric owns for a process: one reliable datagram endpoint, an address table, one completion queue that a
 * sleeper can wait for, and the registration of memory for providers that want it. */
#ifdef COLL_HAVE_LIBFABRIC

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <utlist.h>

#include "base/error.h"
#include "base/log.h"
#include "transport/ofi/interface.h"
#include "transport/ofi/ofi.h"

/* rxm sends what is longer than 16 KiB by a rendezvous of its own: at twice the price up to 64 KiB, overtaken by
 * shorter messages, and 1.17 can crash when an endpoint is closed in the middle of it. Over tcp its eager protocol
 * takes any length as well, straight into our receive buffers. */
#define RXM_EAGER_LIMIT "2097152"

static int failed(const coll__ofi_t *ofi, const char *what, long error) {
    return coll__error(COLL_ERR_TRANSPORT, "libfabric %u.%u, provider %s: %s failed: %s",
                       FI_MAJOR(ofi->library->version), FI_MINOR(ofi->library->version),
                       ofi->info->fabric_attr->prov_name, what, ofi->library->strerror((int)-error));
}

/* Makes the objects in the order they depend on each other; close() undoes whatever is there. */
static int make(coll__ofi_t *ofi) {
    long error;
    struct fi_cq_attr cq_attr = {.size = 1024, .format = FI_CQ_FORMAT_TAGGED, .wait_obj = FI_WAIT_FD};
    struct fi_av_attr av_attr = {.type = FI_AV_TABLE, .count = (size_t)ofi->world_size};
    if ((error = ofi->library->fabric(ofi->info->fabric_attr, &ofi->fabric, NULL)))
        return failed(ofi, "opening the fabric", error);
    if ((error = fi_domain(ofi->fabric, ofi->info, &ofi->domain, NULL)))
        return failed(ofi, "opening the domain", error);
    if ((error = fi_av_open(ofi->domain, &av_attr, &ofi->av, NULL)))
        return failed(ofi, "making the address table", error);
    if ((error = fi_cq_open(ofi->domain, &cq_attr, &ofi->cq, NULL)))
        return failed(ofi, "making a completion queue with a descriptor", error);
    if ((error = fi_control(&ofi->cq->fid, FI_GETWAIT, &ofi->fd)))
        return failed(ofi, "asking for the completion queue's descriptor", error);
    if ((error = fi_endpoint(ofi->domain, ofi->info, &ofi->endpoint, NULL)))
        return failed(ofi, "making the endpoint", error);
    if ((error = fi_ep_bind(ofi->endpoint, &ofi->av->fid, 0)) ||
        (error = fi_ep_bind(ofi->endpoint, &ofi->cq->fid, FI_TRANSMIT | FI_RECV)))
        return failed(ofi, "binding the endpoint", error);
    if ((error = fi_setopt(&ofi->endpoint->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &ofi->longest,
                           sizeof ofi->longest)))
        return failed(ofi, "setting the longest message", error);
    if ((error = fi_enable(ofi->endpoint)))
        return failed(ofi, "enabling the endpoint", error);
    return COLL_SUCCESS;
}

int coll__ofi_endpoint_open(coll__ofi_t *ofi, const coll__env_t *env) {
    char node[128] = "";
    int status = coll__fabric_load(&ofi->library);
    if (status)
        return status;
    bool ip = coll__fabric_provider_is_ip(coll__fabric_provider(ofi->library, env));
    if ((ip || env->iface[0]) && (status = coll__interface_address(env, node, sizeof node)))
        return status;
    if ((status = coll__fabric_info(ofi->library, env, node[0] ? node : NULL, &ofi->info)))
        return status;

    const char *provider = ofi->info->fabric_attr->prov_name;
    ofi->registers = (ofi->info->domain_attr->mr_mode & FI_MR_LOCAL) != 0;
    ofi->releases_early = strstr(provider, "ofi_rxm") != NULL;
    if (ofi->releases_early)
        setenv("FI_OFI_RXM_EAGER_LIMIT", RXM_EAGER_LIMIT, 0);
    size_t data = ofi->base.max_packet > COLL__OFI_CHUNK_BYTES ? ofi->base.max_packet : COLL__OFI_CHUNK_BYTES;
    ofi->longest = sizeof(coll__ofi_header_t) + coll__ofi_padded(data);
    if (ofi->longest > ofi->info->ep_attr->max_msg_size)
        return coll__error(COLL_ERR_CONFIG, "COLL_PACKET_SIZE is too large: provider %s takes messages of %zu bytes",
                           provider, ofi->info->ep_attr->max_msg_size);
    status = make(ofi);
    if (status == COLL_SUCCESS)
        coll__log(COLL__LOG_INFO, "libfabric %u.%u (%s), provider %s at %s", FI_MAJOR(ofi->library->version),
                  FI_MINOR(ofi->library->version), ofi->library->path, provider, node[0] ? node : "its own address");
    return status;
}

void coll__ofi_endpoint_close(coll__ofi_t *ofi) {
    if (ofi->endpoint)
        fi_close(&ofi->endpoint->fid);
    if (ofi->cq)
        fi_close(&ofi->cq->fid);
    if (ofi->av)
        fi_close(&ofi->av->fid);
    ofi->endpoint = NULL;
    ofi->cq = NULL;
    ofi->av = NULL;
    coll__ofi_block_t *block, *next;
    DL_FOREACH_SAFE(ofi->blocks, block, next) coll__ofi_block_free(ofi, block);
    if (ofi->domain)
        fi_close(&ofi->domain->fid);
    if (ofi->fabric)
        fi_close(&ofi->fabric->fid);
    if (ofi->info)
        ofi->library->freeinfo(ofi->info);
    ofi->domain = NULL;
    ofi->fabric = NULL;
    ofi->info = NULL;
}

coll__ofi_block_t *coll__ofi_block_new(coll__ofi_t *ofi, size_t bytes) {
    coll__ofi_block_t *block = calloc(1, sizeof *block);
    void *memory = block ? mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) : MAP_FAILED;
    if (memory == MAP_FAILED) {
        free(block);
        coll__error(COLL_ERR_MEMORY, "out of memory for %zu bytes of message buffers", bytes);
        return NULL;
    }
    block->memory = memory;
    block->bytes = bytes;
    if (ofi->registers) {
        int error = fi_mr_reg(ofi->domain, memory, bytes, FI_SEND | FI_RECV, 0, 0, 0, &block->registration, NULL);
        if (error) {
            failed(ofi, "registering memory", error);
            munmap(memory, bytes);
            free(block);
            return NULL;
        }
        block->descriptor = fi_mr_desc(block->registration);
        ofi->base.counters.registrations++;
    }
    ofi->memory += bytes;
    DL_APPEND(ofi->blocks, block);
    return block;
}

void coll__ofi_block_free(coll__ofi_t *ofi, coll__ofi_block_t *block) {
    DL_DELETE(ofi->blocks, block);
    ofi->memory -= block->bytes;
    if (block->registration)
        fi_close(&block->registration->fid);
    munmap(block->memory, block->bytes);
    free(block);
}

#endif
