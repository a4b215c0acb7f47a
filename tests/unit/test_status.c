/* The table of statuses and the enum of coll.h are the same list. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/status.h"

/* The compiler holds the names together; this holds the numbers: 0, -1, -2, ... without a gap. */
static void test_numbers(void **state) {
    (void)state;
    static const int statuses[] = {
#define STATUS(constant, text) constant,
        COLL__STATUS_TABLE(STATUS)
#undef STATUS
    };
    const int count = (int)(sizeof statuses / sizeof statuses[0]);
    assert_int_equal(count, -COLL_ERR_INTERNAL + 1);
    for (int i = 0; i < count; i++)
        assert_int_equal(statuses[i], -i);
}

/* -Wswitch would name a constant of the enum that the table lacks. */
static int in_table(coll_status_t status) {
    switch (status) {
#define STATUS(constant, text) case constant:
        COLL__STATUS_TABLE(STATUS)
#undef STATUS
        return 1;
    }
    return 0;
}

static void test_texts(void **state) {
    (void)state;
    assert_string_equal(coll_strerror(COLL_SUCCESS), "success");
    assert_string_equal(coll_strerror(COLL_ERR_TIMEOUT), "the deadline passed");
    assert_string_equal(coll_status_name(COLL_ERR_TIMEOUT), "COLL_ERR_TIMEOUT");
    assert_string_equal(coll_status_name(COLL_ERR_INTERNAL), "COLL_ERR_INTERNAL");
    for (int status = COLL_ERR_INTERNAL; status <= 0; status++) {
        assert_true(in_table((coll_status_t)status));
        assert_true(strlen(coll_strerror(status)) > 0);
        for (int other = COLL_ERR_INTERNAL; other < status; other++) {
            assert_string_not_equal(coll_strerror(status), coll_strerror(other));
            assert_string_not_equal(coll_status_name(status), coll_status_name(other));
        }
    }
}

static void test_unknown(void **state) {
    (void)state;
    static const int unknown[] = {COLL__AGAIN, 77, COLL_ERR_INTERNAL - 1, INT32_MIN, INT32_MAX};
    for (size_t i = 0; i < sizeof unknown / sizeof unknown[0]; i++) {
        assert_string_equal(coll_strerror(unknown[i]), "no such status");
        assert_string_equal(coll_status_name(unknown[i]), "no such status");
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_texts),
        cmocka_unit_test(test_unknown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
