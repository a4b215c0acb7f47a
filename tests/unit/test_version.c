/* The version is a version: it starts with a number. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include <coll.h>

static void test_version(void **state) {
    (void)state;
    int major, minor;
    assert_int_equal(sscanf(coll_version(), "%d.%d", &major, &minor), 2);
    assert_true(major >= 0 && minor >= 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_version)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
