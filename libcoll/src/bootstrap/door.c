/* Strangers get nothing and disturb nothing: a bounded number of places, a few hundred bytes of memory for each, a few
 * seconds of patience, never a wait. A caller is read byte for byte up to what is expected of it, so what a rank sends
 * after its proof stays in the socket for the connection proper. */
#include "bootstrap/door.h"

#include <coll.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"

static const int64_t ms_ns = 1000000;

void coll__door_open(coll__door_t *door, const coll__key_t *key, const int *listeners, int count,
                     coll__door_admit_t admit, void *context) {
    memset(door, 0, sizeof *door);
    door->key = key;
    door->admit = admit;
    door->context = context;
    for (int i = 0; i < COLL__TCP_ADDRESSES; i++) {
        door->listeners[i] = i < count ? listeners[i] : -1;
        if (i < count) { /* an inherited one may be neither */
            fcntl(listeners[i], F_SETFL, fcntl(listeners[i], F_GETFL) | O_NONBLOCK);
            fcntl(listeners[i], F_SETFD, FD_CLOEXEC);
        }
    }
    for (int i = 0; i < COLL__DOOR_CALLERS; i++)
        door->callers[i].fd = -1;
}

static void drop(coll__caller_t *caller) {
    if (caller->fd >= 0)
        close(caller->fd);
    caller->fd = -1;
}

void coll__door_shut(coll__door_t *door) {
    for (int i = 0; i < COLL__TCP_ADDRESSES; i++) {
        if (door->listeners[i] >= 0)
            close(door->listeners[i]);
        door->listeners[i] = -1;
    }
    for (int i = 0; i < COLL__DOOR_CALLERS; i++)
        if (door->callers[i].stage != COLL__CALLER_LEAVES)
            drop(&door->callers[i]);
}

bool coll__door_is_empty(const coll__door_t *door) {
    for (int i = 0; i < COLL__DOOR_CALLERS; i++)
        if (door->callers[i].fd >= 0)
            return false;
    return true;
}

void coll__door_close(coll__door_t *door) {
    coll__door_shut(door);
    for (int i = 0; i < COLL__DOOR_CALLERS; i++)
        drop(&door->callers[i]);
}

static coll__caller_t *free_place(coll__door_t *door) {
    for (int i = 0; i < COLL__DOOR_CALLERS; i++)
        if (door->callers[i].fd < 0)
            return &door->callers[i];
    return NULL;
}

static int64_t patience_ends(const coll__door_t *door, const coll__caller_t *caller) {
    for (int i = 0; i < COLL__DOOR_CALLERS; i++)
        if (door->callers[i].fd < 0)
            return caller->since + COLL__DOOR_PATIENCE_MS * ms_ns;
    return caller->since + COLL__DOOR_IMPATIENCE_MS * ms_ns;
}

/* A connection cannot be accepted for want of descriptors or memory. */
static void rest(coll__door_t *door, int why) {
    door->rests_until = coll__now_ns() + COLL__DOOR_REST_MS * ms_ns;
    snprintf(door->refused, sizeof door->refused, "whoever called last: %s%s", strerror(why),
             why == EMFILE ? " (raise the limit with ulimit -n)" : "");
}

static void accept_all(coll__door_t *door, int listener) {
    coll__caller_t *caller;
    while ((caller = free_place(door)) != NULL) {
        coll__tcp_address_t from = {0};
        socklen_t bytes = sizeof from;
        int fd = accept4(listener, &from.any, &bytes, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0) {
            if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)
                rest(door, errno);
            return; /* nobody is there, or gone again: poll() will say when to try again */
        }
        *caller = (coll__caller_t){.fd = fd, .since = coll__now_ns()};
        coll__tcp_name(&from, caller->name);
    }
}

