/* k-nomial trees, rotated to any root; arity 2 is the binomial tree.
 *
 * Write a rank's place (counted from the root, round the ring) in base `arity`. Its parent has the lowest digit that is
 * not zero set to zero; its children set one of the zeros below that digit to 1 .. arity - 1. The subtree under a place
 * is the `span` consecutive places that begin with it, which is what keeps folds in order and scatters contiguous.
 */
#ifndef COLL__TREE_H
#define COLL__TREE_H

enum {
    COLL__TREE_ARITY_MAX = 64,
    COLL__TREE_CHILDREN = 378 /* 63 for each of the 6 digits in base 64 that an int has; less for every other arity */
};

typedef struct coll__tree {
    int parent; /* -1 at the root */
    int child_count;
    int children[COLL__TREE_CHILDREN]; /* by place, so that subtrees do not shrink */
} coll__tree_t;

/* 2 <= arity <= COLL__TREE_ARITY_MAX. */
void coll__tree_knomial(coll__tree_t *tree, int rank, int size, int root, int arity);

/* How many places are in the subtree under `place`, itself included. */
int coll__tree_span(int place, int size, int arity);

/* Edges on the longest way from the root. */
int coll__tree_depth(int size, int arity);

#endif
