/* Every row of the algorithm table through the verifier: ranks x lengths x roots x in place, the results against a
 * reference computed directly from the inputs, rounds, messages and bytes against the row's closed forms. */
#ifndef COLL__TEST_SWEEP_H
#define COLL__TEST_SWEEP_H

#include "algo/algo.h"

/* P = 1 .. 64, lengths 0, 1, P - 1, P, 1000, every root; and a few large P. `chosen` says which rows (NULL: all of the
 * operation). Fails the cmocka test with a full description at the first fault. Returns the number of runs. */
size_t coll__sweep(coll_operation_t operation, bool (*chosen)(const coll__algo_t *algo));

/* One case, in place and not. */
void coll__sweep_case(const coll__algo_t *algo, int size, size_t count, int root);

#endif
