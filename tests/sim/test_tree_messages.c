/* The tree allreduce on 8 ranks: 14 messages in all, 6 of them sent or received by the root. */
#include "algo/algo.h"
#include "support/verify.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void add(const void *left, const void *right, void *target, size_t bytes) {
    const int64_t *a = left, *b = right;
    int64_t *sum = target;
    for (size_t i = 0; i < bytes / sizeof *sum; i++)
        sum[i] = a[i] + b[i];
}

static void test_messages(void **state) {
    (void)state;
    const int64_t inputs[8] = {1, 10, 100, 1000, 10000, 100000, 1000000, 10000000};
    const coll__algo_t *tree = coll__algo_find(COLL_OP_ALLREDUCE, "tree");
    assert_non_null(tree);
    coll__plan_t plan = {.operation = COLL_OP_ALLREDUCE,
                         .dtype = COLL_INT64,
                         .op = COLL_SUM,
                         .commutative = true,
                         .size = 8,
                         .count = 1,
                         .element = sizeof(int64_t),
                         .arity = 2};
    coll__verifier_t *verifier = coll__verifier_create();
    coll__verify_result_t result;
    const coll__sched_t *scheds = coll__verifier_build(verifier, tree->build, &plan);
    assert_true(coll__verifier_run(verifier, &plan, scheds, add, inputs, &result));
    assert_int_equal(result.messages, 14);
    assert_int_equal(coll__verifier_sent(verifier, 0) + coll__verifier_received(verifier, 0), 6);
    assert_int_equal(result.bytes, 14 * sizeof(int64_t));
    assert_int_equal(result.rounds, 6);
    for (int rank = 0; rank < 8; rank++)
        assert_int_equal(*(const int64_t *)coll__verifier_output(verifier, rank), 11111111);
    coll__verifier_free(verifier);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_messages)};
    return cmocka_run_group_tests_name("sim/tree_messages", tests, NULL, NULL);
}
