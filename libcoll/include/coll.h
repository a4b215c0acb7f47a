/* coll.h - collective communication for CPU memory: shared memory inside a node, libfabric between nodes.
 *
 * Every function that can fail returns 0 (COLL_SUCCESS) or a negative coll_status_t; coll_error_message() then
 * holds a sentence for people. Nothing here aborts, exits or prints to standard output. Every wait ends: by success,
 * by the communicator's timeout, or because a peer is known to be gone.
 *
 * Sizes and counts are size_t elements unless a name says bytes; times are seconds in double.
 *
 * Sections: 1 constants  2 start and end  3 communicators  4 collectives  5 point-to-point  6 nonblocking and
 * persistent forms  7 memory  8 errors  9 introspection
 */
#ifndef COLL_H
#define COLL_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- 1. Constants ------------------------------------------------------------------------------------------- */

typedef enum coll_status {
    COLL_SUCCESS = 0,
    COLL_ERR_ARG = -1,          /* an argument has a value that is not allowed */
    COLL_ERR_TYPE = -2,         /* this operator does not apply to this datatype */
    COLL_ERR_MEMORY = -3,       /* out of memory */
    COLL_ERR_TIMEOUT = -4,      /* the deadline passed; coll_error_ranks() are those that were missing */
    COLL_ERR_RANK_FAILED = -5,  /* a peer died or left; coll_error_ranks() says which */
    COLL_ERR_MISMATCH = -6,     /* ranks called different collectives, or the same with different arguments */
    COLL_ERR_CLOSED = -7,       /* the communicator was freed, is broken, or the library was finalized */
    COLL_ERR_BOOTSTRAP = -8,    /* the ranks could not meet */
    COLL_ERR_CONFIG = -9,       /* an environment variable has a value that is not allowed, or ranks disagree */
    COLL_ERR_TRANSPORT = -10,   /* shared memory or the network refused */
    COLL_ERR_STATE = -11,       /* not initialised, used after fork, started twice */
    COLL_ERR_TRUNCATE = -12,    /* a message was longer than the buffer given to receive it */
    COLL_ERR_PEER = -13,        /* another rank reported an error in its own call; coll_error_ranks() says which */
    COLL_ERR_INTERRUPTED = -14, /* only after coll_set_interruptible(1): look at signals, then call coll_resume() */
    COLL_ERR_USER = -15,        /* a user's reduction function failed */
    COLL_ERR_UNSUPPORTED = -16, /* this build or machine cannot do it */
    COLL_ERR_INTERNAL = -17     /* a fault of this library */
} coll_status_t;

typedef enum coll_dtype {
    COLL_BOOL,
    COLL_INT8,
    COLL_INT16,
    COLL_INT32,
    COLL_INT64,
    COLL_UINT8,
    COLL_UINT16,
    COLL_UINT32,
    COLL_UINT64,
    COLL_FLOAT16,
    COLL_BFLOAT16,
    COLL_FLOAT32,
    COLL_FLOAT64,
    COLL_COMPLEX64,
    COLL_COMPLEX128,
    COLL_DTYPE_COUNT
} coll_dtype_t;

/* MINLOC and MAXLOC work on pairs (value, index) of one datatype, 2 elements a pair: the count is even. */
enum coll_op_builtin {
    COLL_SUM,
    COLL_PROD,
    COLL_MIN,
    COLL_MAX,
    COLL_AVG,
    COLL_LAND,
    COLL_LOR,
    COLL_LXOR,
    COLL_BAND,
    COLL_BOR,
    COLL_BXOR,
    COLL_MINLOC,
    COLL_MAXLOC,
    COLL_OP_COUNT
};
typedef int coll_op_t; /* one of coll_op_builtin */

typedef enum coll_operation {
    COLL_OP_BARRIER,
    COLL_OP_BROADCAST,
    COLL_OP_REDUCE,
    COLL_OP_ALLREDUCE,
    COLL_OP_ALLGATHER,
    COLL_OP_SENDRECV, /* send and recv: for introspection and errors */
    COLL_OPERATION_COUNT
} coll_operation_t;

enum { COLL_ANY_SOURCE = -1, COLL_ANY_TAG = -1, COLL_UNDEFINED = -32766 };

