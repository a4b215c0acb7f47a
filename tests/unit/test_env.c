/* Reading the environment: defaults, every way to be wrong, launchers' variables, introspection. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/env.h"

static coll__env_t env;

/* No test sees what the shell or the test before left. */
static int setup(void **state) {
    (void)state;
    static const char *const others[] = {
        "RANK",          "WORLD_SIZE",      "MASTER_ADDR", "MASTER_PORT", "LOCAL_RANK", "LOCAL_WORLD_SIZE",
        "COLL_MISTYPED", "COLL_PACKETSIZE", "COLL_TEST_X", "COLL_"};
    coll_env_info_t info;
    for (size_t i = 0; coll_env_get(i, &info) == 0; i++)
        unsetenv(info.name);
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        unsetenv(others[i]);
    memset(&env, 0x55, sizeof env);
    return 0;
}

/* "NAME=value" settings, ended by NULL. */
static void set_all(const char *const *settings) {
    char setting[256];
    for (; *settings != NULL; settings++) {
        snprintf(setting, sizeof setting, "%s", *settings);
        char *equals = strchr(setting, '=');
        *equals = '\0';
        setenv(setting, equals + 1, 1);
    }
}
#define SET(...) set_all((const char *const[]){__VA_ARGS__, NULL})

static void reads(void) {
    int status = coll__env_read(&env);
    if (status != 0)
        fail_msg("%s", coll_error_message());
}

static void refuses(const char *message) {
    assert_int_equal(coll__env_read(&env), COLL_ERR_CONFIG);
    assert_string_equal(coll_error_message(), message);
}

static void test_defaults(void **state) {
    (void)state;
    reads();
    assert_int_equal(env.rank, -1);
    assert_int_equal(env.size, -1);
    assert_string_equal(env.addr, "");
    assert_int_equal(env.port, 0);
    assert_string_equal(env.secret, "");
    assert_int_equal(env.listen_fd, -1);
    assert_int_equal(env.transport, COLL__TRANSPORT_AUTO);
    assert_int_equal(env.packet_size, 8192);
    assert_int_equal(env.npackets, 32);
    assert_int_equal(env.spin_us, COLL__SPIN_AUTO);
    assert_int_equal(env.poll_ms, 100);
    assert_true(env.timeout == 300);
    assert_int_equal(env.arity, 2);
    assert_int_equal(env.hier, COLL__HIER_AUTO);
    assert_int_equal(env.deterministic, 0);
    assert_int_equal(env.progress, COLL__PROGRESS_CALLER);
    assert_int_equal(env.log, COLL__LOG_WARN);
    assert_string_equal(env.trace, "");
}

static void test_values(void **state) {
    (void)state;
    SET("COLL_RANK=3", "COLL_SIZE=4", "COLL_ADDR=node0", "COLL_PORT=5000", "COLL_SECRET=s3", "COLL_LISTEN_FD=7",
        "COLL_NODE=n", "COLL_IFACE=eth0", "COLL_PROVIDER=tcp", "COLL_TRANSPORT=ofi", "COLL_PACKET_SIZE=64k",
        "COLL_NPACKETS=2", "COLL_SPIN_US=0", "COLL_POLL_MS=1", "COLL_TIMEOUT=0.5", "COLL_TUNE=allreduce:64k-inf:ring",
        "COLL_TUNE_FILE=/f", "COLL_ARITY=64", "COLL_HIER=sliced", "COLL_DETERMINISTIC=1", "COLL_PROGRESS=thread",
        "COLL_LOG=debug", "COLL_TRACE=t.%r");
    reads();
    assert_int_equal(env.rank, 3);
    assert_int_equal(env.size, 4);
    assert_string_equal(env.addr, "node0");
    assert_int_equal(env.port, 5000);
    assert_string_equal(env.secret, "s3");
    assert_int_equal(env.listen_fd, 7);
    assert_string_equal(env.node, "n");
    assert_string_equal(env.iface, "eth0");
    assert_string_equal(env.provider, "tcp");
    assert_int_equal(env.transport, COLL__TRANSPORT_OFI);
    assert_int_equal(env.packet_size, 65536);
    assert_int_equal(env.npackets, 2);
    assert_int_equal(env.spin_us, 0);
    assert_int_equal(env.poll_ms, 1);
    assert_true(env.timeout == 0.5);
    assert_string_equal(env.tune, "allreduce:64k-inf:ring");
    assert_string_equal(env.tune_file, "/f");
    assert_int_equal(env.arity, 64);
    assert_int_equal(env.hier, COLL__HIER_SLICED);
    assert_int_equal(env.deterministic, 1);
    assert_int_equal(env.progress, COLL__PROGRESS_THREAD);
    assert_int_equal(env.log, COLL__LOG_DEBUG);
    assert_string_equal(env.trace, "t.%r");
}

