/* The hub: the part of rank 0 that lets the others in and relays between them. All calls with the job's lock held. */
#ifndef COLL__BOOTSTRAP_HUB_H
#define COLL__BOOTSTRAP_HUB_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "bootstrap/bootstrap.h"
#include "bootstrap/wire.h"

typedef struct coll__hub coll__hub_t;

int coll__hub_new(coll__job_t *job, coll__hub_t **hub);
/* Begins to let ranks in; takes over the listening sockets. */
void coll__hub_open(coll__hub_t *hub, const int *listeners, int count);
void coll__hub_free(coll__hub_t *hub);

/* A frame from a rank, this process included. */
void coll__hub_take(coll__hub_t *hub, int rank, const coll__frame_t *frame, const void *payload);

/* Tells everyone, and ends a round that waits for this rank. */
void coll__hub_state_changed(coll__hub_t *hub, int rank, coll__peer_state_t state);

/* Has everyone come to the meeting, if only to hear that it failed? */
bool coll__hub_has_all(const coll__hub_t *hub);

/* Ends the streams to all ranks once what is queued has gone out; done when all have hung up. */
void coll__hub_shut(coll__hub_t *hub);
bool coll__hub_is_done(const coll__hub_t *hub);

/* For the watcher: how many pollfds it needs, filling them, and acting on them. */
size_t coll__hub_poll_size(const coll__hub_t *hub);
void coll__hub_poll_fill(coll__hub_t *hub, struct pollfd *polls);
void coll__hub_poll_act(coll__hub_t *hub, const struct pollfd *polls);
int64_t coll__hub_next_timer(const coll__hub_t *hub); /* coll__now_ns() clock */

#endif
