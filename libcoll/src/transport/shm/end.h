/* One process's end of the shm transport, shared by shm.c (packets) and bulk.c (bulk data). */
#ifndef COLL__SHM_END_H
#define COLL__SHM_END_H

#include "transport/shm/pool.h"
#include "transport/shm/region.h"
#include "transport/transport.h"

/* A bulk transfer that is not finished, in the list of its peer. */
typedef struct coll__shm_transfer {
    struct coll__shm_transfer *prev, *next;
    unsigned char *buffer;
    size_t bytes;
    size_t done;
    uint32_t id;
    uint32_t serial; /* of a receive: valid once it has begun */
    bool begun;
    void *cookie;
} coll__shm_transfer_t;

typedef struct coll__shm_peer {
    int world_rank;
    int local_rank;
    bool gone;          /* forgotten: nothing more is sent to it, what it has sent is still read */
    const char *damage; /* what it wrote that cannot be: it is not read any more; NULL: nothing */
    size_t refused;     /* length + 1 of the packet that send() had no room for since the last poll(), or 0 */
    coll__ring_in_t in;
    coll__ring_out_t out;
    coll__pool_held_t held;
    coll__shm_transfer_t *sends, *receives;
} coll__shm_peer_t;

typedef struct coll__shm {
    coll__transport_t base;
    const coll__segment_t *segment;
    coll__shm_region_t region;
    size_t inline_max; /* packets up to this length lie in the ring */
    coll__pool_t pool;
    int world_rank, world_size;
    coll__shm_peer_t *peers;    /* [peer_count] */
    coll__shm_peer_t **peer_of; /* [world_size], NULL: not connected */
    int peer_count;
    int first;         /* where the next poll begins */
    int send_count;    /* unfinished bulk sends */
    int refused_count; /* peers with `refused` */
    uint32_t serial;   /* of the last bulk send */
} coll__shm_t;

/* The peer with that world rank if something may be sent to or expected from it; NULL after an error was recorded. */
coll__shm_peer_t *coll__shm_find(coll__shm_t *shm, int world_rank, int *status);

/* Is there room for a record with a slot? Looks what the peers have given back, if needed. */
bool coll__shm_slot_room(coll__shm_t *shm, coll__shm_peer_t *peer, uint32_t limit);

/* Publishes a record with a slot that has been filled. Room was asked for before. */
void coll__shm_publish_slot(coll__shm_t *shm, coll__shm_peer_t *peer, coll__ring_kind_t kind,
                            const coll__ring_slot_t *record, uint32_t length);

/* The peer wrote what cannot be: stops reading from it and records the error. */
int coll__shm_corrupt(coll__shm_peer_t *peer, const char *what);
#define COLL__SHM_FALSE_READ "it claims to have read what was never written"

/* ---- bulk.c ---- */

int coll__shm_bulk_send(coll__transport_t *transport, int peer, uint32_t id, const void *buffer, size_t bytes,
                        void *cookie);
int coll__shm_bulk_recv(coll__transport_t *transport, int peer, uint32_t id, void *buffer, size_t bytes, void *cookie);
void coll__shm_bulk_cancel(coll__transport_t *transport, void *cookie);
void coll__shm_bulk_drop(coll__shm_t *shm, coll__shm_peer_t *peer); /* all of a peer's */

/* A piece has come: 0, or an error if the record cannot be. */
int coll__shm_bulk_piece(coll__shm_t *shm, coll__shm_peer_t *peer, const coll__ring_slot_t *record, uint32_t length);

/* Copies pieces out to the peer as far as there is room, a bounded number. Returns how many, or an error. */
int coll__shm_bulk_pump(coll__shm_t *shm, coll__shm_peer_t *peer);

#endif
