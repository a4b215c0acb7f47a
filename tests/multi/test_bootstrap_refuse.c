/* Ranks that cannot meet: each is told why, soon, and by name. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <fcntl.h>

#include "bootstrap/auth.h"
#include "bootstrap_helper.h"

/* ---- the ranks contradict each other ---- */

static int body_duplicate(int rank, int size, void *arg) {
    (void)arg;
    int before = open_descriptors();
    coll__job_t *job;
    int64_t start = coll__now_ns();
    coll__check(join(rank == 3 ? 2 : rank, size, 10, &job) == COLL_ERR_BOOTSTRAP);
    coll__check(message_has("two processes say that they are rank 2"));
    coll__check(error_names_only(2) && job == NULL);
    coll__check(coll__now_ns() - start < INT64_C(8000000000));
    coll__check(open_descriptors() == before - (rank == 0)); /* the inherited socket was the job's */
    return 0;
}

static void test_two_processes_with_one_rank(void **state) {
    (void)state;
    assert_int_equal(coll__fork_ranks(4, 20, body_duplicate, NULL), 0);
}

static int body_size(int rank, int size, void *arg) {
    (void)arg;
    coll__job_t *job;
    nap_ms(rank == 2 ? 100 : 0); /* the others are in, and must hear of it */
    coll__check(join(rank, rank == 2 ? size + 4 : size, 10, &job) == COLL_ERR_BOOTSTRAP);
    coll__check(message_has("rank 2 says that COLL_SIZE is 8, rank 0 says 4"));
    return 0;
}

static void test_another_size(void **state) {
    (void)state;
    assert_int_equal(coll__fork_ranks(4, 20, body_size, NULL), 0);
}

static int body_secret(int rank, int size, void *arg) {
    (void)arg;
    coll__job_t *job;
    coll__job_opts_t opts = opts_for(rank, size, rank == 3 ? 10 : 1.0);
    if (rank == 3) {
        opts.secret = "another secret than the rest";
        coll__check(coll__job_join(&opts, &job) == COLL_ERR_BOOTSTRAP);
        coll__check(message_has("another secret") && message_has(getenv("COLL_PORT")));
    } else {
        coll__check(coll__job_join(&opts, &job) == COLL_ERR_TIMEOUT);
        coll__check(message_has("rank 3") && error_names_only(3));
        coll__check(message_has("has another secret"));
    }
    return 0;
}

static void test_another_secret(void **state) {
    (void)state;
    assert_int_equal(coll__fork_ranks(4, 20, body_secret, NULL), 0);
}

/* ---- somebody is missing ---- */

static int body_missing(int rank, int size, void *arg) {
    (void)arg;
    int before = open_descriptors();
    coll__job_t *job;
    if (rank == 1)
        return 0;
    coll__check(join(rank, size, rank == 0 ? 1.0 : 0.8, &job) != 0);
    coll__check(message_has(rank == 2 ? "rank 1" : "rank "));
    if (rank == 2) /* its deadline is first */
        coll__check(error_names_only(1));
    coll__check(open_descriptors() == before - (rank == 0));
    return 0;
}

static void test_a_missing_rank_is_named(void **state) {
    (void)state;
    assert_int_equal(coll__fork_ranks(3, 20, body_missing, NULL), 0);
}

static int body_no_rank_0(int rank, int size, void *arg) {
    (void)arg;
    if (rank == 0)
        return 0;
    coll__job_t *job;
    coll__job_opts_t opts = opts_for(rank, size, 0.5);
    opts.port = free_port();
    char where[64];
    snprintf(where, sizeof where, "rank 0 at 127.0.0.1:%d did not answer", opts.port);
    int64_t start = coll__now_ns();
    coll__check(coll__job_join(&opts, &job) == COLL_ERR_TIMEOUT);
    coll__check(coll__now_ns() - start < INT64_C(2000000000));
    coll__check(message_has(where) && message_has("refused") && error_names_only(0));
    return 0;
}

static void test_rank_0_is_missing(void **state) {
    (void)state;
    assert_int_equal(coll__fork_ranks(2, 20, body_no_rank_0, NULL), 0);
}

static int body_late_rank_0(int rank, int size, void *arg) {
    coll__job_t *job;
    coll__job_opts_t opts = opts_for(rank, size, 10);
    opts.port = *(int *)arg;
    opts.listen_fd = -1;
    nap_ms(rank == 0 ? 400 : 0);
    coll__check_ok(coll__job_join(&opts, &job));
    coll__check_ok(leave(job, 10));
    return 0;
}

