/* Who does not belong to the job gets nothing and disturbs nothing; jobs side by side do not mix. */
#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "bootstrap/auth.h"
#include "bootstrap_helper.h"

/* Bytes that came until the other side hung up: -1 if it did not within `ms`. */
static int bytes_until_end(int fd, int ms) {
    char bytes[4096];
    int total = 0;
    struct pollfd ready = {.fd = fd, .events = POLLIN};
    while (poll(&ready, 1, ms) == 1) {
        ssize_t count = recv(fd, bytes, sizeof bytes, 0);
        if (count <= 0)
            return total;
        total += (int)count;
    }
    return -1;
}

/* Connects as a rank would, up to its proof, with what the callback makes of it; the verdict, or -1 if there is none.
 */
static int knock(int port, const char *secret, int rank, int size, bool spoil_proof, coll__greeting_t *mine) {
    coll__key_t key;
    coll__greeting_t greeting, theirs;
    coll__proof_t proof = {.rank = rank, .size = size};
    coll__verdict_t verdict = {0};
    if (coll__auth_key(secret, &key) != 0)
        return -1;
    coll__auth_greet(&greeting);
    if (mine != NULL)
        greeting = *mine;
    int fd = connect_to(port), answer = -1;
    if (send(fd, &greeting, sizeof greeting, MSG_NOSIGNAL) == sizeof greeting &&
        recv(fd, &theirs, sizeof theirs, MSG_WAITALL) == sizeof theirs) {
        coll__auth_prove(&key, COLL__AUTH_CLIENT, &greeting, &theirs, &proof, proof.mac);
        proof.mac[7] ^= spoil_proof;
        if (send(fd, &proof, sizeof proof, MSG_NOSIGNAL) == sizeof proof &&
            recv(fd, &verdict, sizeof verdict, MSG_WAITALL) == sizeof verdict)
            answer = (int)verdict.accepted;
    }
    close(fd);
    return answer;
}

/* The last rank is a crowd of strangers before it joins. */
static int body_strangers(int rank, int size, void *arg) {
    const int silent = *(int *)arg;
    int fds[300], port = atoi(getenv("COLL_PORT"));
    coll__job_t *job;
    if (rank == size - 1) {
        for (int i = 0; i < silent; i++)
            coll__check((fds[i] = connect_to(port)) >= 0);

        /* Nonsense gets no byte, and a quick end. */
        for (int i = 0; i < 10; i++) {
            char nonsense[500];
            for (size_t j = 0; j < sizeof nonsense; j++)
                nonsense[j] = (char)rand();
            int fd = connect_to(port);
            coll__check(
                send(fd, i % 2 ? "GET / HTTP/1.0\r\n\r\n" : nonsense, i % 2 ? 18 : sizeof nonsense, MSG_NOSIGNAL) > 0);
            coll__check(bytes_until_end(fd, 3000) == 0);
            close(fd);
        }
        /* A greeting in pieces that never ends is a silent one. */
        int slow = connect_to(port);
        coll__check(send(slow, COLL__MAGIC, 8, MSG_NOSIGNAL) == 8);

        /* Who cannot prove it is told no, and nothing else. */
        coll__check(knock(port, "guess", 1, size, false, NULL) == 0);
        coll__check(knock(port, getenv("COLL_SECRET"), 1, size, true, NULL) == 0);
        coll__greeting_t other;
        coll__auth_greet(&other);
        other.protocol++;
        coll__check(knock(port, getenv("COLL_SECRET"), 1, size, false, &other) == -1);

        coll__check_ok(join(rank, size, 10, &job));
        for (int i = 0; i < silent; i++) /* dropped when the door was shut, at the latest */
            coll__check(bytes_until_end(fds[i], 5000) == 0 && close(fds[i]) == 0);
        coll__check(bytes_until_end(slow, 5000) == 0 && close(slow) == 0);
    } else
        coll__check_ok(join(rank, size, 10, &job));
    int mine = 10 * rank, all[8];
    coll__check_ok(coll__job_allgather(job, &mine, sizeof mine, all, coll__deadline_after(10)));
    for (int r = 0; r < size; r++)
        coll__check(all[r] == 10 * r);
    coll__check_ok(leave(job, 10));
    return 0;
}

static void test_strangers_disturb_nobody(void **state) {
    (void)state;
    int silent = 50;
    assert_int_equal(coll__fork_ranks(4, 20, body_strangers, &silent), 0);
    silent = 200; /* more than there are places */
    assert_int_equal(coll__fork_ranks(4, 20, body_strangers, &silent), 0);
}

/* Silence is not endured for ever, also while ranks are missing. */
static int body_silent(int rank, int size, void *arg) {
    (void)arg;
    coll__job_t *job;
    if (rank == 1) {
        int64_t start = coll__now_ns();
        int fd = connect_to(atoi(getenv("COLL_PORT")));
        coll__check(bytes_until_end(fd, 8000) == 0);
        coll__check(coll__now_ns() - start > INT64_C(1000000000));
        close(fd);
    }
    coll__check_ok(join(rank, size, 15, &job));
    coll__check_ok(leave(job, 10));
    return 0;
}

