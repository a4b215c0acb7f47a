/* What ranks tell each other, over the bootstrap's connections, when something is wrong:
 *   REPORT    "I wait in this call, for these ranks"; sent when a wait gets long, so that a timeout can name who is
 * missing and ranks that wait for each other in different calls find out MISMATCH  a report that asks for everyone's
 * report, because two calls differ ERROR     an error that the receivers share: of one call (it fails, the communicator
 * lives) or of the communicator ABORT     the job is to end
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "base/log.h"
#include "engine/engine.h"

enum notice_kind { REPORT = 1, MISMATCH, ERROR, ABORT };
enum { MOST_ORPHANS = 64 };

struct notice {
    uint32_t kind;
    int32_t breaks;
    uint64_t comm, sequence, fingerprint;
    int32_t status;
    int32_t rank_count;
    int32_t ranks[COLL__ERROR_RANKS];
    char operation[24];
    char message[1024];
};
_Static_assert(sizeof(struct notice) <= COLL__NOTICE_BYTES, "a notice must fit");

static void post(coll__engine_t *engine, const struct notice *notice) {
    if (engine->world_size > 1)
        coll__job_post(engine->job, notice, sizeof *notice);
}

coll__comm_report_t *coll__notice_reports(coll_comm_t *comm) {
    if (!comm->reports)
        comm->reports = calloc((size_t)comm->size, sizeof *comm->reports);
    return comm->reports;
}

void coll__notice_report(coll__engine_t *engine, coll_request_t *request) {
    coll_comm_t *comm = request->comm;
    if (request->operation == COLL_OP_SENDRECV || comm->size == 1)
        return;
    struct notice notice = {
        .kind = REPORT, .comm = comm->id, .sequence = request->sequence, .fingerprint = request->fingerprint};
    int peers[COLL__REPORT_PEERS];
    notice.rank_count = coll__request_peers(request, peers, COLL__REPORT_PEERS);
    for (int i = 0; i < notice.rank_count; i++)
        notice.ranks[i] = comm->rank_of[peers[i]];
    post(engine, &notice);
}

void coll__notice_mismatch(coll__engine_t *engine, coll_comm_t *comm, uint64_t sequence) {
    struct notice notice = {.kind = MISMATCH, .comm = comm->id, .sequence = sequence};
    if (sequence < comm->sequence)
        notice.fingerprint = comm->history[sequence % COLL__COMM_HISTORY];
    post(engine, &notice);
}

void coll__notice_error(coll__engine_t *engine, coll_comm_t *comm, uint64_t sequence, bool breaks,
                        const coll__error_info_t *error) {
    struct notice notice = {.kind = ERROR,
                            .breaks = breaks,
                            .comm = comm->id,
                            .sequence = sequence,
                            .status = error->status,
                            .rank_count = error->rank_count};
    for (int i = 0; i < error->rank_count; i++)
        notice.ranks[i] = error->ranks[i];
    memcpy(notice.operation, error->operation, sizeof notice.operation);
    memcpy(notice.message, error->message, sizeof notice.message);
    post(engine, &notice);
}

static void take_abort(coll__engine_t *engine, int from, const struct notice *notice) {
    coll_comm_t *comm, *next;
    DL_FOREACH_SAFE(engine->comms, comm, next) {
        coll__error_info_t error = {.status = COLL_ERR_PEER, .sequence = -1, .rank_count = 1};
        error.ranks[0] = comm->rank_of[from] >= 0 ? comm->rank_of[from] : from;
        snprintf(error.message, sizeof error.message, "rank %d aborted the job: %.900s", error.ranks[0],
                 notice->message);
        coll__failure_break(engine, comm, &error);
    }
}

void coll__notice_abort(coll__engine_t *engine, const char *message) {
    struct notice notice = {.kind = ABORT, .status = COLL_ERR_PEER};
    snprintf(notice.message, sizeof notice.message, "%s", message);
    post(engine, &notice);
    take_abort(engine, engine->world_rank, &notice); /* its own calls fail like everybody's */
}

/* ---- taking ---- */

