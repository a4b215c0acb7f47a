/* The contract of a transport: packets and bulk data between this process and its peers.
 *
 * Rules for every function except open and connect:
 *   - none blocks, sleeps or spins: what cannot be done now is COLL__AGAIN, and poll() makes it possible later;
 *   - none is called by two threads at once (the engine holds its lock);
 *   - callbacks of the sink run inside poll() only, never inside send or bulk calls, and may call send and bulk calls;
 *   - 0 is success, COLL__AGAIN is "later", negative is an error made with coll__error().
 *
 * Peers are world ranks. Packets between two processes arrive once and in the order sent. Bulk transfers have no order
 * with respect to packets or each other.
 *
 * A transport is one struct, exported as coll__transport_<name>; transport_table.h lists them all, and the conformance
 * suite in tests/conformance runs over each row.
 */
#ifndef COLL__TRANSPORT_H
#define COLL__TRANSPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/env.h"
#include "base/segment.h"
#include "base/status.h"

typedef struct coll__transport coll__transport_t; /* each transport embeds this first in its own struct */

/* Who is told what arrived. */
typedef struct coll__sink {
    void *context;
    /* A packet from `peer`: `bytes` long, in the transport's memory, valid during the call only, aligned to 8. */
    void (*packet)(void *context, int peer, const void *packet, size_t bytes);
    /* A bulk transfer ended: its buffer is the caller's again. status 0 or an error. */
    void (*bulk_done)(void *context, void *cookie, int status);
} coll__sink_t;

enum { COLL__ADDRESS_BYTES = 192, COLL__IDENTITY_BYTES = 192 };

/* What must agree between processes that talk over the transport, and where this one is. */
typedef struct coll__transport_address {
    char identity[COLL__IDENTITY_BYTES]; /* text, e.g. "tcp;ofi_rxm 1.17"; must be equal on all ranks */
    uint32_t bytes;
    unsigned char address[COLL__ADDRESS_BYTES];
} coll__transport_address_t;

typedef struct coll__transport_args {
    const coll__env_t *env;
    int world_rank;
    int world_size;
    size_t max_packet;              /* header and payload: the longest packet that send() must take */
    const coll__segment_t *segment; /* shm only; outlives the transport */
    void *sim_world;                /* sim only */
    coll__sink_t sink;
} coll__transport_args_t;

typedef struct coll__transport_counters {
    uint64_t messages_sent, messages_received; /* packets */
    uint64_t bytes_sent, bytes_received;       /* of packets, headers included */
    uint64_t bulk_sent, bulk_received;         /* transfers */
    uint64_t bulk_bytes_sent, bulk_bytes_received;
    uint64_t copied_bytes;  /* by this process's CPU, packets and bulk */
    uint64_t again;         /* times that a call answered COLL__AGAIN */
    uint64_t registrations; /* memory registrations made */
} coll__transport_counters_t;

typedef struct coll__transport_ops {
    const char *name;

    /* Can it work in this process? 1, or 0 with the reason in `why` (what is missing, what to install). Must be cheap
     * when the answer does not need a library to be loaded. `detail` gets what `pycoll info` shows (providers,
     * version). */
    int (*probe)(const coll__env_t *env, char *why, size_t why_bytes, char *detail, size_t detail_bytes);

    /* Makes this process's end. May take time (loading a library) but waits for nobody. */
    int (*open)(const coll__transport_args_t *args, coll__transport_t **transport);

    /* This end's address, to be carried to the peers by the bootstrap. */
    int (*address)(coll__transport_t *transport, coll__transport_address_t *address);

    /* Learns where the `count` peers (world ranks, this process not among them unless the transport is self) are.
     * The addresses are copied. */
    int (*connect)(coll__transport_t *transport, const int *peers, const coll__transport_address_t *addresses,
                   int count);

    /* Sends one packet of header and payload, back to back. Both are copied or gone when it returns 0. COLL__AGAIN: no
     * room now, nothing was sent. header_bytes is a multiple of 8; the sum is at most max_packet. */
    int (*send)(coll__transport_t *transport, int peer, const void *header, size_t header_bytes, const void *payload,
                size_t payload_bytes);

    /* Bulk data, announced beforehand by packets of the layer above: the receiver calls bulk_recv(), then tells the
     * sender, who calls bulk_send() with the same id and the same length. `id` is the receiver's choice, unique among
     * its unfinished transfers, below 2^32. Buffers belong to the transport until sink.bulk_done(cookie). bytes > 0. */
    int (*bulk_send)(coll__transport_t *transport, int peer, uint32_t id, const void *buffer, size_t bytes,
                     void *cookie);
    int (*bulk_recv)(coll__transport_t *transport, int peer, uint32_t id, void *buffer, size_t bytes, void *cookie);

    /* Moves everything that can move and delivers what has arrived, bounded (a fair share for each peer, then return).
     * Returns the number of events (packets, bulk progress), 0 for none, negative for an error of the transport itself.
     */
    int (*poll)(coll__transport_t *transport);

    /* Before the process sleeps: 0 if sleeping is safe (all seen; fd() will wake it), COLL__AGAIN if poll() must be
     * called first. Nothing needs undoing after it. */
    int (*arm)(coll__transport_t *transport);

    /* A descriptor that becomes readable when something arrives; -1: the process's wake fd is written instead. */
    int (*fd)(coll__transport_t *transport);

    /* 1 when nothing that was accepted waits in this process's own memory: the process could exit and peers would still
     * get it. */
    int (*drained)(coll__transport_t *transport);

    /* `peer` is dead or has left: nothing more is sent to it. Its unfinished bulk transfers are dropped without
     * bulk_done: when it returns, their buffers are the caller's again. */
    void (*forget)(coll__transport_t *transport, int peer);

    /* Gives up the unfinished bulk transfer with this cookie; when it returns, the buffer is the caller's again. */
    void (*bulk_cancel)(coll__transport_t *transport, void *cookie);

    void (*close)(coll__transport_t *transport);
} coll__transport_ops_t;

struct coll__transport {
    const coll__transport_ops_t *ops;
    coll__sink_t sink;
    size_t max_packet;
    coll__transport_counters_t counters;
};

#endif