/* As `send` of a reduction or an allgather: the input is already in `recv` (allgather: at this rank's place). Passing
 * the same pointer for both means the same. */
#define COLL_IN_PLACE ((const void *)-1)

typedef struct coll_comm coll_comm_t;       /* a communicator: an ordered group of ranks */
typedef struct coll_request coll_request_t; /* an operation under way, or a persistent one */

/* ---- 2. Start and end --------------------------------------------------------------------------------------- */

/* What coll_init() may be told. Start from coll_init_opts_default(). What is left at its default is taken from the
 * environment: COLL_RANK, COLL_SIZE, COLL_ADDR, COLL_PORT or RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT. */
typedef struct coll_init_opts {
    int rank;            /* -1: from the environment */
    int size;            /* -1: from the environment; with nothing there, 1 */
    const char *address; /* "host:port" where rank 0 listens; NULL: from the environment */
    double timeout;      /* seconds for init and the world's default; < 0: COLL_TIMEOUT */
} coll_init_opts_t;

coll_init_opts_t coll_init_opts_default(void);

/* Joins the job and gives the world communicator. Called again, it gives the same one. Collective. */
int coll_init(const coll_init_opts_t *opts, coll_comm_t **world);

/* Leaves the job; waits a bounded time for peers. Open communicators become closed. Never hangs on a dead peer. */
int coll_finalize(void);

/* The world communicator, or COLL_ERR_STATE before coll_init(). */
int coll_world(coll_comm_t **world);

/* ---- 3. Communicators --------------------------------------------------------------------------------------- */

int coll_comm_rank(const coll_comm_t *comm); /* >= 0, or a negative status */
int coll_comm_size(const coll_comm_t *comm);
int coll_comm_local_rank(const coll_comm_t *comm); /* among the ranks of this communicator on this node */
int coll_comm_local_size(const coll_comm_t *comm);
int coll_comm_node_count(const coll_comm_t *comm);
int coll_comm_world_rank(const coll_comm_t *comm, int rank); /* the same process's rank in the world */

/* Collective over `comm`. Ranks with the same color form a communicator, ordered by key, then by rank in `comm`.
 * color COLL_UNDEFINED: not a member; *out is NULL. */
int coll_comm_split(coll_comm_t *comm, int color, int key, coll_comm_t **out);
/* The local half of a split, for bindings that gather the colors and keys themselves: colors_keys[2 * rank] is a rank's
 * color and [2 * rank + 1] its key, the same on every rank. All ranks call it, at the same place among their calls. */
int coll_comm_split_local(coll_comm_t *comm, const int *colors_keys, coll_comm_t **out);
int coll_comm_dup(coll_comm_t *comm, coll_comm_t **out);
int coll_comm_node(coll_comm_t *comm, coll_comm_t **out); /* the ranks of `comm` on this node */

/* Local, never collective: safe from a destructor. Operations in flight are completed or cancelled first. */
int coll_comm_free(coll_comm_t *comm);

/* Seconds that a call may wait; < 0 gives COLL_TIMEOUT back, 0 waits without limit (peers are still watched). */
int coll_comm_set_timeout(coll_comm_t *comm, double seconds);
double coll_comm_timeout(const coll_comm_t *comm);

/* Ends the job: every rank's next or present call fails with `message`, and `pycoll run` ends with `code`. */
int coll_comm_abort(coll_comm_t *comm, const char *message, int code);

/* ---- 4. Collectives ----------------------------------------------------------------------------------------- */
/* Blocking. All ranks of the communicator call the same function with matching arguments, in the same order. */

int coll_barrier(coll_comm_t *comm);

/* `buffer` of `root` is copied into `buffer` of every rank. */
int coll_broadcast(void *buffer, size_t count, coll_dtype_t dtype, int root, coll_comm_t *comm);

/* recv[i] = send of rank 0 [i] op send of rank 1 [i] ...; `recv` matters on `root` only (NULL allowed elsewhere). */
int coll_reduce(const void *send, void *recv, size_t count, coll_dtype_t dtype, coll_op_t op, int root,
                coll_comm_t *comm);

/* The same, with the same bits on every rank. */
int coll_allreduce(const void *send, void *recv, size_t count, coll_dtype_t dtype, coll_op_t op, coll_comm_t *comm);

