/* The text that ranks compare at init, and the sentence about a difference. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/env.h"

static coll__env_t example(void) {
    return (coll__env_t){.packet_size = 8192, .npackets = 32, .arity = 2, .provider = "tcp", .rank = 5};
}

static const char example_text[] = "COLL_PROVIDER=tcp\n"
                                   "COLL_TRANSPORT=auto\n"
                                   "COLL_PACKET_SIZE=8k\n"
                                   "COLL_NPACKETS=32\n"
                                   "COLL_TUNE=\n"
                                   "COLL_ARITY=2\n"
                                   "COLL_HIER=auto\n"
                                   "COLL_DETERMINISTIC=0\n";

static void test_text(void **state) {
    (void)state;
    char text[4096];
    coll__env_t env = example();
    assert_int_equal(coll__env_checked_text(&env, text, sizeof text), strlen(example_text));
    assert_string_equal(text, example_text);
}

static void test_short_buffers(void **state) {
    (void)state;
    coll__env_t env = example();
    for (size_t capacity = 0; capacity <= sizeof example_text + 1; capacity++) {
        char *text = malloc(capacity + 1); /* of just that size, for the address sanitizer */
        memset(text, 0x55, capacity + 1);
        assert_int_equal(coll__env_checked_text(&env, text, capacity), strlen(example_text));
        assert_int_equal(text[capacity], 0x55);
        if (capacity > 0) {
            size_t length = strlen(text);
            assert_true(length < capacity);
            assert_memory_equal(text, example_text, length);
        }
        free(text);
    }
}

static void differs(const char *mine, const char *theirs, const char *expected) {
    char what[256] = "";
    assert_int_equal(coll__env_checked_differ(mine, theirs, what, sizeof what), expected != NULL);
    assert_string_equal(what, expected != NULL ? expected : "");
}

static void test_differ(void **state) {
    (void)state;
    differs(example_text, example_text, NULL);
    differs("", "", NULL);
    differs("A=1\nB=2\n", "B=2\nA=1\n", NULL);
    differs("A=1\nB=8k\n", "A=1\nB=64k\n", "B is \"8k\" here and \"64k\" there");
    differs("A=1\nB=2\n", "A=3\nB=4\n", "A is \"1\" here and \"3\" there");
    differs("A=\n", "A=1\n", "A is \"\" here and \"1\" there");
    differs("A=1\nB=2\n", "A=1\n", "B is \"2\" here and not known there");
    differs("A=1\n", "A=1\nB=2\n", "B is \"2\" there and not known here");
    differs("AB=1\n", "A=1\nAB=1\n", "A is \"1\" there and not known here");
    differs("A=x=y\n", "A=x=z\n", "A is \"x=y\" here and \"x=z\" there");
}

static void test_broken_texts(void **state) {
    (void)state;
    differs("A=1\n", "", "A is \"1\" here and not known there");
    differs("A=1\n", "A=1", NULL);
    differs("A=1\n", "A", "A is \"1\" here and \"\" there");
    differs("A=1\n", "\n\n", "A is \"1\" here and not known there");
    char what[8];
    assert_int_equal(coll__env_checked_differ("NAME=1\n", "NAME=2\n", what, sizeof what), 1);
    assert_string_equal(what, "NAME is"); /* cut, and ended */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_text),
        cmocka_unit_test(test_short_buffers),
        cmocka_unit_test(test_differ),
        cmocka_unit_test(test_broken_texts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
