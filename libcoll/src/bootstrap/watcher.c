/* The watcher: one thread a process, asleep in poll() until a connection, a pidfd or a caller of this library has
 * something for it. It takes what the hub says, sees peers end, and on rank 0 it is the hub. Signals are the
 * application's: all are blocked here. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "bootstrap/job.h"
#include "bootstrap/notice.h"
#include "bootstrap/poll_used.h"

enum { STACK_BYTES = 512 * 1024, REST_MS = 10 };

static void add_one(int eventfd) {
    const uint64_t one = 1;
    while (write(eventfd, &one, sizeof one) < 0 && errno == EINTR)
        ;
}

void coll__job_kick(coll__job_t *job) {
    add_one(job->kick_fd);
}

/* The engine may be parked on the caller's eventfd; those in job.c wait for the condition. */
static void tell_engine(coll__job_t *job) {
    atomic_fetch_add_explicit(&job->events, 1, memory_order_release);
    if (job->wake_fd >= 0)
        add_one(job->wake_fd);
}

void coll__job_set_state(coll__job_t *job, int rank, coll__peer_state_t state) {
    if (atomic_load_explicit(&job->states[rank], memory_order_relaxed) != COLL__PEER_ALIVE)
        return; /* who left or failed stays so */
    atomic_store_explicit(&job->states[rank], state, memory_order_release);
    if (rank != job->rank) {
        coll__log(COLL__LOG_DEBUG, "rank %d %s", rank, state == COLL__PEER_LEFT ? "left" : "failed");
        tell_engine(job);
    }
    pthread_cond_broadcast(&job->changed);
    if (job->hub != NULL)
        coll__hub_state_changed(job->hub, rank, state);
}

bool coll__job_tell(coll__job_t *job, coll__frame_t frame, const void *payload) {
    if (job->hub != NULL) {
        coll__hub_take(job->hub, 0, &frame, payload);
        return true;
    }
    size_t lost = job->to_hub.lost;
    coll__message_t *message = coll__message_new(frame, payload);
    if (frame.type != COLL__FRAME_NOTICE)
        coll__conn_send(&job->to_hub, message);
    else if (!coll__conn_send_or_lose(&job->to_hub, message))
        coll__log(COLL__LOG_WARN, "%s does not read: notices are lost", job->where);
    coll__message_release(message);
    if (job->to_hub.out != NULL || job->to_hub.broken)
        coll__job_kick(job);
    return job->to_hub.lost == lost;
}

static void end_round(coll__job_t *job, const coll__frame_t *frame, const void *payload) {
    if (frame->value != job->round || job->round_done)
        return; /* an answer to a wait that was given up */
    job->round_done = true;
    job->round_error.status = 0;
    if (frame->type == COLL__FRAME_ERROR && frame->bytes == sizeof job->round_error) {
        coll__error_info_t *error = &job->round_error;
        memcpy(error, payload, sizeof *error);
        error->message[sizeof error->message - 1] = '\0';
        error->operation[sizeof error->operation - 1] = '\0';
        error->rank_count = error->rank_count < 0 || error->rank_count > COLL__ERROR_RANKS ? 0 : error->rank_count;
    } else if (frame->type == COLL__FRAME_GATHERED && frame->bytes == job->answer_bytes) {
        if (frame->bytes > 0)
            memcpy(job->answer, payload, frame->bytes);
    } else {
        coll__error(COLL_ERR_INTERNAL, "rank 0 answers a step of initialisation with %u bytes instead of %zu",
                    frame->bytes, job->answer_bytes);
        coll__error_save(&job->round_error);
    }
    pthread_cond_broadcast(&job->changed);
}

void coll__job_take(coll__job_t *job, const coll__frame_t *frame, const void *payload) {
    switch ((coll__frame_type_t)frame->type) {
    case COLL__FRAME_GATHERED:
    case COLL__FRAME_ERROR:
        end_round(job, frame, payload);
        break;
    case COLL__FRAME_STATE:
        if (frame->rank >= 0 && frame->rank < job->size && frame->rank != job->rank)
            coll__job_set_state(job, frame->rank,
                                frame->value == COLL__PEER_LEFT ? COLL__PEER_LEFT : COLL__PEER_FAILED);
        break;
    case COLL__FRAME_NOTICE:
        coll__notices_add(&job->notices, frame->rank, payload, frame->bytes);
        tell_engine(job);
        break;
    case COLL__FRAME_RELAYED:
        job->relayed = frame->value;
        break;
    default:
        coll__log(COLL__LOG_ERROR, "rank 0 sends frames of unknown type %u", frame->type);
    }
}

static void take_from_hub(void *context, const coll__frame_t *frame, const void *payload) {
    coll__job_take(context, frame, payload);
}

