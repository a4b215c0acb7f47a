/* Ranks meet, gather, share a segment, send notices and leave: everything that works. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "bootstrap_helper.h"

/* ---- meeting and gathering ---- */

static int body_meet(int rank, int size, void *arg) {
    (void)arg;
    coll__job_t *job;
    coll__check_ok(join(rank, size, 10, &job));
    coll__check(coll__job_rank(job) == rank && coll__job_size(job) == size);
    for (size_t bytes = 0; bytes < 3000; bytes = 5 * bytes + 1) {
        unsigned char mine[3000], *all = malloc(bytes * (size_t)size + 1);
        memset(mine, rank + 1, bytes);
        all[bytes * (size_t)size] = 77;
        coll__check_ok(coll__job_allgather(job, mine, bytes, all, coll__deadline_after(10)));
        for (size_t i = 0; i < bytes * (size_t)size; i++)
            coll__check(all[i] == i / bytes + 1);
        coll__check(all[bytes * (size_t)size] == 77);
        free(all);
    }
    for (int r = 0; r < size; r++)
        coll__check(coll__job_peer_state(job, r) == COLL__PEER_ALIVE);
    coll__check(coll__ranks_meet(10) == 0);
    coll__check_ok(leave(job, 10));
    return 0;
}

static void test_ranks_meet_and_gather(void **state) {
    (void)state;
    const int sizes[] = {1, 2, 3, 4, 16};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        assert_int_equal(coll__fork_ranks(sizes[i], 20, body_meet, NULL), 0);
}

