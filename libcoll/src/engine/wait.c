/* Waiting, the only place where it happens: spin, then (with more ranks than CPUs) yield, then park in poll().
 *
 * The window of spinning or yielding is one for a whole wait, however often unrelated messages come meanwhile. Once it
 * is over, wake-ups that bring nothing for this request lengthen the next nap, so that a flood cannot keep the thread
 * busy. Parking follows the usual order: raise the flag, fence, look once more, sleep; a sender that publishes before
 * it looks at the flag is then either seen here or wakes this thread.
 */
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "engine/engine.h"

static const int64_t MS = 1000000, US = 1000;
enum {
    AUTO_WINDOW_US = 1000,
    PURE_SPIN_US = 50,
    POLLS_A_CLOCK = 16,
    INTERRUPT_MS = 250,
    NAP_FIRST_US = 50,
    NAP_MOST_US = 2000
};

struct waiter {
    int64_t start, window_end, interrupt_at;
    uint64_t progressed; /* of the request, when the thread last slept */
    int64_t slept_at;
    int64_t nap_ns;
};

static int64_t window_ns(const coll__engine_t *engine) {
    return (engine->env.spin_us == COLL__SPIN_AUTO ? AUTO_WINDOW_US : engine->env.spin_us) * US;
}

static void yield(coll__engine_t *engine) {
    coll__engine_unlock(engine);
    sched_yield();
    coll__engine_lock(engine);
}

/* Lets a thread that wants the lock have it. */
static void let_go(coll__engine_t *engine) {
    if (atomic_load_explicit(&engine->contenders, memory_order_relaxed) == 0)
        return;
    coll__engine_unlock(engine);
    sched_yield();
    coll__engine_lock(engine);
}

static void set_sleeping(coll__engine_t *engine, int sleeping) {
    if (!engine->segment.base)
        return;
    atomic_store_explicit(&engine->segment.lines[engine->segment.local_rank].sleeping, sleeping, memory_order_relaxed);
}

static void sleep_unlocked(coll__engine_t *engine, int64_t ns) {
    coll__engine_unlock(engine);
    struct timespec nap = {ns / 1000000000, ns % 1000000000};
    nanosleep(&nap, NULL);
    coll__engine_lock(engine);
}

/* Another thread sleeps in poll() for the whole process: wait until it, or anybody, finishes something. */
static void wait_for_others(coll__engine_t *engine, int64_t ns) {
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += ns % 1000000000;
    until.tv_sec += ns / 1000000000 + until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    engine->cond_waiters++;
    pthread_cond_timedwait(&engine->completed, &engine->lock, &until);
    engine->cond_waiters--;
}

/* Sleeps at most `ns`, or until something arrives. True if a signal ended it. */
static bool park(coll__engine_t *engine, const coll_request_t *request, int64_t ns) {
    if (engine->parked) {
        wait_for_others(engine, ns);
        return false;
    }
    struct pollfd fds[8];
    int transport_fds[4], count = 0;
    set_sleeping(engine, 1);
    atomic_thread_fence(memory_order_seq_cst);
    bool moved = coll__engine_progress(engine) > 0;
    if (moved || (request && request->state != COLL__REQUEST_ACTIVE) ||
        coll__p2p_arm(engine->p2p, transport_fds, &count) != 0) {
        set_sleeping(engine, 0);
        return false;
    }
    fds[0] = (struct pollfd){.fd = engine->wake_fd, .events = POLLIN};
    for (int i = 0; i < count; i++)
        fds[i + 1] = (struct pollfd){.fd = transport_fds[i], .events = POLLIN};
    engine->parked = true;
    engine->counters.parks++;
    int64_t before = coll__now_ns();
    coll__engine_unlock(engine);
    struct timespec timeout = {ns / 1000000000, ns % 1000000000};
    int got = ppoll(fds, (nfds_t)count + 1, &timeout, NULL);
    bool signalled = got < 0 && errno == EINTR;
    coll__engine_lock(engine);
    engine->parked = false;
    engine->counters.park_ns += (double)(coll__now_ns() - before);
    set_sleeping(engine, 0);
    if (got > 0 && fds[0].revents) {
        uint64_t value;
        ssize_t taken = read(engine->wake_fd, &value, sizeof value);
        (void)taken; /* another thread may have taken it: it is nonblocking */
        engine->counters.wakes++;
    }
    if (engine->cond_waiters)
        pthread_cond_broadcast(&engine->completed); /* one of them sleeps for all now */
    return signalled;
}

/* How long the next sleep may be. */
static int64_t longest_sleep(const coll__engine_t *engine, const struct waiter *waiter, const coll_request_t *request,
                             int64_t now) {
    int64_t until = now + engine->env.poll_ms * MS;
    if (request->deadline < until)
        until = request->deadline;
    if (request->report_at < until)
        until = request->report_at;
    if (engine->interruptible && waiter->interrupt_at < until)
        until = waiter->interrupt_at;
    if (engine->mismatches && now + 20 * MS < until)
        until = now + 20 * MS;
    /* A slot that others still read: they do not wake anybody when they have done with it, which would cost every call.
     * Looking becomes rarer with the time waited, so that it costs little in the end. */
    int64_t look = now + MS + (now - request->wait_start) / 16;
    if (request->on_node && !request->node_op.shown && look < until)
        until = look;
    return until > now ? until - now : 0;
}

