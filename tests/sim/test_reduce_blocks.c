/* The reduce rows that cut the vector into blocks, through the verifier. All others are in test_reduce_whole.c. */
#include "support/sweep.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static bool cuts(const coll__algo_t *algo) {
    return strcmp(algo->name, "rabenseifner") == 0 || strcmp(algo->name, "ordered_pairwise") == 0;
}

static void test_sweep(void **state) {
    (void)state;
    assert_true(coll__sweep(COLL_OP_REDUCE, cuts) > 100);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_sweep)};
    return cmocka_run_group_tests_name("sim/reduce_blocks", tests, NULL, NULL);
}
