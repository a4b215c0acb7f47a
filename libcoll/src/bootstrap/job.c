/* The calls from outside: joining, the collective steps of init, notices, leaving, and what a fork leaves behind. */
#include <errno.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>
#include <utlist.h>

#include "base/clock.h"
#include "base/log.h"
#include "bootstrap/job.h"
#include "bootstrap/meet.h"
#include "bootstrap/secret.h"
#include "bootstrap/tcp.h"

static const int64_t last_word_ns = COLL__LAST_WORD_MS * INT64_C(1000000);

/* ---- fork ---- */

/* A child must not keep connections open that would then outlive its parent and hide its death, so it closes all
 * descriptors at once, whether or not anybody in it calls coll__job_abandon(). The locks are held across the fork, so
 * that the child's copy is whole. */
static pthread_mutex_t jobs_lock = PTHREAD_MUTEX_INITIALIZER;
static coll__job_t *jobs;

static void close_descriptors(coll__job_t *job) {
    coll__conn_close(&job->to_hub);
    coll__hub_free(job->hub);
    job->hub = NULL;
    for (int i = 0; i < job->local_size; i++)
        if (job->pidfds[i] >= 0) {
            close(job->pidfds[i]);
            job->pidfds[i] = -1;
        }
    if (job->kick_fd >= 0)
        close(job->kick_fd);
    job->kick_fd = -1;
    if (job->listen_fd >= 0)
        close(job->listen_fd);
    job->listen_fd = -1;
}

static void make_condition(coll__job_t *job) {
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&job->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
}

static void before_fork(void) {
    coll__job_t *job;
    pthread_mutex_lock(&jobs_lock);
    DL_FOREACH(jobs, job) pthread_mutex_lock(&job->lock);
}

static void after_fork_in_parent(void) {
    coll__job_t *job;
    DL_FOREACH(jobs, job) pthread_mutex_unlock(&job->lock);
    pthread_mutex_unlock(&jobs_lock);
}

static void after_fork_in_child(void) {
    coll__job_t *job;
    DL_FOREACH(jobs, job) {
        close_descriptors(job);
        job->watching = false;
        job->hub_lost = true;
        make_condition(job); /* the parent's may have had waiters, for whom its end would wait */
        pthread_mutex_unlock(&job->lock);
    }
    pthread_mutex_unlock(&jobs_lock);
}

static void watch_forks(void) {
    pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}

/* ---- making and freeing ---- */

static void job_free(coll__job_t *job) {
    pthread_mutex_lock(&jobs_lock);
    DL_DELETE(jobs, job);
    pthread_mutex_unlock(&jobs_lock);

    close_descriptors(job);
    coll__notices_clear(&job->notices);
    if (job->lines != NULL)
        munmap(job->lines, job->line_bytes);
    pthread_cond_destroy(&job->changed);
    pthread_mutex_destroy(&job->lock);
    sodium_memzero(&job->key, sizeof job->key);
    free(job->polls);
    free(job->local_ranks);
    free(job->pidfds);
    free(job->states);
    free(job);
}

static coll__job_t *job_new(const coll__job_opts_t *opts) {
    coll__job_t *job = calloc(1, sizeof *job);
    atomic_int *states = calloc((size_t)opts->size, sizeof *states);
    if (job == NULL || states == NULL) {
        free(job);
        free(states);
        return NULL;
    }
    job->rank = opts->rank;
    job->size = opts->size;
    job->wake_fd = opts->wake_fd;
    job->states = states; /* all zero: alive */
    job->kick_fd = -1;
    job->listen_fd = opts->rank == 0 ? opts->listen_fd : -1;
    coll__conn_open(&job->to_hub, -1);
    job->answer = job->id; /* of round 0 */
    job->answer_bytes = sizeof job->id;
    if (opts->host != NULL && opts->host[0] != '\0')
        snprintf(job->where, sizeof job->where, "rank 0 at %s:%d", opts->host, opts->port);
    else
        snprintf(job->where, sizeof job->where, "rank 0");

    make_condition(job);
    pthread_mutex_init(&job->lock, NULL);

    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, watch_forks);
    pthread_mutex_lock(&jobs_lock);
    DL_APPEND(jobs, job);
    pthread_mutex_unlock(&jobs_lock);
    return job;
}

/* ---- waiting ---- */

/* False when the deadline has passed. With the lock held, which it gives up meanwhile. */
static bool wait_until(coll__job_t *job, int64_t deadline) {
    if (deadline == COLL__NEVER) {
        pthread_cond_wait(&job->changed, &job->lock);
        return true;
    }
    const struct timespec moment = {.tv_sec = deadline / 1000000000, .tv_nsec = deadline % 1000000000};
    return pthread_cond_timedwait(&job->changed, &job->lock, &moment) != ETIMEDOUT;
}

