/* Every broadcast row through the verifier. */
#include "support/sweep.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void test_sweep(void **state) {
    (void)state;
    assert_true(coll__sweep(COLL_OP_BROADCAST, NULL) > 100);
}

/* Lengths of several segments, the last one shorter, which the sweep's lengths do not have. */
static void test_chain_of_segments(void **state) {
    (void)state;
    const coll__algo_t *chain = coll__algo_find(COLL_OP_BROADCAST, "chain");
    assert_non_null(chain);
    for (int size = 1; size <= 9; size++)
        for (int root = 0; root < size; root++) {
            coll__sweep_case(chain, size, 16384, root);
            coll__sweep_case(chain, size, 16385, root);
            coll__sweep_case(chain, size, 50001, root);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_sweep), cmocka_unit_test(test_chain_of_segments)};
    return cmocka_run_group_tests_name("sim/broadcast", tests, NULL, NULL);
}
