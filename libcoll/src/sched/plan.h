/* A plan: everything that an algorithm may look at. Two ranks with the same call have the same plan but for `rank`. */
#ifndef COLL__PLAN_H
#define COLL__PLAN_H

#include <coll.h>
#include <stdbool.h>

struct coll__topo;

typedef struct coll__plan {
    coll_operation_t operation;
    coll_dtype_t dtype;
    coll_op_t op;     /* of reductions; COLL_SUM otherwise */
    bool commutative; /* of op: operands may change places; true where nothing is reduced */
    int rank;
    int size;
    int root;       /* 0 where there is none */
    size_t count;   /* elements; of an allgather: of one rank's contribution */
    size_t element; /* bytes of one element; for MINLOC and MAXLOC of a whole pair, with count in pairs */
    bool in_place;
    bool node; /* all ranks share a node and a channel of its segment */
    int arity;
    const struct coll__topo *topo; /* never NULL */
} coll__plan_t;

#endif