static void test_silence_has_a_deadline(void **state) {
    (void)state;
    assert_int_equal(coll__fork_ranks(2, 20, body_silent, NULL), 0);
}

/* When all are there nobody listens any more. */
static int body_closed(int rank, int size, void *arg) {
    coll__job_t *job;
    coll__job_opts_t opts = opts_for(rank, size, 10);
    opts.port = *(int *)arg;
    opts.listen_fd = -1;
    coll__check_ok(coll__job_join(&opts, &job));
    char all[2];
    coll__check_ok(coll__job_allgather(job, "x", 1, all, coll__deadline_after(10)));
    coll__check(connect_to(opts.port) == -1 && errno == ECONNREFUSED);
    coll__check(coll__ranks_meet(10) == 0);
    coll__check_ok(leave(job, 10));
    return 0;
}

static void test_the_door_is_shut_after_the_meeting(void **state) {
    (void)state;
    int port = free_port();
    assert_int_equal(coll__fork_ranks(2, 20, body_closed, &port), 0);
}

/* Strangers at the node's unix socket, found in /proc/net/unix where every user sees it. */
static int connect_to_segment(void) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    char line[400], *name;
    FILE *sockets = fopen("/proc/net/unix", "r");
    while (sockets != NULL && fgets(line, sizeof line, sockets) != NULL)
        if ((name = strstr(line, "@libcoll-")) != NULL) {
            size_t length = strcspn(name + 1, "\n");
            memcpy(address.sun_path + 1, name + 1, length);
            fclose(sockets);
            int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
            socklen_t bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + length);
            if (connect(fd, (struct sockaddr *)&address, bytes) == 0)
                return fd;
            close(fd);
            return -1;
        }
    if (sockets != NULL)
        fclose(sockets);
    return -1;
}

static int body_segment(int rank, int size, void *arg) {
    (void)arg;
    coll__job_t *job;
    coll__check_ok(join(rank, size, 10, &job));
    int fds[40];
    if (rank == size - 1) {
        for (int i = 0; i < 40; i++) {
            while ((fds[i] = connect_to_segment()) < 0)
                nap_ms(1);
            if (i % 2)
                coll__check(send(fds[i], "let me in", 9, MSG_NOSIGNAL) == 9);
        }
    }
    int wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), all[8];
    for (int r = 0; r < size; r++)
        all[r] = r;
    coll__segment_t segment;
    coll__check_ok(coll__job_segment(job, all, size, 100, 100, wake, coll__deadline_after(10), &segment));
    for (int i = 0; rank == size - 1 && i < 40; i++)
        coll__check(bytes_until_end(fds[i], 5000) == 0 && close(fds[i]) == 0);
    coll__segment_free(&segment);
    coll__check_ok(leave(job, 10));
    return 0;
}

static void test_strangers_at_the_segment(void **state) {
    (void)state;
    assert_int_equal(coll__fork_ranks(3, 20, body_segment, NULL), 0);
}

/* 50 jobs of two at once, each with a socket that it inherits, as a launcher gives it. */
static int run_pair(void) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(listener, (struct sockaddr *)&address, bytes) != 0 || listen(listener, 8) != 0 ||
        getsockname(listener, (struct sockaddr *)&address, &bytes) != 0)
        return 1;
    pid_t child = fork();
    int rank = child == 0, port = ntohs(address.sin_port), all[2];
    coll__job_opts_t opts = {.rank = rank,
                             .size = 2,
                             .host = "127.0.0.1",
                             .port = port,
                             .listen_fd = -1,
                             .secret = "the same secret for all",
                             .wake_fd = -1,
                             .deadline = coll__deadline_after(15)};
    if (rank == 0)
        opts.listen_fd = listener;
    else
        close(listener);
    coll__job_t *job;
    int failed = coll__job_join(&opts, &job) != 0;
    int mine = 10 * port + rank;
    failed = failed || coll__job_allgather(job, &mine, sizeof mine, all, opts.deadline) != 0;
    failed = failed || all[0] != 10 * port || all[1] != 10 * port + 1;
    if (failed)
        fprintf(stderr, "pair at port %d, rank %d: %s\n", port, rank, coll_error_message());
    else
        coll__job_leave(job, opts.deadline);
    if (rank == 1)
        _exit(failed);
    int status;
    waitpid(child, &status, 0);
    return failed || status != 0;
}

static void test_fifty_jobs_at_once(void **state) {
    (void)state;
    pid_t pids[50];
    for (int i = 0; i < 50; i++)
        if ((pids[i] = fork()) == 0)
            _exit(run_pair());
    for (int i = 0; i < 50; i++) {
        int status;
        assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
        assert_int_equal(status, 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_strangers_disturb_nobody),
        cmocka_unit_test(test_silence_has_a_deadline),
        cmocka_unit_test(test_the_door_is_shut_after_the_meeting),
        cmocka_unit_test(test_strangers_at_the_segment),
        cmocka_unit_test(test_fifty_jobs_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
