/* A communicator as the engine sees it: members, the number of its next collective, what is in flight, and whether it
 * still works. What the API keeps with it (chosen algorithms, schedules) hangs off `api`. */
#ifndef COLL__COMM_H
#define COLL__COMM_H

#include <coll.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/error.h"

struct coll__topo;

enum coll__comm_state { COLL__COMM_OPEN, COLL__COMM_BROKEN, COLL__COMM_CLOSED };

/* What this rank called lately, to tell a latecomer that its call does not match. */
enum { COLL__COMM_HISTORY = 64 };

/* A member that waits says so (notice.c): where it is and for whom it waits. */
enum { COLL__REPORT_PEERS = 16 };
typedef struct coll__comm_report {
    uint64_t sequence; /* 0: none yet */
    uint64_t fingerprint;
    int64_t at; /* when it came */
    int peer_count;
    int peers[COLL__REPORT_PEERS]; /* ranks in the communicator */
} coll__comm_report_t;

typedef struct coll__comm_posted {
    uint64_t sequence;
    coll__error_info_t error;
    struct coll__comm_posted *next;
} coll__comm_posted_t;

struct coll_comm {
    uint64_t id;
    int rank, size;
    int *world;   /* [size] world rank of each rank */
    int *rank_of; /* [world size] rank of each world rank, -1: not a member */
    struct coll__topo *topo;
    double timeout;    /* < 0: the environment's */
    uint64_t sequence; /* of the next collective; begins with 1 */
    uint64_t split_count;
    enum coll__comm_state state;
    bool told;                            /* the caller has seen why it is broken */
    coll__error_info_t *error;            /* why it is broken */
    coll_request_t *active;               /* requests in flight */
    coll_request_t *interrupted;          /* blocking calls that coll_resume() goes on with, each in its own thread */
    uint64_t history[COLL__COMM_HISTORY]; /* fingerprint of sequence s at [s % COLL__COMM_HISTORY] */
    coll__comm_report_t *reports;         /* [size], NULL until the first one comes */
    uint64_t failed[COLL__COMM_HISTORY]; /* sequences that failed alone (an argument error): their messages are stale */
    size_t failed_count;
    struct coll__comm_posted *posted; /* errors of other ranks in calls that this rank has not made yet */
    uint64_t mismatched; /* sequence whose calls differ, 0: none; broken when all are known or it is time */
    int64_t mismatched_until;
    struct {
        uint64_t sequence, fingerprint; /* sequence 0: none */
        int rank;
    } foreign;                     /* what another rank called where this one called something else: to be dealt with */
    bool freed;                    /* the caller's handle is gone; the struct stays while requests refer to it */
    int handles;                   /* requests that refer to it */
    struct coll__channel *channel; /* NULL: not on one node, or none was left */
    void *api;
    void (*api_free)(void *api);
    uint64_t *algo_calls; /* [rows of the algorithm table] */
    uint64_t calls;
    struct coll_comm *prev, *next;
};

#endif
