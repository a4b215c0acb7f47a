/* Random environments and byte sizes, always the same ones: no crash, and what is accepted keeps its rules. */
#include <ctype.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/env.h"
#include "support/reference.h"

static uint64_t seed;

static size_t below(size_t limit) {
    return (size_t)(coll__reference_random(&seed) % limit);
}

/* Pieces of what people write, glued at random, with a byte changed now and then. */
static void random_text(char *text, size_t capacity) {
    static const char *const pieces[] = {
        "0",   "1",   "-1",  "2",   "64",    "k",    "m",      "g",         "inf",  "auto",
        "off", "shm", "ofi", "tcp", "debug", ".5",   "e3",     " ",         "\n",   "-",
        "+",   "nan", "0x",  ":",   "=",     "4096", "thread", "allreduce", "%s%n", "99999999999999999999",
    };
    size_t length = 0;
    text[0] = '\0';
    for (size_t i = below(4); i > 0; i--) {
        int added = snprintf(text + length, capacity - length, "%s", pieces[below(sizeof pieces / sizeof pieces[0])]);
        length += (size_t)added;
        assert_true(length < capacity);
    }
    if (length > 0 && below(8) == 0)
        text[below(length)] = (char)(1 + below(255));
}

static void test_parse_bytes(void **state) {
    (void)state;
    seed = 1;
    int taken = 0;
    for (int round = 0; round < 200000; round++) {
        char text[128];
        random_text(text, sizeof text);
        size_t bytes = 42, used = coll__parse_bytes(text, &bytes);
        assert_true(used <= strlen(text));
        assert_true((used > 0) == (isdigit((unsigned char)text[0]) || strncmp(text, "inf", 3) == 0) ||
                    strlen(text) > 15); /* a number too large is refused */
        if (used == 0)
            assert_int_equal(bytes, 42);
        taken += used > 0;
    }
    assert_true(taken > 10000);
}

/* What coll__env_read() promises of a struct that it filled. */
static void check_rules(const coll__env_t *env) {
    assert_in_range(env->packet_size, 256, 1 << 20);
    assert_in_range(env->npackets, 2, 4096);
    assert_in_range(env->poll_ms, 1, 1000);
    assert_in_range(env->arity, 2, 64);
    assert_in_range(env->port, 0, 65535);
    assert_true(env->timeout >= 0 && env->timeout <= 1e9);
    assert_true(env->spin_us == COLL__SPIN_AUTO || env->spin_us >= 0);
    assert_true((env->rank == -1 && env->size == -1) || (env->rank >= 0 && env->rank < env->size));
    assert_true((env->addr[0] != '\0') == (env->port != 0));
    assert_in_range(env->deterministic, 0, 1);
    assert_in_range(env->transport, COLL__TRANSPORT_AUTO, COLL__TRANSPORT_OFI);
    assert_in_range(env->hier, COLL__HIER_AUTO, COLL__HIER_SLICED);
    assert_in_range(env->log, COLL__LOG_OFF, COLL__LOG_DEBUG);
}

/* Every message names a variable that is set. */
static void check_message(void) {
    const char *message = coll_error_message();
    assert_true(strstr(message, "COLL_") != NULL || strstr(message, "RANK") != NULL ||
                strstr(message, "WORLD") != NULL || strstr(message, "MASTER") != NULL);
}

static void test_environments(void **state) {
    (void)state;
    static const char *const others[] = {"RANK",       "WORLD_SIZE",       "MASTER_ADDR",     "MASTER_PORT",
                                         "LOCAL_RANK", "LOCAL_WORLD_SIZE", "COLL_PACKETSIZE", "COLL_"};
    enum { OTHERS = sizeof others / sizeof others[0], ROUNDS = 30000 };
    seed = 2;
    const size_t count = coll_env_count();
    int accepted = 0;
    for (int round = 0; round < ROUNDS; round++) {
        char text[128];
        coll_env_info_t info;
        for (size_t i = 0; i < count + OTHERS; i++) {
            assert_true(i >= count || coll_env_get(i, &info) == 0);
            unsetenv(i < count ? info.name : others[i - count]);
        }
        for (size_t i = below(4); i > 0; i--) {
            size_t index = below(count + (below(4) == 0 ? OTHERS : OTHERS - 2));
            random_text(text, sizeof text);
            assert_true(index >= count || coll_env_get(index, &info) == 0);
            setenv(index < count ? info.name : others[index - count], text, 1);
        }

        coll__env_t env;
        int status = coll__env_read(&env);
        if (status == 0) {
            check_rules(&env);
            accepted++;
        } else {
            assert_int_equal(status, COLL_ERR_CONFIG);
            check_message();
        }
        for (size_t i = 0; i < count; i++)
            assert_int_equal(coll_env_get(i, &info), 0);
    }
    assert_in_range(accepted, ROUNDS / 20, ROUNDS - ROUNDS / 20); /* both ways were taken, often */
}

static void test_checked_texts(void **state) {
    (void)state;
    seed = 3;
    for (int round = 0; round < 50000; round++) {
        char mine[128], theirs[128], what[64];
        random_text(mine, sizeof mine);
        random_text(theirs, sizeof theirs);
        memset(what, 'x', sizeof what);
        if (coll__env_checked_differ(mine, theirs, what, sizeof what))
            assert_true(memchr(what, '\0', sizeof what) != NULL);
        assert_int_equal(coll__env_checked_differ(mine, mine, what, sizeof what), 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parse_bytes),
        cmocka_unit_test(test_environments),
        cmocka_unit_test(test_checked_texts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
