/* Which ranks of a communicator share a node. Nodes are numbered by their lowest rank, ranks of a node ascend. */
#ifndef COLL__TOPO_H
#define COLL__TOPO_H

#include <stdbool.h>

typedef struct coll__topo {
    int size;
    int node_count;
    int *node_of;    /* [size] node of a rank */
    int *local_of;   /* [size] place of a rank among its node's ranks */
    int *node_size;  /* [node_count] */
    int *first;      /* [node_count + 1] where a node's ranks begin in `members` */
    int *members;    /* [size] ranks, node by node; members[first[n]] is node n's leader */
    bool contiguous; /* every node's ranks are consecutive */
    bool uniform;    /* every node has as many ranks */
} coll__topo_t;

/* From any labels: equal labels, same node. COLL_ERR_MEMORY or 0. */
int coll__topo_create(const int *labels, int size, coll__topo_t **topo);
void coll__topo_free(coll__topo_t *topo);

#endif
