/* The reduce rows that send whole vectors, through the verifier: all but those of test_reduce_blocks.c. */
#include "support/sweep.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static bool cuts(const coll__algo_t *algo) {
    return strcmp(algo->name, "rabenseifner") == 0 || strcmp(algo->name, "ordered_pairwise") == 0;
}

static bool keeps_whole(const coll__algo_t *algo) {
    return !cuts(algo);
}

static void test_sweep(void **state) {
    (void)state;
    assert_true(coll__sweep(COLL_OP_REDUCE, keeps_whole) > 100);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_sweep)};
    return cmocka_run_group_tests_name("sim/reduce_whole", tests, NULL, NULL);
}