/* What is sent to a caller is far less than an empty socket takes; if it does not go out, the caller is lost anyway. */
static void tell(const coll__caller_t *caller, const void *bytes, size_t count) {
    (void)!send(caller->fd, bytes, count, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void turn_away(coll__door_t *door, coll__caller_t *caller, const char *why) {
    snprintf(door->refused, sizeof door->refused, "%s", why);
    coll__log(COLL__LOG_WARN, "turned away %s: %s", caller->name, why);
    shutdown(caller->fd, SHUT_WR);
    caller->stage = COLL__CALLER_LEAVES;
}

static void greeted(coll__door_t *door, coll__caller_t *caller) {
    coll__auth_greet(&caller->ours);
    tell(caller, &caller->ours, sizeof caller->ours);
    caller->got = 0;
    caller->stage = COLL__CALLER_PROVES;
    if (coll__auth_check_version(&caller->theirs, caller->name) != 0)
        turn_away(door, caller, coll_error_message());
}

static void proved(coll__door_t *door, coll__caller_t *caller) {
    unsigned char expected[COLL__MAC_BYTES];
    coll__auth_prove(door->key, COLL__AUTH_CLIENT, &caller->theirs, &caller->ours, &caller->proof, expected);
    coll__verdict_t verdict = {.accepted = coll__auth_equal(expected, caller->proof.mac)};
    if (verdict.accepted)
        coll__auth_prove(door->key, COLL__AUTH_HUB, &caller->theirs, &caller->ours, &caller->proof, verdict.mac);
    tell(caller, &verdict, sizeof verdict);
    if (!verdict.accepted) {
        char why[COLL__TCP_NAME_BYTES + 80];
        snprintf(why, sizeof why, "a process that connected from %s has another secret", caller->name);
        turn_away(door, caller, why);
        return;
    }
    int fd = caller->fd;
    caller->fd = -1;
    if (!door->admit(door->context, fd, caller->proof.rank, caller->proof.size)) {
        shutdown(fd, SHUT_WR); /* it was told why */
        caller->fd = fd;
        caller->stage = COLL__CALLER_LEAVES;
    }
}

/* Reads what is expected; false when the caller is to be dropped. */
static bool hear(coll__door_t *door, coll__caller_t *caller) {
    if (caller->stage == COLL__CALLER_LEAVES) {
        char ignored[256];
        ssize_t count = recv(caller->fd, ignored, sizeof ignored, MSG_DONTWAIT);
        return count > 0 || (count < 0 && (errno == EAGAIN || errno == EINTR));
    }
    bool greets = caller->stage == COLL__CALLER_GREETS;
    char *into = greets ? (char *)&caller->theirs : (char *)&caller->proof;
    size_t bytes = greets ? sizeof caller->theirs : sizeof caller->proof;
    ssize_t count = recv(caller->fd, into + caller->got, bytes - caller->got, MSG_DONTWAIT);
    if (count <= 0)
        return count < 0 && (errno == EAGAIN || errno == EINTR);
    caller->got += (size_t)count;
    if (greets && caller->got >= sizeof caller->theirs.magic &&
        memcmp(caller->theirs.magic, COLL__MAGIC, sizeof caller->theirs.magic) != 0)
        return false; /* a stranger gets no answer */
    if (caller->got == bytes) {
        if (!greets)
            proved(door, caller);
        else if (coll__auth_is_greeting(&caller->theirs))
            greeted(door, caller);
        else
            return false;
    }
    return true;
}

void coll__door_poll_fill(coll__door_t *door, struct pollfd polls[COLL__DOOR_POLLS]) {
    bool room = free_place(door) != NULL && coll__now_ns() >= door->rests_until;
    for (int i = 0; i < COLL__TCP_ADDRESSES; i++)
        polls[i] = (struct pollfd){.fd = room ? door->listeners[i] : -1, .events = POLLIN};
    for (int i = 0; i < COLL__DOOR_CALLERS; i++)
        polls[COLL__TCP_ADDRESSES + i] = (struct pollfd){.fd = door->callers[i].fd, .events = POLLIN};
}

void coll__door_poll_act(coll__door_t *door, const struct pollfd polls[COLL__DOOR_POLLS]) {
    for (int i = 0; i < COLL__DOOR_CALLERS; i++) {
        coll__caller_t *caller = &door->callers[i];
        int asked = polls[COLL__TCP_ADDRESSES + i].fd;
        if (caller->fd >= 0 && caller->fd == asked && polls[COLL__TCP_ADDRESSES + i].revents != 0 &&
            !hear(door, caller))
            drop(caller);
    }
    int64_t now = coll__now_ns();
    for (int i = 0; i < COLL__DOOR_CALLERS; i++)
        if (door->callers[i].fd >= 0 && patience_ends(door, &door->callers[i]) <= now)
            drop(&door->callers[i]);
    for (int i = 0; i < COLL__TCP_ADDRESSES; i++)
        if (door->listeners[i] >= 0 && polls[i].revents != 0)
            accept_all(door, door->listeners[i]);
}

int64_t coll__door_next_timer(const coll__door_t *door) {
    int64_t next = door->rests_until > coll__now_ns() ? door->rests_until : COLL__NEVER;
    for (int i = 0; i < COLL__DOOR_CALLERS; i++)
        if (door->callers[i].fd >= 0 && patience_ends(door, &door->callers[i]) < next)
            next = patience_ends(door, &door->callers[i]);
    return next;
}
