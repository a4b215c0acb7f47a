/* What two processes say to each other over TCP.
 *
 *     rank r                                rank 0
 *     greeting {magic, version, nonce} -->
 *                                      <-- greeting {magic, version, nonce}
 *     proof {rank, size, keyed hash}   -->                                    r knows the secret
 *                                      <-- verdict {accepted, keyed hash}     so does rank 0
 *     frames                          <-->  frames
 *
 * The hashes cover both nonces and everything said before, so none can be replayed. The side that connects proves
 * first: who merely connects learns a version number. Frames after the verdict are not hashed: the secret keeps
 * strangers and other jobs out, it does not protect from someone who can change packets on the way.
 *
 * Integers are in the host's byte order; a host of the other order shows as an impossible protocol number.
 */
#ifndef COLL__BOOTSTRAP_WIRE_H
#define COLL__BOOTSTRAP_WIRE_H

#include <stdint.h>

enum { COLL__PROTOCOL = 1, COLL__NONCE_BYTES = 32, COLL__MAC_BYTES = 32 };

#define COLL__MAGIC "libcoll" /* 8 bytes with its end */

typedef struct coll__greeting {
    char magic[8];
    uint32_t protocol;
    char version[60]; /* of the library, ends in 0 */
    unsigned char nonce[COLL__NONCE_BYTES];
} coll__greeting_t;

typedef struct coll__proof {
    int32_t rank;
    int32_t size;
    unsigned char mac[COLL__MAC_BYTES];
} coll__proof_t;

typedef struct coll__verdict {
    uint32_t accepted; /* 0: the secrets differ, and the hash is all zero */
    unsigned char mac[COLL__MAC_BYTES];
} coll__verdict_t;

/* Frames. A round is one collective step of init: round 0 is the meeting itself, the others are allgathers. */
typedef enum coll__frame_type {
    /* from a rank to the hub */
    COLL__FRAME_GATHER, /* round, payload: this rank's part */
    COLL__FRAME_WHO,    /* round: my deadline passed, who is missing? */
    COLL__FRAME_GOODBYE,
    COLL__FRAME_DEAD, /* rank: its process ended without a goodbye */
    /* from the hub to a rank */
    COLL__FRAME_GATHERED, /* round, payload: all parts in rank order; round 0: the job's id */
    COLL__FRAME_ERROR,    /* round, payload: a coll__error_info_t that ends the round for this rank */
    COLL__FRAME_STATE,    /* rank, value: a coll__peer_state_t */
    COLL__FRAME_RELAYED,  /* value: the number of a notice that was passed on */
    /* both */
    COLL__FRAME_NOTICE /* rank (set by the hub), value: the sender's number for it, payload */
} coll__frame_type_t;

typedef struct coll__frame {
    uint32_t type;
    uint32_t bytes; /* of the payload that follows */
    int32_t rank;
    uint32_t value; /* round, state or number */
} coll__frame_t;

enum { COLL__FRAME_MAX = 1 << 30 };

#endif
