/* Birth, progress and death of the engine. */
#include "engine/engine.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <utlist.h>

#include "base/log.h"

void coll__engine_lock(coll__engine_t *engine) {
    if (pthread_mutex_trylock(&engine->lock) == 0)
        return;
    atomic_fetch_add_explicit(&engine->contenders, 1, memory_order_relaxed);
    pthread_mutex_lock(&engine->lock);
    atomic_fetch_sub_explicit(&engine->contenders, 1, memory_order_relaxed);
}

void coll__engine_unlock(coll__engine_t *engine) {
    pthread_mutex_unlock(&engine->lock);
}

/* A transport that fails as a whole leaves nothing to rely on. */
static void break_all(coll__engine_t *engine) {
    coll__error_info_t error;
    coll__error_save(&error);
    coll_comm_t *comm, *next;
    DL_FOREACH_SAFE(engine->comms, comm, next) {
        coll__failure_break(engine, comm, &error);
    }
}

int coll__engine_progress(coll__engine_t *engine) {
    int events = coll__p2p_progress(engine->p2p);
    if (events < 0) {
        break_all(engine);
        events = 1;
    }
    if (engine->node_requests)
        events += coll__node_progress(engine);
    if (engine->foreign)
        coll__failure_foreign(engine);
    if (engine->ready)
        coll__run_ready(engine);
    if (atomic_load_explicit(engine->events, memory_order_relaxed) != engine->events_seen) {
        coll__failure_check(engine);
        events++;
    }
    if (engine->mismatches)
        coll__failure_settle(engine);
    return events;
}

int coll__engine_create(const coll__env_t *env, coll__job_t *job, int wake_fd, coll__engine_t **engine) {
    coll__engine_t *made = calloc(1, sizeof *made);
    int size = coll__job_size(job);
    if (made) {
        made->left_at = calloc((size_t)size, sizeof *made->left_at);
        made->failed = calloc((size_t)size, sizeof *made->failed);
    }
    if (!made || !made->left_at || !made->failed) {
        if (made)
            free(made->left_at);
        free(made);
        return coll__error(COLL_ERR_MEMORY, "out of memory for the state of %d ranks", size);
    }
    pthread_mutex_init(&made->lock, NULL);
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&made->completed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    made->env = *env;
    made->job = job;
    made->events = coll__job_events(job);
    made->wake_fd = wake_fd;
    made->world_rank = coll__job_rank(job);
    made->world_size = size;
    coll__p2p_hooks_t hooks = coll__failure_hooks(made);
    int status = coll__p2p_create(size, env->packet_size, env->npackets, &hooks, &made->p2p);
    if (status < 0) {
        coll__engine_free(made);
        return status;
    }
    *engine = made;
    return 0;
}

void coll__engine_add_transport(coll__engine_t *engine, coll__transport_t *transport) {
    engine->transports[engine->transport_count++] = transport;
}

int coll__engine_start(coll__engine_t *engine) {
    if (engine->env.progress != COLL__PROGRESS_THREAD)
        return 0;
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = pthread_create(&engine->thread, NULL, coll__wait_thread, engine);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (failed)
        return coll__error(COLL_ERR_STATE, "the progress thread (COLL_PROGRESS=thread) cannot start: %s",
                           strerror(failed));
    engine->thread_runs = true;
    return 0;
}

void coll__engine_wake(const coll__engine_t *engine) {
    uint64_t one = 1;
    ssize_t written = write(engine->wake_fd, &one, sizeof one);
    (void)written; /* full: it is readable already */
}

static void fail_all(coll__engine_t *engine) {
    coll__error_info_t error = {.status = COLL_ERR_CLOSED, .sequence = -1, .message = "the library was finalized"};
    coll_comm_t *comm, *next;
    DL_FOREACH_SAFE(engine->comms, comm, next) {
        coll__failure_break(engine, comm, &error);
    }
}

/* Other threads may still be inside a wait whose request has just failed, or at the lock: they leave at once. */
static void see_threads_out(coll__engine_t *engine) {
    while (engine->waiting || atomic_load(&engine->contenders)) {
        pthread_cond_broadcast(&engine->completed);
        coll__engine_wake(engine);
        coll__engine_unlock(engine);
        usleep(100);
        pthread_mutex_lock(&engine->lock);
    }
}

void coll__engine_stop(coll__engine_t *engine, int64_t deadline) {
    coll__engine_lock(engine);
    engine->closing = true;
    coll__engine_wake(engine);
    coll__engine_unlock(engine);
    if (engine->thread_runs)
        pthread_join(engine->thread, NULL);
    coll__engine_lock(engine);
    while (!coll__p2p_drained(engine->p2p) && coll__now_ns() < deadline) {
        if (coll__engine_progress(engine) > 0)
            continue;
        coll__engine_unlock(engine);
        usleep(100);
        coll__engine_lock(engine);
    }
    fail_all(engine);
    see_threads_out(engine);
    coll__engine_unlock(engine);
}

void coll__engine_free(coll__engine_t *engine) {
    if (!engine)
        return;
    coll_comm_t *comm, *next;
    DL_FOREACH(engine->comms, comm) {
        coll__comm_give_up_interrupted(engine, comm); /* they are no caller's */
    }
    coll_request_t *request, *after;
    DL_FOREACH_SAFE2(engine->live, request, after, live_next) {
        coll__request_orphan(request);
    }
    DL_FOREACH_SAFE(engine->comms, comm, next) {
        comm->handles = 0;
        coll__comm_close(engine, comm);
    }
    coll__trace_close(engine->trace);
    for (int i = 0; i < engine->transport_count; i++)
        engine->transports[i]->ops->close(engine->transports[i]);
    coll__p2p_free(engine->p2p);
    coll__node_close(engine->node);
    coll__notice_adopt(engine, NULL);
    while (engine->pool) {
        coll_request_t *request = engine->pool;
        LL_DELETE(engine->pool, request);
        free(request->memory);
        free(request);
    }
    pthread_cond_destroy(&engine->completed);
    pthread_mutex_destroy(&engine->lock);
    free(engine->left_at);
    free(engine->failed);
    free(engine);
}
