/* A star: every rank has one connection, to rank 0, and rank 0 passes on what one says to all. Nothing here waits. With
 * a hub the order of what one rank says is the same for all others, and the end of a connection is seen by someone who
 * can tell the rest; its price, 2 hops and P messages at one process, is paid at init and on failure only. */
#include "bootstrap/hub.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "bootstrap/door.h"
#include "bootstrap/job.h"

/* One collective step: the parts that have come. Round 0 is the meeting, whose parts are empty. */
typedef struct coll__round {
    uint32_t number;
    size_t bytes; /* of a part */
    unsigned char *parts;
    unsigned char *have; /* [size] */
    int have_count;
    bool ended;    /* everyone has its answer, or will be told `error` */
    bool given_up; /* somebody's deadline has passed: `error` names who was missing then, and is why anyone leaves */
    coll__error_info_t error;
} coll__round_t;

struct coll__hub {
    coll__job_t *job;
    coll__door_t door;
    coll__conn_t *peers; /* [size], [0] unused */
    bool on_loopback;    /* it listens there only */
    coll__round_t round;
};

int coll__hub_new(coll__job_t *job, coll__hub_t **out) {
    coll__hub_t *hub = calloc(1, sizeof *hub);
    coll__conn_t *peers = calloc((size_t)job->size, sizeof *peers);
    unsigned char *have = calloc((size_t)job->size, 1);
    if (hub == NULL || peers == NULL || have == NULL) {
        free(hub);
        free(peers);
        free(have);
        return coll__error(COLL_ERR_MEMORY, "no memory for the connections of %d ranks", job->size);
    }
    for (int r = 0; r < job->size; r++)
        coll__conn_open(&peers[r], -1);
    coll__door_open(&hub->door, &job->key, NULL, 0, NULL, NULL);
    hub->job = job;
    hub->peers = peers;
    hub->round.have = have;
    *out = hub;
    return 0;
}

void coll__hub_free(coll__hub_t *hub) {
    if (hub == NULL)
        return;
    coll__door_close(&hub->door);
    for (int r = 0; r < hub->job->size; r++)
        coll__conn_close(&hub->peers[r]);
    free(hub->peers);
    free(hub->round.have);
    free(hub->round.parts);
    free(hub);
}

/* ---- saying ---- */

static void send_message(coll__hub_t *hub, int rank, coll__message_t *message) {
    coll__conn_send(&hub->peers[rank], message);
    if (hub->peers[rank].out != NULL)
        coll__job_kick(hub->job);
}

static void say(coll__hub_t *hub, int rank, coll__frame_t frame, const void *payload) {
    if (rank == 0) {
        coll__job_take(hub->job, &frame, payload);
        return;
    }
    coll__message_t *message = coll__message_new(frame, payload);
    send_message(hub, rank, message);
    coll__message_release(message);
}

static void say_to_others(coll__hub_t *hub, int except, coll__frame_t frame, const void *payload) {
    coll__message_t *message = coll__message_new(frame, payload);
    for (int r = 1; r < hub->job->size; r++)
        if (r != except)
            send_message(hub, r, message);
    coll__message_release(message);
    if (except != 0)
        coll__job_take(hub->job, &frame, payload);
}

static coll__frame_t error_frame(uint32_t round) {
    return (coll__frame_t){.type = COLL__FRAME_ERROR, .bytes = sizeof(coll__error_info_t), .value = round};
}

/* ---- rounds ---- */

static bool is_alive(const coll__hub_t *hub, int rank) {
    return coll__job_peer_state(hub->job, rank) == COLL__PEER_ALIVE;
}

static int missing(const coll__hub_t *hub, int *ranks) {
    int count = 0;
    for (int r = 0; r < hub->job->size; r++)
        if (!hub->round.have[r])
            ranks[count++] = r;
    return count;
}

/* Makes this thread's last error from the ranks concerned. */
static void name_ranks(int status, const int *ranks, int count, const char *what) {
    char text[200];
    coll__ranks_text(ranks, count, text, sizeof text);
    coll__error(status, "%s %s", text, what);
    coll__error_add_ranks(ranks, (size_t)count);
}