static void test_limits(void **state) {
    (void)state;
    static const char *const wrong[] = {
        "COLL_PACKET_SIZE=255", "COLL_PACKET_SIZE=1048577",
        "COLL_NPACKETS=1",      "COLL_NPACKETS=4097",
        "COLL_POLL_MS=0",       "COLL_POLL_MS=1001",
        "COLL_ARITY=1",         "COLL_ARITY=65",
        "COLL_PORT=65536",      "COLL_PORT=-1",
        "COLL_RANK=-2",         "COLL_SIZE=-2",
        "COLL_TIMEOUT=-1",      "COLL_SPIN_US=-1",
        "COLL_LISTEN_FD=-2",    "COLL_DETERMINISTIC=2",
        "COLL_TIMEOUT=1e10",    "COLL_RANK=4294967296",
        "COLL_SPIN_US=1e3",     "COLL_LOG=loud",
        "COLL_TRANSPORT=tcp",   "COLL_HIER=",
        "COLL_PROGRESS=Thread", "COLL_NPACKETS=",
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        setup(NULL);
        SET(wrong[i]);
        assert_int_equal(coll__env_read(&env), COLL_ERR_CONFIG);
        char name[64];
        snprintf(name, sizeof name, "%.*s is \"", (int)strcspn(wrong[i], "="), wrong[i]);
        assert_ptr_equal(strstr(coll_error_message(), name), coll_error_message());
        assert_non_null(strstr(coll_error_message(), "allowed are "));
    }
}

static void test_message_says_all(void **state) {
    (void)state;
    SET("COLL_NPACKETS=99999");
    refuses("COLL_NPACKETS is \"99999\", allowed are integers from 2 to 4096");
    SET("COLL_NPACKETS=32", "COLL_HIER=flat");
    refuses("COLL_HIER is \"flat\", allowed are auto, off, leader and sliced");
    SET("COLL_HIER=auto ");
    refuses("COLL_HIER is \"auto \", allowed are auto, off, leader and sliced");
}

static void test_secret_is_never_shown(void **state) {
    (void)state;
    char secret[1200];
    memset(secret, 'q', sizeof secret - 1);
    secret[sizeof secret - 1] = '\0';
    setenv("COLL_SECRET", secret, 1);
    refuses("COLL_SECRET has a value that is not allowed; allowed are at most 1023 bytes in one line");

    coll_env_info_t info;
    int seen = 0;
    for (size_t i = 0; i < coll_env_count(); i++) {
        assert_int_equal(coll_env_get(i, &info), 0);
        if (strcmp(info.name, "COLL_SECRET") == 0) {
            assert_string_equal(info.value, "(hidden)");
            assert_string_equal(info.source, "environment");
            seen++;
        }
    }
    assert_int_equal(seen, 1);
}

static void test_typing_mistakes(void **state) {
    (void)state;
    SET("COLL_PACKETSIZE=8k");
    refuses("there is no variable COLL_PACKETSIZE; did you mean COLL_PACKET_SIZE?");
    setup(NULL);
    SET("COLL_=1");
    assert_int_equal(coll__env_read(&env), COLL_ERR_CONFIG);
    setup(NULL);
    SET("COLL_TEST_X=anything");
    reads();
}

static void test_other_launchers(void **state) {
    (void)state;
    SET("RANK=1", "WORLD_SIZE=2", "MASTER_ADDR=10.0.0.1", "MASTER_PORT=29500", "LOCAL_RANK=1", "LOCAL_WORLD_SIZE=2");
    reads();
    assert_int_equal(env.rank, 1);
    assert_int_equal(env.size, 2);
    assert_string_equal(env.addr, "10.0.0.1");
    assert_int_equal(env.port, 29500);
}

