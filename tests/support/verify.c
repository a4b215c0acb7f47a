/* The verifier's run: all ranks' schedules together, round by round as far as each can get. */
#include "support/verify.h"

#include "support/verify_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NONE = -1, UNWRITTEN = 0xff };

/* A SEND or RECV that waits for its other end. */
typedef struct waiting {
    int rank, step;
    int next;
} waiting_t;

/* From one rank to another. Only one kind waits at a time: whoever comes second takes the first of the queue. */
typedef struct channel {
    int first, last;
    coll__step_kind_t kind;
} channel_t;

typedef struct rank_state {
    coll__verify_memory_t memory;
    int step;                   /* next to be taken */
    int unfinished;             /* messages of the present round */
    bool posted;                /* all steps of the present round have been taken */
    uint64_t depth, next_depth; /* longest chain that has ended here, at the beginning and at the end of the round */
    uint64_t sent, received, bytes_sent;
} rank_state_t;

/* A block that grows and is used again from run to run. */
typedef struct room {
    char *at;
    size_t bytes;
} room_t;

struct coll__verifier {
    coll__arena_t arena;
    room_t scheds, ranks, channels, queue, flights, data, ready, heard;
    const coll__sched_t *run; /* of the last run, as what follows */
    int size;
    int waiting_count, ready_count;
    size_t words; /* of a set of ranks */
    coll__verify_op_t op;
    coll__verify_result_t *result;
};

static void *room_for(room_t *room, size_t bytes) {
    if (bytes > room->bytes || !room->at) {
        free(room->at);
        room->bytes = bytes + bytes / 2 + 64;
        room->at = aligned_alloc(64, (room->bytes + 63) / 64 * 64);
        if (!room->at) {
            fprintf(stderr, "verifier: out of memory\n");
            exit(1);
        }
    }
    return room->at;
}

coll__verifier_t *coll__verifier_create(void) {
    coll__verifier_t *verifier = calloc(1, sizeof *verifier);
    if (!verifier)
        exit(1);
    coll__arena_init(&verifier->arena, 1 << 20);
    return verifier;
}

void coll__verifier_free(coll__verifier_t *verifier) {
    room_t *const rooms[] = {&verifier->scheds,  &verifier->ranks, &verifier->channels, &verifier->queue,
                             &verifier->flights, &verifier->data,  &verifier->ready,    &verifier->heard};
    for (size_t i = 0; i < sizeof rooms / sizeof rooms[0]; i++)
        free(rooms[i]->at);
    coll__arena_free(&verifier->arena);
    free(verifier);
}

coll__sched_t *coll__verifier_build(coll__verifier_t *verifier, coll__build_fn build, const coll__plan_t *plan) {
    coll__sched_t *scheds = room_for(&verifier->scheds, (size_t)plan->size * sizeof *scheds);
    coll__arena_reset(&verifier->arena);
    for (int rank = 0; rank < plan->size; rank++) {
        coll__plan_t own = *plan;
        coll__builder_t builder;
        own.rank = rank;
        coll__build_begin(&builder, &verifier->arena);
        build(&own, &builder);
        if (coll__build_finish(&builder, &scheds[rank]) != 0)
            exit(1);
    }
    return scheds;
}

/* ---- memory ------------------------------------------------------------------------------------------------- */

size_t coll__verify_send_bytes(const coll__plan_t *plan) {
    bool none = plan->operation == COLL_OP_BARRIER || plan->operation == COLL_OP_BROADCAST;
    return none ? 0 : plan->count * plan->element;
}

size_t coll__verify_recv_bytes(const coll__plan_t *plan) {
    size_t bytes = plan->count * plan->element;
    switch (plan->operation) {
    case COLL_OP_BARRIER:
        return 0;
    case COLL_OP_REDUCE:
        return plan->rank == plan->root ? bytes : 0;
    case COLL_OP_ALLGATHER:
        return bytes * (size_t)plan->size;
    default:
        return bytes;
    }
}