/* Ends the round with this thread's last error, for those who wait in it and those who come later. The door stays open
 * after a failed meeting, so that these hear it too. */
static void fail_round(coll__hub_t *hub) {
    coll__round_t *round = &hub->round;
    coll__error_save(&round->error);
    round->ended = true;
    for (int r = 0; r < hub->job->size; r++)
        if (round->have[r])
            say(hub, r, error_frame(round->number), &round->error);
}

static void complete_round(coll__hub_t *hub) {
    coll__round_t *round = &hub->round;
    round->ended = true;
    coll__frame_t frame = {.type = COLL__FRAME_GATHERED, .value = round->number};
    if (round->number == 0) {
        coll__door_shut(&hub->door);
        frame.bytes = sizeof hub->job->id;
        say_to_others(hub, -1, frame, hub->job->id);
    } else {
        frame.bytes = (uint32_t)(round->bytes * (size_t)hub->job->size);
        say_to_others(hub, -1, frame, round->parts);
    }
    free(round->parts);
    round->parts = NULL;
}

/* Has everyone come, or can somebody come no more? While the ranks meet, anyone's end ends the meeting. */
static void look_at_round(coll__hub_t *hub) {
    coll__round_t *round = &hub->round;
    if (round->ended || round->have_count == 0)
        return;
    if (round->have_count == hub->job->size) {
        complete_round(hub);
        return;
    }
    int *gone = malloc((size_t)hub->job->size * sizeof *gone), count = 0;
    if (gone == NULL) {
        coll__error(COLL_ERR_MEMORY, "no memory for a step of initialisation");
        fail_round(hub);
        return;
    }
    for (int r = 0; r < hub->job->size; r++)
        if (!is_alive(hub, r) && (!round->have[r] || round->number == 0))
            gone[count++] = r;
    if (count > 0) {
        if (round->given_up)
            coll__error_raise(&round->error);
        else
            name_ranks(COLL_ERR_BOOTSTRAP, gone, count, "went away during initialisation");
        fail_round(hub);
    }
    free(gone);
}

static void begin_round(coll__hub_t *hub, uint32_t number, size_t bytes) {
    coll__round_t *round = &hub->round;
    free(round->parts);
    memset(round->have, 0, (size_t)hub->job->size);
    *round = (coll__round_t){.number = number, .bytes = bytes, .have = round->have};
    round->parts = malloc(bytes * (size_t)hub->job->size + 1);
}

static void take_part(coll__hub_t *hub, int rank, const coll__frame_t *frame, const void *payload) {
    coll__round_t *round = &hub->round;
    if (frame->value == round->number + 1 && round->ended)
        begin_round(hub, frame->value, frame->bytes);
    if (frame->value != round->number || round->have[rank]) {
        coll__error_info_t info;
        coll__error(COLL_ERR_STATE, "rank %d is at step %u of initialisation, other ranks are at step %u", rank,
                    frame->value, round->number);
        coll__error_save(&info);
        say(hub, rank, error_frame(frame->value), &info);
        return;
    }
    round->have[rank] = 1;
    round->have_count++;
    if (round->ended) {
        say(hub, rank, error_frame(round->number), &round->error);
    } else if (round->parts == NULL) {
        coll__error(COLL_ERR_MEMORY, "rank 0 has no memory for a step of initialisation of %u bytes for each rank",
                    frame->bytes);
        fail_round(hub);
    } else if (frame->bytes != round->bytes) {
        coll__error(COLL_ERR_BOOTSTRAP, "rank %d brings %u bytes to a step of initialisation, other ranks %zu", rank,
                    frame->bytes, round->bytes);
        fail_round(hub);
    } else {
        if (frame->bytes > 0)
            memcpy(round->parts + (size_t)rank * round->bytes, payload, frame->bytes);
        look_at_round(hub);
    }
}

