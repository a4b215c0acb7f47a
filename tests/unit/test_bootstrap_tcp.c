/* Addresses, listening sockets and connections. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "bootstrap/tcp.h"
#include "coll.h"

static bool has(const coll__tcp_addresses_t *addresses, const char *wanted) {
    char name[COLL__TCP_NAME_BYTES];
    for (int i = 0; i < addresses->count; i++) {
        coll__tcp_name(&addresses->at[i], name);
        if (strcmp(name, wanted) == 0)
            return true;
    }
    return false;
}

static void test_numbers_stand_for_themselves(void **state) {
    (void)state;
    coll__tcp_addresses_t addresses;
    assert_int_equal(coll__tcp_resolve("127.0.0.1", 80, &addresses), 0);
    assert_int_equal(addresses.count, 1);
    assert_true(has(&addresses, "127.0.0.1:80"));
    assert_int_equal(coll__tcp_resolve("::1", 65535, &addresses), 0);
    assert_int_equal(addresses.count, 1);
    assert_true(has(&addresses, "[::1]:65535"));
    assert_int_equal(coll__tcp_resolve("192.0.2.7", 1, &addresses), 0);
    assert_int_equal(addresses.count, 1);
    assert_true(has(&addresses, "192.0.2.7:1"));
}

static void test_localhost_means_both_families(void **state) {
    (void)state;
    coll__tcp_addresses_t addresses;
    assert_int_equal(coll__tcp_resolve("localhost", 80, &addresses), 0);
    assert_true(has(&addresses, "127.0.0.1:80"));
    assert_true(has(&addresses, "[::1]:80"));
}

static void test_this_machines_name_always_means_something(void **state) {
    (void)state;
    char own[256] = "";
    gethostname(own, sizeof own - 1);
    coll__tcp_addresses_t addresses;
    assert_int_equal(coll__tcp_resolve(own, 80, &addresses), 0);
    assert_true(addresses.count > 0);
}

static void test_an_unknown_name_is_named(void **state) {
    (void)state;
    coll__tcp_addresses_t addresses;
    assert_int_equal(coll__tcp_resolve("no-such-host.invalid", 80, &addresses), COLL_ERR_BOOTSTRAP);
    assert_non_null(strstr(coll_error_message(), "'no-such-host.invalid'"));
}

static int port_of(int fd) {
    coll__tcp_address_t here;
    socklen_t bytes = sizeof here;
    assert_int_equal(getsockname(fd, &here.any, &bytes), 0);
    return ntohs(here.v4.sin_port);
}

static void test_listen_connect_and_tune(void **state) {
    (void)state;
    int fds[COLL__TCP_ADDRESSES], count;
    assert_int_equal(coll__tcp_listen("127.0.0.1", 0, fds, &count), 0);
    assert_int_equal(count, 1);
    assert_true(coll__tcp_is_on_loopback(fds[0]));
    assert_true(fcntl(fds[0], F_GETFD) & FD_CLOEXEC);
    assert_true(fcntl(fds[0], F_GETFL) & O_NONBLOCK);

    /* A second one is refused by name. */
    int others[COLL__TCP_ADDRESSES], other_count, port = port_of(fds[0]);
    char where[64];
    snprintf(where, sizeof where, "127.0.0.1:%d", port);
    assert_int_equal(coll__tcp_listen("127.0.0.1", port, others, &other_count), COLL_ERR_BOOTSTRAP);
    assert_int_equal(other_count, 0);
    assert_non_null(strstr(coll_error_message(), where));

    coll__tcp_addresses_t addresses;
    assert_int_equal(coll__tcp_resolve("localhost", port, &addresses), 0);
    int fd = coll__tcp_connect(&addresses, coll__deadline_after(5)), value = 0;
    assert_true(fd >= 0);
    socklen_t bytes = sizeof value;
    assert_int_equal(getsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &value, &bytes), 0);
    assert_int_equal(value, 1);
    assert_int_equal(getsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &value, &bytes), 0);
    assert_int_equal(value, 1);
    assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
    close(fd);
    close(fds[0]);

    fd = coll__tcp_connect(&addresses, coll__deadline_after(5));
    assert_int_equal(fd, -1);
    assert_int_equal(errno, ECONNREFUSED);
}

static void test_an_address_of_others_becomes_the_wildcard(void **state) {
    (void)state;
    int fds[COLL__TCP_ADDRESSES], count;
    assert_int_equal(coll__tcp_listen("192.0.2.1", 0, fds, &count), 0);
    assert_int_equal(count, 1);
    assert_false(coll__tcp_is_on_loopback(fds[0]));
    close(fds[0]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers_stand_for_themselves),
        cmocka_unit_test(test_localhost_means_both_families),
        cmocka_unit_test(test_this_machines_name_always_means_something),
        cmocka_unit_test(test_an_unknown_name_is_named),
        cmocka_unit_test(test_listen_connect_and_tune),
        cmocka_unit_test(test_an_address_of_others_becomes_the_wildcard),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