static int64_t earlier(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static int lost_rank_0(const coll__job_t *job, int status, const char *what) {
    const int zero = 0;
    coll__error(status, "%s %s", job->where, what);
    coll__error_add_ranks(&zero, 1);
    return status;
}

/* The end of this rank's round, with the lock held. At the deadline rank 0 is asked who is missing. */
static int wait_for_round(coll__job_t *job, int64_t deadline) {
    bool asked = false;
    int status = 0;
    while (!job->round_done && !job->hub_lost && status == 0) {
        if (wait_until(job, deadline) || job->round_done || job->hub_lost)
            continue;
        if (!asked) {
            asked = true;
            deadline = coll__now_ns() + last_word_ns;
            coll__job_tell(job, (coll__frame_t){.type = COLL__FRAME_WHO, .value = job->round}, NULL);
        } else
            status = lost_rank_0(job, COLL_ERR_TIMEOUT, "does not answer any more");
    }
    if (status == 0 && !job->round_done)
        status = lost_rank_0(job, COLL_ERR_BOOTSTRAP, "died or closed the connection during initialisation");
    else if (status == 0 && job->round_error.status != 0)
        status = coll__error_raise(&job->round_error);
    job->round_done = true; /* whatever comes for it now comes too late */
    job->answer = NULL;
    return status;
}

/* ---- joining ---- */

static bool is_listening(int fd) {
    int listening;
    socklen_t bytes = sizeof listening;
    return getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &bytes) == 0 && listening;
}

static int check_opts(const coll__job_opts_t *opts) {
    if (opts->size < 1)
        return coll__error(COLL_ERR_ARG, "the number of ranks is %d, allowed are 1 and more", opts->size);
    if (opts->rank < 0 || opts->rank >= opts->size)
        return coll__error(COLL_ERR_ARG, "the rank is %d, allowed are 0 to %d", opts->rank, opts->size - 1);
    bool listens = opts->rank == 0 && opts->listen_fd >= 0;
    if (listens && !is_listening(opts->listen_fd)) /* perhaps somebody else's by now: it is left alone */
        return coll__error(COLL_ERR_CONFIG,
                           "COLL_LISTEN_FD is %d, which is no listening socket; the socket of a job that is over is "
                           "closed: unset the variable to listen at COLL_ADDR and COLL_PORT",
                           opts->listen_fd);
    if (opts->size > 1 && !listens && (opts->host == NULL || opts->host[0] == '\0'))
        return coll__error(COLL_ERR_BOOTSTRAP, "rank %d of %d is not told the host where rank 0 listens: set COLL_ADDR",
                           opts->rank, opts->size);
    if (opts->size > 1 && !listens && (opts->port < 1 || opts->port > 65535))
        return coll__error(COLL_ERR_BOOTSTRAP,
                           "the port where rank 0 listens is %d, allowed are 1 to 65535: set COLL_PORT", opts->port);
    return 0;
}

/* Rank 0: the hub, behind its sockets. */
static int open_hub(coll__job_t *job, const coll__job_opts_t *opts) {
    randombytes_buf(job->id, sizeof job->id);
    int status = coll__hub_new(job, &job->hub);
    if (status != 0)
        return status;
    int listeners[COLL__TCP_ADDRESSES] = {job->listen_fd}, count = 1;
    if (job->listen_fd < 0)
        status = coll__tcp_listen(opts->host, opts->port, listeners, &count);
    if (status == 0)
        coll__hub_open(job->hub, listeners, count);
    job->listen_fd = -1;
    return status;
}

static int connect_to_hub(coll__job_t *job, const coll__job_opts_t *opts) {
    int fd;
    int status = coll__meet(opts, &job->key, &fd);
    if (status == 0)
        coll__conn_open(&job->to_hub, fd);
    return status;
}

/* Rank 0 hangs up only after the others have, or at the deadline, so that its last words reach them. */
static void shut_hub(coll__job_t *job, int64_t deadline) {
    coll__hub_shut(job->hub);
    coll__job_kick(job);
    while (!coll__hub_is_done(job->hub) && wait_until(job, deadline))
        ;
}

static int meet_others(coll__job_t *job, const coll__job_opts_t *opts) {
    char secret[COLL__SECRET_BYTES];
    int status = coll__secret(opts->secret, secret);
    if (status == 0)
        status = coll__auth_key(secret, &job->key);
    memset(secret, 0, sizeof secret);
    if (status == 0 && (job->kick_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) < 0)
        status = coll__error(COLL_ERR_BOOTSTRAP, "cannot make an eventfd: %s", strerror(errno));
    if (status == 0)
        status = job->rank == 0 ? open_hub(job, opts) : connect_to_hub(job, opts);
    if (status == 0)
        status = coll__watcher_start(job);
    if (status != 0)
        return status;

    pthread_mutex_lock(&job->lock);
    status = wait_for_round(job, opts->deadline);
    if (status != 0 && job->hub != NULL) {
        int64_t limit = coll__now_ns() + last_word_ns;
        while (status != COLL_ERR_TIMEOUT && !coll__hub_has_all(job->hub) && wait_until(job, limit))
            ; /* late ones should hear why, too */
        shut_hub(job, coll__now_ns() + last_word_ns);
    }
    pthread_mutex_unlock(&job->lock);
    return status;
}

