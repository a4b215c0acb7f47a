/* A connection that carries frames and never waits: what cannot be sent now is queued, what came in part is kept. */
#ifndef COLL__BOOTSTRAP_CONN_H
#define COLL__BOOTSTRAP_CONN_H

#include <stdbool.h>
#include <stddef.h>

#include "bootstrap/wire.h"

/* A frame to be sent, shared by the queues of all connections it goes to. */
typedef struct coll__message {
    int references;
    coll__frame_t frame;
    unsigned char payload[];
} coll__message_t;

/* One reference is the caller's. NULL when out of memory. */
coll__message_t *coll__message_new(coll__frame_t frame, const void *payload);
void coll__message_release(coll__message_t *message); /* NULL is allowed */

typedef struct coll__conn {
    int fd;      /* -1: closed */
    bool broken; /* a send failed or memory ran out: nothing more is sent, and the next read says that it is lost */
    bool shut;   /* nothing more will be sent */
    struct coll__queued *out;
    size_t out_bytes;
    size_t lost;         /* notices not sent because too much waits already */
    coll__frame_t frame; /* being read */
    size_t got;          /* of frame and payload */
    unsigned char *payload;
} coll__conn_t;

void coll__conn_open(coll__conn_t *conn, int fd);
void coll__conn_close(coll__conn_t *conn); /* also of one that is closed */

/* Sends at once what the socket takes and queues the rest. */
void coll__conn_send(coll__conn_t *conn, coll__message_t *message);
void coll__conn_flush(coll__conn_t *conn);

/* The same for what may be lost when the peer does not read and much waits already; false the first time it is. */
bool coll__conn_send_or_lose(coll__conn_t *conn, coll__message_t *message);

/* After what is queued, the end of the stream. */
void coll__conn_shut(coll__conn_t *conn);

/* Reads what is there. The payload is valid during the call. False: the connection is lost (or the peer closed it);
 * frames that came before were delivered. */
typedef void (*coll__conn_deliver_t)(void *context, const coll__frame_t *frame, const void *payload);
bool coll__conn_read(coll__conn_t *conn, coll__conn_deliver_t deliver, void *context);

/* What poll() should wait for. */
short coll__conn_interest(const coll__conn_t *conn);

#endif
