/* Names of the collectives. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <coll.h>

static void test_names(void **state) {
    (void)state;
    static const char *const names[] = {"barrier", "broadcast", "reduce", "allreduce", "allgather", "sendrecv"};
    assert_int_equal(sizeof names / sizeof names[0], COLL_OPERATION_COUNT);
    for (int i = 0; i < COLL_OPERATION_COUNT; i++)
        assert_string_equal(coll_operation_name((coll_operation_t)i), names[i]);
    assert_string_equal(coll_operation_name(COLL_OPERATION_COUNT), "no such operation");
    assert_string_equal(coll_operation_name((coll_operation_t)-1), "no such operation");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_names)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
