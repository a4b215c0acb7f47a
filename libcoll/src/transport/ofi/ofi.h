/* Shared by the files of this folder: endpoint.c (what libfabric owns), send.c and receive.c (messages and their
 * memory), packets.c (completions), bulk.c (transfers cut into messages) and ofi.c (the transport). */
#ifndef COLL__OFI_H
#define COLL__OFI_H

#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <sys/types.h>

#include "transport/ofi/fabric.h"
#include "transport/transport.h"

/* Goes before every message; a multiple of 8, and messages are padded to 8, so that packets stay aligned in a
 * multi-receive buffer, where they lie back to back. */
typedef struct coll__ofi_header {
    uint64_t key;    /* the receiver's, from its address: who does not know it is no rank of this job */
    uint32_t source; /* world rank */
    uint32_t kind;   /* enum coll__ofi_kind */
    uint32_t bytes;  /* that follow, padding not counted */
    uint32_t number; /* place in the order of its pair and lane */
    uint32_t id;     /* of the transfer; packet: 0 */
    uint32_t unused;
    uint64_t offset; /* of a chunk in its transfer; otherwise 0 */
} coll__ofi_header_t;

/* Data in the longest chunk: so long that its own price does not show, short enough to form a pipeline. */
enum { COLL__OFI_CHUNK_BYTES = 128 * 1024 };

enum coll__ofi_kind {
    COLL__OFI_PACKET = 1,
    COLL__OFI_CHUNK,  /* of a bulk transfer */
    COLL__OFI_GIVE_UP /* no more chunks of this transfer will come */
};

/* Packets are in order among themselves, and so is bulk data; neither waits for the other. */
enum coll__ofi_lane { COLL__OFI_PACKETS, COLL__OFI_BULK, COLL__OFI_LANES };

static inline enum coll__ofi_lane coll__ofi_lane_of(const coll__ofi_header_t *header) {
    return header->kind == COLL__OFI_PACKET ? COLL__OFI_PACKETS : COLL__OFI_BULK;
}

static inline size_t coll__ofi_padded(size_t bytes) {
    return (bytes + 7) & ~(size_t)7;
}

/* What libfabric gives back as the context of a completion: the first member of slots and buffers. */
typedef struct coll__ofi_operation {
    struct fi_context2 context;
    bool receives;
} coll__ofi_operation_t;

/* Memory of one message on its way out. libfabric has it from a successful send until the completion. */
typedef struct coll__ofi_slot {
    coll__ofi_operation_t operation;
    struct coll__ofi_slot *next; /* in the free list */
    void *descriptor;
    int peer;
    coll__ofi_header_t header; /* the message: header and data, back to back */
    unsigned char data[];
} coll__ofi_slot_t;

/* A multi-receive buffer: libfabric lays messages into it one after another until less than the longest message is
 * left. */
typedef struct coll__ofi_buffer {
    coll__ofi_operation_t operation;
    struct coll__ofi_buffer *prev, *next;
    struct coll__ofi_block *block;
    size_t completed; /* bytes of the messages that are complete */
    size_t end;       /* where the last of them ends */
    bool posted;
    bool released; /* libfabric will lay no further message into it */
    bool replaced;
} coll__ofi_buffer_t;

/* Memory that libfabric may read or write, registered if the provider wants that. */
typedef struct coll__ofi_block {
    unsigned char *memory;
    size_t bytes;
    struct fid_mr *registration; /* NULL: not needed */
    void *descriptor;
    struct coll__ofi_block *prev, *next;
} coll__ofi_block_t;

/* A message that came before one that was sent earlier. */
typedef struct coll__ofi_held {
    struct coll__ofi_held *prev, *next;
    coll__ofi_header_t header; /* and its data, back to back */
} coll__ofi_held_t;

typedef struct coll__ofi_order {
    int out;                    /* slots that libfabric has */
    uint32_t next_out, next_in; /* numbers */
    coll__ofi_held_t *held;
} coll__ofi_order_t;

typedef struct coll__ofi_transfer coll__ofi_transfer_t;

typedef struct coll__ofi_peer {
    fi_addr_t address;
    uint64_t key;
    bool known; /* connect() told its address */
    bool forgotten;
    bool reported; /* poll() has told that the connection is lost */
    int lost;      /* libfabric's error when a message could not be delivered; 0: none */
    int64_t lost_at;
    coll__ofi_order_t lanes[COLL__OFI_LANES];
    coll__ofi_transfer_t *sending;      /* in the order they were begun */
    struct coll__ofi_peer *prev, *next; /* in busy */
} coll__ofi_peer_t;

