/* The field types of the environment table: how a value is read, which are allowed, how it is written back. */
#ifndef COLL__ENV_TYPES_H
#define COLL__ENV_TYPES_H

#include <stdbool.h>
#include <stddef.h>

/* Smallest and largest value of a number; other types do not look at it. */
typedef struct coll__env_limits {
    long long low, high;
} coll__env_limits_t;

typedef struct coll__env_type {
    const char *label; /* for people: "seconds", "auto|shm|ofi" */
    const char *const *choices;
    size_t choice_count;
    /* Whole text or nothing: no spaces around it, nothing after it. `field` is the coll__env_... object. */
    bool (*parse)(const struct coll__env_type *type, const char *text, coll__env_limits_t limits, void *field);
    /* One text for each value, whatever was typed; in any locale. */
    void (*format)(const struct coll__env_type *type, const void *field, char *text, size_t capacity);
    /* Continues "allowed are ...". */
    void (*allowed)(const struct coll__env_type *type, coll__env_limits_t limits, char *text, size_t capacity);
    bool secret;
} coll__env_type_t;

extern const coll__env_type_t coll__env_type_int, coll__env_type_bytes, coll__env_type_seconds, coll__env_type_flag,
    coll__env_type_spin, coll__env_type_text, coll__env_type_secret, coll__env_type_choice_transport,
    coll__env_type_choice_hier, coll__env_type_choice_progress, coll__env_type_choice_log;

#endif
