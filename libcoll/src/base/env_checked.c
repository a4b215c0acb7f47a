/* The part of the environment that all ranks must agree on, as text: "NAME=value" lines in the table's order. Values
 * are written from what was parsed, so 8k and 8192 are the same. */
#include <stdio.h>
#include <string.h>

#include "base/env.h"
#include "base/env_types.h"

size_t coll__env_checked_text(const coll__env_t *env, char *text, size_t capacity) {
    const struct {
        const char *name;
        const coll__env_type_t *type;
        const void *field;
        int checked;
    } rows[] = {
#define ROW(field, name, type, default_, checked, help) {name, &coll__env_type_##type, &env->field, checked},
        COLL__ENV_TABLE(ROW)
#undef ROW
    };

    size_t length = 0;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (!rows[i].checked)
            continue;
        char value[sizeof(coll__env_text)];
        rows[i].type->format(rows[i].type, rows[i].field, value, sizeof value);
        size_t room = length < capacity ? capacity - length : 0;
        length += (size_t)snprintf(room > 0 ? text + length : NULL, room, "%s=%s\n", rows[i].name, value);
    }
    return length;
}

struct line {
    const char *name, *value;
    int name_length, value_length;
};

/* Takes one line off *text; 0 at its end. */
static int next_line(const char **text, struct line *line) {
    size_t length = strcspn(*text, "\n");
    if (length == 0)
        return 0;
    size_t name_length = 0;
    while (name_length < length && (*text)[name_length] != '=')
        name_length++;
    line->name = *text;
    line->name_length = (int)name_length;
    line->value = *text + name_length + (name_length < length);
    line->value_length = (int)(*text + length - line->value);
    *text += length + ((*text)[length] == '\n');
    return 1;
}

static int same(const char *a, int a_length, const char *b, int b_length) {
    return a_length == b_length && memcmp(a, b, (size_t)a_length) == 0;
}

static int find_line(const char *text, const struct line *wanted, struct line *found) {
    while (next_line(&text, found)) {
        if (same(found->name, found->name_length, wanted->name, wanted->name_length))
            return 1;
    }
    return 0;
}

int coll__env_checked_differ(const char *mine, const char *theirs, char *what, size_t capacity) {
    struct line here, there;
    for (const char *rest = mine; next_line(&rest, &here);) {
        if (!find_line(theirs, &here, &there)) {
            snprintf(what, capacity, "%.*s is \"%.*s\" here and not known there", here.name_length, here.name,
                     here.value_length, here.value);
            return 1;
        }
        if (!same(here.value, here.value_length, there.value, there.value_length)) {
            snprintf(what, capacity, "%.*s is \"%.*s\" here and \"%.*s\" there", here.name_length, here.name,
                     here.value_length, here.value, there.value_length, there.value);
            return 1;
        }
    }
    for (const char *rest = theirs; next_line(&rest, &there);) {
        if (!find_line(mine, &there, &here)) {
            snprintf(what, capacity, "%.*s is \"%.*s\" there and not known here", there.name_length, there.name,
                     there.value_length, there.value);
            return 1;
        }
    }
    return 0;
}
