/* Ranks that die, leave, stop and fork: the others learn it soon, and take one for the other never. */
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "bootstrap_helper.h"

static const int64_t ms_ns = 1000000;

/* A job, with a segment for all ranks if wished. */
typedef struct member {
    coll__job_t *job;
    coll__segment_t segment;
    int wake;
} member_t;

static int enter(member_t *member, int rank, int size, bool on_one_node) {
    coll__job_opts_t opts = opts_for(rank, size, 10);
    member->wake = opts.wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    coll__check_ok(coll__job_join(&opts, &member->job));
    int all[64];
    for (int r = 0; r < size; r++)
        all[r] = r;
    coll__check_ok(coll__job_segment(member->job, on_one_node ? all : &rank, on_one_node ? size : 1, 100, 100,
                                     member->wake, coll__deadline_after(10), &member->segment));
    coll__check(coll__ranks_meet(10) == 0);
    return 0;
}

static void exit_job(member_t *member, double seconds) {
    coll__job_leave(member->job, coll__deadline_after(seconds));
    coll__segment_free(&member->segment);
    close(member->wake);
}

/* The state of a rank once it is not alive, or after `seconds`. */
static coll__peer_state_t state_after(const coll__job_t *job, int rank, double seconds) {
    int64_t deadline = coll__deadline_after(seconds);
    while (coll__job_peer_state(job, rank) == COLL__PEER_ALIVE && coll__now_ns() < deadline)
        nap_ms(1);
    return coll__job_peer_state(job, rank);
}

/* ---- death ---- */

typedef struct death {
    int dies;
    bool on_one_node; /* pidfds too; otherwise TCP alone */
} death_t;

static int body_death(int rank, int size, void *arg) {
    const death_t *death = arg;
    member_t me;
    coll__check(enter(&me, rank, size, death->on_one_node) == 0);
    if (rank == death->dies)
        coll__rank_signal(rank, SIGKILL);
    coll__check(state_after(me.job, death->dies, 2) == COLL__PEER_FAILED);
    struct pollfd woken = {.fd = me.wake, .events = POLLIN};
    coll__check(poll(&woken, 1, 2000) == 1);
    coll__check(atomic_load(coll__job_events(me.job)) > 0);
    for (int r = 0; r < size; r++)
        coll__check(r == death->dies || coll__job_peer_state(me.job, r) == COLL__PEER_ALIVE);
    coll__check(coll__ranks_meet(10) == 0);
    int64_t start = coll__now_ns();
    exit_job(&me, 10);
    coll__check(coll__now_ns() - start < 5000 * ms_ns);
    return 0;
}

static void test_death_is_seen_by_all(void **state) {
    (void)state;
    for (int dies = 0; dies < 3; dies++)
        for (int on_one_node = 0; on_one_node < 2; on_one_node++) {
            death_t death = {dies, on_one_node};
            assert_int_equal(coll__fork_ranks(4, 20, body_death, &death), 0);
        }
}

/* A child that a rank forked does not keep the rank alive in the eyes of the others, and has none of its descriptors.
 */
static int body_fork(int rank, int size, void *arg) {
    (void)arg;
    member_t me;
    coll__check(enter(&me, rank, size, false) == 0);
    pid_t *child = coll__ranks_shared();
    if (rank == 1) {
        int before = open_descriptors();
        pid_t pid = fork();
        if (pid == 0) {
            atomic_int *closed = (atomic_int *)coll__ranks_shared() + 1;
            atomic_store(closed, before - open_descriptors());
            coll__job_abandon(me.job);
            pause();
            _exit(0);
        }
        nap_ms(100);
        *child = pid;
    }
    coll__check(coll__ranks_meet(10) == 0);
    coll__check(kill(*child, 0) == 0);
    if (rank == 1)
        coll__rank_signal(1, SIGKILL);
    coll__check(state_after(me.job, 1, 2) == COLL__PEER_FAILED);
    coll__check(kill(*child, 0) == 0); /* it was still there */
    coll__check(coll__ranks_meet(10) == 0);
    if (rank == 0)
        kill(*child, SIGKILL);
    exit_job(&me, 10);
    return 0;
}

static void test_a_forked_child_hides_no_death(void **state) {
    (void)state;
    assert_int_equal(coll__fork_ranks(3, 20, body_fork, NULL), 0);
    assert_int_equal(((int *)coll__ranks_shared())[1], 2); /* the connection to rank 0 and the watcher's eventfd */
}