/* A rank's deadline passed. When it is rank 0's and the ranks have not met, there will be no meeting for anyone. */
static void tell_who_is_missing(coll__hub_t *hub, int rank, uint32_t number) {
    if (hub->round.ended || number != hub->round.number)
        return; /* the answer is on its way */
    int *ranks = malloc((size_t)hub->job->size * sizeof *ranks);
    if (ranks == NULL)
        return;
    int count = missing(hub, ranks);
    if (number == 0) {
        char what[900];
        snprintf(what, sizeof what, "did not come in time to %s%s%s%s", hub->job->where,
                 hub->on_loopback ? " (loopback: ranks on other hosts cannot reach it)" : "",
                 hub->door.refused[0] != '\0' ? "; rank 0 turned away: " : "", hub->door.refused);
        name_ranks(COLL_ERR_TIMEOUT, ranks, count, what);
    } else
        name_ranks(COLL_ERR_TIMEOUT, ranks, count, "did not take part in a step of initialisation in time");
    free(ranks);
    if (number == 0 && rank == 0) {
        fail_round(hub);
    } else {
        coll__error_save(&hub->round.error);
        hub->round.given_up = true;
        say(hub, rank, error_frame(number), &hub->round.error);
    }
}

/* ---- ranks come and go ---- */

/* Why this one cannot be let in, as this thread's last error; 0 if it can. */
static int look_at_caller(const coll__hub_t *hub, int rank, int size) {
    int status = 0;
    if (size != hub->job->size)
        status = coll__error(COLL_ERR_BOOTSTRAP, "rank %d says that COLL_SIZE is %d, rank 0 says %d", rank, size,
                             hub->job->size);
    else if (rank < 0 || rank >= size)
        status = coll__error(COLL_ERR_BOOTSTRAP, "a process says that it is rank %d of %d", rank, size);
    else if (hub->round.have[rank])
        status = coll__error(COLL_ERR_BOOTSTRAP, "two processes say that they are rank %d", rank);
    if (status != 0)
        coll__error_add_ranks(&rank, 1);
    return status;
}

static void arrived(coll__hub_t *hub, int rank) {
    if (rank < 0 || rank >= hub->job->size || hub->round.have[rank])
        return;
    hub->round.have[rank] = 1;
    hub->round.have_count++;
}

static bool admit(void *context, int fd, int rank, int size) {
    coll__hub_t *hub = context;
    if (!hub->round.ended && look_at_caller(hub, rank, size) != 0)
        fail_round(hub);
    if (hub->round.ended) {
        struct {
            coll__frame_t frame;
            coll__error_info_t info;
        } refusal = {.frame = error_frame(0), .info = hub->round.error};
        (void)!send(fd, &refusal, sizeof refusal, MSG_NOSIGNAL | MSG_DONTWAIT);
        arrived(hub, rank);
        return false;
    }
    coll__tcp_tune(fd);
    coll__conn_open(&hub->peers[rank], fd);
    arrived(hub, rank);
    look_at_round(hub);
    return true;
}

bool coll__hub_has_all(const coll__hub_t *hub) {
    return hub->round.have_count == hub->job->size;
}

void coll__hub_open(coll__hub_t *hub, const int *listeners, int count) {
    coll__door_open(&hub->door, &hub->job->key, listeners, count, admit, hub);
    hub->on_loopback = true;
    for (int i = 0; i < count; i++)
        hub->on_loopback = hub->on_loopback && coll__tcp_is_on_loopback(listeners[i]);
    hub->round.have[0] = 1;
    hub->round.have_count = 1;
}

void coll__hub_state_changed(coll__hub_t *hub, int rank, coll__peer_state_t state) {
    say_to_others(hub, rank, (coll__frame_t){.type = COLL__FRAME_STATE, .rank = rank, .value = state}, NULL);
    look_at_round(hub);
}

