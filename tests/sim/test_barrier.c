/* Every barrier row through the verifier. */
#include "support/sweep.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void test_sweep(void **state) {
    (void)state;
    assert_true(coll__sweep(COLL_OP_BARRIER, NULL) > 100);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_sweep)};
    return cmocka_run_group_tests_name("sim/barrier", tests, NULL, NULL);
}