/* Wake-ups that bring this request nothing make the next nap longer. */
static void nap(coll__engine_t *engine, const coll_request_t *request, struct waiter *waiter, int64_t now) {
    bool in_vain = waiter->slept_at && request->progressed == waiter->progressed && now - waiter->slept_at < MS;
    if (!in_vain)
        waiter->nap_ns = 0;
    else
        waiter->nap_ns = waiter->nap_ns ? 2 * waiter->nap_ns : NAP_FIRST_US * US;
    if (waiter->nap_ns > NAP_MOST_US * US)
        waiter->nap_ns = NAP_MOST_US * US;
    waiter->progressed = request->progressed;
    waiter->slept_at = now;
    if (waiter->nap_ns)
        sleep_unlocked(engine, waiter->nap_ns);
}

/* A wait that was interrupted goes on: its deadline, its window of spinning and its reports are those it had. */
static void begin(struct waiter *waiter, const coll__engine_t *engine, coll_request_t *request, double timeout) {
    int64_t now = coll__now_ns();
    if (!request->deadline) {
        request->wait_start = now;
        request->deadline = coll__deadline_after(timeout);
        request->report_at = now + 500 * MS;
        if (request->deadline != COLL__NEVER && request->deadline - now < 1000 * MS)
            request->report_at = now + (request->deadline - now) / 2;
    }
    waiter->start = now;
    waiter->window_end = request->wait_start + window_ns(engine);
    waiter->interrupt_at = now + INTERRUPT_MS * MS;
}

/* The reports of a wait become rarer, and more frequent again before its deadline. */
static void report(coll__engine_t *engine, coll_request_t *request, int64_t now) {
    coll__notice_report(engine, request);
    int64_t next = now + (now - request->wait_start), middle = now + (request->deadline - now) / 2;
    request->report_at = next < middle || request->deadline == COLL__NEVER ? next : middle;
    if (request->report_at < now + 20 * MS)
        request->report_at = COLL__NEVER;
}

static void count_spinning(coll__engine_t *engine, const struct waiter *waiter) {
    int64_t now = coll__now_ns(), end = now < waiter->window_end ? now : waiter->window_end;
    if (end > waiter->start)
        engine->counters.spin_ns += (double)(end - waiter->start);
}

static int wait_for(coll__engine_t *engine, coll_request_t *request, double timeout) {
    struct waiter waiter = {0};
    for (unsigned polls = 1;; polls++) {
        coll__engine_progress(engine);
        if (request->state != COLL__REQUEST_ACTIVE)
            break;
        if (engine->oversubscribed && engine->env.spin_us != 0) {
            yield(engine);
        } else if (polls % POLLS_A_CLOCK) {
            coll__cpu_pause();
            continue;
        } else {
            let_go(engine);
        }
        if (!waiter.start)
            begin(&waiter, engine, request, timeout);
        int64_t now = coll__now_ns();
        if (now >= request->deadline) {
            coll__engine_progress(engine);
            if (request->state == COLL__REQUEST_ACTIVE)
                coll__failure_timeout(engine, request, (double)(request->deadline - request->wait_start) / 1e9);
            break;
        }
        if (now < waiter.window_end) {
            if (now - waiter.start > PURE_SPIN_US * US)
                yield(engine); /* a busy machine may have put the peer on this very CPU */
            continue;
        }
        if (now >= request->report_at)
            report(engine, request, now);
        if (engine->someone_left)
            coll__failure_left(engine, request);
        nap(engine, request, &waiter, now);
        if (request->state != COLL__REQUEST_ACTIVE)
            break;
        bool signalled = park(engine, request, longest_sleep(engine, &waiter, request, coll__now_ns()));
        if (request->state != COLL__REQUEST_ACTIVE)
            break;
        if (engine->interruptible && (signalled || coll__now_ns() >= waiter.interrupt_at)) {
            count_spinning(engine, &waiter);
            return coll__error(COLL_ERR_INTERRUPTED, "%s: interrupted while waiting", coll__request_name(request));
        }
    }
    if (waiter.start)
        count_spinning(engine, &waiter);
    return coll__request_raise(request);
}

int coll__wait(coll__engine_t *engine, coll_request_t *request, double timeout) {
    engine->waiting++;
    int status = wait_for(engine, request, timeout);
    engine->waiting--;
    return status;
}

/* Makes progress while no other thread of the process does. */
void *coll__wait_thread(void *context) {
    coll__engine_t *engine = context;
    coll__engine_lock(engine);
    while (!engine->closing) {
        int64_t window_end = coll__now_ns() + window_ns(engine);
        while (coll__engine_progress(engine) > 0 && coll__now_ns() < window_end)
            let_go(engine);
        if (engine->someone_left)
            coll__failure_left(engine, NULL);
        park(engine, NULL, engine->env.poll_ms * MS);
    }
    coll__engine_unlock(engine);
    return NULL;
}