/* ---- goodbye ---- */

static int body_goodbye(int rank, int size, void *arg) {
    const death_t *leaves = arg;
    member_t me;
    coll__check(enter(&me, rank, size, leaves->on_one_node) == 0);
    if (rank == leaves->dies) { /* does not wait for the others, and is gone at once */
        int64_t start = coll__now_ns();
        exit_job(&me, 0.001);
        coll__check(coll__now_ns() - start < 1500 * ms_ns);
        return 0;
    }
    coll__check(state_after(me.job, leaves->dies, 2) == COLL__PEER_LEFT);
    nap_ms(50); /* its process has ended by now */
    for (int r = 0; r < size; r++)
        coll__check(coll__job_peer_state(me.job, r) == (r == leaves->dies ? COLL__PEER_LEFT : COLL__PEER_ALIVE));
    coll__check(coll__ranks_meet(10) == 0);
    exit_job(&me, 10);
    return 0;
}

static void test_goodbye_is_no_death(void **state) {
    (void)state;
    for (int leaves = 0; leaves < 2; leaves++)
        for (int on_one_node = 0; on_one_node < 2; on_one_node++)
            for (int time = 0; time < 5; time++) {
                death_t who = {leaves, on_one_node};
                assert_int_equal(coll__fork_ranks(3, 20, body_goodbye, &who), 0);
            }
}

/* Without the hub the ranks of a node still see each other end. */
static int body_after_the_hub(int rank, int size, void *arg) {
    (void)arg;
    member_t me;
    coll__check(enter(&me, rank, size, true) == 0);
    if (rank == 0) {
        exit_job(&me, 0.05);
        return 0;
    }
    coll__check(state_after(me.job, 0, 2) == COLL__PEER_LEFT);
    nap_ms(200);
    coll__check_ok(coll__job_post(me.job, "to nobody", 9));
    coll__check(coll__ranks_meet(10) == 0);
    if (rank == 1)
        coll__rank_signal(1, SIGKILL);
    coll__check(state_after(me.job, 1, 2) == COLL__PEER_FAILED);
    if (rank == 3) {
        exit_job(&me, 0.001);
        return 0;
    }
    coll__check(state_after(me.job, 3, 5) == COLL__PEER_LEFT);
    exit_job(&me, 10);
    return 0;
}

static void test_death_after_the_hub_left(void **state) {
    (void)state;
    assert_int_equal(coll__fork_ranks(4, 20, body_after_the_hub, NULL), 0);
}

/* All leave at once, many times: no one waits and no one is taken for dead. */
static int body_leave_together(int rank, int size, void *arg) {
    (void)arg;
    int before = open_descriptors();
    for (int i = 0; i < 10; i++) {
        coll__job_t *job;
        coll__job_opts_t opts = opts_for(rank, size, 10);
        opts.port = ((int *)arg)[i];
        opts.listen_fd = -1;
        coll__check_ok(coll__job_join(&opts, &job));
        coll__check_ok(leave(job, 10));
        coll__check(open_descriptors() == before);
    }
    return 0;
}

static void test_jobs_one_after_the_other(void **state) {
    (void)state;
    int ports[10];
    for (int i = 0; i < 10; i++)
        ports[i] = free_port();
    assert_int_equal(coll__fork_ranks(3, 20, body_leave_together, ports), 0);
}

/* ---- stopped processes ---- */

