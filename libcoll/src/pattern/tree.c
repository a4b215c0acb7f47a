/* k-nomial trees by digits; see tree.h. */
#include "pattern/tree.h"

#include <stdint.h>

#include "pattern/ring.h"

void coll__tree_knomial(coll__tree_t *tree, int rank, int size, int root, int arity) {
    int place = coll__ring_at(rank, -root, size);
    tree->parent = -1;
    tree->child_count = 0;
    for (int64_t weight = 1; weight < size; weight *= arity) {
        int digit = (int)(place / weight % arity);
        if (digit != 0) {
            tree->parent = coll__ring_at(place - digit * (int)weight, root, size);
            return;
        }
        for (int64_t child = place + weight; child < place + arity * weight && child < size; child += weight)
            tree->children[tree->child_count++] = coll__ring_at((int)child, root, size);
    }
}

int coll__tree_span(int place, int size, int arity) {
    int64_t weight = 1;
    while (weight < size && place / weight % arity == 0)
        weight *= arity;
    return weight < size - place ? (int)weight : size - place;
}

int coll__tree_depth(int size, int arity) {
    int depth = 0;
    int64_t first = 1; /* the first place whose `depth + 1` lowest digits are not zero: 1, 11, 111, ... in base arity */
    while (first < size) {
        depth++;
        first = first * arity + 1;
    }
    return depth;
}
