/* The hub's door: listening sockets and the connections whose other side has not proved yet that it belongs to the job.
 */
#ifndef COLL__BOOTSTRAP_DOOR_H
#define COLL__BOOTSTRAP_DOOR_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bootstrap/auth.h"
#include "bootstrap/tcp.h"

enum {
    COLL__DOOR_CALLERS = 64,        /* connections under examination at a time; others wait in the kernel */
    COLL__DOOR_PATIENCE_MS = 3000,  /* given to each */
    COLL__DOOR_IMPATIENCE_MS = 250, /* given to each while all places are taken */
    COLL__DOOR_REST_MS = 50,        /* before the next try when there are no descriptors */
    COLL__DOOR_POLLS = COLL__TCP_ADDRESSES + COLL__DOOR_CALLERS
};

typedef enum coll__caller_stage {
    COLL__CALLER_GREETS, /* its greeting is expected */
    COLL__CALLER_PROVES, /* its proof is expected */
    COLL__CALLER_LEAVES  /* it was turned away with a reason; waiting until it hangs up, so that the reason arrives */
} coll__caller_stage_t;

typedef struct coll__caller {
    int fd; /* -1: this place is free */
    coll__caller_stage_t stage;
    int64_t since;
    size_t got;
    coll__greeting_t theirs, ours;
    coll__proof_t proof;
    char name[COLL__TCP_NAME_BYTES];
} coll__caller_t;

/* Someone proved to know the secret. Takes over the connection, unless it answers false. */
typedef bool (*coll__door_admit_t)(void *context, int fd, int rank, int size);

typedef struct coll__door {
    const coll__key_t *key;
    coll__door_admit_t admit;
    void *context;
    int listeners[COLL__TCP_ADDRESSES]; /* -1: closed */
    int64_t rests_until;                /* out of descriptors: no use in trying before */
    coll__caller_t callers[COLL__DOOR_CALLERS];
    char refused[400]; /* whom it turned away last and why; "": nobody */
} coll__door_t;

void coll__door_open(coll__door_t *door, const coll__key_t *key, const int *listeners, int count,
                     coll__door_admit_t admit, void *context);

/* Nobody more comes in; those under examination are dropped, those being turned away may still read why. */
void coll__door_shut(coll__door_t *door);

/* Nobody is left who was turned away and still reads. */
bool coll__door_is_empty(const coll__door_t *door);

void coll__door_close(coll__door_t *door); /* everything, at once */

void coll__door_poll_fill(coll__door_t *door, struct pollfd polls[COLL__DOOR_POLLS]);
void coll__door_poll_act(coll__door_t *door, const struct pollfd polls[COLL__DOOR_POLLS]);
int64_t coll__door_next_timer(const coll__door_t *door);

#endif
