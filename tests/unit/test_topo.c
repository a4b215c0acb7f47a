/* Topologies from labels: numbering, leaders, order, and the two summaries. */
#include "topo/topo.h"

#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static coll__topo_t *make(const int *labels, int size) {
    coll__topo_t *topo = NULL;
    assert_int_equal(coll__topo_create(labels, size, &topo), 0);
    assert_int_equal(topo->size, size);
    return topo;
}

/* What holds for every topology. */
static void check(const coll__topo_t *topo, const int *labels) {
    int seen = 0;
    assert_int_equal(topo->first[0], 0);
    for (int node = 0; node < topo->node_count; node++) {
        assert_int_equal(topo->first[node + 1] - topo->first[node], topo->node_size[node]);
        assert_true(topo->node_size[node] > 0);
        for (int local = 0; local < topo->node_size[node]; local++, seen++) {
            int rank = topo->members[topo->first[node] + local];
            assert_int_equal(topo->node_of[rank], node);
            assert_int_equal(topo->local_of[rank], local);
            assert_int_equal(labels[rank], labels[topo->members[topo->first[node]]]);
            assert_true(local == 0 || topo->members[topo->first[node] + local - 1] < rank);
        }
        /* Numbered by lowest rank, hence no label on two nodes either. */
        assert_true(node == 0 || topo->members[topo->first[node - 1]] < topo->members[topo->first[node]]);
        for (int other = 0; other < node; other++)
            assert_int_not_equal(labels[topo->members[topo->first[other]]], labels[topo->members[topo->first[node]]]);
    }
    assert_int_equal(seen, topo->size);
}

static void test_round_robin(void **state) {
    (void)state;
    const int labels[] = {7, -3, 7, -3, 7, -3};
    coll__topo_t *topo = make(labels, 6);
    check(topo, labels);
    assert_int_equal(topo->node_count, 2);
    assert_int_equal(topo->node_of[0], 0);
    assert_int_equal(topo->node_of[1], 1);
    assert_int_equal(topo->local_of[5], 2);
    assert_false(topo->contiguous);
    assert_true(topo->uniform);
    coll__topo_free(topo);
}

static void test_uneven_blocks(void **state) {
    (void)state;
    const int labels[] = {INT_MAX, INT_MAX, INT_MAX, INT_MAX, 0, 0, INT_MIN};
    coll__topo_t *topo = make(labels, 7);
    check(topo, labels);
    assert_int_equal(topo->node_count, 3);
    assert_int_equal(topo->node_size[0], 4);
    assert_int_equal(topo->members[topo->first[2]], 6);
    assert_true(topo->contiguous);
    assert_false(topo->uniform);
    coll__topo_free(topo);
}

static void test_extremes(void **state) {
    (void)state;
    int same[33] = {0}, all[33];
    for (int rank = 0; rank < 33; rank++)
        all[rank] = 100 - rank;
    coll__topo_t *one = make(same, 33), *each = make(all, 33), *alone = make(all, 1);
    check(one, same);
    check(each, all);
    check(alone, all);
    assert_int_equal(one->node_count, 1);
    assert_int_equal(each->node_count, 33);
    assert_true(one->contiguous && one->uniform && each->contiguous && each->uniform);
    assert_true(alone->contiguous && alone->uniform);
    coll__topo_free(one);
    coll__topo_free(each);
    coll__topo_free(alone);
    coll__topo_free(NULL);
}

static void test_many_random(void **state) {
    (void)state;
    unsigned random = 12345;
    for (int trial = 0; trial < 300; trial++) {
        int labels[64], size = 1 + trial % 64;
        for (int rank = 0; rank < size; rank++) {
            random = random * 1103515245U + 12345U;
            labels[rank] = (int)(random >> 16) % (1 + trial % 9);
        }
        coll__topo_t *topo = make(labels, size);
        check(topo, labels);
        coll__topo_free(topo);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_robin),
        cmocka_unit_test(test_uneven_blocks),
        cmocka_unit_test(test_extremes),
        cmocka_unit_test(test_many_random),
    };
    return cmocka_run_group_tests_name("topo", tests, NULL, NULL);
}
