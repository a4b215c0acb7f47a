/* The list of rules and the choice among them. */
#include "select/select.h"

#include "base/error.h"
#include "select/builtin_rules.h"
#include "select/rule.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct coll__rules {
    coll__rule_t *rules; /* in order of precedence; the built-in ones last */
    size_t count, capacity, builtin;
};

static bool is_blank(const char *text, size_t length) {
    return strspn(text, " \t\r\n\f\v") >= length;
}

static int add(coll__rules_t *rules, const char *text, size_t length, const char *source) {
    if (is_blank(text, length))
        return 0;
    if (rules->count == rules->capacity) {
        size_t capacity = rules->capacity ? 2 * rules->capacity : 64;
        coll__rule_t *grown = realloc(rules->rules, capacity * sizeof *grown);
        if (!grown)
            return coll__error(COLL_ERR_MEMORY, "out of memory for %zu tuning rules", capacity);
        rules->rules = grown;
        rules->capacity = capacity;
    }
    int status = coll__rule_parse(text, length, source, &rules->rules[rules->count]);
    rules->count += status == 0;
    return status;
}

static int add_variable(coll__rules_t *rules, const char *text) {
    int status = 0;
    while (status == 0 && *text) {
        size_t length = strcspn(text, ",;");
        status = add(rules, text, length, "COLL_TUNE");
        text += length + (text[length] != 0);
    }
    return status;
}

static int add_file(coll__rules_t *rules, const char *path) {
    struct stat kind;
    if (stat(path, &kind) == 0 && !S_ISREG(kind.st_mode) && !S_ISDIR(kind.st_mode)) /* that might never end */
        return coll__error(COLL_ERR_CONFIG, "COLL_TUNE_FILE: %s is a device or a pipe, allowed is a file", path);
    FILE *file = fopen(path, "re");
    if (!file)
        return coll__error(COLL_ERR_CONFIG, "COLL_TUNE_FILE: %s cannot be read: %s", path, strerror(errno));
    char *line = NULL;
    size_t room = 0;
    int status = 0;
    ssize_t got;
    for (int number = 1; status == 0 && (got = getline(&line, &room, file)) >= 0; number++) {
        /* Of a long path the end tells more than the beginning. */
        size_t length = strlen(path), shown = 50;
        char source[96];
        snprintf(source, sizeof source, "COLL_TUNE_FILE %s%s line %d", length > shown ? "..." : "",
                 length > shown ? path + length - shown : path, number);
        status = strlen(line) == (size_t)got
                     ? add(rules, line, strcspn(line, "#\n"), source)
                     : coll__error(COLL_ERR_CONFIG, "%s: has a byte 0; allowed is text", source);
    }
    if (status == 0 && ferror(file))
        status = coll__error(COLL_ERR_CONFIG, "COLL_TUNE_FILE: %s cannot be read: %s", path, strerror(errno));
    free(line);
    fclose(file);
    return status;
}

static int add_builtin(coll__rules_t *rules) {
    int status = 0;
    rules->builtin = rules->count;
    for (size_t i = 0; status == 0 && i < sizeof coll__builtin_rules / sizeof coll__builtin_rules[0]; i++)
        status = add(rules, coll__builtin_rules[i], strlen(coll__builtin_rules[i]), "built-in rules");
    return status;
}

int coll__rules_create(const char *tune, const char *file, coll__rules_t **out) {
    coll__rules_t *rules = calloc(1, sizeof *rules);
    if (!rules)
        return coll__error(COLL_ERR_MEMORY, "out of memory for the tuning rules");
    int status = add_variable(rules, tune);
    if (status == 0 && *file)
        status = add_file(rules, file);
    if (status == 0)
        status = add_builtin(rules);
    if (status != 0) {
        coll__rules_free(rules);
        return status;
    }
    *out = rules;
    return 0;
}

void coll__rules_free(coll__rules_t *rules) {
    if (rules)
        free(rules->rules);
    free(rules);
}

/* FNV-1a over what decides, not over where it was written. */
static uint64_t hash_bytes(uint64_t hash, const void *data, size_t length) {
    const unsigned char *bytes = data;
    for (size_t i = 0; i < length; i++)
        hash = (hash ^ bytes[i]) * UINT64_C(0x100000001b3);
    return hash;
}

static uint64_t hash_number(uint64_t hash, uint64_t number) {
    unsigned char bytes[8];
    for (int i = 0; i < 8; i++)
        bytes[i] = (unsigned char)(number >> 8 * i);
    return hash_bytes(hash, bytes, sizeof bytes);
}

static uint64_t hash_span(uint64_t hash, coll__span_t span) {
    return hash_number(hash_number(hash, span.low), span.high);
}

uint64_t coll__rules_hash(const coll__rules_t *rules) {
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < rules->count; i++) {
        const coll__rule_t *rule = &rules->rules[i];
        hash = hash_number(hash, (uint64_t)rule->operation);
        hash = hash_span(hash_span(hash_span(hash, rule->bytes), rule->ranks), rule->nodes);
        hash = hash_bytes(hash, rule->algo->name, strlen(rule->algo->name) + 1);
    }
    return hash;
}

static bool is_reduction(coll_operation_t operation) {
    return operation == COLL_OP_REDUCE || operation == COLL_OP_ALLREDUCE;
}

/* What stands against an algorithm for the plan; NULL if nothing does. */
static const char *objection(const coll__algo_t *algo, const coll__plan_t *plan, bool deterministic) {
    if (algo->applies && !algo->applies(plan))
        return algo->restrictions;
    if (deterministic && is_reduction(plan->operation) && !algo->ordered)
        return "COLL_DETERMINISTIC=1 demands a fold in rank order";
    return NULL;
}

static int refuse(const coll__rule_t *rule, const coll__plan_t *plan, const char *reason) {
    return coll__error(COLL_ERR_CONFIG,
                       "%s: rule \"%s\" fits this %s of %zu bytes on %d ranks, but %s cannot run it: %s", rule->source,
                       rule->text, coll_operation_name(plan->operation), plan->count * plan->element, plan->size,
                       rule->algo->name, reason);
}

int coll__select(const coll__rules_t *rules, const coll__plan_t *plan, bool deterministic, const coll__algo_t **algo,
                 char *why, size_t why_bytes) {
    for (size_t i = 0; i < rules->count; i++) {
        const coll__rule_t *rule = &rules->rules[i];
        if (!coll__rule_fits(rule, plan))
            continue;
        const char *reason = objection(rule->algo, plan, deterministic);
        if (reason && i < rules->builtin)
            return refuse(rule, plan, reason);
        if (reason)
            continue;
        *algo = rule->algo;
        if (why && why_bytes)
            snprintf(why, why_bytes, "%s, by the rule \"%s\" of %s", rule->algo->name, rule->text, rule->source);
        return 0;
    }
    return coll__error(COLL_ERR_INTERNAL, "no rule fits this %s of %zu bytes on %d ranks",
                       coll_operation_name(plan->operation), plan->count * plan->element, plan->size);
}
