/* Reduce up a k-nomial tree: what the rows binomial and knomial share. */
#ifndef COLL__REDUCE_TREE_H
#define COLL__REDUCE_TREE_H

#include "sched/sched.h"

void coll__reduce_tree_build(const coll__plan_t *plan, coll__builder_t *builder, int arity);
uint64_t coll__reduce_tree_rounds(const coll__plan_t *plan, int arity);
uint64_t coll__reduce_tree_messages(const coll__plan_t *plan);

#endif