static int body_stopped(int rank, int size, void *arg) {
    const int stops = *(int *)arg;
    member_t me;
    coll__check(enter(&me, rank, size, false) == 0);
    if (rank == stops)
        coll__rank_signal(rank, SIGSTOP);
    nap_ms(100);
    coll__check(coll__job_peer_state(me.job, stops) == COLL__PEER_ALIVE);
    char notice[COLL__NOTICE_BYTES] = {0};
    atomic_int *posted = coll__ranks_shared();
    int64_t deadline = coll__deadline_after(10);
    if (rank == 1) {
        for (int i = 0; i < 9000; i++) /* more than its socket takes, and more than is kept for it */
            coll__check_ok(coll__job_post(me.job, notice, sizeof notice));
        /* What waits for the stopped rank 2 does not count: the hub did its part. */
        for (int i = 0; (stops != 0 || i < 200) && !coll__job_hub_answers(me.job) && coll__now_ns() < deadline; i++)
            nap_ms(1);
        coll__check(coll__job_hub_answers(me.job) == (stops != 0));
        atomic_store(posted, 1);
    }
    if (stops != 0 && rank == 3) {
        while (atomic_load(posted) == 0 && coll__now_ns() < deadline)
            nap_ms(1);
        coll__check_ok(coll__job_post(me.job, "after", 5));
    }
    if (stops != 0 && rank == 0) { /* the hub goes on for the others */
        int from = -1;
        while (from != 3 && coll__now_ns() < deadline)
            if (coll__job_next_notice(me.job, notice, &from) == 0)
                nap_ms(1);
        coll__check(from == 3);
    }
    int64_t start = coll__now_ns();
    exit_job(&me, 0.5);
    coll__check(coll__now_ns() - start < 2500 * ms_ns);
    return 0;
}

static void test_a_stopped_rank_holds_up_nobody_for_long(void **state) {
    (void)state;
    int stops = 2;
    assert_int_equal(coll__fork_ranks(4, 20, body_stopped, &stops), 0);
    stops = 0;
    assert_int_equal(coll__fork_ranks(4, 20, body_stopped, &stops), 0);
}

/* ---- nothing to do ---- */

/* How often the watcher has gone to sleep; -1 without such a thread. */
static long sleeps_of_watcher(void) {
    long sleeps = -1;
    DIR *tasks = opendir("/proc/self/task");
    for (struct dirent *task; (task = readdir(tasks)) != NULL;) {
        char path[300], line[100];
        int is_watcher = 0;
        snprintf(path, sizeof path, "/proc/self/task/%s/status", task->d_name);
        FILE *status = fopen(path, "r");
        while (status != NULL && fgets(line, sizeof line, status) != NULL) {
            is_watcher |= strcmp(line, "Name:\tcoll-watcher\n") == 0;
            if (is_watcher)
                sscanf(line, "voluntary_ctxt_switches: %ld", &sleeps);
        }
        if (status != NULL)
            fclose(status);
    }
    closedir(tasks);
    return sleeps;
}

static int body_idle(int rank, int size, void *arg) {
    (void)arg;
    member_t me;
    coll__check(enter(&me, rank, size, true) == 0);
    nap_ms(100);
    long before = sleeps_of_watcher();
    coll__check(before > 0);
    nap_ms(1000);
    coll__check(sleeps_of_watcher() == before); /* it slept through */
    coll__check(coll__ranks_meet(10) == 0);
    exit_job(&me, 10);
    return 0;
}

static void test_an_idle_watcher_sleeps(void **state) {
    (void)state;
    assert_int_equal(coll__fork_ranks(3, 20, body_idle, NULL), 0);
}

/* ---- notices nobody fetches ---- */

static int body_overflow(int rank, int size, void *arg) {
    (void)arg;
    member_t me;
    coll__check(enter(&me, rank, size, false) == 0);
    enum { SENT = 1000, KEPT = 256 };
    if (rank == 1)
        for (int i = 0; i < SENT; i++)
            coll__check_ok(coll__job_post(me.job, &i, sizeof i));
    int64_t deadline = coll__deadline_after(10);
    while (rank != 1 && atomic_load(coll__job_events(me.job)) < SENT && coll__now_ns() < deadline)
        nap_ms(1);
    int number, from, count = 0;
    while (rank != 1 && coll__job_next_notice(me.job, &number, &from) > 0)
        coll__check(from == 1 && number == SENT - KEPT + count++);
    coll__check(rank == 1 || count == KEPT);
    exit_job(&me, 10);
    return 0;
}

static void test_the_oldest_notices_go_first(void **state) {
    (void)state;
    assert_int_equal(coll__fork_ranks(2, 20, body_overflow, NULL), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_death_is_seen_by_all),     cmocka_unit_test(test_a_forked_child_hides_no_death),
        cmocka_unit_test(test_goodbye_is_no_death),      cmocka_unit_test(test_death_after_the_hub_left),
        cmocka_unit_test(test_jobs_one_after_the_other), cmocka_unit_test(test_a_stopped_rank_holds_up_nobody_for_long),
        cmocka_unit_test(test_an_idle_watcher_sleeps),   cmocka_unit_test(test_the_oldest_notices_go_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