static void take_report(coll__engine_t *engine, coll_comm_t *comm, int rank, const struct notice *notice) {
    uint64_t sequence = notice->sequence;
    if (notice->fingerprint) {
        coll__failure_record(comm, rank, sequence, notice->fingerprint);
        if (!comm->reports)
            return;
        coll__comm_report_t *report = &comm->reports[rank];
        if (report->sequence == sequence && notice->kind == REPORT) {
            report->peer_count = 0;
            for (int i = 0; i < notice->rank_count && i < COLL__REPORT_PEERS; i++)
                if (notice->ranks[i] >= 0 && notice->ranks[i] < comm->size)
                    report->peers[report->peer_count++] = notice->ranks[i];
        }
    }
    bool made = sequence < comm->sequence && comm->sequence - sequence <= COLL__COMM_HISTORY;
    uint64_t mine = made ? comm->history[sequence % COLL__COMM_HISTORY] : 0;
    bool differs = mine && notice->fingerprint && mine != notice->fingerprint;
    if (differs || (notice->kind == MISMATCH && mine))
        coll__failure_mismatch(engine, comm, sequence);
}

static void take_error(coll__engine_t *engine, coll_comm_t *comm, int rank, const struct notice *notice) {
    coll__error_info_t error = {.status = notice->status, .sequence = (int64_t)notice->sequence};
    for (int i = 0; i < notice->rank_count && i < COLL__ERROR_RANKS; i++)
        error.ranks[error.rank_count++] = notice->ranks[i];
    memcpy(error.operation, notice->operation, sizeof error.operation);
    error.operation[sizeof error.operation - 1] = 0;
    snprintf(error.message, sizeof error.message, notice->breaks ? "%.960s (reported by rank %d)" : "%.960s",
             notice->message, rank);
    if (notice->breaks) {
        coll__failure_break(engine, comm, &error);
    } else if (coll__comm_request(comm, notice->sequence)) {
        coll__failure_sequence(engine, comm, notice->sequence, &error);
    } else if (notice->sequence >= comm->sequence) {
        coll__comm_posted_t *posted = malloc(sizeof *posted);
        if (!posted)
            return;
        posted->sequence = notice->sequence;
        posted->error = error;
        LL_PREPEND(comm->posted, posted);
    }
}

/* A notice about a communicator that this rank has not made yet (or has closed): kept for a while. */
struct coll__orphan {
    struct notice notice;
    int from;
    struct coll__orphan *prev, *next;
};

static void keep_orphan(coll__engine_t *engine, int from, const struct notice *notice) {
    struct coll__orphan *orphan = malloc(sizeof *orphan);
    if (!orphan)
        return;
    orphan->notice = *notice;
    orphan->from = from;
    DL_APPEND(engine->orphans, orphan);
    if (++engine->orphan_count > MOST_ORPHANS) {
        struct coll__orphan *oldest = engine->orphans;
        DL_DELETE(engine->orphans, oldest);
        free(oldest);
        engine->orphan_count--;
    }
}

static void take(coll__engine_t *engine, coll_comm_t *comm, int from, const struct notice *notice) {
    if (comm->state == COLL__COMM_BROKEN || comm->rank_of[from] < 0)
        return;
    if (notice->kind == ERROR)
        take_error(engine, comm, comm->rank_of[from], notice);
    else if (notice->kind == REPORT || notice->kind == MISMATCH)
        take_report(engine, comm, comm->rank_of[from], notice);
}

void coll__notice_adopt(coll__engine_t *engine, coll_comm_t *comm) {
    struct coll__orphan *orphan, *next;
    DL_FOREACH_SAFE(engine->orphans, orphan, next) {
        if (comm && orphan->notice.comm != comm->id)
            continue;
        DL_DELETE(engine->orphans, orphan);
        engine->orphan_count--;
        if (comm)
            take(engine, comm, orphan->from, &orphan->notice);
        free(orphan);
    }
}

void coll__notice_take_all(coll__engine_t *engine) {
    union {
        struct notice notice;
        char bytes[COLL__NOTICE_BYTES];
    } got;
    int from;
    size_t bytes;
    while ((bytes = coll__job_next_notice(engine->job, &got, &from)) > 0) {
        struct notice *notice = &got.notice;
        if (bytes != sizeof *notice || from < 0 || from >= engine->world_size || from == engine->world_rank)
            continue;
        notice->message[sizeof notice->message - 1] = 0;
        if (notice->kind == ABORT) {
            take_abort(engine, from, notice);
            continue;
        }
        coll_comm_t *comm = coll__comm_find(engine, notice->comm);
        if (comm)
            take(engine, comm, from, notice);
        else
            keep_orphan(engine, from, notice);
    }
}
