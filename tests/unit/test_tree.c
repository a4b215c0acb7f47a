/* k-nomial trees: one tree that reaches every rank, for every root and arity, and what the comments in tree.h promise.
 */
#include "pattern/tree.h"

#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

#include <cmocka.h>

enum { LARGEST = 70 };

/* Follows the tree down from a place; returns the depth below it and marks what it reaches. */
static int walk(int place, int size, int root, int arity, bool *seen, int *reached) {
    coll__tree_t tree;
    int rank = (place + root) % size, depth = 0, subtree = 1, next = place + 1;
    coll__tree_knomial(&tree, rank, size, root, arity);
    assert_false(seen[rank]);
    seen[rank] = true;
    for (int i = 0; i < tree.child_count; i++) {
        coll__tree_t child;
        int child_place = (tree.children[i] - root + size) % size, below;
        coll__tree_knomial(&child, tree.children[i], size, root, arity);
        assert_int_equal(child.parent, rank);
        assert_int_equal(child_place, next); /* where the child before has ended */
        int deep = 1 + walk(child_place, size, root, arity, seen, &below);
        depth = deep > depth ? deep : depth;
        subtree += below;
        next += below;
    }
    assert_int_equal(subtree, coll__tree_span(place, size, arity));
    *reached = subtree;
    return depth;
}

static void test_every_tree(void **state) {
    (void)state;
    static const int arities[] = {2, 3, 4, 5, 8, 64};
    for (size_t i = 0; i < sizeof arities / sizeof arities[0]; i++)
        for (int size = 1; size <= LARGEST; size++)
            for (int root = 0; root < size; root++) {
                bool seen[LARGEST] = {false};
                int reached;
                coll__tree_t top;
                coll__tree_knomial(&top, root, size, root, arities[i]);
                assert_int_equal(top.parent, -1);
                int depth = walk(0, size, root, arities[i], seen, &reached);
                assert_int_equal(reached, size);
                assert_int_equal(depth, coll__tree_depth(size, arities[i]));
            }
}

static void test_binomial_of_eight(void **state) {
    (void)state;
    coll__tree_t tree;
    coll__tree_knomial(&tree, 0, 8, 0, 2);
    assert_int_equal(tree.child_count, 3);
    assert_int_equal(tree.children[0], 1);
    assert_int_equal(tree.children[1], 2);
    assert_int_equal(tree.children[2], 4);
    coll__tree_knomial(&tree, 7, 8, 0, 2);
    assert_int_equal(tree.child_count, 0);
    assert_int_equal(tree.parent, 6);
    coll__tree_knomial(&tree, 1, 8, 3, 2); /* place 6 */
    assert_int_equal(tree.parent, 7);
    assert_int_equal(tree.child_count, 1);
    assert_int_equal(tree.children[0], 2);
}

/* No int overflows, and the table of children is large enough. */
static void test_largest(void **state) {
    (void)state;
    for (int arity = 2; arity <= COLL__TREE_ARITY_MAX; arity++) {
        coll__tree_t tree;
        coll__tree_knomial(&tree, 5, INT_MAX, 5, arity);
        assert_true(tree.child_count <= COLL__TREE_CHILDREN);
        coll__tree_knomial(&tree, 4, INT_MAX, 5, arity);
        assert_true(tree.parent >= 0);
        assert_true(coll__tree_depth(INT_MAX, arity) <= 30);
        assert_int_equal(coll__tree_span(0, INT_MAX, arity), INT_MAX);
        assert_int_equal(coll__tree_span(INT_MAX - 1, INT_MAX, arity), 1);
    }
    assert_int_equal(coll__tree_depth(INT_MAX, 2), 30);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_tree),
        cmocka_unit_test(test_binomial_of_eight),
        cmocka_unit_test(test_largest),
    };
    return cmocka_run_group_tests_name("tree", tests, NULL, NULL);
}
