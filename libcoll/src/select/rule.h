/* One rule and its grammar; see select.h. */
#ifndef COLL__RULE_H
#define COLL__RULE_H

#include "algo/algo.h"

typedef struct coll__span {
    size_t low, high; /* both included; SIZE_MAX is "inf" */
} coll__span_t;

enum { COLL__RULE_TEXT = 160 };

typedef struct coll__rule {
    coll_operation_t operation;
    coll__span_t bytes, ranks, nodes;
    const coll__algo_t *algo;
    char text[COLL__RULE_TEXT]; /* as written, without blanks around it */
    char source[96];            /* where it was written, cut short if long: "COLL_TUNE", "FILE line 3", "built-in" */
} coll__rule_t;

/* Parses `length` characters of `text`, which are not all blanks. COLL_ERR_CONFIG names `source` (the variable, or file
 * and line), the rule, and what is allowed. */
int coll__rule_parse(const char *text, size_t length, const char *source, coll__rule_t *rule);

bool coll__rule_fits(const coll__rule_t *rule, const coll__plan_t *plan);

#endif
