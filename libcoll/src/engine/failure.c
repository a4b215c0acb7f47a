/* What happens when something is wrong: a peer died or left, calls do not match, a deadline passed, a rank reported an
 * error. Each ends the operations concerned, on every rank, with words that name ranks and calls. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "base/log.h"
#include "engine/engine.h"

/* How long a mismatch waits for the other ranks' calls, so that the message can list them all; and how long after a
 * goodbye messages may still arrive by another road. */
static const int64_t MISMATCH_NS = 300 * 1000000L, GOODBYE_NS = 1000 * 1000000L;

/* ---- words ---- */

static void append(char *text, size_t capacity, const char *format, ...) __attribute__((format(printf, 3, 4)));
static void append(char *text, size_t capacity, const char *format, ...) {
    size_t used = strlen(text);
    if (used + 1 >= capacity)
        return;
    va_list args;
    va_start(args, format);
    vsnprintf(text + used, capacity - used, format, args);
    va_end(args);
}

static void append_ranks(char *text, size_t capacity, const int *ranks, int count) {
    append(text, capacity, count == 1 ? "rank " : "ranks ");
    for (int i = 0; i < count; i++)
        append(text, capacity, i ? ", %d" : "%d", ranks[i]);
}

static void describe(const coll_comm_t *comm, uint64_t sequence, uint64_t fingerprint, char *text, size_t capacity) {
    char call[96];
    coll__fingerprint_print(fingerprint, call, sizeof call);
    snprintf(text, capacity, "%s (call %llu of %d ranks)", call, (unsigned long long)sequence, comm->size);
}

static void add_rank(coll__error_info_t *error, int rank) {
    for (int i = 0; i < error->rank_count; i++)
        if (error->ranks[i] == rank)
            return;
    if (error->rank_count < COLL__ERROR_RANKS)
        error->ranks[error->rank_count++] = rank;
}

/* ---- ending operations ---- */

static void forget_sequence(coll__engine_t *engine, coll_comm_t *comm, uint64_t sequence) {
    comm->failed[comm->failed_count++ % COLL__COMM_HISTORY] = sequence;
    coll__p2p_purge(engine->p2p, comm->id, &sequence);
}

static bool failed_alone(const coll_comm_t *comm, uint64_t sequence) {
    for (size_t i = 0; i < COLL__COMM_HISTORY && i < comm->failed_count; i++)
        if (comm->failed[i] == sequence)
            return true;
    return false;
}

void coll__failure_break(coll__engine_t *engine, coll_comm_t *comm, const coll__error_info_t *error) {
    if (comm->state == COLL__COMM_BROKEN)
        return;
    coll__error_info_t copy = *error; /* `error` may belong to a request that ends here */
    bool closed = comm->state == COLL__COMM_CLOSED;
    comm->state = COLL__COMM_BROKEN;
    if (comm->mismatched) {
        comm->mismatched = 0;
        engine->mismatches--;
    }
    if (!comm->error)
        comm->error = malloc(sizeof *comm->error);
    if (comm->error)
        *comm->error = copy;
    if (!closed)
        coll__log(COLL__LOG_INFO, "a communicator of %d ranks can no longer be used: %s", comm->size, copy.message);
    comm->handles++; /* the last request must not take the communicator with it */
    while (comm->active)
        coll__request_fail(engine, comm->active, &copy);
    comm->handles--;
    coll__p2p_purge(engine->p2p, comm->id, NULL);
    coll__comm_release(engine, comm);
}

void coll__failure_sequence(coll__engine_t *engine, coll_comm_t *comm, uint64_t sequence,
                            const coll__error_info_t *error) {
    coll_request_t *request = coll__comm_request(comm, sequence);
    coll__error_info_t copy = *error;
    comm->handles++;
    if (request)
        coll__request_fail(engine, request, &copy);
    comm->handles--;
    forget_sequence(engine, comm, sequence);
    coll__comm_release(engine, comm);
}

int coll__failure_usable(coll_comm_t *comm, const char *operation) {
    if (comm->state == COLL__COMM_OPEN)
        return 0;
    if (comm->state == COLL__COMM_CLOSED)
        return coll__error(COLL_ERR_CLOSED, "%s: the communicator is closed", operation);
    if (!comm->error)
        return coll__error(COLL_ERR_CLOSED, "%s: the communicator is broken", operation);
    if (!comm->told) {
        comm->told = true;
        coll__error_raise(comm->error);
        if (!comm->error->operation[0])
            coll__error_set_call(operation, (int64_t)comm->sequence);
        return comm->error->status;
    }
    int status = coll__error(COLL_ERR_CLOSED, "%s: the communicator is broken since an earlier error (%s)", operation,
                             comm->error->message);
    coll__error_add_ranks(comm->error->ranks, (size_t)comm->error->rank_count);
    return status;
}

