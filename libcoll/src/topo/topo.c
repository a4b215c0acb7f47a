/* Groups ranks by label: sort by (label, rank), then number the groups by their first rank. */
#include "topo/topo.h"

#include "base/error.h"

#include <stdlib.h>

typedef struct labelled {
    int label, rank;
} labelled_t;

static int compare(const void *a, const void *b) {
    const labelled_t *x = a, *y = b;
    if (x->label != y->label)
        return x->label < y->label ? -1 : 1;
    return x->rank < y->rank ? -1 : x->rank > y->rank;
}

/* leader[rank] becomes the lowest rank with the same label. */
static int find_leaders(const int *labels, int size, int *leader) {
    labelled_t *sorted = malloc((size_t)size * sizeof *sorted);
    if (!sorted)
        return -1;
    for (int rank = 0; rank < size; rank++)
        sorted[rank] = (labelled_t){labels[rank], rank};
    qsort(sorted, (size_t)size, sizeof *sorted, compare);
    int lowest = 0;
    for (int i = 0; i < size; i++) {
        if (i == 0 || sorted[i].label != sorted[i - 1].label)
            lowest = sorted[i].rank;
        leader[sorted[i].rank] = lowest;
    }
    free(sorted);
    return 0;
}

static void number_nodes(coll__topo_t *topo, const int *leader) {
    for (int rank = 0; rank < topo->size; rank++) {
        int node = leader[rank] == rank ? topo->node_count++ : topo->node_of[leader[rank]];
        topo->node_of[rank] = node;
        topo->local_of[rank] = topo->node_size[node]++;
    }
    topo->contiguous = topo->uniform = true;
    for (int node = 0; node < topo->node_count; node++) {
        topo->first[node + 1] = topo->first[node] + topo->node_size[node];
        topo->uniform = topo->uniform && topo->node_size[node] == topo->node_size[0];
    }
    for (int rank = 0; rank < topo->size; rank++) {
        topo->members[topo->first[topo->node_of[rank]] + topo->local_of[rank]] = rank;
        topo->contiguous = topo->contiguous && (rank == 0 || topo->node_of[rank] >= topo->node_of[rank - 1]);
    }
}

int coll__topo_create(const int *labels, int size, coll__topo_t **out) {
    size_t ranks = (size_t)size;
    coll__topo_t *topo = calloc(1, sizeof *topo + (6 * ranks + 1) * sizeof(int)); /* the arrays follow the struct */
    if (!topo)
        return coll__error(COLL_ERR_MEMORY, "out of memory for the topology of %d ranks", size);
    int *leader = (int *)(topo + 1);
    if (find_leaders(labels, size, leader) != 0) {
        free(topo);
        return coll__error(COLL_ERR_MEMORY, "out of memory for the topology of %d ranks", size);
    }
    topo->size = size;
    topo->node_of = leader + ranks;
    topo->local_of = topo->node_of + ranks;
    topo->node_size = topo->local_of + ranks;
    topo->members = topo->node_size + ranks;
    topo->first = topo->members + ranks;
    number_nodes(topo, leader);
    *out = topo;
    return 0;
}

void coll__topo_free(coll__topo_t *topo) {
    free(topo);
}
