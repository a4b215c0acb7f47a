/* What the point-to-point layer writes on the wire: one 48-byte header before each packet. With 8 bytes of payload and
 * the transport's own 8 bytes it fills one cache line of a shared-memory ring. */
#ifndef COLL__WIRE_H
#define COLL__WIRE_H

#include <stddef.h>
#include <stdint.h>

typedef enum coll__wire_kind {
    COLL__WIRE_EAGER = 1, /* the message itself follows */
    COLL__WIRE_RTS,       /* ready to send: a message of `bytes` waits at the sender under `id` */
    COLL__WIRE_CTS,       /* clear to send: to `id`, as bulk transfer `bulk_id` */
    COLL__WIRE_NACK,      /* message `id` will not be received: its sender is done with it */
    COLL__WIRE_CREDIT,    /* nothing but credits */
    COLL__WIRE_KINDS
} coll__wire_kind_t;

typedef struct coll__wire_header {
    uint8_t kind;
    uint8_t version;
    uint16_t credits; /* eager packets that the receiver of this header may send again */
    uint32_t id;      /* RTS: the sender's; CTS, NACK: the same back */
    uint64_t comm;    /* communicator id */
    uint64_t match;   /* what receives are matched by, see p2p.h */
    uint64_t fingerprint;
    uint64_t bytes;   /* length of the message */
    uint32_t bulk_id; /* CTS */
    uint32_t zero;
} coll__wire_header_t;

_Static_assert(sizeof(coll__wire_header_t) == 48, "with 8 bytes of payload a message must fit one cell");

enum { COLL__WIRE_VERSION = 1 };

/* NULL, or what is wrong with a packet of `packet_bytes`: nothing that a peer sends may lead outside a buffer. */
const char *coll__wire_check(const void *packet, size_t packet_bytes);

#endif
