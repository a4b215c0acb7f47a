/* What an algorithm is: a row of algo_table.h, given as this descriptor. */
#ifndef COLL__ALGO_H
#define COLL__ALGO_H

#include "sched/sched.h"

typedef struct coll__algo {
    coll_operation_t operation;
    const char *name;         /* unique within the operation */
    const char *summary;      /* one line */
    const char *restrictions; /* in words, "" for none */
    const char *rounds_text;  /* closed forms as readers see them; P ranks, n bytes */
    const char *bytes_text;
    const char *source;                        /* the paper */
    bool ordered;                              /* folds strictly in rank order: ((x0 op x1) op x2) ... */
    bool baseline;                             /* for comparison only, never selected unless forced */
    bool (*applies)(const coll__plan_t *plan); /* NULL: always */
    coll__build_fn build;
    /* Closed forms that the simulator holds the schedules to, exactly: the longest chain of messages, and of all ranks
     * together the messages and payload bytes sent. */
    uint64_t (*rounds)(const coll__plan_t *plan);
    uint64_t (*messages)(const coll__plan_t *plan);
    uint64_t (*bytes)(const coll__plan_t *plan);
} coll__algo_t;

/* The table, in order; index is what coll_algo_get() takes. */
size_t coll__algo_count(void);
const coll__algo_t *coll__algo_get(size_t index);
size_t coll__algo_index(const coll__algo_t *algo);
const coll__algo_t *coll__algo_find(coll_operation_t operation, const char *name); /* NULL: no such row */

/* For those who may not look into the topology themselves. */
int coll__plan_node_count(const coll__plan_t *plan);

#endif
