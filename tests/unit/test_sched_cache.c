/* The schedule cache: found again, told apart, given up oldest first and never while in use. */
#include "sched/sched.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static int builds;
static coll__sched_cache_t *cache;

/* A schedule that shows what it was built from. */
static void build(const coll__plan_t *plan, coll__builder_t *builder) {
    builds++;
    coll__build_scratch(builder, 64 * (size_t)plan->root);
    for (size_t i = 0; i < plan->count; i++)
        coll__build_send(builder, (int)i, coll__ref(COLL__BUF_SEND, 0), plan->element);
}

static void build_other(const coll__plan_t *plan, coll__builder_t *builder) {
    build(plan, builder);
    coll__build_round(builder);
    coll__build_recv(builder, 0, coll__ref(COLL__BUF_RECV, 0), 1);
}

static coll__plan_t plan_of(size_t count) {
    return (coll__plan_t){.operation = COLL_OP_ALLREDUCE, .size = 4, .count = count, .element = 8, .arity = 2};
}

static const coll__sched_t *get(coll__build_fn fn, coll__plan_t plan) {
    const coll__sched_t *sched = NULL;
    assert_int_equal(coll__sched_cache_get(cache, fn, &plan, &sched), 0);
    return sched;
}

static void get_and_release(size_t count) {
    coll__sched_cache_release(cache, get(build, plan_of(count)));
}

static int set_up(void **state) {
    (void)state;
    builds = 0;
    cache = coll__sched_cache_create(3);
    return cache ? 0 : -1;
}

static int tear_down(void **state) {
    (void)state;
    coll__sched_cache_free(cache);
    return 0;
}

static void test_found_again(void **state) {
    (void)state;
    const coll__sched_t *first = get(build, plan_of(2));
    assert_int_equal(first->step_count, 2);
    assert_int_equal(first->steps[1].peer, 1);
    const coll__sched_t *other = get(build, plan_of(3));
    assert_int_equal(builds, 2);
    assert_ptr_equal(get(build, plan_of(2)), first);
    assert_ptr_equal(get(build, plan_of(2)), first); /* now by the short way */
    assert_ptr_equal(get(build, plan_of(3)), other);
    assert_int_equal(builds, 2);
}

/* Each member that a schedule may depend on makes another entry. */
static void test_told_apart(void **state) {
    (void)state;
    coll__plan_t plan = plan_of(1);
    const coll__sched_t *base = get(build, plan);
    coll__plan_t plans[11];
    for (size_t i = 0; i < sizeof plans / sizeof plans[0]; i++)
        plans[i] = plan;
    plans[0].operation = COLL_OP_REDUCE;
    plans[1].dtype = COLL_INT8;
    plans[2].op = COLL_MAX;
    plans[3].commutative = true;
    plans[4].rank = 1;
    plans[5].size = 5;
    plans[6].root = 1;
    plans[7].count = 2;
    plans[8].element = 4;
    plans[9].in_place = true;
    plans[10].arity = 3;
    for (size_t i = 0; i < sizeof plans / sizeof plans[0]; i++) {
        assert_ptr_not_equal(get(build, plans[i]), base);
        assert_int_equal(builds, 2 + (int)i);
    }
    const coll__sched_t *other = get(build_other, plan);
    assert_ptr_not_equal(other, base);
    assert_int_equal(other->step_count, 2);
    assert_int_equal(other->round_count, 2);
    assert_ptr_equal(get(build, plan), base);
}

static void test_oldest_gives_way(void **state) {
    (void)state;
    get_and_release(1);
    get_and_release(2);
    get_and_release(3);
    get_and_release(1); /* 2 is now the oldest */
    assert_int_equal(builds, 3);
    get_and_release(4); /* instead of 2 */
    assert_int_equal(builds, 4);
    get_and_release(1);
    get_and_release(3);
    get_and_release(4);
    assert_int_equal(builds, 4);
    get_and_release(2); /* instead of 1 */
    get_and_release(3);
    assert_int_equal(builds, 5);
    get_and_release(1);
    assert_int_equal(builds, 6);
}

/* More in use than the capacity: all stay valid, and are given up later. */
static void test_used_ones_stay(void **state) {
    (void)state;
    const coll__sched_t *held[6];
    for (size_t i = 0; i < 6; i++)
        held[i] = get(build, plan_of(i + 1));
    for (size_t i = 0; i < 6; i++) {
        assert_int_equal(held[i]->step_count, i + 1);
        assert_ptr_equal(get(build, plan_of(i + 1)), held[i]);
        coll__sched_cache_release(cache, held[i]);
    }
    get_and_release(7); /* each is still held once */
    for (size_t i = 0; i < 6; i++)
        assert_ptr_equal(get(build, plan_of(i + 1)), held[i]);
    assert_int_equal(builds, 7);
    for (size_t i = 0; i < 6; i++) {
        coll__sched_cache_release(cache, held[i]);
        coll__sched_cache_release(cache, held[i]);
    }
    get_and_release(8);
    get_and_release(6);
    get_and_release(5);
    assert_int_equal(builds, 8);
    get_and_release(4); /* went when 8 came */
    assert_int_equal(builds, 9);
}

static void test_nothing_to_free(void **state) {
    (void)state;
    coll__sched_cache_free(NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_found_again, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_told_apart, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_oldest_gives_way, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_used_ones_stay, set_up, tear_down),
        cmocka_unit_test(test_nothing_to_free),
    };
    return cmocka_run_group_tests_name("sched_cache", tests, NULL, NULL);
}