static void test_rank_0_comes_late(void **state) {
    (void)state;
    int port = free_port();
    assert_int_equal(coll__fork_ranks(4, 20, body_late_rank_0, &port), 0);
}

static int body_dies_while_meeting(int rank, int size, void *arg) {
    (void)arg;
    if (rank == 1)
        return 0; /* never comes, so that nobody gets through */
    if (rank == 3)
        coll__rank_signal_after(3, SIGKILL, 0.3);
    coll__job_t *job;
    coll__check(join(rank, size, 10, &job) == COLL_ERR_BOOTSTRAP);
    coll__check(message_has("rank 3 went away") && error_names_only(3));
    return 0;
}

static void test_a_rank_dies_while_the_others_wait(void **state) {
    (void)state;
    assert_int_equal(coll__fork_ranks(4, 20, body_dies_while_meeting, NULL), 0);
}

static int body_rank_0_dies_while_meeting(int rank, int size, void *arg) {
    (void)arg;
    if (rank == 1)
        return 0;
    if (rank == 0)
        coll__rank_signal_after(0, SIGKILL, 0.3);
    coll__job_t *job;
    coll__check(join(rank, size, 10, &job) == COLL_ERR_BOOTSTRAP);
    coll__check(message_has("rank 0") && error_names_only(0));
    return 0;
}

static void test_rank_0_dies_while_the_others_wait(void **state) {
    (void)state;
    assert_int_equal(coll__fork_ranks(3, 20, body_rank_0_dies_while_meeting, NULL), 0);
}

/* ---- a step of init that somebody does not take ---- */

static int body_absent_from_gather(int rank, int size, void *arg) {
    (void)arg;
    coll__job_t *job;
    coll__check_ok(join(rank, size, 10, &job));
    char all[8];
    if (rank != 2) {
        int64_t start = coll__now_ns();
        coll__check(coll__job_allgather(job, "x", 1, all, coll__deadline_after(0.4)) == COLL_ERR_TIMEOUT);
        coll__check(coll__now_ns() - start < INT64_C(1400000000));
        coll__check(message_has("rank 2") && error_names_only(2));
    }
    coll__check(coll__ranks_meet(10) == 0);
    coll__check_ok(leave(job, 10));
    return 0;
}

static void test_absent_from_a_step(void **state) {
    (void)state;
    assert_int_equal(coll__fork_ranks(4, 20, body_absent_from_gather, NULL), 0);
}

static int body_dead_in_gather(int rank, int size, void *arg) {
    const int dies = *(int *)arg;
    coll__job_t *job;
    coll__check_ok(join(rank, size, 10, &job));
    char all[8];
    if (rank == dies) {
        nap_ms(200);
        coll__rank_signal(rank, SIGKILL);
    }
    coll__check(coll__job_allgather(job, "x", 1, all, coll__deadline_after(10)) == COLL_ERR_BOOTSTRAP);
    coll__check(error_names_only(dies));
    coll__check_ok(leave(job, 10));
    return 0;
}

static void test_death_in_a_step(void **state) {
    (void)state;
    int dies = 1;
    assert_int_equal(coll__fork_ranks(3, 20, body_dead_in_gather, &dies), 0);
    dies = 0;
    assert_int_equal(coll__fork_ranks(3, 20, body_dead_in_gather, &dies), 0);
}

static int body_unequal_bytes(int rank, int size, void *arg) {
    (void)arg;
    coll__job_t *job;
    coll__check_ok(join(rank, size, 10, &job));
    char all[64];
    coll__check(coll__job_allgather(job, "abcd", rank == 1 ? 3 : 4, all, coll__deadline_after(10)) ==
                COLL_ERR_BOOTSTRAP);
    coll__check(message_has("bytes"));
    coll__check_ok(leave(job, 10));
    return 0;
}

static void test_parts_of_unequal_size(void **state) {
    (void)state;
    assert_int_equal(coll__fork_ranks(3, 20, body_unequal_bytes, NULL), 0);
}

/* ---- the place where rank 0 listens ---- */