int coll__failure_call(coll__engine_t *engine, coll_comm_t *comm, coll_operation_t operation, int status) {
    coll__error_info_t error;
    uint64_t sequence = comm->sequence++;
    comm->history[sequence % COLL__COMM_HISTORY] = 0;
    coll__error_set_call(coll_operation_name(operation), (int64_t)sequence);
    coll__error_save(&error);
    forget_sequence(engine, comm, sequence);
    if (comm->channel)
        coll__node_skip(comm->channel, sequence);
    if (comm->size > 1) {
        coll__error_info_t told = error;
        told.status = COLL_ERR_PEER;
        told.rank_count = 1;
        told.ranks[0] = comm->rank;
        snprintf(told.message, sizeof told.message, "rank %d made an error in %s (call %llu): %.700s", comm->rank,
                 coll_operation_name(operation), (unsigned long long)sequence, error.message);
        coll__notice_error(engine, comm, sequence, false, &told);
    }
    coll__error_raise(&error);
    return status;
}

/* ---- peers that are gone ---- */

void coll__failure_dead(coll__engine_t *engine, int world_rank) {
    coll_comm_t *comm, *next;
    DL_FOREACH_SAFE(engine->comms, comm, next) {
        int rank = comm->rank_of[world_rank];
        if (rank < 0 || comm->state == COLL__COMM_BROKEN)
            continue;
        coll__error_info_t error = {.status = COLL_ERR_RANK_FAILED, .sequence = -1};
        add_rank(&error, rank);
        snprintf(error.message, sizeof error.message,
                 "rank %d failed: its process ended, or its connection broke, without leaving the job", rank);
        coll__failure_break(engine, comm, &error);
    }
}

void coll__failure_check(coll__engine_t *engine) {
    engine->events_seen = atomic_load(engine->events);
    coll__notice_take_all(engine);
    for (int rank = 0; rank < engine->world_size; rank++) {
        if (rank == engine->world_rank)
            continue;
        coll__peer_state_t state = coll__job_peer_state(engine->job, rank);
        if (state == COLL__PEER_FAILED && !engine->failed[rank]) {
            engine->failed[rank] = true;
            coll__failure_dead(engine, rank);
            coll__p2p_forget(engine->p2p, rank);
        } else if (state == COLL__PEER_LEFT && !engine->left_at[rank]) {
            engine->left_at[rank] = coll__now_ns();
            engine->someone_left = true;
        }
    }
}

static bool has_left(const coll__engine_t *engine, int world_rank, int64_t now) {
    return engine->left_at[world_rank] && now - engine->left_at[world_rank] > GOODBYE_NS;
}

/* A receive from anybody that its caller waits for, and nobody else is left. */
static void find_all_left(const coll__engine_t *engine, const coll_request_t *waited, int64_t now,
                          coll__error_info_t *error) {
    const coll_comm_t *comm = waited->comm;
    if (!waited->receives || waited->op_count == 0 || waited->ops[0].state == 0 ||
        waited->ops[0].peer != COLL__PEER_ANY)
        return;
    for (int rank = 0; rank < comm->size; rank++)
        if (rank != comm->rank && !has_left(engine, comm->world[rank], now))
            return;
    for (int rank = 0; rank < comm->size; rank++)
        if (rank != comm->rank)
            add_rank(error, rank);
}

void coll__failure_left(coll__engine_t *engine, const coll_request_t *waited) {
    int64_t now = coll__now_ns();
    coll_comm_t *comm, *next;
    DL_FOREACH_SAFE(engine->comms, comm, next) {
        coll_request_t *request;
        coll__error_info_t error = {.status = COLL_ERR_RANK_FAILED, .sequence = -1};
        DL_FOREACH(comm->active, request) {
            int peers[COLL__REPORT_PEERS];
            int count = coll__request_peers(request, peers, COLL__REPORT_PEERS);
            for (int i = 0; i < count; i++)
                if (has_left(engine, peers[i], now))
                    add_rank(&error, comm->rank_of[peers[i]]);
        }
        if (waited && waited->comm == comm)
            find_all_left(engine, waited, now, &error);
        if (!error.rank_count)
            continue;
        append_ranks(error.message, sizeof error.message, error.ranks, error.rank_count);
        append(error.message, sizeof error.message, " left the job (finalized or exited) while others still need %s",
               error.rank_count == 1 ? "it" : "them");
        coll__notice_error(engine, comm, comm->sequence, true, &error);
        coll__failure_break(engine, comm, &error);
    }
}