/* `count` elements of rank r come to recv[r * count] on every rank. */
int coll_allgather(const void *send, void *recv, size_t count, coll_dtype_t dtype, coll_comm_t *comm);

/* ---- 5. Point-to-point -------------------------------------------------------------------------------------- */

typedef struct coll_recv_status {
    int source;
    int tag;
    size_t bytes;
} coll_recv_status_t;

/* tag >= 0. Messages of one sender with one tag arrive in the order they were sent. */
int coll_send(const void *buffer, size_t count, coll_dtype_t dtype, int dest, int tag, coll_comm_t *comm);
int coll_recv(void *buffer, size_t count, coll_dtype_t dtype, int source, int tag, coll_recv_status_t *status,
              coll_comm_t *comm);

/* ---- 6. Nonblocking and persistent forms -------------------------------------------------------------------- */
/* i...: starts at once and gives a request. ..._init: gives a request that coll_start() runs, as often as wished.
 * Buffers stay the library's until the request is done. */

int coll_ibarrier(coll_comm_t *comm, coll_request_t **request);
int coll_ibroadcast(void *buffer, size_t count, coll_dtype_t dtype, int root, coll_comm_t *comm,
                    coll_request_t **request);
int coll_ireduce(const void *send, void *recv, size_t count, coll_dtype_t dtype, coll_op_t op, int root,
                 coll_comm_t *comm, coll_request_t **request);
int coll_iallreduce(const void *send, void *recv, size_t count, coll_dtype_t dtype, coll_op_t op, coll_comm_t *comm,
                    coll_request_t **request);
int coll_iallgather(const void *send, void *recv, size_t count, coll_dtype_t dtype, coll_comm_t *comm,
                    coll_request_t **request);
int coll_isend(const void *buffer, size_t count, coll_dtype_t dtype, int dest, int tag, coll_comm_t *comm,
               coll_request_t **request);
int coll_irecv(void *buffer, size_t count, coll_dtype_t dtype, int source, int tag, coll_comm_t *comm,
               coll_request_t **request);

int coll_barrier_init(coll_comm_t *comm, coll_request_t **request);
int coll_broadcast_init(void *buffer, size_t count, coll_dtype_t dtype, int root, coll_comm_t *comm,
                        coll_request_t **request);
int coll_reduce_init(const void *send, void *recv, size_t count, coll_dtype_t dtype, coll_op_t op, int root,
                     coll_comm_t *comm, coll_request_t **request);
int coll_allreduce_init(const void *send, void *recv, size_t count, coll_dtype_t dtype, coll_op_t op, coll_comm_t *comm,
                        coll_request_t **request);
int coll_allgather_init(const void *send, void *recv, size_t count, coll_dtype_t dtype, coll_comm_t *comm,
                        coll_request_t **request);

int coll_start(coll_request_t *request);

/* coll_start() and coll_wait() in one: the least that a repeated call can cost. */
int coll_run(coll_request_t *request, double timeout);

/* *done becomes 1 when the operation has ended; the operation's own status is then returned. */
int coll_test(coll_request_t *request, int *done);

/* `timeout` in seconds; < 0: the communicator's. After COLL_ERR_TIMEOUT the communicator is broken. */
int coll_wait(coll_request_t *request, double timeout);
int coll_wait_all(coll_request_t **requests, size_t count, double timeout);

/* What a finished receive got. */
int coll_request_status(const coll_request_t *request, coll_recv_status_t *status);

/* A request in flight is finished in the background (its buffers must stay) and freed then. NULL is allowed. */
int coll_request_free(coll_request_t *request);

/* With 1, a blocking call of this process returns COLL_ERR_INTERRUPTED when a signal came or a quarter of a second
 * has passed; the operation goes on, and coll_resume(comm) waits for it further. coll_abandon(comm) gives it up: the
 * communicator is broken and its peers are told `why`. For language bindings that must look at signals. */
int coll_set_interruptible(int on);
int coll_resume(coll_comm_t *comm);
int coll_abandon(coll_comm_t *comm, const char *why);

/* A binding found an error in the arguments of a collective before it could call it: the peers' call fails with
 * COLL_ERR_PEER and `message`, and the communicator stays usable. */
int coll_post_error(coll_comm_t *comm, coll_operation_t operation, const char *message);

