/* The parser of one rule: operation : [bytes] : [ranks=range] : [nodes=range] : algorithm. */
#include "select/rule.h"

#include "base/env.h"
#include "base/error.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { NAMES_TEXT = 512, MAX_PARTS = 5 };

#define GRAMMAR "operation:bytes:ranks=range:nodes=range:algorithm"

static int failed(const coll__rule_t *rule, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Every error begins in the same way. */
static int failed(const coll__rule_t *rule, const char *format, ...) {
    char what[NAMES_TEXT + 256];
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    return coll__error(COLL_ERR_CONFIG, "%s: rule \"%s\": %s", rule->source, rule->text, what);
}

static bool has_algorithms(coll_operation_t operation) {
    for (size_t i = 0; i < coll__algo_count(); i++)
        if (coll__algo_get(i)->operation == operation)
            return true;
    return false;
}

static void append_name(char *names, const char *name) {
    size_t length = strlen(names);
    snprintf(names + length, NAMES_TEXT - length, "%s%s", length ? ", " : "", name);
}

static int parse_operation(coll__rule_t *rule, const char *name) {
    char names[NAMES_TEXT] = "";
    for (int i = 0; i < COLL_OPERATION_COUNT; i++) {
        coll_operation_t operation = (coll_operation_t)i;
        if (!has_algorithms(operation))
            continue;
        if (strcmp(name, coll_operation_name(operation)) == 0) {
            rule->operation = operation;
            return 0;
        }
        append_name(names, coll_operation_name(operation));
    }
    return failed(rule, "there is no operation \"%s\"; allowed are %s", name, names);
}

static int parse_algorithm(coll__rule_t *rule, const char *name) {
    rule->algo = coll__algo_find(rule->operation, name);
    if (rule->algo)
        return 0;
    char names[NAMES_TEXT] = "";
    for (size_t i = 0; i < coll__algo_count(); i++)
        if (coll__algo_get(i)->operation == rule->operation)
            append_name(names, coll__algo_get(i)->name);
    return failed(rule, "%s has no algorithm \"%s\"; allowed are %s", coll_operation_name(rule->operation), name,
                  names);
}

/* "64k-inf", "8-64" or "8". */
static bool parse_span(const char *text, coll__span_t *span) {
    size_t used = coll__parse_bytes(text, &span->low);
    if (used == 0)
        return false;
    text += used;
    span->high = span->low;
    if (*text == '-') {
        text++;
        used = coll__parse_bytes(text, &span->high);
        if (used == 0)
            return false;
        text += used;
    }
    return *text == 0 && span->low <= span->high;
}

/* A middle part of the rule. Each kind may come once, in the order of the grammar; `next` is the first kind still
 * allowed. */
static int parse_condition(coll__rule_t *rule, const char *part, int *next) {
    static const char *const prefixes[] = {"", "ranks=", "nodes="};
    coll__span_t *const spans[] = {&rule->bytes, &rule->ranks, &rule->nodes};
    int kind = strncmp(part, "ranks=", 6) == 0 ? 1 : strncmp(part, "nodes=", 6) == 0 ? 2 : 0;
    if (kind < *next)
        return failed(rule, "\"%s\" is out of place; a rule is " GRAMMAR, part);
    if (!parse_span(part + strlen(prefixes[kind]), spans[kind]))
        return failed(rule, "\"%s\" is not a range; allowed are ranges like %s64k-inf or %s8-64 and numbers like %s8",
                      part, prefixes[kind], prefixes[kind], prefixes[kind]);
    *next = kind + 1;
    return 0;
}

/* Cuts off blanks at both ends. */
static char *trim(char *text) {
    while (isspace((unsigned char)*text))
        text++;
    size_t length = strlen(text);
    while (length > 0 && isspace((unsigned char)text[length - 1]))
        length--;
    text[length] = 0;
    return text;
}

/* Splits at ':'; returns the number of parts, MAX_PARTS + 1 if there are more. */
static int split(char *text, char *parts[MAX_PARTS]) {
    int count = 0;
    for (char *part = text; part; count++) {
        char *colon = strchr(part, ':');
        if (count == MAX_PARTS)
            return MAX_PARTS + 1;
        if (colon)
            *colon = 0;
        parts[count] = trim(part);
        part = colon ? colon + 1 : NULL;
    }
    return count;
}

int coll__rule_parse(const char *text, size_t length, const char *source, coll__rule_t *rule) {
    static const coll__span_t any = {0, SIZE_MAX};
    char copy[COLL__RULE_TEXT];
    *rule = (coll__rule_t){.bytes = any, .ranks = any, .nodes = any};
    snprintf(rule->source, sizeof rule->source, "%s", source);

    for (; length > 0 && isspace((unsigned char)*text); text++)
        length--;
    while (length > 0 && isspace((unsigned char)text[length - 1]))
        length--;
    bool fits = length < sizeof copy;
    snprintf(rule->text, sizeof rule->text, "%.*s", (int)(fits ? length : sizeof copy - 1), text);
    if (!fits)
        return failed(rule, "longer than %zu characters", sizeof copy - 1);
    memcpy(copy, rule->text, sizeof copy);

    char *parts[MAX_PARTS];
    int count = split(copy, parts);
    if (count < 2 || count > MAX_PARTS)
        return failed(rule, "%s parts; a rule is " GRAMMAR ", where what lies between may be left out",
                      count < 2 ? "too few" : "too many");
    int status = parse_operation(rule, parts[0]);
    for (int i = 1, next = 0; i < count - 1 && status == 0; i++)
        if (parts[i][0] != 0)
            status = parse_condition(rule, parts[i], &next);
    return status ? status : parse_algorithm(rule, parts[count - 1]);
}

static bool within(coll__span_t span, size_t value) {
    return span.low <= value && value <= span.high;
}

bool coll__rule_fits(const coll__rule_t *rule, const coll__plan_t *plan) {
    return rule->operation == plan->operation && within(rule->bytes, plan->count * plan->element) &&
           within(rule->ranks, (size_t)plan->size) && within(rule->nodes, (size_t)coll__plan_node_count(plan));
}