/* The sender gets a receipt: that is how it knows that rank 0's process runs. */
static void relay_notice(coll__hub_t *hub, int from, const coll__frame_t *frame, const void *payload) {
    coll__frame_t notice = {.type = COLL__FRAME_NOTICE, .bytes = frame->bytes, .rank = from};
    coll__message_t *message = coll__message_new(notice, payload);
    for (int r = 1; r < hub->job->size; r++)
        if (r != from && !coll__conn_send_or_lose(&hub->peers[r], message))
            coll__log(COLL__LOG_WARN, "rank %d does not read: notices are lost to it, the first from rank %d", r, from);
    coll__message_release(message);
    if (from != 0) {
        coll__job_take(hub->job, &notice, payload);
        say(hub, from, (coll__frame_t){.type = COLL__FRAME_RELAYED, .value = frame->value}, NULL);
    }
    coll__job_kick(hub->job); /* some may have been queued */
}

void coll__hub_take(coll__hub_t *hub, int rank, const coll__frame_t *frame, const void *payload) {
    switch ((coll__frame_type_t)frame->type) {
    case COLL__FRAME_GATHER:
        take_part(hub, rank, frame, payload);
        break;
    case COLL__FRAME_WHO:
        tell_who_is_missing(hub, rank, frame->value);
        break;
    case COLL__FRAME_GOODBYE:
        coll__job_set_state(hub->job, rank, COLL__PEER_LEFT);
        break;
    case COLL__FRAME_DEAD:
        if (frame->rank >= 0 && frame->rank < hub->job->size)
            coll__job_set_state(hub->job, frame->rank, COLL__PEER_FAILED);
        break;
    case COLL__FRAME_NOTICE:
        relay_notice(hub, rank, frame, payload);
        break;
    default:
        coll__log(COLL__LOG_ERROR, "rank %d sends frames of unknown type %u", rank, frame->type);
    }
}

typedef struct peer {
    coll__hub_t *hub;
    int rank;
} peer_t;

static void take_from_peer(void *context, const coll__frame_t *frame, const void *payload) {
    peer_t *peer = context;
    coll__hub_take(peer->hub, peer->rank, frame, payload);
}

void coll__hub_shut(coll__hub_t *hub) {
    coll__door_shut(&hub->door);
    for (int r = 1; r < hub->job->size; r++)
        if (hub->peers[r].fd >= 0)
            coll__conn_shut(&hub->peers[r]);
}

bool coll__hub_is_done(const coll__hub_t *hub) {
    for (int r = 1; r < hub->job->size; r++)
        if (hub->peers[r].fd >= 0)
            return false;
    return coll__door_is_empty(&hub->door);
}

/* ---- for the watcher ---- */

size_t coll__hub_poll_size(const coll__hub_t *hub) {
    return COLL__DOOR_POLLS + (size_t)hub->job->size;
}

void coll__hub_poll_fill(coll__hub_t *hub, struct pollfd *polls) {
    coll__door_poll_fill(&hub->door, polls);
    polls += COLL__DOOR_POLLS;
    for (int r = 0; r < hub->job->size; r++)
        polls[r] = (struct pollfd){.fd = hub->peers[r].fd, .events = coll__conn_interest(&hub->peers[r])};
}

void coll__hub_poll_act(coll__hub_t *hub, const struct pollfd *polls) {
    coll__door_poll_act(&hub->door, polls);
    polls += COLL__DOOR_POLLS;
    for (int r = 1; r < hub->job->size; r++) {
        coll__conn_t *conn = &hub->peers[r];
        if (conn->fd < 0 || conn->fd != polls[r].fd || polls[r].revents == 0)
            continue;
        coll__conn_flush(conn);
        peer_t peer = {hub, r};
        if ((polls[r].revents & ~POLLOUT) != 0 && !coll__conn_read(conn, take_from_peer, &peer)) {
            coll__conn_close(conn);
            coll__job_set_state(hub->job, r, COLL__PEER_FAILED); /* unless it said goodbye */
        }
    }
}

int64_t coll__hub_next_timer(const coll__hub_t *hub) {
    return coll__door_next_timer(&hub->door);
}