/* ---- calls that do not match ---- */

static bool hook_unexpected(void *context, int peer, const coll__envelope_t *envelope) {
    coll__engine_t *engine = context;
    coll_comm_t *comm = coll__comm_find(engine, envelope->comm);
    if (!comm)
        return true; /* perhaps not made here yet */
    if (comm->state == COLL__COMM_BROKEN)
        return false;
    if (envelope->match & COLL__MATCH_USER || envelope->match >= comm->sequence)
        return comm->state == COLL__COMM_OPEN; /* a closed one goes on with what is in flight, and begins nothing */
    if (failed_alone(comm, envelope->match))
        return false;
    bool active = coll__comm_request(comm, envelope->match) != NULL;
    if (comm->sequence - envelope->match > COLL__COMM_HISTORY)
        return active;
    uint64_t mine = comm->history[envelope->match % COLL__COMM_HISTORY];
    if (mine == envelope->fingerprint)
        return active;
    coll__failure_found_foreign(engine, comm, envelope->match, comm->rank_of[peer], envelope->fingerprint);
    return false;
}

static void hook_mismatch(void *context, int peer, const coll__envelope_t *mine, const coll__envelope_t *theirs) {
    coll__engine_t *engine = context;
    coll_comm_t *comm = coll__comm_find(engine, mine->comm);
    coll__failure_found_foreign(engine, comm, mine->match, comm->rank_of[peer], theirs->fingerprint);
}

coll__p2p_hooks_t coll__failure_hooks(coll__engine_t *engine) {
    return (coll__p2p_hooks_t){.context = engine, .unexpected = hook_unexpected, .mismatch = hook_mismatch};
}

void coll__failure_record(coll_comm_t *comm, int rank, uint64_t sequence, uint64_t fingerprint) {
    coll__comm_report_t *reports = coll__notice_reports(comm);
    if (!reports || rank < 0 || reports[rank].sequence > sequence)
        return;
    if (reports[rank].sequence < sequence)
        reports[rank].peer_count = 0;
    reports[rank].sequence = sequence;
    reports[rank].fingerprint = fingerprint;
    reports[rank].at = coll__now_ns();
}

void coll__failure_found_foreign(coll__engine_t *engine, coll_comm_t *comm, uint64_t sequence, int rank,
                                 uint64_t fingerprint) {
    engine->foreign = true;
    if (!comm->foreign.sequence) { /* the first one is enough */
        comm->foreign.sequence = sequence;
        comm->foreign.rank = rank;
        comm->foreign.fingerprint = fingerprint;
    }
}

void coll__failure_foreign(coll__engine_t *engine) {
    engine->foreign = false;
    coll_comm_t *comm;
    DL_FOREACH(engine->comms, comm) {
        if (!comm->foreign.sequence || comm->state == COLL__COMM_BROKEN)
            continue;
        coll__failure_record(comm, comm->foreign.rank, comm->foreign.sequence, comm->foreign.fingerprint);
        coll__failure_mismatch(engine, comm, comm->foreign.sequence);
        comm->foreign.sequence = 0;
    }
}

void coll__failure_mismatch(coll__engine_t *engine, coll_comm_t *comm, uint64_t sequence) {
    if (comm->mismatched || comm->state == COLL__COMM_BROKEN)
        return;
    comm->mismatched = sequence;
    comm->mismatched_until = coll__now_ns() + MISMATCH_NS;
    engine->mismatches++;
    uint64_t mine = sequence < comm->sequence ? comm->history[sequence % COLL__COMM_HISTORY] : 0;
    if (mine)
        coll__failure_record(comm, comm->rank, sequence, mine);
    coll__notice_mismatch(engine, comm, sequence);
}

/* All calls known at `sequence`, ranks with equal calls together. */
static void put_into_words(const coll_comm_t *comm, uint64_t sequence, coll__error_info_t *error) {
    const coll__comm_report_t *reports = comm->reports;
    uint64_t mine = sequence < comm->sequence ? comm->history[sequence % COLL__COMM_HISTORY] : 0;
    snprintf(error->message, sizeof error->message,
             "the ranks' calls do not match (call %llu of %d ranks): ", (unsigned long long)sequence, comm->size);
    for (int first = 0; first < comm->size; first++) {
        if (reports[first].sequence != sequence)
            continue;
        uint64_t fingerprint = reports[first].fingerprint;
        int ranks[COLL__ERROR_RANKS], count = 0;
        bool seen = false;
        for (int rank = 0; rank < comm->size && !seen; rank++) {
            if (reports[rank].sequence != sequence || reports[rank].fingerprint != fingerprint)
                continue;
            seen = rank < first;
            if (count < COLL__ERROR_RANKS)
                ranks[count++] = rank;
            if (fingerprint != mine)
                add_rank(error, rank);
        }
        if (seen)
            continue;
        char call[96];
        coll__fingerprint_print(fingerprint, call, sizeof call);
        if (first)
            append(error->message, sizeof error->message, "; ");
        append_ranks(error->message, sizeof error->message, ranks, count);
        append(error->message, sizeof error->message, " called %s", call);
    }
}

