/* Frames over a nonblocking stream socket. A failed send is not reported to the sender: the same failure shows on the
 * read side, after all that the peer said before, and there is the one place that handles a lost peer. */
#include "bootstrap/conn.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <utlist.h>

struct coll__queued {
    coll__message_t *message;
    size_t sent; /* of frame and payload */
    struct coll__queued *prev, *next;
};

enum {
    FRAMES_A_TURN = 64,         /* read at once, so that a talkative peer does not keep the others waiting */
    BACKLOG_BYTES = 4 * 1 << 20 /* unsent, beyond which notices are lost */
};

coll__message_t *coll__message_new(coll__frame_t frame, const void *payload) {
    coll__message_t *message = malloc(sizeof *message + frame.bytes);
    if (message == NULL)
        return NULL;
    message->references = 1;
    message->frame = frame;
    if (frame.bytes > 0)
        memcpy(message->payload, payload, frame.bytes);
    return message;
}

void coll__message_release(coll__message_t *message) {
    if (message != NULL && --message->references == 0)
        free(message);
}

void coll__conn_open(coll__conn_t *conn, int fd) {
    *conn = (coll__conn_t){.fd = fd};
}

static void drop_queue(coll__conn_t *conn) {
    struct coll__queued *item, *next;
    DL_FOREACH_SAFE(conn->out, item, next) {
        DL_DELETE(conn->out, item);
        coll__message_release(item->message);
        free(item);
    }
    conn->out_bytes = 0;
}

void coll__conn_close(coll__conn_t *conn) {
    drop_queue(conn);
    free(conn->payload);
    if (conn->fd >= 0)
        close(conn->fd);
    *conn = (coll__conn_t){.fd = -1};
}

static void give_up(coll__conn_t *conn) {
    conn->broken = true;
    drop_queue(conn);
    shutdown(conn->fd, SHUT_RDWR);
}

/* Bytes sent so far of a message; true when it is done. */
static bool push(coll__conn_t *conn, coll__message_t *message, size_t *sent) {
    const size_t head = sizeof message->frame, total = head + message->frame.bytes;
    while (*sent < total) {
        struct iovec parts[2];
        int first = *sent < head ? 0 : 1;
        parts[0] = (struct iovec){(char *)&message->frame + *sent, head - *sent};
        if (first == 0)
            parts[1] = (struct iovec){message->payload, message->frame.bytes};
        else
            parts[1] = (struct iovec){message->payload + (*sent - head), total - *sent};
        struct msghdr header = {.msg_iov = parts + first, .msg_iovlen = (size_t)(2 - first)};
        ssize_t bytes = sendmsg(conn->fd, &header, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (bytes >= 0)
            *sent += (size_t)bytes;
        else if (errno == EAGAIN || errno == EWOULDBLOCK)
            return false;
        else if (errno != EINTR) {
            give_up(conn);
            return false;
        }
    }
    return true;
}

void coll__conn_flush(coll__conn_t *conn) {
    while (conn->out != NULL) {
        struct coll__queued *item = conn->out;
        size_t before = item->sent;
        bool done = push(conn, item->message, &item->sent);
        if (conn->broken)
            return; /* the queue is gone */
        conn->out_bytes -= item->sent - before;
        if (!done)
            return;
        DL_DELETE(conn->out, item);
        coll__message_release(item->message);
        free(item);
    }
    if (conn->shut && conn->fd >= 0)
        shutdown(conn->fd, SHUT_WR);
}

void coll__conn_send(coll__conn_t *conn, coll__message_t *message) {
    if (conn->fd < 0 || conn->broken || conn->shut)
        return;
    size_t sent = 0;
    if (message == NULL) {
        give_up(conn);
        return;
    }
    if (conn->out == NULL && (push(conn, message, &sent) || conn->broken))
        return;
    struct coll__queued *item = malloc(sizeof *item);
    if (item == NULL) {
        give_up(conn); /* a stream with a hole would be worse than none */
        return;
    }
    message->references++;
    item->message = message;
    item->sent = sent;
    conn->out_bytes += sizeof message->frame + message->frame.bytes - sent;
    DL_APPEND(conn->out, item);
}

bool coll__conn_send_or_lose(coll__conn_t *conn, coll__message_t *message) {
    if (conn->out_bytes > BACKLOG_BYTES)
        return conn->lost++ > 0;
    coll__conn_send(conn, message);
    return true;
}

void coll__conn_shut(coll__conn_t *conn) {
    conn->shut = true;
    coll__conn_flush(conn);
}

/* 1: all `bytes` are there; 0: not yet; -1: lost. */
static int fill(coll__conn_t *conn, void *into, size_t have, size_t bytes) {
    while (have < bytes) {
        ssize_t count = recv(conn->fd, (char *)into + have, bytes - have, MSG_DONTWAIT);
        if (count > 0) {
            have += (size_t)count;
            conn->got += (size_t)count;
        } else if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return 0;
        else if (count == 0 || errno != EINTR)
            return -1;
    }
    return 1;
}

bool coll__conn_read(coll__conn_t *conn, coll__conn_deliver_t deliver, void *context) {
    const size_t head = sizeof conn->frame;
    for (int turn = 0; turn < FRAMES_A_TURN; turn++) {
        if (conn->got < head) {
            int filled = fill(conn, &conn->frame, conn->got, head);
            if (filled <= 0)
                return filled == 0;
            if (conn->frame.bytes > COLL__FRAME_MAX)
                return false;
            conn->payload = conn->frame.bytes > 0 ? malloc(conn->frame.bytes) : NULL;
            if (conn->frame.bytes > 0 && conn->payload == NULL)
                return false;
        }
        int filled = fill(conn, conn->payload, conn->got - head, conn->frame.bytes);
        if (filled <= 0)
            return filled == 0;

        unsigned char *payload = conn->payload;
        coll__frame_t frame = conn->frame;
        conn->payload = NULL;
        conn->got = 0;
        deliver(context, &frame, payload);
        free(payload);
    }
    return true;
}

short coll__conn_interest(const coll__conn_t *conn) {
    return (short)(POLLIN | (conn->out != NULL ? POLLOUT : 0));
}
