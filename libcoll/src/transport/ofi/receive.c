/* Messages that come in.
 *
 * A few multi-receive buffers are always posted; libfabric lays messages into them, and a buffer is posted again as
 * soon as all in it was read. No receive waits for a particular message, so the provider's own matching and its limits
 * for unexpected messages never matter, and a process that does not poll is held back by the flow control of its
 * connections.
 *
 * Messages carry numbers, because a provider that moves long ones by another protocol than short ones (rxm beyond
 * 128 KiB) may complete them in another order than they were sent.
 */
#ifdef COLL_HAVE_LIBFABRIC

#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "base/error.h"
#include "transport/ofi/ofi.h"

enum {
    BUFFERS = 4,
    BUFFER_BYTES = 256 * 1024, /* at least, and MESSAGES of the longest kind */
    MESSAGES = 4,
};

/* ---- buffers ---- */

static int post_buffer(coll__ofi_t *ofi, coll__ofi_buffer_t *buffer) {
    struct iovec vector = {.iov_base = buffer->block->memory, .iov_len = buffer->block->bytes};
    struct fi_msg message = {.msg_iov = &vector,
                             .desc = &buffer->block->descriptor,
                             .iov_count = 1,
                             .addr = FI_ADDR_UNSPEC,
                             .context = buffer};
    buffer->completed = buffer->end = 0;
    buffer->released = false;
    ssize_t error = fi_recvmsg(ofi->endpoint, &message, FI_MULTI_RECV);
    if (error == -FI_EAGAIN)
        return COLL__AGAIN;
    if (error)
        return coll__error(COLL_ERR_TRANSPORT, "libfabric takes no receive buffer: %s",
                           ofi->library->strerror((int)-error));
    buffer->posted = true;
    ofi->posted++;
    return COLL_SUCCESS;
}

static int add_buffer(coll__ofi_t *ofi) {
    size_t bytes = MESSAGES * ofi->longest > BUFFER_BYTES ? MESSAGES * ofi->longest : BUFFER_BYTES;
    coll__ofi_buffer_t *buffer = calloc(1, sizeof *buffer);
    if (!buffer)
        return coll__error(COLL_ERR_MEMORY, "out of memory for a receive buffer");
    buffer->operation.receives = true;
    buffer->block = coll__ofi_block_new(ofi, bytes);
    if (!buffer->block) {
        free(buffer);
        return COLL_ERR_MEMORY;
    }
    DL_APPEND(ofi->buffers, buffer);
    return COLL_SUCCESS;
}

int coll__ofi_buffers_open(coll__ofi_t *ofi) {
    for (int i = 0; i < BUFFERS; i++) {
        int status = add_buffer(ofi);
        if (status)
            return status;
    }
    return coll__ofi_buffers_post(ofi);
}

int coll__ofi_buffers_post(coll__ofi_t *ofi) {
    coll__ofi_buffer_t *buffer;
    int status = COLL_SUCCESS;
    if (ofi->posted == BUFFERS)
        return COLL_SUCCESS;
    DL_FOREACH(ofi->buffers, buffer) {
        if (!buffer->posted && !buffer->replaced && (status = post_buffer(ofi, buffer)))
            break;
    }
    return status < 0 ? status : COLL_SUCCESS;
}

/* After the endpoint's close. The blocks are gone with it. */
void coll__ofi_buffers_close(coll__ofi_t *ofi) {
    coll__ofi_buffer_t *buffer, *next;
    DL_FOREACH_SAFE(ofi->buffers, buffer, next) {
        DL_DELETE(ofi->buffers, buffer);
        free(buffer);
    }
}

/* Whether each message that was laid into a released buffer is complete: together they leave less than the longest. */
static bool is_whole(const coll__ofi_t *ofi, const coll__ofi_buffer_t *buffer) {
    return buffer->completed == buffer->end && buffer->block->bytes - buffer->end < ofi->longest;
}

/* libfabric lays nothing more into the buffer. When some of its messages still fill (only where releases_early),
 * another buffer takes its place, and it ends when they are complete: at the latest at close, if their sender died. */