static size_t aligned(size_t bytes) {
    return (bytes + 63) / 64 * 64;
}

static rank_state_t *state_of(const coll__verifier_t *verifier, int rank) {
    return (rank_state_t *)verifier->ranks.at + rank;
}

/* Gives a rank its three buffers out of `data`; returns how much they take. data may be NULL, to find out. */
static size_t lay_out(const coll__plan_t *plan, const coll__sched_t *sched, char *data, coll__verify_memory_t *memory) {
    size_t send = coll__verify_send_bytes(plan), recv = coll__verify_recv_bytes(plan);
    bool inside = plan->in_place && recv > 0;
    size_t inside_at = plan->operation == COLL_OP_ALLGATHER ? (size_t)plan->rank * send : 0;
    size_t scratch_at = aligned(recv), send_at = scratch_at + aligned(sched->scratch_bytes);
    if (data) {
        *memory = (coll__verify_memory_t){
            .at = {[COLL__BUF_SEND] = data + (inside ? inside_at : send_at),
                   [COLL__BUF_RECV] = data,
                   [COLL__BUF_SCRATCH] = data + scratch_at},
            .bytes = {[COLL__BUF_SEND] = send, [COLL__BUF_RECV] = recv, [COLL__BUF_SCRATCH] = sched->scratch_bytes},
        };
        memset(data, UNWRITTEN, recv);
        memset(data + scratch_at, UNWRITTEN, sched->scratch_bytes);
    }
    return send_at + (inside ? 0 : aligned(send));
}

static void set_up_memory(coll__verifier_t *verifier, const coll__plan_t *plan, const char *inputs) {
    size_t total = 64;
    coll__plan_t own = *plan;
    for (own.rank = 0; own.rank < plan->size; own.rank++)
        total += lay_out(&own, &verifier->run[own.rank], NULL, NULL);
    char *data = room_for(&verifier->data, total);
    for (own.rank = 0; own.rank < plan->size; own.rank++) {
        coll__verify_memory_t *memory = &state_of(verifier, own.rank)->memory;
        data += lay_out(&own, &verifier->run[own.rank], data, memory);
        size_t send = memory->bytes[COLL__BUF_SEND];
        if (send)
            memcpy(memory->at[COLL__BUF_SEND], inputs + (size_t)own.rank * send, send);
        if (plan->operation == COLL_OP_BROADCAST && own.rank == plan->root && plan->count)
            memcpy(memory->at[COLL__BUF_RECV], inputs, memory->bytes[COLL__BUF_RECV]);
    }
}

/* ---- who has heard of whom ---------------------------------------------------------------------------------- */

/* Two sets a rank: what it knew when its round began, and what it will know when the round ends. */
static uint64_t *heard_by(const coll__verifier_t *verifier, int rank, int later) {
    return (uint64_t *)verifier->heard.at + (2 * (size_t)rank + (size_t)later) * verifier->words;
}

static void set_up_heard(coll__verifier_t *verifier) {
    verifier->words = ((size_t)verifier->size + 63) / 64;
    size_t bytes = 2 * (size_t)verifier->size * verifier->words * sizeof(uint64_t);
    memset(room_for(&verifier->heard, bytes), 0, bytes);
    for (int rank = 0; rank < verifier->size; rank++)
        for (int later = 0; later < 2; later++)
            heard_by(verifier, rank, later)[rank / 64] |= UINT64_C(1) << rank % 64;
}

bool coll__verifier_heard(const coll__verifier_t *verifier, int rank, int other) {
    return heard_by(verifier, rank, 0)[other / 64] >> other % 64 & 1;
}

/* ---- running ------------------------------------------------------------------------------------------------ */

static const coll__step_t *step_of(const coll__verifier_t *verifier, waiting_t end) {
    return &verifier->run[end.rank].steps[end.step];
}

static void finish_one(coll__verifier_t *verifier, int rank) {
    rank_state_t *state = state_of(verifier, rank);
    if (--state->unfinished == 0 && state->posted)
        ((int *)verifier->ready.at)[verifier->ready_count++] = rank;
}

