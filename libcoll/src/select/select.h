/* Which algorithm runs. A decision depends on nothing but the plan (without rank), the topology and rules that are
 * equal on every rank.
 *
 * Grammar of a rule, in COLL_TUNE separated by ',' or ';' and in COLL_TUNE_FILE one a line ('#' begins a comment):
 *
 *     operation : [bytes] : [ranks=range] : [nodes=range] : algorithm
 *
 * where empty or missing middle parts mean "any", a range is "64k-inf", "8-64" or a single number, ends included, bytes
 * are those of the plan (count x element), and "algorithm" is a row of the algorithm table. The first rule that fits
 * wins: COLL_TUNE, then the file, then the built-in rules.
 */
#ifndef COLL__SELECT_H
#define COLL__SELECT_H

#include "algo/algo.h"

typedef struct coll__rules coll__rules_t;

/* COLL_ERR_CONFIG names the variable or file and line, the rule, and what is allowed. `file` may be "" . */
int coll__rules_create(const char *tune, const char *file, coll__rules_t **rules);
void coll__rules_free(coll__rules_t *rules);

/* A hash of the rules, to be compared between ranks at init. */
uint64_t coll__rules_hash(const coll__rules_t *rules);

/* The algorithm for the plan; `why` (may be NULL) gets a sentence: the rule that chose it, with its source.
 * deterministic: reductions take ordered rows only. A forced algorithm that does not apply to the plan is
 * COLL_ERR_CONFIG with the reason (never silently another one). */
int coll__select(const coll__rules_t *rules, const coll__plan_t *plan, bool deterministic, const coll__algo_t **algo,
                 char *why, size_t why_bytes);

#endif