static void test_bad_places(void **state) {
    (void)state;
    coll__job_t *job;
    coll__job_opts_t opts = {.rank = 0, .size = 2, .host = "127.0.0.1", .listen_fd = -1, .secret = "x", .wake_fd = -1};
    opts.deadline = coll__deadline_after(0.3);

    assert_int_equal(coll__job_join(&opts, &job), COLL_ERR_BOOTSTRAP); /* no port */
    assert_true(message_has("COLL_PORT"));
    opts.port = 70000;
    assert_int_equal(coll__job_join(&opts, &job), COLL_ERR_BOOTSTRAP);
    assert_true(message_has("70000"));

    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof address;
    int taken = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(taken, (struct sockaddr *)&address, bytes), 0);
    assert_int_equal(listen(taken, 1), 0);
    assert_int_equal(getsockname(taken, (struct sockaddr *)&address, &bytes), 0);
    opts.port = ntohs(address.sin_port);
    char where[64];
    snprintf(where, sizeof where, "127.0.0.1:%d", opts.port);
    int before = open_descriptors();
    assert_int_equal(coll__job_join(&opts, &job), COLL_ERR_BOOTSTRAP);
    assert_true(message_has(where) && message_has("in use"));
    assert_int_equal(open_descriptors(), before);
    close(taken);

    for (int rank = 0; rank < 2; rank++) {
        opts.rank = rank;
        opts.host = "no-such-host.invalid";
        assert_int_equal(coll__job_join(&opts, &job), COLL_ERR_BOOTSTRAP);
        assert_true(message_has("no-such-host.invalid"));
    }
    opts.host = "";
    assert_int_equal(coll__job_join(&opts, &job), COLL_ERR_BOOTSTRAP);
    assert_true(message_has("COLL_ADDR"));
    opts.rank = 2;
    assert_int_equal(coll__job_join(&opts, &job), COLL_ERR_ARG);
    opts.size = 0;
    assert_int_equal(coll__job_join(&opts, &job), COLL_ERR_ARG);
    assert_null(job);
}

/* Something else answers there: a server that speaks first, or a libcoll of another version. */
static int body_not_libcoll(int rank, int size, void *arg) {
    const char *answer = arg;
    coll__job_opts_t opts = opts_for(rank, size, 10);
    if (rank == 0) {
        fcntl(opts.listen_fd, F_SETFL, 0);
        int fd = accept(opts.listen_fd, NULL, NULL);
        if (answer != NULL) {
            coll__check(send(fd, answer, strlen(answer), MSG_NOSIGNAL) == (ssize_t)strlen(answer));
        } else {
            coll__greeting_t greeting;
            coll__auth_greet(&greeting);
            strcpy(greeting.version, "0.0.1-other");
            coll__check(send(fd, &greeting, sizeof greeting, MSG_NOSIGNAL) == sizeof greeting);
        }
        coll__check(coll__ranks_meet(10) == 0);
        return 0;
    }
    coll__job_t *job;
    coll__check(coll__job_join(&opts, &job) == COLL_ERR_BOOTSTRAP);
    if (answer != NULL)
        coll__check(message_has("is not rank 0 of a libcoll job"));
    else
        coll__check(message_has("0.0.1-other") && message_has(coll_version()));
    coll__check(message_has(getenv("COLL_PORT")));
    coll__check(coll__ranks_meet(10) == 0);
    return 0;
}

static void test_something_else_answers(void **state) {
    (void)state;
    assert_int_equal(coll__fork_ranks(2, 20, body_not_libcoll, "SSH-2.0-OpenSSH_9.2p1\r\n"), 0);
    assert_int_equal(coll__fork_ranks(2, 20, body_not_libcoll, NULL), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_two_processes_with_one_rank),
        cmocka_unit_test(test_another_size),
        cmocka_unit_test(test_another_secret),
        cmocka_unit_test(test_a_missing_rank_is_named),
        cmocka_unit_test(test_rank_0_is_missing),
        cmocka_unit_test(test_rank_0_comes_late),
        cmocka_unit_test(test_a_rank_dies_while_the_others_wait),
        cmocka_unit_test(test_rank_0_dies_while_the_others_wait),
        cmocka_unit_test(test_absent_from_a_step),
        cmocka_unit_test(test_death_in_a_step),
        cmocka_unit_test(test_parts_of_unequal_size),
        cmocka_unit_test(test_bad_places),
        cmocka_unit_test(test_something_else_answers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