static void act_on_hub(coll__job_t *job, const struct pollfd *ready) {
    coll__conn_flush(&job->to_hub);
    if ((ready->revents & ~POLLOUT) == 0 || coll__conn_read(&job->to_hub, take_from_hub, job))
        return;
    coll__conn_close(&job->to_hub);
    job->hub_lost = true;
    coll__job_set_state(job, 0, COLL__PEER_FAILED); /* unless it said goodbye */
    pthread_cond_broadcast(&job->changed);
}

/* A process of this node ended. Whether it had said goodbye is in the segment: it wrote so before it told the hub, and
 * the hub's word may still be on its way. */
static void act_on_pidfd(coll__job_t *job, int local) {
    close(job->pidfds[local]);
    job->pidfds[local] = -1;
    int rank = job->local_ranks[local];
    if (atomic_load_explicit(&job->lines[local].left, memory_order_acquire)) {
        coll__job_set_state(job, rank, COLL__PEER_LEFT);
        return;
    }
    coll__job_set_state(job, rank, COLL__PEER_FAILED);
    /* A connection may outlive its process in a child that it forked: rank 0 should hear of it from us as well. */
    coll__job_tell(job, (coll__frame_t){.type = COLL__FRAME_DEAD, .rank = rank}, NULL);
}

static int timeout_ms(const coll__job_t *job) {
    int64_t next = job->hub != NULL ? coll__hub_next_timer(job->hub) : COLL__NEVER;
    if (next == COLL__NEVER)
        return -1;
    int64_t left = next - coll__now_ns();
    return left <= 0 ? 0 : (int)(left / 1000000) + 1;
}

/* pollfds: the kick, the connection to the hub, local ranks, the hub's own */
static void *watch(void *argument) {
    coll__job_t *job = argument;
    pthread_setname_np(pthread_self(), "coll-watcher");
    pthread_mutex_lock(&job->lock);
    size_t hub_polls = job->hub != NULL ? coll__hub_poll_size(job->hub) : 0;
    struct pollfd *polls = job->polls, *local = polls + 2, *hub = local + job->size;
    while (!job->stop) {
        polls[0] = (struct pollfd){.fd = job->kick_fd, .events = POLLIN};
        polls[1] = (struct pollfd){.fd = job->to_hub.fd, .events = coll__conn_interest(&job->to_hub)};
        for (int i = 0; i < job->size; i++)
            local[i] = (struct pollfd){.fd = i < job->local_size ? job->pidfds[i] : -1, .events = POLLIN};
        if (job->hub != NULL)
            coll__hub_poll_fill(job->hub, hub);
        int timeout = timeout_ms(job);
        pthread_mutex_unlock(&job->lock);

        int ready = coll__poll_used(polls, 2 + (size_t)job->size + hub_polls, timeout);
        if (ready < 0)
            poll(NULL, 0, REST_MS); /* whatever it is, it will not be better at once */

        pthread_mutex_lock(&job->lock);
        if (ready < 0)
            continue;
        uint64_t kicks;
        if (polls[0].revents != 0)
            (void)!read(job->kick_fd, &kicks, sizeof kicks);
        if (polls[1].revents != 0)
            act_on_hub(job, &polls[1]);
        if (job->hub != NULL)
            coll__hub_poll_act(job->hub, hub);
        for (int i = 0; i < job->local_size; i++)
            if (local[i].revents != 0 && local[i].fd == job->pidfds[i])
                act_on_pidfd(job, i);
        pthread_cond_broadcast(&job->changed); /* rank 0's leave() waits for peers to hang up */
    }
    pthread_mutex_unlock(&job->lock);
    return NULL;
}

int coll__watcher_start(coll__job_t *job) {
    size_t polls = 2 + (size_t)job->size + (job->hub != NULL ? coll__hub_poll_size(job->hub) : 0);
    job->polls = calloc(2 * polls, sizeof *job->polls); /* the second half is coll__poll_used()'s */
    if (job->polls == NULL)
        return coll__error(COLL_ERR_MEMORY, "no memory to watch %d ranks", job->size);

    pthread_attr_t attributes;
    sigset_t all, before;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = pthread_create(&job->watcher, &attributes, watch, job);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    if (failed)
        return coll__error(COLL_ERR_BOOTSTRAP, "cannot start the thread that watches the peers: %s", strerror(failed));
    job->watching = true;
    return 0;
}

void coll__watcher_stop(coll__job_t *job) {
    if (!job->watching)
        return;
    pthread_mutex_lock(&job->lock);
    job->stop = true;
    pthread_mutex_unlock(&job->lock);
    coll__job_kick(job);
    pthread_join(job->watcher, NULL);
    job->watching = false;
}
