/* Descriptors between processes: they arrive, whole or not at all, and none is leaked on the way. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "bootstrap/fds.h"

static int open_descriptors(void) {
    DIR *directory = opendir("/proc/self/fd");
    int count = 0;
    while (readdir(directory) != NULL)
        count++;
    closedir(directory);
    return count;
}

static void open_pair(int pair[2]) {
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
}

static void test_as_many_as_allowed(void **state) {
    (void)state;
    int before = open_descriptors(), pair[2], sent[COLL__FDS_AT_ONCE], got[COLL__FDS_AT_ONCE];
    open_pair(pair);
    for (int i = 0; i < COLL__FDS_AT_ONCE; i++)
        sent[i] = eventfd((unsigned)i + 1, EFD_NONBLOCK);
    const int counts[] = {0, 1, 2, COLL__FDS_AT_ONCE};
    for (size_t c = 0; c < 4; c++) {
        char text[6];
        assert_int_equal(coll__fds_send(pair[0], "hello", 6, sent, counts[c]), 0);
        assert_int_equal(coll__fds_receive(pair[1], text, 6, got, counts[c]), 0);
        assert_string_equal(text, "hello");
        for (int i = 0; i < counts[c]; i++) {
            uint64_t value;
            assert_true(fcntl(got[i], F_GETFD) & FD_CLOEXEC);
            assert_int_equal(read(got[i], &value, sizeof value), sizeof value);
            assert_int_equal(value, i + 1);
            assert_int_equal(write(sent[i], &value, sizeof value), sizeof value);
            close(got[i]);
        }
    }
    for (int i = 0; i < COLL__FDS_AT_ONCE; i++)
        close(sent[i]);
    close(pair[0]);
    close(pair[1]);
    assert_int_equal(open_descriptors(), before);
}

static void test_another_packet_than_expected_is_refused(void **state) {
    (void)state;
    int before = open_descriptors(), pair[2], got[2];
    char text[6];
    open_pair(pair);
    const int some[2] = {pair[0], pair[1]};
    const struct {
        size_t bytes;
        int fds;
    } wrong[] = {{5, 1}, {7, 1}, {6, 0}, {6, 2}};
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(coll__fds_send(pair[0], "hello!", wrong[i].bytes, some, wrong[i].fds), 0);
        assert_int_equal(coll__fds_receive(pair[1], text, 6, got, 1), -1);
        assert_int_equal(errno, EPROTO);
        assert_int_equal(open_descriptors(), before + 2);
    }
    assert_int_equal(coll__fds_receive(pair[1], text, 6, got, 1), -1);
    assert_int_equal(errno, EAGAIN);
    assert_int_equal(coll__fds_receive_wait(pair[1], text, 6, got, 1, coll__deadline_after(0.02)), -1);
    assert_int_equal(errno, ETIMEDOUT);
    close(pair[0]);
    assert_int_equal(coll__fds_receive(pair[1], text, 6, got, 1), -1);
    assert_int_equal(errno, ECONNRESET);
    assert_int_equal(coll__fds_send(pair[1], "hello", 6, NULL, 0), -1); /* and no signal */
    close(pair[1]);
}

static void test_abstract_names(void **state) {
    (void)state;
    char name[60];
    snprintf(name, sizeof name, "libcoll-test-%d", (int)getpid());
    assert_int_equal(coll__fds_connect(name), -1);
    assert_int_equal(errno, ECONNREFUSED);
    int listener = coll__fds_listen(name);
    assert_true(listener >= 0);
    assert_int_equal(coll__fds_listen(name), -1);
    assert_int_equal(errno, EADDRINUSE);
    int here = coll__fds_connect(name), there = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    pid_t pid = 0;
    assert_true(here >= 0 && there >= 0);
    assert_int_equal(coll__fds_peer(there, &pid), 0);
    assert_int_equal(pid, getpid());
    assert_int_equal(coll__fds_peer(here, &pid), 0);
    close(here);
    close(there);
    close(listener);
    assert_int_equal(coll__fds_connect(name), -1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_as_many_as_allowed),
        cmocka_unit_test(test_another_packet_than_expected_is_refused),
        cmocka_unit_test(test_abstract_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
