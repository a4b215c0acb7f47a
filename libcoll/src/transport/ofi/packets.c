/* The path of all data: messages in memory of this transport (send.c, receive.c), and the completion queue that tells
 * of them.
 *
 * libfabric never holds memory of a caller. That is what makes cancelling safe: neither tcp;ofi_rxm nor tcp can take a
 * send back, nor a receive that has begun, short of closing the endpoint with all its connections.
 */
#ifdef COLL_HAVE_LIBFABRIC

#include <stdlib.h>
#include <utlist.h>

#include "base/clock.h"
#include "base/error.h"
#include "transport/ofi/ofi.h"

enum { COMPLETIONS = 16 /* read at once */, POLL_EVENTS = 64 /* handled by one poll */ };

/* How long the watcher may take to say that a peer is dead before a broken connection counts as an error of its own. */
#define LOST_GRACE_NS INT64_C(3000000000)

static void completed(coll__ofi_t *ofi, const struct fi_cq_tagged_entry *entry) {
    coll__ofi_operation_t *operation = entry->op_context;
    if (operation->receives)
        coll__ofi_received(ofi, entry->op_context, entry);
    else
        coll__ofi_sent(ofi, entry->op_context, 0);
}

static void read_error(coll__ofi_t *ofi) {
    struct fi_cq_err_entry entry = {0};
    if (fi_cq_readerr(ofi->cq, &entry, 0) != 1 || !entry.op_context)
        return;
    coll__ofi_operation_t *operation = entry.op_context;
    if (operation->receives)
        coll__ofi_receive_failed(ofi, entry.op_context, &entry);
    else
        coll__ofi_sent(ofi, entry.op_context, entry.err ? entry.err : FI_EIO);
}

/* Tells once of a peer that could not be reached although nobody said that it is dead. */
static int report_lost(coll__ofi_t *ofi) {
    int64_t now = coll__now_ns();
    for (int peer = 0; peer < ofi->world_size; peer++) {
        coll__ofi_peer_t *state = &ofi->peers[peer];
        if (!state->lost || state->forgotten || state->reported || now - state->lost_at < LOST_GRACE_NS)
            continue;
        state->reported = true;
        ofi->lost_peers--;
        int status = coll__error(COLL_ERR_RANK_FAILED, "the connection to rank %d broke and a message was lost: %s",
                                 peer, ofi->library->strerror(state->lost));
        coll__error_add_ranks(&peer, 1);
        return status;
    }
    return COLL_SUCCESS;
}

int coll__ofi_packets_poll(coll__ofi_t *ofi) {
    struct fi_cq_tagged_entry entries[COMPLETIONS];
    int events = 0, status;
    ssize_t count = COMPLETIONS;
    while (events < POLL_EVENTS && count == COMPLETIONS) { /* less: that was all, and another look is a system call */
        count = fi_cq_read(ofi->cq, entries, COMPLETIONS);
        if (count == -FI_EAGAIN)
            break;
        if (count == -FI_EAVAIL) {
            read_error(ofi);
            events++;
            count = COMPLETIONS;
            continue;
        }
        if (count < 0)
            return coll__error(COLL_ERR_TRANSPORT, "libfabric's completion queue failed: %s",
                               ofi->library->strerror((int)-count));
        for (ssize_t i = 0; i < count; i++)
            completed(ofi, &entries[i]);
        events += (int)count;
    }
    if ((status = coll__ofi_buffers_post(ofi)))
        return status;
    if (ofi->lost_peers && (status = report_lost(ofi)))
        return status;
    return events;
}

void coll__ofi_packets_forget(coll__ofi_t *ofi, int peer) {
    coll__ofi_peer_t *state = &ofi->peers[peer];
    coll__ofi_held_t *held, *next;
    if (state->forgotten)
        return;
    if (state->lost && !state->reported)
        ofi->lost_peers--;
    state->forgotten = true;
    for (int lane = 0; lane < COLL__OFI_LANES; lane++) {
        ofi->messages_out -= state->lanes[lane].out;
        DL_FOREACH_SAFE(state->lanes[lane].held, held, next) {
            DL_DELETE(state->lanes[lane].held, held);
            free(held);
        }
    }
}

#endif
