/* The table of algorithms as an array. */
#include "algo/algo.h"

#include "algo/algo_table.h"
#include "topo/topo.h"

#include <string.h>

static const coll__algo_t *const table[] = {
#define COLL__ALGO_ROW(operation, name) &coll__##operation##_##name,
    COLL__ALGO_TABLE(COLL__ALGO_ROW)
#undef COLL__ALGO_ROW
};

size_t coll__algo_count(void) {
    return sizeof table / sizeof table[0];
}

const coll__algo_t *coll__algo_get(size_t index) {
    return index < coll__algo_count() ? table[index] : NULL;
}

size_t coll__algo_index(const coll__algo_t *algo) {
    size_t index = 0;
    while (index < coll__algo_count() && table[index] != algo)
        index++;
    return index;
}

const coll__algo_t *coll__algo_find(coll_operation_t operation, const char *name) {
    for (size_t i = 0; i < coll__algo_count(); i++)
        if (table[i]->operation == operation && strcmp(table[i]->name, name) == 0)
            return table[i];
    return NULL;
}

int coll__plan_node_count(const coll__plan_t *plan) {
    return plan->topo->node_count;
}