static bool transfer(coll__verifier_t *verifier, waiting_t send, waiting_t recv) {
    const coll__step_t *out = step_of(verifier, send), *in = step_of(verifier, recv);
    rank_state_t *from = state_of(verifier, send.rank), *to = state_of(verifier, recv.rank);
    coll__verify_result_t *result = verifier->result;
    if (out->bytes != in->bytes) {
        snprintf(result->fault, sizeof result->fault,
                 "rank %d sends %zu bytes to rank %d (step %d), which expects %zu (step %d)", send.rank, out->bytes,
                 recv.rank, send.step, in->bytes, recv.step);
        return false;
    }
    if (out->bytes)
        memcpy(to->memory.at[in->target.buffer] + in->target.offset,
               from->memory.at[out->source.buffer] + out->source.offset, out->bytes);
    uint64_t depth = from->depth + 1;
    to->next_depth = depth > to->next_depth ? depth : to->next_depth;
    result->rounds = depth > result->rounds ? depth : result->rounds;
    result->messages++;
    result->bytes += out->bytes;
    from->sent++;
    from->bytes_sent += out->bytes;
    to->received++;
    for (size_t i = 0; i < verifier->words; i++)
        heard_by(verifier, recv.rank, 1)[i] |= heard_by(verifier, send.rank, 0)[i];
    finish_one(verifier, send.rank);
    finish_one(verifier, recv.rank);
    return true;
}

static bool post(coll__verifier_t *verifier, waiting_t end) {
    const coll__step_t *step = step_of(verifier, end);
    bool sends = step->kind == COLL__STEP_SEND;
    size_t from = (size_t)(sends ? end.rank : step->peer), to = (size_t)(sends ? step->peer : end.rank);
    channel_t *channel = (channel_t *)verifier->channels.at + from * (size_t)verifier->size + to;
    waiting_t *queue = (waiting_t *)verifier->queue.at;
    state_of(verifier, end.rank)->unfinished++;
    if (channel->first != NONE && channel->kind != step->kind) {
        waiting_t other = queue[channel->first];
        channel->first = other.next;
        return sends ? transfer(verifier, end, other) : transfer(verifier, other, end);
    }
    int place = verifier->waiting_count++;
    queue[place] = end;
    if (channel->first == NONE)
        channel->first = place;
    else
        queue[channel->last].next = place;
    channel->last = place;
    channel->kind = step->kind;
    return true;
}

/* The target may be an input: the fold is written when all are read. */
static void fold(coll__verifier_t *verifier, const coll__step_t *step, const char *others, const char *own,
                 char *target) {
    char *result = malloc(step->bytes), *next = malloc(step->bytes);
    if (!result || !next)
        abort();
    for (int i = 0; i < step->inputs; i++) {
        const char *input = i == step->place ? own : others + (size_t)(i < step->place ? i : i - 1) * step->bytes;
        memcpy(i == 0 ? result : next, input, step->bytes);
        if (i > 0)
            verifier->op(result, next, result, step->bytes);
    }
    memcpy(target, result, step->bytes);
    free(result);
    free(next);
}

static void compute(coll__verifier_t *verifier, int rank, const coll__step_t *step) {
    char *const *at = state_of(verifier, rank)->memory.at;
    const char *source = at[step->source.buffer] + step->source.offset;
    char *target = at[step->target.buffer] + step->target.offset;
    if (step->kind == COLL__STEP_COPY)
        memcpy(target, source, step->bytes);
    else if (step->kind == COLL__STEP_FOLD)
        fold(verifier, step, source, at[step->right.buffer] + step->right.offset, target);
    else
        verifier->op(source, at[step->right.buffer] + step->right.offset, target, step->bytes);
}

static void end_round(coll__verifier_t *verifier, int rank) {
    rank_state_t *state = state_of(verifier, rank);
    state->posted = false;
    state->depth = state->next_depth;
    memcpy(heard_by(verifier, rank, 0), heard_by(verifier, rank, 1), verifier->words * sizeof(uint64_t));
}

