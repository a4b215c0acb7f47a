/* Distances between words, and the nearest name. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/nearest.h"

static void test_distance(void **state) {
    (void)state;
    static const struct {
        const char *a, *b;
        size_t distance;
    } cases[] = {
        {"", "", 0},        {"", "abc", 3},           {"abc", "", 3},  {"ring", "ring", 0},
        {"rng", "ring", 1}, {"kitten", "sitting", 3}, {"ab", "ba", 2}, {"flaw", "lawn", 2},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(coll__edit_distance(cases[i].a, cases[i].b), cases[i].distance);
        assert_int_equal(coll__edit_distance(cases[i].b, cases[i].a), cases[i].distance);
    }
}

static void test_long_words(void **state) {
    (void)state;
    char a[500], b[500];
    memset(a, 'a', sizeof a);
    memset(b, 'b', sizeof b);
    a[499] = b[499] = '\0';
    assert_int_equal(coll__edit_distance(a, b), 63);
    assert_int_equal(coll__edit_distance(a, a), 0);
}

static void test_nearest(void **state) {
    (void)state;
    static const char *const names[] = {"ring", "tree", "linear"};
    assert_string_equal(coll__nearest("rin", names, 3), "ring");
    assert_string_equal(coll__nearest("liner", names, 3), "linear");
    assert_string_equal(coll__nearest("tree", names, 3), "tree");
    assert_string_equal(coll__nearest("", names, 3), "ring"); /* the first of equals */
    assert_null(coll__nearest("ring", names, 0));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_distance),
        cmocka_unit_test(test_long_words),
        cmocka_unit_test(test_nearest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
