/* The public view of algorithms and schedules. */
#include <coll.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static size_t index_of(coll_operation_t operation, const char *name) {
    coll_algo_info_t info;
    for (size_t i = 0; i < coll_algo_count(); i++)
        if (coll_algo_get(i, &info) == 0 && info.operation == operation && strcmp(info.name, name) == 0)
            return i;
    fail_msg("no algorithm %s", name);
    return 0;
}

static void test_table(void **state) {
    (void)state;
    coll_algo_info_t info;
    assert_int_equal(coll_algo_get(index_of(COLL_OP_ALLREDUCE, "ring"), &info), 0);
    assert_string_equal(info.rounds, "2 (P - 1)");
    assert_string_equal(info.restrictions, "the operator must commute");
    assert_int_equal(info.ordered, 0);
    assert_int_equal(coll_algo_get(index_of(COLL_OP_REDUCE, "linear"), &info), 0);
    assert_int_equal(info.ordered, 1);
    assert_int_equal(coll_algo_get(coll_algo_count(), &info), COLL_ERR_ARG);
    assert_non_null(strstr(coll_error_message(), "allowed are 0 to"));
    assert_int_equal(coll_algo_get(0, NULL), COLL_ERR_ARG);
}

static coll_schedule_t *create(size_t algo, int rank, int size, int root, size_t count) {
    coll_schedule_t *schedule = NULL;
    assert_int_equal(coll_schedule_create(algo, rank, size, root, count, &schedule), 0);
    assert_non_null(schedule);
    return schedule;
}

static void test_steps(void **state) {
    (void)state;
    coll_step_info_t step;
    coll_schedule_t *schedule = create(index_of(COLL_OP_ALLREDUCE, "recursive_doubling"), 1, 2, 0, 4);
    assert_int_equal(coll_schedule_steps(schedule), 3);
    assert_int_equal(coll_schedule_step(schedule, 0, &step), 0);
    assert_string_equal(step.kind, "send");
    assert_int_equal(step.round, 0);
    assert_int_equal(step.peer, 0);
    assert_int_equal(step.bytes, 32);
    assert_string_equal(step.source, "send+0");
    assert_string_equal(step.target, "");
    assert_int_equal(coll_schedule_step(schedule, 1, &step), 0);
    assert_string_equal(step.kind, "recv");
    assert_string_equal(step.source, "");
    assert_string_equal(step.target, "scratch+0");
    assert_int_equal(coll_schedule_step(schedule, 2, &step), 0);
    assert_string_equal(step.kind, "reduce");
    assert_int_equal(step.round, 1);
    assert_int_equal(step.peer, -1);
    assert_string_equal(step.source, "scratch+0"); /* the lower rank's */
    assert_string_equal(step.target, "recv+0");
    assert_int_equal(coll_schedule_step(schedule, 3, &step), COLL_ERR_ARG);
    assert_int_equal(coll_schedule_step(schedule, 0, NULL), COLL_ERR_ARG);
    assert_int_equal(coll_schedule_step(NULL, 0, &step), COLL_ERR_ARG);
    coll_schedule_free(schedule);

    schedule = create(index_of(COLL_OP_ALLREDUCE, "ring"), 0, 1, 0, 4);
    assert_int_equal(coll_schedule_step(schedule, 0, &step), 0);
    assert_string_equal(step.kind, "copy");
    coll_schedule_free(schedule);
    coll_schedule_free(NULL);
    assert_int_equal(coll_schedule_steps(NULL), 0);
}

/* Tree allreduce on 8 ranks, counted from outside. */
static void test_tree_messages(void **state) {
    (void)state;
    size_t sent = 0, at_root = 0;
    for (int rank = 0; rank < 8; rank++) {
        coll_schedule_t *schedule = create(index_of(COLL_OP_ALLREDUCE, "tree"), rank, 8, 0, 1);
        for (size_t i = 0; i < coll_schedule_steps(schedule); i++) {
            coll_step_info_t step;
            assert_int_equal(coll_schedule_step(schedule, i, &step), 0);
            sent += strcmp(step.kind, "send") == 0;
            at_root += rank == 0 && step.peer >= 0;
        }
        coll_schedule_free(schedule);
    }
    assert_int_equal(sent, 14);
    assert_int_equal(at_root, 6);
}

static void test_arity_of_the_environment(void **state) {
    (void)state;
    size_t knomial = index_of(COLL_OP_BROADCAST, "knomial");
    setenv("COLL_ARITY", "8", 1);
    coll_schedule_t *flat = create(knomial, 0, 8, 0, 1);
    assert_int_equal(coll_schedule_steps(flat), 7);
    coll_schedule_free(flat);
    setenv("COLL_ARITY", "1", 1);
    coll_schedule_t *none = NULL;
    assert_int_equal(coll_schedule_create(knomial, 0, 8, 0, 1, &none), COLL_ERR_CONFIG);
    assert_null(none);
    unsetenv("COLL_ARITY");
    coll_schedule_t *binomial = create(knomial, 0, 8, 0, 1);
    assert_int_equal(coll_schedule_steps(binomial), 3);
    coll_schedule_free(binomial);
}

static void assert_refused(size_t algo, int rank, int size, int root, size_t count, const char *part_of_message) {
    coll_schedule_t *schedule = NULL;
    assert_int_equal(coll_schedule_create(algo, rank, size, root, count, &schedule), COLL_ERR_ARG);
    assert_null(schedule);
    if (!strstr(coll_error_message(), part_of_message))
        fail_msg("\"%s\" is without \"%s\"", coll_error_message(), part_of_message);
}

static void test_refused(void **state) {
    (void)state;
    size_t ring = index_of(COLL_OP_ALLREDUCE, "ring");
    assert_refused(coll_algo_count(), 0, 1, 0, 1, "there is no algorithm");
    assert_refused(ring, 0, 0, 0, 1, "size is 0, allowed are 1 to");
    assert_refused(ring, 0, 1 << 21, 0, 1, "size is 2097152");
    assert_refused(ring, 4, 4, 0, 1, "rank is 4, allowed are 0 to 3");
    assert_refused(ring, -1, 4, 0, 1, "rank is -1");
    assert_refused(ring, 0, 4, 4, 1, "root is 4, allowed are 0 to 3");
    assert_refused(ring, 0, 4, 0, SIZE_MAX, "count is");
    assert_refused(index_of(COLL_OP_ALLGATHER, "neighbour_exchange"), 0, 5, 0, 1, "the number of ranks must be even");
    assert_int_equal(coll_schedule_create(ring, 0, 4, 0, 1, NULL), COLL_ERR_ARG);
}

/* Every row can be drawn for the largest counts and many ranks: no size overflows. */
static void test_large(void **state) {
    (void)state;
    for (size_t algo = 0; algo < coll_algo_count(); algo++) {
        coll_algo_info_t info;
        assert_int_equal(coll_algo_get(algo, &info), 0);
        if (strcmp(info.name, "node") == 0)
            assert_refused(algo, 999, 1000, 500, 1, "all ranks on one node"); /* each has its own here */
        else
            coll_schedule_free(create(algo, 999, 1000, 500, (size_t)1 << 40));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_table),         cmocka_unit_test(test_steps),
        cmocka_unit_test(test_tree_messages), cmocka_unit_test(test_arity_of_the_environment),
        cmocka_unit_test(test_refused),       cmocka_unit_test(test_large),
    };
    return cmocka_run_group_tests_name("introspect_algo", tests, NULL, NULL);
}