static bool all_known(const coll_comm_t *comm) {
    for (int rank = 0; rank < comm->size; rank++)
        if (!comm->reports || comm->reports[rank].sequence < comm->mismatched)
            return false;
    return true;
}

void coll__failure_settle(coll__engine_t *engine) {
    int64_t now = coll__now_ns();
    coll_comm_t *comm, *next;
    DL_FOREACH_SAFE(engine->comms, comm, next) {
        if (!comm->mismatched || (now < comm->mismatched_until && !all_known(comm)))
            continue;
        coll__error_info_t error = {.status = COLL_ERR_MISMATCH, .sequence = (int64_t)comm->mismatched};
        if (comm->reports)
            put_into_words(comm, comm->mismatched, &error);
        else
            snprintf(error.message, sizeof error.message, "the ranks' calls do not match");
        coll__failure_break(engine, comm, &error);
    }
}

/* ---- deadlines ---- */

/* Follows who waits for whom, in this call or still in an earlier one, to those who did not say that they wait. */
static void find_missing(coll__engine_t *engine, const coll_comm_t *comm, const coll_request_t *request,
                         coll__error_info_t *error) {
    int peers[COLL__REPORT_PEERS];
    int count = coll__request_peers(request, peers, COLL__REPORT_PEERS);
    bool *seen = calloc((size_t)comm->size, sizeof *seen);
    int *queue = malloc((size_t)comm->size * sizeof *queue);
    int head = 0, tail = 0;
    if (!seen || !queue)
        goto out;
    seen[comm->rank] = true;
    for (int i = 0; i < count; i++) {
        int rank = comm->rank_of[peers[i]];
        if (!seen[rank])
            queue[tail++] = rank;
        seen[rank] = true;
    }
    while (head < tail) {
        int rank = queue[head++];
        const coll__comm_report_t *report = comm->reports ? &comm->reports[rank] : NULL;
        bool waits =
            report && (report->sequence == request->sequence ||
                       (report->sequence && report->sequence < request->sequence && report->at >= request->wait_start));
        if (!waits) {
            add_rank(error, rank);
            continue;
        }
        for (int i = 0; i < report->peer_count; i++) {
            int peer = report->peers[i];
            if (!seen[peer])
                queue[tail++] = peer;
            seen[peer] = true;
        }
    }
    /* Nobody's report comes through a hub that does not run: then it is the one that is missing, if it is a member. */
    int hub = comm->rank_of[0];
    if (hub >= 0 && hub != comm->rank && !coll__job_hub_answers(engine->job)) {
        error->rank_count = 0;
        add_rank(error, hub);
    }
out:
    free(seen);
    free(queue);
    if (!error->rank_count)
        for (int i = 0; i < count; i++)
            add_rank(error, comm->rank_of[peers[i]]);
}

void coll__failure_timeout(coll__engine_t *engine, coll_request_t *request, double limit) {
    coll_comm_t *comm = request->comm;
    coll__error_info_t error = {.status = COLL_ERR_TIMEOUT};
    char call[128];
    if (request->operation == COLL_OP_SENDRECV) {
        snprintf(call, sizeof call, "%s", coll__request_name(request));
        int peers[1];
        if (coll__request_peers(request, peers, 1))
            add_rank(&error, comm->rank_of[peers[0]]);
    } else {
        describe(comm, request->sequence, request->fingerprint, call, sizeof call);
        find_missing(engine, comm, request, &error);
    }
    snprintf(error.message, sizeof error.message, "timed out after %.3g s in %s", limit, call);
    if (error.rank_count) {
        append(error.message, sizeof error.message, ", waiting for ");
        append_ranks(error.message, sizeof error.message, error.ranks, error.rank_count);
        append(error.message, sizeof error.message,
               request->operation == COLL_OP_SENDRECV ? "" : ", not known to be in this call");
    }
    if (request->operation != COLL_OP_SENDRECV)
        coll__notice_error(engine, comm, request->sequence, true, &error);
    coll__failure_break(engine, comm, &error);
}
