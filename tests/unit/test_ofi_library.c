/* libfabric as a library that is found, checked and asked, and what is said when a setting does not fit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "transport/transport_table.h"

#ifdef COLL_HAVE_LIBFABRIC

static coll__env_t env;
static char why[512], detail[512];

static int probe(const coll__env_t *settings) {
    why[0] = detail[0] = '\0';
    return coll__transport_ofi.probe(settings, why, sizeof why, detail, sizeof detail);
}

static void probe_says_what_it_would_use(void **state) {
    (void)state;
    assert_int_equal(probe(&env), 1);
    assert_non_null(strstr(detail, "libfabric.so.1"));
    assert_non_null(strstr(detail, "; uses tcp"));
    assert_non_null(strstr(detail, " at 127.0.0.1"));
}

static void the_identity_names_provider_and_version(void **state) {
    (void)state;
    coll__transport_args_t args = {.env = &env, .world_size = 1, .max_packet = 4096};
    coll__transport_t *transport;
    coll__transport_address_t address;
    unsigned major, minor;
    assert_int_equal(coll__transport_ofi.open(&args, &transport), 0);
    assert_int_equal(coll__transport_ofi.address(transport, &address), 0);
    coll__transport_ofi.close(transport);
    assert_memory_equal(address.identity, "tcp", 3);
    assert_int_equal(sscanf(strchr(address.identity, ' '), "%u.%u", &major, &minor), 2);
    assert_true(major > 1 || minor >= 17);
}

static void a_provider_that_is_not_there_is_named_beside_those_that_are(void **state) {
    (void)state;
    coll__env_t bad = env;
    strcpy(bad.provider, "carrier-pigeon");
    assert_int_equal(probe(&bad), 0);
    assert_non_null(strstr(why, "carrier-pigeon"));
    assert_non_null(strstr(why, "COLL_PROVIDER can be one of: "));
    assert_non_null(strstr(strstr(why, "one of: "), "tcp"));
}

static void an_interface_that_is_not_there_is_named_beside_those_that_are(void **state) {
    (void)state;
    coll__env_t bad = env;
    strcpy(bad.iface, "nosuch0");
    assert_int_equal(probe(&bad), 0);
    assert_non_null(strstr(why, "COLL_IFACE is \"nosuch0\""));
    assert_non_null(strstr(why, "lo (127.0.0.1)"));
}

/* Where all ranks are told to meet on loopback, they are on one host; a host name that means loopback there says
 * nothing. */
static void the_interface_follows_the_address_where_ranks_meet(void **state) {
    (void)state;
    static const char *const loopback[] = {"localhost", "127.0.0.1", "127.0.0.2"};
    coll__env_t local = env;
    local.iface[0] = '\0';
    for (size_t i = 0; i < sizeof loopback / sizeof *loopback; i++) {
        strcpy(local.addr, loopback[i]);
        assert_int_equal(probe(&local), 1);
        /* Debian's /etc/hosts gives localhost both addresses, and the resolver ::1 first. */
        assert_true(strstr(detail, " at 127.") != NULL || strstr(detail, " at ::1") != NULL);
    }
    strcpy(local.addr, "no-such-host.invalid");
    assert_int_equal(probe(&local), 1);
}

/* Libraries that libfabric loads replace handlers of signals. */
static void on_signal(int number) {
    (void)number;
}

static void loading_leaves_the_signal_handlers(void **state) {
    (void)state;
    static const int numbers[] = {SIGINT, SIGTERM, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
    enum { COUNT = sizeof numbers / sizeof *numbers };
    struct sigaction mine = {.sa_handler = on_signal}, before[COUNT], after;
    for (size_t i = 0; i < COUNT; i++)
        sigaction(numbers[i], &mine, &before[i]);
    assert_int_equal(probe(&env), 1);
    for (size_t i = 0; i < COUNT; i++) {
        sigaction(numbers[i], &before[i], &after);
        assert_ptr_equal(after.sa_handler, on_signal);
    }
}

int main(void) {
    strcpy(env.iface, "lo");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(loading_leaves_the_signal_handlers), /* first: it loads libfabric */
        cmocka_unit_test(probe_says_what_it_would_use),
        cmocka_unit_test(the_identity_names_provider_and_version),
        cmocka_unit_test(a_provider_that_is_not_there_is_named_beside_those_that_are),
        cmocka_unit_test(an_interface_that_is_not_there_is_named_beside_those_that_are),
        cmocka_unit_test(the_interface_follows_the_address_where_ranks_meet),
    };
    return cmocka_run_group_tests_name("ofi_library", tests, NULL, NULL);
}

#else

static void a_build_without_libfabric_says_so(void **state) {
    (void)state;
    char why[512] = "", detail[512] = "x";
    coll__env_t env = {0};
    coll__transport_args_t args = {.env = &env, .world_size = 1};
    coll__transport_t *transport;
    assert_int_equal(coll__transport_ofi.probe(&env, why, sizeof why, detail, sizeof detail), 0);
    assert_non_null(strstr(why, "libfabric-dev"));
    assert_int_equal(coll__transport_ofi.open(&args, &transport), COLL_ERR_UNSUPPORTED);
    assert_non_null(strstr(coll_error_message(), "libfabric-dev"));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_build_without_libfabric_says_so)};
    return cmocka_run_group_tests_name("ofi_library", tests, NULL, NULL);
}

#endif