/* Takes the rank's steps until it must wait. */
static bool advance(coll__verifier_t *verifier, int rank) {
    rank_state_t *state = state_of(verifier, rank);
    const coll__sched_t *sched = &verifier->run[rank];
    while (state->step < sched->step_count) {
        int round = sched->steps[state->step].round;
        for (; state->step < sched->step_count && sched->steps[state->step].round == round; state->step++) {
            const coll__step_t *step = &sched->steps[state->step];
            if (step->kind != COLL__STEP_SEND && step->kind != COLL__STEP_RECV)
                compute(verifier, rank, step);
            else if (!post(verifier, (waiting_t){rank, state->step, NONE}))
                return false;
        }
        if (state->unfinished > 0) {
            state->posted = true;
            return true;
        }
        end_round(verifier, rank);
    }
    return true;
}

static bool all_done(coll__verifier_t *verifier) {
    for (int rank = 0; rank < verifier->size; rank++) {
        const rank_state_t *state = state_of(verifier, rank);
        if (state->posted) {
            snprintf(verifier->result->fault, sizeof verifier->result->fault,
                     "deadlock: rank %d of %d waits in round %d for %d messages", rank, verifier->size,
                     verifier->run[rank].steps[state->step - 1].round, state->unfinished);
            return false;
        }
    }
    return true;
}

static void set_up(coll__verifier_t *verifier, const coll__plan_t *plan, const coll__sched_t *scheds) {
    size_t size = (size_t)plan->size, steps = 1;
    verifier->run = scheds;
    verifier->size = plan->size;
    for (int rank = 0; rank < plan->size; rank++)
        steps += (size_t)scheds[rank].step_count;
    memset(room_for(&verifier->ranks, size * sizeof(rank_state_t)), 0, size * sizeof(rank_state_t));
    memset(room_for(&verifier->channels, size * size * sizeof(channel_t)), 0xff, size * size * sizeof(channel_t));
    room_for(&verifier->queue, steps * sizeof(waiting_t));
    room_for(&verifier->flights, steps * sizeof(coll__verify_access_t));
    room_for(&verifier->ready, (size + 1) * sizeof(int));
    verifier->waiting_count = verifier->ready_count = 0;
    set_up_heard(verifier);
}

bool coll__verifier_run(coll__verifier_t *verifier, const coll__plan_t *plan, const coll__sched_t *scheds,
                        coll__verify_op_t op, const void *inputs, coll__verify_result_t *result) {
    *result = (coll__verify_result_t){.fault = ""};
    verifier->result = result;
    verifier->op = op;
    set_up(verifier, plan, scheds);
    set_up_memory(verifier, plan, inputs);
    for (int rank = 0; rank < plan->size; rank++)
        if (!coll__verify_check(plan, &scheds[rank], rank, &state_of(verifier, rank)->memory,
                                (coll__verify_access_t *)verifier->flights.at, result->fault, sizeof result->fault))
            return false;

    for (int rank = 0; rank < plan->size; rank++) {
        if (!advance(verifier, rank))
            return false;
        while (verifier->ready_count > 0) {
            int ready = ((int *)verifier->ready.at)[--verifier->ready_count];
            end_round(verifier, ready);
            if (!advance(verifier, ready))
                return false;
        }
    }
    for (int rank = 0; rank < plan->size; rank++)
        if (state_of(verifier, rank)->bytes_sent > result->busiest)
            result->busiest = state_of(verifier, rank)->bytes_sent;
    return all_done(verifier);
}

const void *coll__verifier_output(const coll__verifier_t *verifier, int rank) {
    return state_of(verifier, rank)->memory.at[COLL__BUF_RECV];
}

uint64_t coll__verifier_sent(const coll__verifier_t *verifier, int rank) {
    return state_of(verifier, rank)->sent;
}

uint64_t coll__verifier_received(const coll__verifier_t *verifier, int rank) {
    return state_of(verifier, rank)->received;
}