static void test_both_set_alike(void **state) {
    (void)state;
    SET("RANK=01", "COLL_RANK=1", "WORLD_SIZE=2", "COLL_SIZE=2", "COLL_ADDR=h", "MASTER_ADDR=h", "COLL_PORT=5",
        "MASTER_PORT=5");
    reads();
    assert_int_equal(env.rank, 1);
}

static void test_filled_from_both(void **state) {
    (void)state;
    SET("COLL_RANK=1", "WORLD_SIZE=2", "COLL_PORT=0", "MASTER_PORT=77", "COLL_ADDR=", "MASTER_ADDR=h");
    reads();
    assert_int_equal(env.rank, 1);
    assert_int_equal(env.size, 2);
    assert_int_equal(env.port, 77);
    assert_string_equal(env.addr, "h");
}

static void test_both_set_and_different(void **state) {
    (void)state;
    SET("RANK=0", "COLL_RANK=1", "WORLD_SIZE=2", "COLL_SIZE=2");
    refuses("COLL_RANK is \"1\" but RANK is \"0\"; unset one or make them equal");
    SET("RANK=1", "WORLD_SIZE=3");
    refuses("COLL_SIZE is \"2\" but WORLD_SIZE is \"3\"; unset one or make them equal");
    SET("WORLD_SIZE=2", "COLL_ADDR=a", "MASTER_ADDR=b", "COLL_PORT=1");
    refuses("COLL_ADDR is \"a\" but MASTER_ADDR is \"b\"; unset one or make them equal");
    SET("MASTER_ADDR=a", "MASTER_PORT=2");
    refuses("COLL_PORT is \"1\" but MASTER_PORT is \"2\"; unset one or make them equal");
}