int coll__job_join(const coll__job_opts_t *opts, coll__job_t **out) {
    *out = NULL;
    int status = check_opts(opts);
    if (status != 0)
        return status;
    coll__job_t *job = job_new(opts);
    if (job == NULL)
        return coll__error(COLL_ERR_MEMORY, "no memory for a job of %d ranks", opts->size);
    if (job->size > 1)
        status = meet_others(job, opts);
    if (status != 0) {
        coll__error_info_t error;
        coll__error_save(&error);
        coll__watcher_stop(job);
        job_free(job);
        return coll__error_raise(&error);
    }
    coll__log(COLL__LOG_DEBUG, "met %d ranks", job->size);
    *out = job;
    return 0;
}

int coll__job_rank(const coll__job_t *job) {
    return job->rank;
}

int coll__job_size(const coll__job_t *job) {
    return job->size;
}

int coll__job_allgather(coll__job_t *job, const void *mine, size_t bytes, void *all, int64_t deadline) {
    if (job->size == 1) {
        memcpy(all, mine, bytes);
        return 0;
    }
    if (bytes > COLL__FRAME_MAX / (size_t)job->size)
        return coll__error(COLL_ERR_ARG, "%zu bytes from each of %d ranks are too many, allowed are %d in all", bytes,
                           job->size, COLL__FRAME_MAX);
    pthread_mutex_lock(&job->lock);
    job->round++;
    job->round_done = false;
    job->answer = all;
    job->answer_bytes = bytes * (size_t)job->size;
    coll__job_tell(job, (coll__frame_t){.type = COLL__FRAME_GATHER, .bytes = (uint32_t)bytes, .value = job->round},
                   mine);
    int status = wait_for_round(job, deadline);
    pthread_mutex_unlock(&job->lock);
    return status;
}

/* ---- watching ---- */

coll__peer_state_t coll__job_peer_state(const coll__job_t *job, int rank) {
    return (coll__peer_state_t)atomic_load_explicit(&job->states[rank], memory_order_acquire);
}

const atomic_uint_fast64_t *coll__job_events(const coll__job_t *job) {
    return &job->events;
}

int coll__job_post(coll__job_t *job, const void *notice, size_t bytes) {
    if (bytes < 1 || bytes > COLL__NOTICE_BYTES)
        return coll__error(COLL_ERR_ARG, "a notice of %zu bytes, allowed are 1 to %d", bytes, COLL__NOTICE_BYTES);
    pthread_mutex_lock(&job->lock);
    if (job->size > 1 && !job->hub_lost) {
        coll__frame_t frame = {.type = COLL__FRAME_NOTICE, .bytes = (uint32_t)bytes, .value = job->posted + 1};
        job->posted += coll__job_tell(job, frame, notice);
        if (job->hub != NULL)
            job->relayed = job->posted;
    }
    pthread_mutex_unlock(&job->lock);
    return 0;
}

bool coll__job_hub_answers(coll__job_t *job) {
    pthread_mutex_lock(&job->lock);
    bool answers = job->relayed == job->posted;
    pthread_mutex_unlock(&job->lock);
    return answers;
}

size_t coll__job_next_notice(coll__job_t *job, void *notice, int *from) {
    pthread_mutex_lock(&job->lock);
    size_t bytes = coll__notices_take(&job->notices, notice, from);
    pthread_mutex_unlock(&job->lock);
    return bytes;
}

/* ---- leaving ---- */

static bool someone_is_here(const coll__job_t *job) {
    for (int r = 0; r < job->size; r++)
        if (r != job->rank && coll__job_peer_state(job, r) == COLL__PEER_ALIVE)
            return true;
    return false;
}

static void say_goodbye(coll__job_t *job, int64_t deadline) {
    pthread_mutex_lock(&job->lock);
    if (job->lines != NULL)
        atomic_store_explicit(&job->lines[job->local_rank].left, 1, memory_order_release);
    coll__job_tell(job, (coll__frame_t){.type = COLL__FRAME_GOODBYE}, NULL);
    while (someone_is_here(job) && !job->hub_lost && wait_until(job, deadline))
        ;
    if (job->hub != NULL)
        shut_hub(job, earlier(deadline, coll__now_ns() + last_word_ns));
    pthread_mutex_unlock(&job->lock);
}

void coll__job_leave(coll__job_t *job, int64_t deadline) {
    if (job == NULL)
        return;
    if (job->watching)
        say_goodbye(job, deadline);
    coll__watcher_stop(job);
    job_free(job);
}

void coll__job_abandon(coll__job_t *job) {
    if (job != NULL)
        job_free(job); /* the descriptors were closed at the fork */
}

const char *coll__ranks_text(const int *ranks, int count, char *text, size_t capacity) {
    enum { NAMED = 16 };
    size_t used = (size_t)snprintf(text, capacity, "rank%s ", count == 1 ? "" : "s");
    int named = count > NAMED ? NAMED : count;
    for (int i = 0; i < named && used < capacity; i++) {
        const char *before = i == 0 ? "" : i == count - 1 ? " and " : ", ";
        used += (size_t)snprintf(text + used, capacity - used, "%s%d", before, ranks[i]);
    }
    if (named < count && used < capacity)
        snprintf(text + used, capacity - used, " and %d more", count - named);
    return text;
}