static void settle(coll__ofi_t *ofi, coll__ofi_buffer_t *buffer) {
    bool fills = ofi->releases_early && !is_whole(ofi, buffer);
    if (fills && !buffer->replaced)
        buffer->replaced = add_buffer(ofi) == COLL_SUCCESS;
    if (buffer->posted && (buffer->replaced || !fills)) {
        buffer->posted = false;
        ofi->posted--;
    }
    if (!fills && buffer->replaced) {
        coll__ofi_block_free(ofi, buffer->block);
        DL_DELETE(ofi->buffers, buffer);
        free(buffer);
    }
}

/* ---- messages, in the order they were sent ---- */

/* Whether a rank of this job can have sent it. */
static bool is_valid(const coll__ofi_t *ofi, const coll__ofi_header_t *header, size_t length) {
    if (length < sizeof *header || header->key != ofi->key || header->source >= (uint32_t)ofi->world_size ||
        !ofi->peers[header->source].known || length - sizeof *header != coll__ofi_padded(header->bytes))
        return false;
    return header->kind == COLL__OFI_CHUNK || header->kind == COLL__OFI_GIVE_UP ||
           (header->kind == COLL__OFI_PACKET && header->bytes <= ofi->base.max_packet);
}

static void deliver(coll__ofi_t *ofi, int peer, const coll__ofi_header_t *header) {
    enum coll__ofi_lane lane = coll__ofi_lane_of(header);
    ofi->peers[peer].lanes[lane].next_in++;
    if (lane == COLL__OFI_BULK) {
        coll__ofi_bulk_arrived(ofi, peer, header, header + 1);
        return;
    }
    ofi->base.counters.messages_received++;
    ofi->base.counters.bytes_received += header->bytes;
    ofi->base.sink.packet(ofi->base.sink.context, peer, header + 1, header->bytes);
}

static void hold(coll__ofi_t *ofi, int peer, const coll__ofi_header_t *header) {
    coll__ofi_held_t *held = malloc(sizeof *held + header->bytes);
    if (!held) {
        coll__ofi_lose(ofi, peer, FI_ENOMEM);
        return;
    }
    memcpy(&held->header, header, sizeof *header + header->bytes);
    DL_APPEND(ofi->peers[peer].lanes[coll__ofi_lane_of(header)].held, held);
    ofi->base.counters.copied_bytes += header->bytes;
}

static void deliver_held(coll__ofi_t *ofi, int peer, coll__ofi_order_t *lane) {
    coll__ofi_held_t *held = lane->held;
    while (held) {
        if (held->header.number != lane->next_in) {
            held = held->next;
            continue;
        }
        DL_DELETE(lane->held, held);
        deliver(ofi, peer, &held->header);
        free(held);
        held = lane->held; /* which the call may have changed */
    }
}

static void arrived(coll__ofi_t *ofi, const void *message, size_t length) {
    const coll__ofi_header_t *header = message;
    if (!is_valid(ofi, header, length)) {
        ofi->strangers++;
        return;
    }
    int peer = (int)header->source;
    coll__ofi_order_t *lane = &ofi->peers[peer].lanes[coll__ofi_lane_of(header)];
    if (ofi->peers[peer].forgotten)
        return;
    if (header->number != lane->next_in) {
        hold(ofi, peer, header);
        return;
    }
    deliver(ofi, peer, header);
    if (lane->held)
        deliver_held(ofi, peer, lane);
}

/* ---- completions ---- */

void coll__ofi_received(coll__ofi_t *ofi, coll__ofi_buffer_t *buffer, const struct fi_cq_tagged_entry *entry) {
    if (entry->len) {
        size_t end = (size_t)((unsigned char *)entry->buf - buffer->block->memory) + entry->len;
        buffer->completed += entry->len;
        if (end > buffer->end)
            buffer->end = end;
        arrived(ofi, entry->buf, entry->len);
    }
    if (entry->flags & FI_MULTI_RECV)
        buffer->released = true;
    if (buffer->released)
        settle(ofi, buffer);
}

/* A message broke off because its sender died. rxm ends a buffer without saying so when a message is too long for it,
 * which only a stranger's can be. */
void coll__ofi_receive_failed(coll__ofi_t *ofi, coll__ofi_buffer_t *buffer, const struct fi_cq_err_entry *entry) {
    if ((entry->flags & FI_MULTI_RECV) || entry->err == FI_ETRUNC)
        buffer->released = true;
    if (buffer->released)
        settle(ofi, buffer);
}

#endif
