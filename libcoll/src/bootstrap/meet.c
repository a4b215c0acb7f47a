/* Tries until the deadline: rank 0 may start later, and may turn a connection away while it is busy with strangers.
 * What cannot get better by waiting (another secret, another version, not libcoll at all) is an error at once. */
#include "bootstrap/meet.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/status.h"
#include "bootstrap/tcp.h"

static const int64_t first_pause_ns = 1000000, longest_pause_ns = 250000000;

/* 0, or COLL__AGAIN when the connection ended or the deadline passed; *why says which. */
static int receive(int fd, void *into, size_t bytes, int64_t deadline, const char **why) {
    size_t have = 0;
    while (have < bytes) {
        ssize_t count = recv(fd, (char *)into + have, bytes - have, MSG_DONTWAIT);
        if (count > 0) {
            have += (size_t)count;
            continue;
        }
        if (count == 0 || (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)) {
            *why = "it closed the connection";
            return COLL__AGAIN;
        }
        int64_t left = deadline - coll__now_ns();
        if (left <= 0) {
            *why = "it accepted the connection, but stays silent";
            return COLL__AGAIN;
        }
        struct pollfd ready = {.fd = fd, .events = POLLIN};
        poll(&ready, 1, left > INT64_C(60000000000) ? 60000 : (int)(left / 1000000) + 1);
    }
    return 0;
}

/* A few bytes into the empty buffer of a fresh connection: they fit, or it is lost. */
static int transmit(int fd, const void *bytes, size_t count, const char **why) {
    if (send(fd, bytes, count, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)count)
        return 0;
    *why = "it closed the connection";
    return COLL__AGAIN;
}

/* 0, COLL__AGAIN (worth another try) or an error. */
static int shake_hands(int fd, const coll__job_opts_t *opts, const coll__key_t *key, const char **why) {
    char who[300];
    snprintf(who, sizeof who, "rank 0 at %s:%d", opts->host, opts->port);

    coll__greeting_t mine, theirs;
    coll__auth_greet(&mine);
    int status = transmit(fd, &mine, sizeof mine, why);
    if (status == 0) /* the first bytes alone show a stranger that says less than a greeting */
        status = receive(fd, &theirs, sizeof theirs.magic, opts->deadline, why);
    if (status != 0)
        return status;
    if (memcmp(theirs.magic, COLL__MAGIC, sizeof theirs.magic) != 0)
        return coll__error(COLL_ERR_BOOTSTRAP, "what answers at %s:%d is not rank 0 of a libcoll job", opts->host,
                           opts->port);
    status =
        receive(fd, (char *)&theirs + sizeof theirs.magic, sizeof theirs - sizeof theirs.magic, opts->deadline, why);
    if (status != 0)
        return status;
    if (!coll__auth_is_greeting(&theirs))
        return coll__error(COLL_ERR_BOOTSTRAP, "%s sends a greeting that makes no sense", who);
    status = coll__auth_check_version(&theirs, who);
    if (status != 0)
        return status;

    coll__proof_t proof = {.rank = opts->rank, .size = opts->size};
    coll__auth_prove(key, COLL__AUTH_CLIENT, &mine, &theirs, &proof, proof.mac);
    status = transmit(fd, &proof, sizeof proof, why);
    coll__verdict_t verdict;
    if (status == 0)
        status = receive(fd, &verdict, sizeof verdict, opts->deadline, why);
    if (status != 0)
        return status;

    unsigned char expected[COLL__MAC_BYTES];
    coll__auth_prove(key, COLL__AUTH_HUB, &mine, &theirs, &proof, expected);
    if (verdict.accepted == 0 || !coll__auth_equal(verdict.mac, expected))
        return coll__error(
            COLL_ERR_BOOTSTRAP,
            "%s has another secret than this process: another job may be using that port, or COLL_SECRET "
            "differs between the ranks",
            who);
    return 0;
}

static void pause_for(int64_t ns) {
    const struct timespec span = {.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
    nanosleep(&span, NULL);
}

int coll__meet(const coll__job_opts_t *opts, const coll__key_t *key, int *fd) {
    coll__tcp_addresses_t addresses;
    int status = coll__tcp_resolve(opts->host, opts->port, &addresses);
    if (status != 0)
        return status;

    const char *why = "";
    int64_t pause = first_pause_ns;
    for (;;) {
        *fd = coll__tcp_connect(&addresses, opts->deadline);
        if (*fd >= 0) {
            status = shake_hands(*fd, opts, key, &why);
            if (status == 0)
                return 0;
            close(*fd);
            if (status < 0)
                return status;
        } else if (errno != ETIMEDOUT || why[0] == '\0') /* the deadline itself explains nothing */
            why = strerror(errno);

        int64_t left = opts->deadline - coll__now_ns();
        if (left <= 0) {
            const int zero = 0;
            status = coll__error(COLL_ERR_TIMEOUT, "rank 0 at %s:%d did not answer in time: %s", opts->host, opts->port,
                                 why);
            coll__error_add_ranks(&zero, 1);
            return status;
        }
        pause_for(pause < left ? pause : left);
        /* Ranks must not knock in step. */
        pause += pause / 2 + pause * (opts->rank % 8) / 32;
        if (pause > longest_pause_ns)
            pause = longest_pause_ns;
    }
}