static void test_half_a_pair(void **state) {
    (void)state;
    static const struct {
        const char *setting, *message;
    } cases[] = {
        {"COLL_RANK=0", "COLL_RANK is set but neither COLL_SIZE nor WORLD_SIZE is; set both of the pair or none"},
        {"RANK=0", "RANK is set but neither COLL_SIZE nor WORLD_SIZE is; set both of the pair or none"},
        {"COLL_SIZE=4", "COLL_SIZE is set but neither COLL_RANK nor RANK is; set both of the pair or none"},
        {"WORLD_SIZE=4", "WORLD_SIZE is set but neither COLL_RANK nor RANK is; set both of the pair or none"},
        {"COLL_ADDR=h", "COLL_ADDR is set but neither COLL_PORT nor MASTER_PORT is; set both of the pair or none"},
        {"MASTER_ADDR=h", "MASTER_ADDR is set but neither COLL_PORT nor MASTER_PORT is; set both of the pair or none"},
        {"MASTER_PORT=1", "MASTER_PORT is set but neither COLL_ADDR nor MASTER_ADDR is; set both of the pair or none"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        setup(NULL);
        SET(cases[i].setting);
        refuses(cases[i].message);
    }
}

static void test_rank_outside_size(void **state) {
    (void)state;
    SET("COLL_RANK=4", "COLL_SIZE=4");
    refuses("COLL_RANK is 4 but COLL_SIZE is 4; ranks are 0 to 3");
    setup(NULL);
    SET("RANK=9", "COLL_SIZE=2");
    refuses("RANK is 9 but COLL_SIZE is 2; ranks are 0 to 1");
    setup(NULL);
    SET("COLL_RANK=0", "WORLD_SIZE=0");
    refuses("WORLD_SIZE is 0, allowed are integers from 1 up");
    setup(NULL);
    SET("RANK=0", "WORLD_SIZE=1048577");
    refuses("WORLD_SIZE is 1048577, allowed are at most 1048576");
}

static void test_wrong_alias(void **state) {
    (void)state;
    SET("RANK=zero", "WORLD_SIZE=2");
    refuses("RANK is \"zero\", allowed are integers from -1 up");
    SET("COLL_RANK=0", "RANK=");
    refuses("RANK is \"\", allowed are integers from -1 up");
}

static void test_local_variables(void **state) {
    (void)state;
    static const struct {
        const char *setting[4], *message;
    } cases[] = {
        {{"LOCAL_RANK=2", "LOCAL_WORLD_SIZE=2"}, "LOCAL_RANK is 2 but LOCAL_WORLD_SIZE is 2; allowed are 0 to 1"},
        {{"LOCAL_RANK=x"}, "LOCAL_RANK is \"x\", allowed are integers from 0 up"},
        {{"LOCAL_RANK=-1"}, "LOCAL_RANK is \"-1\", allowed are integers from 0 up"},
        {{"LOCAL_WORLD_SIZE=0"}, "LOCAL_WORLD_SIZE is \"0\", allowed are integers from 1 up"},
        {{"RANK=0", "WORLD_SIZE=2", "LOCAL_WORLD_SIZE=4"}, "LOCAL_WORLD_SIZE is 4 but WORLD_SIZE is only 2"},
        {{"COLL_RANK=0", "COLL_SIZE=2", "LOCAL_RANK=2"}, "LOCAL_RANK is 2 but COLL_SIZE is only 2"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        setup(NULL);
        for (int k = 0; k < 4 && cases[i].setting[k] != NULL; k++)
            SET(cases[i].setting[k]);
        refuses(cases[i].message);
    }
    setup(NULL);
    SET("LOCAL_RANK=1"); /* some set it for other purposes alone */
    reads();
}

static const coll_env_info_t *info_of(const char *name) {
    static coll_env_info_t info;
    for (size_t i = 0; i < coll_env_count(); i++) {
        assert_int_equal(coll_env_get(i, &info), 0);
        if (strcmp(info.name, name) == 0)
            return &info;
    }
    fail_msg("no %s", name);
    return NULL;
}

static void test_introspection(void **state) {
    (void)state;
    SET("COLL_TIMEOUT=300", "RANK=1", "COLL_NPACKETS=nonsense");
    const coll_env_info_t *info = info_of("COLL_TIMEOUT");
    assert_string_equal(info->type, "seconds");
    assert_string_equal(info->value, "300");
    assert_string_equal(info->default_value, "300");
    assert_string_equal(info->source, "environment"); /* though it is the default's value */
    info = info_of("COLL_RANK");
    assert_string_equal(info->value, "1");
    assert_string_equal(info->source, "environment");
    info = info_of("COLL_NPACKETS"); /* shown though it is not allowed */
    assert_string_equal(info->value, "nonsense");
    info = info_of("COLL_HIER");
    assert_string_equal(info->type, "auto|off|leader|sliced");
    assert_string_equal(info->value, "auto");
    assert_string_equal(info->source, "default");
    assert_string_equal(info_of("COLL_SECRET")->value, "");

    coll_env_info_t other;
    for (size_t i = 0; i < coll_env_count(); i++) {
        assert_int_equal(coll_env_get(i, &other), 0);
        assert_true(strncmp(other.name, "COLL_", 5) == 0 && strlen(other.help) > 0 && strlen(other.type) > 0);
        assert_null(strchr(other.help, '\n'));
    }
}

static void test_introspection_refuses(void **state) {
    (void)state;
    coll_env_info_t info;
    assert_int_equal(coll_env_get(coll_env_count(), &info), COLL_ERR_ARG);
    assert_int_equal(coll_env_get(SIZE_MAX, &info), COLL_ERR_ARG);
    assert_int_equal(coll_env_get(0, NULL), COLL_ERR_ARG);
    assert_string_equal(coll_error_message(), "info is NULL");
}

#define TEST(name) cmocka_unit_test_setup(name, setup)
int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_defaults),
        TEST(test_values),
        TEST(test_limits),
        TEST(test_message_says_all),
        TEST(test_secret_is_never_shown),
        TEST(test_typing_mistakes),
        TEST(test_other_launchers),
        TEST(test_both_set_alike),
        TEST(test_filled_from_both),
        TEST(test_both_set_and_different),
        TEST(test_half_a_pair),
        TEST(test_rank_outside_size),
        TEST(test_wrong_alias),
        TEST(test_local_variables),
        TEST(test_introspection),
        TEST(test_introspection_refuses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
