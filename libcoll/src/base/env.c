/* Reads the environment by the table, and refuses what is wrong, half or contradictory: a job in which one variable was
 * lost must not become many jobs of one rank. */
#include "base/env.h"

#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/env_types.h"
#include "base/error.h"
#include "base/nearest.h"

extern char **environ;

enum variable {
#define INDEX(field, name, type, default_, checked, help) VARIABLE_##field,
    COLL__ENV_TABLE(INDEX)
#undef INDEX
        VARIABLE_COUNT
};

static const struct {
    const char *name, *default_text, *help;
    const coll__env_type_t *type;
    size_t offset; /* of the field in coll__env_t */
} table[VARIABLE_COUNT] = {
#define ROW(field, name, type, default_, checked, help) \
    {name, default_, help, &coll__env_type_##type, offsetof(coll__env_t, field)},
    COLL__ENV_TABLE(ROW)
#undef ROW
};

static const coll__env_limits_t limits[VARIABLE_COUNT] = {
    [VARIABLE_rank] = {-1, INT_MAX},      [VARIABLE_size] = {-1, INT_MAX},         [VARIABLE_port] = {0, 65535},
    [VARIABLE_listen_fd] = {-1, INT_MAX}, [VARIABLE_packet_size] = {256, 1 << 20}, [VARIABLE_npackets] = {2, 4096},
    [VARIABLE_spin_us] = {0, 1000000000}, [VARIABLE_poll_ms] = {1, 1000},          [VARIABLE_timeout] = {0, 1000000000},
    [VARIABLE_arity] = {2, 64},
};

/* Names that other launchers use for the same thing. */
static const char *const aliases[VARIABLE_COUNT] = {
    [VARIABLE_rank] = "RANK",
    [VARIABLE_size] = "WORLD_SIZE",
    [VARIABLE_addr] = "MASTER_ADDR",
    [VARIABLE_port] = "MASTER_PORT",
};

/* ---- one variable ---- */

/* A variable that spells out its default is as good as unset: COLL_RANK=-1 says "not set". */
static bool gives_value(enum variable variable, const char *text) {
    return text != NULL && strcmp(text, table[variable].default_text) != 0;
}

/* The text in force and the name of the variable it came from; *name is NULL where it is the default. */
static const char *text_in_force(enum variable variable, const char **name) {
    const char *own = getenv(table[variable].name);
    const char *alias = aliases[variable] != NULL ? getenv(aliases[variable]) : NULL;
    if (alias != NULL && !gives_value(variable, own)) {
        *name = aliases[variable];
        return alias;
    }
    *name = own != NULL ? table[variable].name : NULL;
    return own != NULL ? own : table[variable].default_text;
}

static int parse(enum variable variable, const char *name, const char *text, void *field) {
    const coll__env_type_t *type = table[variable].type;
    if (type->parse(type, text, limits[variable], field))
        return 0;
    char allowed[256];
    type->allowed(type, limits[variable], allowed, sizeof allowed);
    if (type->secret)
        return coll__error(COLL_ERR_CONFIG, "%s has a value that is not allowed; allowed are %s", name, allowed);
    return coll__error(COLL_ERR_CONFIG, "%s is \"%.200s\", allowed are %s", name, text, allowed);
}

/* COLL_RANK and RANK may both be set, but then to the same. */
static int compare_with_alias(enum variable variable, const void *field) {
    const char *alias = aliases[variable] != NULL ? getenv(aliases[variable]) : NULL;
    if (!gives_value(variable, alias))
        return 0;
    _Alignas(max_align_t) char other[sizeof(coll__env_text)];
    char mine[sizeof other], theirs[sizeof other];
    int status = parse(variable, aliases[variable], alias, other);
    if (status != 0)
        return status;
    const coll__env_type_t *type = table[variable].type;
    type->format(type, field, mine, sizeof mine);
    type->format(type, other, theirs, sizeof theirs);
    if (strcmp(mine, theirs) != 0)
        return coll__error(COLL_ERR_CONFIG, "%s is \"%.200s\" but %s is \"%.200s\"; unset one or make them equal",
                           table[variable].name, mine, aliases[variable], theirs);
    return 0;
}

static int read_variable(enum variable variable, coll__env_t *env) {
    const char *name;
    const char *text = text_in_force(variable, &name);
    void *field = (char *)env + table[variable].offset;
    int status = parse(variable, name != NULL ? name : table[variable].name, text, field);
    return status != 0 ? status : compare_with_alias(variable, field);
}

/* ---- all of them together ---- */

static int check_names(void) {
    static const char prefix[] = "COLL_", tests[] = "COLL_TEST_";
    const char *names[VARIABLE_COUNT];
    for (int i = 0; i < VARIABLE_COUNT; i++)
        names[i] = table[i].name;

    for (char **entry = environ; entry != NULL && *entry != NULL; entry++) {
        if (strncmp(*entry, prefix, sizeof prefix - 1) != 0 || strncmp(*entry, tests, sizeof tests - 1) == 0)
            continue;
        char name[128];
        snprintf(name, sizeof name, "%.*s", (int)strcspn(*entry, "="), *entry);
        const char *nearest = coll__nearest(name, names, VARIABLE_COUNT);
        if (strcmp(nearest, name) != 0)
            return coll__error(COLL_ERR_CONFIG, "there is no variable %s; did you mean %s?", name, nearest);
    }
    return 0;
}

/* Both or neither; `first` and `second` say whether each has a value. */
static int check_pair(enum variable a, bool first, enum variable b, bool second) {
    if (first == second)
        return 0;
    enum variable present = first ? a : b, missing = first ? b : a;
    const char *name;
    text_in_force(present, &name);
    return coll__error(COLL_ERR_CONFIG, "%s is set but neither %s nor %s is; set both of the pair or none", name,
                       table[missing].name, aliases[missing]);
}

/* LOCAL_RANK and LOCAL_WORLD_SIZE are not used, only held against the rest. *value is -1 where the variable is unset.
 */
static int read_local(const char *name, int low, int *value) {
    const char *text = getenv(name);
    *value = -1;
    if (text == NULL)
        return 0;
    const coll__env_limits_t range = {low, INT_MAX};
    if (coll__env_type_int.parse(&coll__env_type_int, text, range, value))
        return 0;
    return coll__error(COLL_ERR_CONFIG, "%s is \"%.200s\", allowed are integers from %d up", name, text, low);
}

static int check_local(int size, const char *size_name) {
    int local_rank, local_size;
    int status = read_local("LOCAL_RANK", 0, &local_rank);
    if (status == 0)
        status = read_local("LOCAL_WORLD_SIZE", 1, &local_size);
    if (status != 0)
        return status;
    if (local_size >= 0 && local_rank >= local_size)
        return coll__error(COLL_ERR_CONFIG, "LOCAL_RANK is %d but LOCAL_WORLD_SIZE is %d; allowed are 0 to %d",
                           local_rank, local_size, local_size - 1);
    if (size > 0 && local_size > size)
        return coll__error(COLL_ERR_CONFIG, "LOCAL_WORLD_SIZE is %d but %s is only %d", local_size, size_name, size);
    if (size > 0 && local_rank >= size)
        return coll__error(COLL_ERR_CONFIG, "LOCAL_RANK is %d but %s is only %d", local_rank, size_name, size);
    return 0;
}

static int check_job(const coll__env_t *env) {
    const char *rank_name, *size_name;
    text_in_force(VARIABLE_rank, &rank_name);
    text_in_force(VARIABLE_size, &size_name);
    if (env->size == 0)
        return coll__error(COLL_ERR_CONFIG, "%s is 0, allowed are integers from 1 up", size_name);
    if (env->size > COLL__MOST_RANKS)
        return coll__error(COLL_ERR_CONFIG, "%s is %d, allowed are at most %d", size_name, env->size, COLL__MOST_RANKS);
    int status = check_pair(VARIABLE_rank, env->rank >= 0, VARIABLE_size, env->size > 0);
    if (status == 0)
        status = check_pair(VARIABLE_addr, env->addr[0] != '\0', VARIABLE_port, env->port > 0);
    if (status != 0)
        return status;
    if (env->rank >= env->size && env->size > 0)
        return coll__error(COLL_ERR_CONFIG, "%s is %d but %s is %d; ranks are 0 to %d", rank_name, env->rank, size_name,
                           env->size, env->size - 1);
    return check_local(env->size, size_name);
}

int coll__env_read(coll__env_t *env) {
    int status = check_names();
    for (int i = 0; i < VARIABLE_COUNT && status == 0; i++)
        status = read_variable((enum variable)i, env);
    return status != 0 ? status : check_job(env);
}

/* ---- introspection ---- */

size_t coll_env_count(void) {
    return VARIABLE_COUNT;
}

int coll_env_get(size_t index, coll_env_info_t *info) {
    if (info == NULL)
        return coll__error(COLL_ERR_ARG, "info is NULL");
    if (index >= VARIABLE_COUNT)
        return coll__error(COLL_ERR_ARG, "index is %zu, allowed are 0 to %d", index, VARIABLE_COUNT - 1);
    const char *name;
    const char *text = text_in_force((enum variable)index, &name);
    *info = (coll_env_info_t){
        .name = table[index].name,
        .type = table[index].type->label,
        .value = table[index].type->secret && text[0] != '\0' ? "(hidden)" : text,
        .default_value = table[index].default_text,
        .source = name != NULL ? "environment" : "default",
        .help = table[index].help,
    };
    return 0;
}
