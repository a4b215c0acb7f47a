/* The engine of a process: runs schedules over the point-to-point layer, makes progress, waits, and turns events of the
 * job (a peer died, a rank reported an error) into the end of the operations concerned.
 *
 * One lock guards everything; functions marked [locked] are called with it held. Files: engine.c (birth, progress,
 * death), run.c (a schedule's rounds), request.c (life of a request), wait.c (spin, yield, park), notice.c (what ranks
 * tell each other when something is wrong), failure.c (what happens then), fingerprint.c (how calls are compared).
 */
#ifndef COLL__ENGINE_H
#define COLL__ENGINE_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/env.h"
#include "base/segment.h"
#include "bootstrap/bootstrap.h"
#include "data/data.h"
#include "engine/comm.h"
#include "engine/fingerprint.h"
#include "node/node.h"
#include "p2p/p2p.h"
#include "sched/sched.h"

typedef enum coll__request_state { COLL__REQUEST_IDLE, COLL__REQUEST_ACTIVE, COLL__REQUEST_DONE } coll__request_state_t;

/* A user's own operator, or NULL with the built-in kernel. */
typedef struct coll__reduction {
    coll_op_t op;
    coll_dtype_t dtype;
    size_t element;
    coll__kernel_t kernel;
} coll__reduction_t;

struct coll_request {
    struct coll__engine *engine;
    coll_comm_t *comm;
    coll__request_state_t state;
    int status;
    coll__error_info_t *error; /* of a failed request */
    bool persistent;
    bool detached; /* freed by the caller while in flight */
    bool ready;    /* in the ready list */
    bool failing;  /* one of its operations failed; `error` says how */

    /* A collective. */
    coll_operation_t operation;
    uint64_t sequence;
    uint64_t fingerprint;
    const coll__sched_t *sched;
    const char *algo_name; /* for the trace */
    size_t algo_index;
    void *route; /* of the API: what on_free() releases */
    coll__reduction_t reduction;
    coll_dtype_t call_dtype; /* of the call, for a NODE step */
    int call_root;
    size_t call_count;
    size_t finish_count; /* elements to be divided at the end (AVG), else 0 */
    char *buffer[COLL__BUF_COUNT];
    coll__node_op_t node_op; /* of a NODE step under way */
    bool on_node;            /* it is in engine->node_requests */
    coll_request_t *node_prev, *node_next;
    int next_step;
    int outstanding; /* operations of the present round that have not ended */

    /* A message. */
    bool receives;
    coll_recv_status_t received;
    coll_recv_status_t *status_out; /* of an interrupted coll_recv() */
    pthread_t thread;               /* whose blocking call it is, once interrupted */
    coll_request_t *interrupted_next;

    const void **inputs; /* of the widest FOLD */
    coll__p2p_op_t *ops; /* one a step of the widest round */
    int op_count;
    void *memory; /* scratch and ops: kept for the next use of this request */
    size_t memory_bytes;
    int64_t started_at;           /* only while calls are traced */
    int64_t wait_start, deadline; /* of the wait for it; 0: none yet */
    int64_t report_at;            /* when that wait tells the others next where it is */
    uint64_t progressed;          /* grows with each finished operation: a wait tells its own progress from others' */
    void (*on_free)(coll_request_t *request); /* releases the schedule */
    coll_request_t *prev, *next;              /* in comm->active or the pool */
    coll_request_t *ready_prev, *ready_next;
    coll_request_t *live_prev, *live_next; /* in engine->live */
};

typedef struct coll__trace coll__trace_t;

typedef struct coll__engine {
    pthread_mutex_t lock;
    atomic_int contenders; /* threads that want the lock: a spinning holder lets go */
    pthread_cond_t completed;
    int cond_waiters;
    int waiting; /* threads inside coll__wait(): the engine outlives them */
    bool parked; /* a thread sleeps in poll() */
    coll__env_t env;
    coll__job_t *job;
    coll__segment_t segment;
    coll__node_t *node; /* NULL: no other rank on this node, or not to be used */
    int wake_fd;
    int world_rank, world_size;
    coll__p2p_t *p2p;
    coll__transport_t *transports[4];
    int transport_count;
    coll_comm_t *comms;
    const coll_comm_t *last_comm; /* the handle seen last, known to be live */
    coll_request_t *ready;
    coll_request_t *node_requests; /* node operations under way, oldest first */
    coll_request_t *live;          /* every request that a caller may hold */
    coll__trace_t *trace;          /* NULL: calls are not traced */
    coll_request_t *pool;          /* finished requests to be used again */
    int pool_count;
    const atomic_uint_fast64_t *events; /* of the job: grows when there is news of peers */
    uint64_t events_seen;
    bool oversubscribed; /* more ranks on this node than CPUs: never spin */
    int64_t *left_at;    /* [world_size] when a peer said goodbye, 0: it has not */
    bool *failed;        /* [world_size] */
    bool someone_left;
    int mismatches; /* communicators with a mismatch that is being put into words */
    bool foreign;   /* a communicator has a call of another rank that differs: dealt with outside callbacks */
    struct coll__orphan *orphans; /* notice.c */
    int orphan_count;
    bool interruptible;
    bool closing;
    pthread_t thread; /* COLL_PROGRESS=thread */
    bool thread_runs;
    struct {
        uint64_t parks, wakes, calls;
        double spin_ns, park_ns;
    } counters;
} coll__engine_t;