/* With few descriptors: enough for the job is enough, however many places it has for callers; too few have a name. */
static int body_few_descriptors(int rank, int size, void *arg) {
    int spare = *(int *)arg;
    struct rlimit limit;
    coll__check(getrlimit(RLIMIT_NOFILE, &limit) == 0);
    int next = dup(0);
    coll__check(next >= 0 && close(next) == 0);
    if (spare > 0 || rank == 0) {
        limit.rlim_cur = (rlim_t)(next + (spare > 0 ? spare : 3));
        coll__check(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    }
    coll__job_t *job;
    int64_t start = coll__now_ns();
    int status = join(rank, size, spare > 0 ? 10 : 2, &job);
    if (spare > 0) {
        coll__check_ok(status);
        clock_t cpu = clock();
        nap_ms(300); /* nobody spins */
        coll__check(clock() - cpu < CLOCKS_PER_SEC / 10);
        coll__check(coll__ranks_meet(10) == 0);
        coll__check_ok(leave(job, 10));
        return 0;
    }
    coll__check(status < 0 && coll__now_ns() - start < 6 * INT64_C(1000000000));
    coll__check(rank != 0 || message_has("Too many open files"));
    return 0;
}

static void test_few_descriptors(void **state) {
    (void)state;
    int spare = 24;
    assert_int_equal(coll__fork_ranks(4, 20, body_few_descriptors, &spare), 0);
    spare = 0;
    assert_int_equal(coll__fork_ranks(4, 20, body_few_descriptors, &spare), 0);
}

/* More than a socket holds: parts must be queued and come whole. */
static int body_large(int rank, int size, void *arg) {
    (void)arg;
    enum { BYTES = 3000001 };
    coll__job_t *job;
    coll__check_ok(join(rank, size, 10, &job));
    unsigned char *mine = malloc(BYTES), *all = malloc((size_t)BYTES * (size_t)size);
    for (int i = 0; i < BYTES; i++)
        mine[i] = (unsigned char)(i * 7 + rank + i / 1000);
    coll__check_ok(coll__job_allgather(job, mine, BYTES, all, coll__deadline_after(15)));
    for (int r = 0; r < size; r++)
        for (int i = 0; i < BYTES; i++)
            coll__check(all[(size_t)r * BYTES + (size_t)i] == (unsigned char)(i * 7 + r + i / 1000));
    free(mine);
    free(all);
    coll__check_ok(leave(job, 10));
    return 0;
}

static void test_large_parts(void **state) {
    (void)state;
    assert_int_equal(coll__fork_ranks(4, 20, body_large, NULL), 0);
}

/* ---- notices ---- */

enum { NOTICES = 60 };

static int body_notices(int rank, int size, void *arg) {
    (void)arg;
    coll__job_t *job;
    coll__check_ok(join(rank, size, 10, &job));
    coll__check(coll__job_post(job, "", 0) == COLL_ERR_ARG);
    char text[COLL__NOTICE_BYTES];
    for (int i = 0; i < NOTICES; i++) {
        memset(text, 'a' + rank, sizeof text);
        memcpy(text, &i, sizeof i);
        coll__check_ok(coll__job_post(job, text, sizeof i + (size_t)(i * 25)));
    }
    int next[64] = {0}, count = 0;
    int64_t deadline = coll__deadline_after(10);
    while (count < NOTICES * (size - 1) && coll__now_ns() < deadline) {
        int from = -1, number;
        size_t bytes = coll__job_next_notice(job, text, &from);
        if (bytes == 0) {
            usleep(200);
            continue;
        }
        coll__check(from >= 0 && from < size && from != rank);
        memcpy(&number, text, sizeof number);
        coll__check(number == next[from]++);
        coll__check(bytes == sizeof number + (size_t)(number * 25));
        for (size_t i = sizeof number; i < bytes; i++)
            coll__check(text[i] == 'a' + from);
        count++;
    }
    coll__check(count == NOTICES * (size - 1));
    coll__check(atomic_load(coll__job_events(job)) >= (uint64_t)count);
    coll__check_ok(leave(job, 10));
    return 0;
}

static void test_notices_reach_all_in_order(void **state) {
    (void)state;
    assert_int_equal(coll__fork_ranks(2, 20, body_notices, NULL), 0);
    assert_int_equal(coll__fork_ranks(5, 20, body_notices, NULL), 0);
}

/* ---- the segment ---- */

static int body_segment(int rank, int size, void *arg) {
    const int group = *(int *)arg; /* ranks r, r + group, r + 2 group, ... share a node */
    coll__job_t *job;
    coll__check_ok(join(rank, size, 10, &job));
    int locals[64], local_size = 0, place = -1;
    for (int r = rank % group; r < size; r += group) {
        place = r == rank ? local_size : place;
        locals[local_size++] = r;
    }
    int wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    coll__segment_t segment;
    coll__check_ok(coll__job_segment(job, locals, local_size, 12345, 4096, wake, coll__deadline_after(10), &segment));
    coll__check(segment.local_size == local_size && segment.local_rank == place);
    coll__check(segment.wake_fd[place] == wake);
    coll__check(memcmp(segment.world_rank, locals, (size_t)local_size * sizeof(int)) == 0);
    if (local_size == 1) {
        coll__check(segment.base == NULL);
    } else {
        coll__check((uintptr_t)segment.transport % 4096 == 0 && (uintptr_t)segment.node % 4096 == 0);
        coll__check(segment.transport_bytes == 12345 && segment.node_bytes == 4096);
        coll__check((char *)segment.node + segment.node_bytes <= (char *)segment.base + segment.bytes);

        /* Everyone writes its byte at the end of each region, and rings everyone. */
        ((char *)segment.transport)[12345 - 64 + place] = (char)(place + 1);
        ((char *)segment.node)[4096 - 64 + place] = (char)(place + 101);
        char token;
        char *tokens = malloc((size_t)size);
        coll__check_ok(coll__job_allgather(job, &token, 1, tokens, coll__deadline_after(10)));
        for (int i = 0; i < local_size; i++) {
            coll__check(((char *)segment.transport)[12345 - 64 + i] == (char)(i + 1));
            coll__check(((char *)segment.node)[4096 - 64 + i] == (char)(i + 101));
            coll__check(((char *)segment.transport)[i] == 0);
        }
        uint64_t rings = 0;
        (void)!read(wake, &rings, sizeof rings);
        coll__check_ok(coll__job_allgather(job, &token, 1, tokens, coll__deadline_after(10)));
        for (int i = 0; i < local_size; i++)
            coll__segment_wake(&segment, i);
        coll__check_ok(coll__job_allgather(job, &token, 1, tokens, coll__deadline_after(10)));
        coll__check(read(wake, &rings, sizeof rings) == sizeof rings);
        coll__check(rings == (uint64_t)local_size);
        free(tokens);
    }
    coll__segment_free(&segment);
    coll__check(segment.base == NULL && segment.wake_fd == NULL);
    coll__check_ok(leave(job, 10));
    close(wake);
    return 0;
}

static void test_ranks_of_a_node_share_a_segment(void **state) {
    (void)state;
    int groups = 1;
    assert_int_equal(coll__fork_ranks(8, 20, body_segment, &groups), 0);
    groups = 2; /* two "nodes" at once, uneven */
    assert_int_equal(coll__fork_ranks(5, 20, body_segment, &groups), 0);
    groups = 3; /* one rank alone */
    assert_int_equal(coll__fork_ranks(3, 20, body_segment, &groups), 0);
    groups = 1; /* more descriptors than fit one message */
    assert_int_equal(coll__fork_ranks(40, 20, body_segment, &groups), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ranks_meet_and_gather),
        cmocka_unit_test(test_few_descriptors),
        cmocka_unit_test(test_large_parts),
        cmocka_unit_test(test_notices_reach_all_in_order),
        cmocka_unit_test(test_ranks_of_a_node_share_a_segment),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