/* ---- 7. Memory ---------------------------------------------------------------------------------------------- */

/* Symmetric memory: collectives of ranks on one node read and write it in place, whichever ranks use it, and at any
 * offset. Aligned to 64 bytes; zero at first only by accident. Local; works before coll_init() too. A forked child
 * shares it with its parent; there coll_free() leaves it alone, and coll_alloc() gives memory of the child's own. */
int coll_alloc(size_t bytes, void **memory);
int coll_free(void *memory);

/* ---- 8. Errors ---------------------------------------------------------------------------------------------- */

const char *coll_strerror(int status);    /* a fixed short text */
const char *coll_status_name(int status); /* "COLL_ERR_TIMEOUT" */

/* Of this thread's last failed call; valid until its next one. */
const char *coll_error_message(void);
size_t coll_error_ranks(int *ranks, size_t capacity); /* how many ranks the error names; fills up to capacity */
const char *coll_error_operation(void);               /* "allreduce", or "" */
int64_t coll_error_sequence(void);                    /* the call's number on its communicator, or -1 */

/* ---- 9. Introspection --------------------------------------------------------------------------------------- */

const char *coll_version(void);
size_t coll_dtype_size(coll_dtype_t dtype); /* bytes; 0 for no such datatype */
const char *coll_dtype_name(coll_dtype_t dtype);
const char *coll_op_name(coll_op_t op);
int coll_op_supports(coll_op_t op, coll_dtype_t dtype); /* 1 or 0 */
const char *coll_operation_name(coll_operation_t operation);

typedef struct coll_env_info {
    const char *name;          /* "COLL_TIMEOUT" */
    const char *type;          /* "seconds" */
    const char *value;         /* in force */
    const char *default_value; /* as text */
    const char *source;        /* "default" or "environment" */
    const char *help;          /* one line */
} coll_env_info_t;

size_t coll_env_count(void);
int coll_env_get(size_t index, coll_env_info_t *info);

typedef struct coll_algo_info {
    coll_operation_t operation;
    const char *name;         /* "ring" */
    const char *summary;      /* one line */
    const char *restrictions; /* in words, or "" */
    const char *rounds;       /* closed form in P, as text */
    const char *bytes;        /* bytes that the busiest rank sends, closed form in P and n, as text */
    const char *source;       /* the paper */
    int ordered;              /* 1: folds in rank order */
} coll_algo_info_t;

size_t coll_algo_count(void);
int coll_algo_get(size_t index, coll_algo_info_t *info);

/* One step of the schedule that a rank would run, for drawings and checks. */
typedef struct coll_step_info {
    const char *kind; /* "send", "recv", "reduce", "copy", "fold" */
    int round;
    int peer;                    /* of send and recv; -1 otherwise */
    size_t bytes;                /* payload */
    const char *source, *target; /* "send+0", "recv+64", "scratch+0", or "" */
} coll_step_info_t;

typedef struct coll_schedule coll_schedule_t;

/* The schedule of algorithm `index` for `rank` of `size` ranks on one node each, float64, sum. */
int coll_schedule_create(size_t algo, int rank, int size, int root, size_t count, coll_schedule_t **schedule);
size_t coll_schedule_steps(const coll_schedule_t *schedule);
int coll_schedule_step(coll_schedule_t *schedule, size_t index, coll_step_info_t *info);
void coll_schedule_free(coll_schedule_t *schedule);

/* What would run for this call on this communicator, and why; written into `text`, at most `capacity` bytes
 * with the final 0. */
int coll_explain(coll_comm_t *comm, coll_operation_t operation, size_t bytes, coll_dtype_t dtype, coll_op_t op,
                 char *text, size_t capacity);

typedef struct coll_stat_info {
    const char *name; /* "shm_messages_sent" */
    const char *help;
    double value;
} coll_stat_info_t;

size_t coll_stats_count(void);
int coll_stats_get(coll_comm_t *comm, size_t index, coll_stat_info_t *info);

/* How often algorithm `index` ran on this communicator. */
int coll_stats_algo(coll_comm_t *comm, size_t index, uint64_t *calls);

/* Lines "key: value" about this build and machine: transports, providers, CPUs, interface. */
int coll_info(char *text, size_t capacity);

#ifdef __cplusplus
}
#endif
#endif