/* ---- engine.c ---- */
int coll__engine_create(const coll__env_t *env, coll__job_t *job, int wake_fd, coll__engine_t **engine);
void coll__engine_add_transport(coll__engine_t *engine, coll__transport_t *transport);
int coll__engine_start(coll__engine_t *engine); /* after the transports are connected: the progress thread, if any */
void coll__engine_stop(coll__engine_t *engine, int64_t deadline); /* drains what was sent; ends every request */
void coll__engine_free(coll__engine_t *engine);
void coll__engine_lock(coll__engine_t *engine);
void coll__engine_unlock(coll__engine_t *engine);
void coll__engine_wake(const coll__engine_t *engine); /* whoever sleeps for this process */
int coll__engine_progress(coll__engine_t *engine);    /* [locked] events, 0: nothing happened */

/* ---- request.c: all [locked] ---- */
coll_request_t *coll__request_get(coll__engine_t *engine, coll_comm_t *comm);   /* NULL: out of memory */
int coll__request_reserve(coll_request_t *request, const coll__sched_t *sched); /* scratch and ops; aligned */
int coll__request_reserve_message(coll_request_t *request);
void coll__request_complete(coll__engine_t *engine, coll_request_t *request, int status);
void coll__request_fail(coll__engine_t *engine, coll_request_t *request, const coll__error_info_t *error);
void coll__request_put(coll__engine_t *engine, coll_request_t *request); /* not active: back to the pool */
const char *coll__request_name(const coll_request_t *request);           /* "allreduce", "recv" */
int coll__request_raise(coll_request_t *request); /* its status, as this thread's error if it failed */

void coll__request_orphan(coll_request_t *request); /* the engine ends before the caller's handle */

/* ---- trace.c ---- */
int coll__trace_open(const char *path, int rank, coll__trace_t **trace); /* "" gives NULL; %r in the path is the rank */
void coll__trace_call(coll__trace_t *trace, const coll_request_t *request); /* a line for a finished request */
void coll__trace_close(coll__trace_t *trace);

/* ---- run.c: all [locked] ---- */
int coll__run_start(coll__engine_t *engine, coll_request_t *request); /* takes the next sequence number and begins */
void coll__run_send(coll__engine_t *engine, coll_request_t *request, int world_peer, const coll__envelope_t *envelope,
                    const void *buffer, size_t bytes);
void coll__run_recv(coll__engine_t *engine, coll_request_t *request, int world_peer, const coll__envelope_t *envelope,
                    void *buffer, size_t bytes);
void coll__run_activate(coll__engine_t *engine, coll_request_t *request); /* in flight from now on */
void coll__run_make_ready(coll__engine_t *engine, coll_request_t *request);
void coll__run_ready(coll__engine_t *engine); /* advances what became ready */

/* ---- node.c: all [locked] ---- */
void coll__node_start(coll__engine_t *engine, coll_request_t *request); /* its NODE step */
int coll__node_progress(coll__engine_t *engine);                        /* events */
void coll__node_drop(coll__engine_t *engine, coll_request_t *request);  /* gives the NODE step up */
/* A blocking call that is one node step: done without a request if the others are about as far. COLL__AGAIN: goes on
 * with a request by coll__node_continue(). */
bool coll__node_direct_allowed(const coll__engine_t *engine, const coll_comm_t *comm);
void coll__node_describe(const coll_request_t *request, coll__node_op_t *op); /* the call of a request as a node step */
int coll__node_direct(coll__engine_t *engine, coll_comm_t *comm, coll__node_op_t *op);
void coll__node_continue(coll__engine_t *engine, coll_request_t *request, const coll__node_op_t *op);