typedef struct coll__ofi {
    coll__transport_t base;
    const coll__fabric_library_t *library;
    pid_t process;
    int world_rank, world_size;
    uint64_t key;

    /* endpoint.c */
    struct fi_info *info;
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct fid_av *av;
    struct fid_cq *cq;
    struct fid_ep *endpoint;
    int fd;
    bool registers;      /* the provider wants memory registered */
    bool releases_early; /* the provider may release a buffer that still fills */
    size_t longest;      /* message, header included */
    coll__ofi_block_t *blocks;
    size_t memory; /* bytes in blocks */

    /* send.c */
    coll__ofi_slot_t *free_slots;
    int messages_out; /* slots that libfabric has, for peers that are not forgotten */
    int lost_peers;   /* neither forgotten nor reported */

    /* receive.c */
    coll__ofi_buffer_t *buffers;
    int posted;         /* of them, in libfabric's hands for new messages */
    uint64_t strangers; /* messages that no rank of this job can have sent */

    /* bulk.c */
    coll__ofi_peer_t *busy;          /* peers with transfers to send */
    coll__ofi_transfer_t *receiving; /* hash by peer and id: the first of those with the same */
    coll__ofi_transfer_t *finished;  /* bulk_done() is due */
    coll__ofi_transfer_t *ended;     /* receives whose sender gave up */

    coll__ofi_peer_t peers[];
} coll__ofi_t;

/* ---- endpoint.c ---- */

int coll__ofi_endpoint_open(coll__ofi_t *ofi, const coll__env_t *env);
void coll__ofi_endpoint_close(coll__ofi_t *ofi);                        /* libfabric has no memory of ours after it */
coll__ofi_block_t *coll__ofi_block_new(coll__ofi_t *ofi, size_t bytes); /* NULL: an error was made */
void coll__ofi_block_free(coll__ofi_t *ofi, coll__ofi_block_t *block);

/* ---- send.c ---- */

int coll__ofi_slots_add(coll__ofi_t *ofi);
/* kind, bytes, id and offset of the header are given; the data is in two parts, back to back. */
int coll__ofi_message_send(coll__ofi_t *ofi, int peer, const coll__ofi_header_t *header, const void *first,
                           size_t first_bytes, const void *rest);
int coll__ofi_packet_send(coll__ofi_t *ofi, int peer, const void *header, size_t header_bytes, const void *payload,
                          size_t payload_bytes);
void coll__ofi_sent(coll__ofi_t *ofi, coll__ofi_slot_t *slot, int error);
void coll__ofi_lose(coll__ofi_t *ofi, int peer, int error); /* a message to or from the peer is lost */

/* ---- receive.c ---- */

int coll__ofi_buffers_open(coll__ofi_t *ofi);
int coll__ofi_buffers_post(coll__ofi_t *ofi); /* those that can be */
void coll__ofi_buffers_close(coll__ofi_t *ofi);
void coll__ofi_received(coll__ofi_t *ofi, coll__ofi_buffer_t *buffer, const struct fi_cq_tagged_entry *entry);
void coll__ofi_receive_failed(coll__ofi_t *ofi, coll__ofi_buffer_t *buffer, const struct fi_cq_err_entry *entry);

/* ---- packets.c ---- */

int coll__ofi_packets_poll(coll__ofi_t *ofi);
void coll__ofi_packets_forget(coll__ofi_t *ofi, int peer);

/* ---- bulk.c ---- */

int coll__ofi_bulk_send(coll__ofi_t *ofi, int peer, uint32_t id, const void *buffer, size_t bytes, void *cookie);
int coll__ofi_bulk_recv(coll__ofi_t *ofi, int peer, uint32_t id, void *buffer, size_t bytes, void *cookie);
void coll__ofi_bulk_arrived(coll__ofi_t *ofi, int peer, const coll__ofi_header_t *header, const void *data);
int coll__ofi_bulk_poll(coll__ofi_t *ofi);
void coll__ofi_bulk_forget(coll__ofi_t *ofi, int peer);
void coll__ofi_bulk_cancel(coll__ofi_t *ofi, const void *cookie);

#endif