/* ---- wait.c ---- */
/* [locked on entry and exit, let go in between] Until the request is done, at most `timeout` seconds (<= 0: no limit;
 * the clock is read only if it is not done soon). Then the request fails with COLL_ERR_TIMEOUT and its communicator is
 * broken. With engine->interruptible it may return COLL_ERR_INTERRUPTED: the request goes on, and another call keeps
 * its deadline. */
int coll__wait(coll__engine_t *engine, coll_request_t *request, double timeout);
void *coll__wait_thread(void *engine); /* the progress thread */

/* ---- failure.c, notice.c: all [locked] ---- */
void coll__failure_check(coll__engine_t *engine); /* events of the job since the last look */
void coll__failure_break(coll__engine_t *engine, coll_comm_t *comm, const coll__error_info_t *error);
void coll__failure_timeout(coll__engine_t *engine, coll_request_t *request, double limit);
void coll__failure_found_foreign(coll__engine_t *engine, coll_comm_t *comm, uint64_t sequence, int rank,
                                 uint64_t fingerprint); /* a rank's call differs from this rank's: noted */
void coll__failure_foreign(coll__engine_t *engine);     /* deals with what was noted */
void coll__failure_mismatch(coll__engine_t *engine, coll_comm_t *comm, uint64_t sequence);
void coll__failure_settle(coll__engine_t *engine); /* breaks mismatched communicators whose time has come */
void coll__failure_sequence(coll__engine_t *engine, coll_comm_t *comm, uint64_t sequence,
                            const coll__error_info_t *error); /* one collective fails, the communicator lives */
void coll__failure_record(coll_comm_t *comm, int rank, uint64_t sequence,
                          uint64_t fingerprint); /* what a rank called */
coll__p2p_hooks_t coll__failure_hooks(coll__engine_t *engine);
void coll__failure_dead(coll__engine_t *engine, int world_rank); /* breaks the communicators that have this rank */
/* Requests that need a peer that said goodbye a while ago; `waited`: the one that its caller waits for, or NULL. */
void coll__failure_left(coll__engine_t *engine, const coll_request_t *waited);
int coll__failure_usable(coll_comm_t *comm, const char *operation); /* 0, or why it cannot be used */
int coll__failure_call(coll__engine_t *engine, coll_comm_t *comm, coll_operation_t operation,
                       int status); /* an argument error
of this rank (this thread's last error): takes the sequence number and tells the peers; returns status */

void coll__notice_report(coll__engine_t *engine,
                         coll_request_t *request); /* "I wait here": for timeouts and mismatches */
void coll__notice_error(coll__engine_t *engine, coll_comm_t *comm, uint64_t sequence, bool breaks,
                        const coll__error_info_t *error);
void coll__notice_abort(coll__engine_t *engine, const char *message);
void coll__notice_mismatch(coll__engine_t *engine, coll_comm_t *comm, uint64_t sequence);
void coll__notice_adopt(coll__engine_t *engine,
                        coll_comm_t *comm); /* gives it the notices that came early; NULL: frees all */
void coll__notice_take_all(coll__engine_t *engine);
coll__comm_report_t *coll__notice_reports(coll_comm_t *comm); /* [size]; NULL: out of memory */
/* ---- comm.c: all [locked] ---- */
/* `world[size]` is copied; the caller adds topo and api. */
int coll__comm_create(coll__engine_t *engine, uint64_t id, const int *world, int size, int rank, coll_comm_t **comm);
void coll__comm_close(coll__engine_t *engine,
                      coll_comm_t *comm); /* the caller's handle ends; memory goes when nothing is in flight */
void coll__comm_release(coll__engine_t *engine, coll_comm_t *comm);     /* frees a closed one that nothing refers to */
bool coll__comm_known(coll__engine_t *engine, const coll_comm_t *comm); /* a live handle? `comm` may be any pointer */
void coll__comm_interrupt(coll_comm_t *comm,
                          coll_request_t *request);              /* this thread's blocking call is to be resumed */
coll_request_t *coll__comm_interrupted(const coll_comm_t *comm); /* this thread's, or NULL */
void coll__comm_uninterrupt(coll_comm_t *comm, coll_request_t *request);
void coll__comm_give_up_interrupted(coll__engine_t *engine, coll_comm_t *comm); /* nobody will resume them */
coll_comm_t *coll__comm_find(coll__engine_t *engine, uint64_t id);
coll_request_t *coll__comm_request(const coll_comm_t *comm, uint64_t sequence);

/* What the request waits for: world ranks, at most capacity. */
int coll__request_peers(const coll_request_t *request, int *peers, int capacity);

#endif
