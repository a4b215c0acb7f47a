/* Parsers are strict: a value that is only partly understood is refused, never guessed. */
#include "base/env_types.h"

#include <errno.h>
#include <limits.h>
#include <locale.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/env.h"

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

/* ---- int ---- */

static bool parse_int(const coll__env_type_t *type, const char *text, coll__env_limits_t limits, void *field) {
    (void)type;
    if (!is_digit(text[text[0] == '-' ? 1 : 0])) /* strtoll would skip spaces and take a plus */
        return false;
    char *end;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (errno != 0 || *end != '\0' || value < limits.low || value > limits.high)
        return false;
    *(int *)field = (int)value;
    return true;
}

static void format_int(const coll__env_type_t *type, const void *field, char *text, size_t capacity) {
    (void)type;
    snprintf(text, capacity, "%d", *(const int *)field);
}

static void allowed_int(const coll__env_type_t *type, coll__env_limits_t limits, char *text, size_t capacity) {
    (void)type;
    if (limits.high == INT_MAX)
        snprintf(text, capacity, "integers from %lld up", limits.low);
    else
        snprintf(text, capacity, "integers from %lld to %lld", limits.low, limits.high);
}

/* ---- flag ---- */

static bool parse_flag(const coll__env_type_t *type, const char *text, coll__env_limits_t limits, void *field) {
    (void)type, (void)limits;
    if ((text[0] != '0' && text[0] != '1') || text[1] != '\0')
        return false;
    *(int *)field = text[0] - '0';
    return true;
}

static void allowed_flag(const coll__env_type_t *type, coll__env_limits_t limits, char *text, size_t capacity) {
    (void)type, (void)limits;
    snprintf(text, capacity, "0 and 1");
}

/* ---- spin ---- */

static bool parse_spin(const coll__env_type_t *type, const char *text, coll__env_limits_t limits, void *field) {
    if (strcmp(text, "auto") != 0)
        return parse_int(type, text, limits, field);
    *(int *)field = COLL__SPIN_AUTO;
    return true;
}

static void format_spin(const coll__env_type_t *type, const void *field, char *text, size_t capacity) {
    if (*(const int *)field == COLL__SPIN_AUTO)
        snprintf(text, capacity, "auto");
    else
        format_int(type, field, text, capacity);
}

static void allowed_spin(const coll__env_type_t *type, coll__env_limits_t limits, char *text, size_t capacity) {
    (void)type;
    snprintf(text, capacity, "auto and integers from %lld to %lld (microseconds)", limits.low, limits.high);
}

/* ---- bytes ---- */

size_t coll__parse_bytes(const char *text, size_t *bytes) {
    if (strncmp(text, "inf", 3) == 0) {
        *bytes = SIZE_MAX;
        return 3;
    }
    size_t value = 0;
    const char *at = text;
    for (; is_digit(*at); at++) {
        size_t digit = (size_t)(*at - '0');
        if (value > (SIZE_MAX - digit) / 10)
            return 0;
        value = value * 10 + digit;
    }
    if (at == text)
        return 0;
    int shift = 0;
    switch (*at) {
    case 'k':
    case 'K':
        shift = 10;
        break;
    case 'm':
    case 'M':
        shift = 20;
        break;
    case 'g':
    case 'G':
        shift = 30;
        break;
    }
    if (shift != 0) {
        if (value > SIZE_MAX >> shift)
            return 0;
        value <<= shift;
        at++;
    }
    *bytes = value;
    return (size_t)(at - text);
}

static bool parse_bytes(const coll__env_type_t *type, const char *text, coll__env_limits_t limits, void *field) {
    (void)type;
    size_t value;
    size_t used = coll__parse_bytes(text, &value);
    if (used == 0 || text[used] != '\0' || value < (size_t)limits.low || value > (size_t)limits.high)
        return false;
    *(size_t *)field = value;
    return true;
}

static void format_bytes(const coll__env_type_t *type, const void *field, char *text, size_t capacity) {
    (void)type;
    size_t value = *(const size_t *)field;
    static const struct {
        int shift;
        const char *suffix;
    } units[] = {{30, "g"}, {20, "m"}, {10, "k"}};
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        if (value != 0 && value % ((size_t)1 << units[i].shift) == 0) {
            snprintf(text, capacity, "%zu%s", value >> units[i].shift, units[i].suffix);
            return;
        }
    }
    snprintf(text, capacity, "%zu", value);
}

static void allowed_bytes(const coll__env_type_t *type, coll__env_limits_t limits, char *text, size_t capacity) {
    char low[32], high[32];
    format_bytes(type, &(size_t){(size_t)limits.low}, low, sizeof low);
    format_bytes(type, &(size_t){(size_t)limits.high}, high, sizeof high);
    snprintf(text, capacity, "bytes from %s to %s, with k, m or g for powers of 1024", low, high);
}

/* ---- seconds ---- */

static bool parse_seconds(const coll__env_type_t *type, const char *text, coll__env_limits_t limits, void *field) {
    (void)type;
    /* strtod alone would take spaces, signs, "inf", "nan" and hexadecimal too. */
    if ((!is_digit(text[0]) && text[0] != '.') || text[strspn(text, "0123456789.eE+-")] != '\0')
        return false;
    /* The program's locale may write the decimal point as a comma; the environment does not. */
    locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (plain == (locale_t)0)
        return false;
    char *end;
    double value = strtod_l(text, &end, plain);
    freelocale(plain);
    if (end == text || *end != '\0' || value < (double)limits.low || value > (double)limits.high)
        return false;
    *(double *)field = value;
    return true;
}

static void format_seconds(const coll__env_type_t *type, const void *field, char *text, size_t capacity) {
    (void)type;
    snprintf(text, capacity, "%.17g", *(const double *)field);
    char *comma = strchr(text, ',');
    if (comma != NULL)
        *comma = '.';
}

static void allowed_seconds(const coll__env_type_t *type, coll__env_limits_t limits, char *text, size_t capacity) {
    (void)type;
    snprintf(text, capacity, "seconds from %lld to %lld, such as 30 or 2.5", limits.low, limits.high);
}

/* ---- text ---- */

static bool parse_text(const coll__env_type_t *type, const char *text, coll__env_limits_t limits, void *field) {
    (void)type, (void)limits;
    size_t length = strnlen(text, sizeof(coll__env_text));
    if (length == sizeof(coll__env_text) || strpbrk(text, "\r\n") != NULL)
        return false;
    memcpy(field, text, length + 1);
    return true;
}

static void format_text(const coll__env_type_t *type, const void *field, char *text, size_t capacity) {
    (void)type;
    snprintf(text, capacity, "%s", (const char *)field);
}

static void allowed_text(const coll__env_type_t *type, coll__env_limits_t limits, char *text, size_t capacity) {
    (void)type, (void)limits;
    snprintf(text, capacity, "at most %zu bytes in one line", sizeof(coll__env_text) - 1);
}

/* ---- choices ---- */

static const char *const transports[] = {
    [COLL__TRANSPORT_AUTO] = "auto",
    [COLL__TRANSPORT_SHM] = "shm",
    [COLL__TRANSPORT_OFI] = "ofi",
};
static const char *const hiers[] = {
    [COLL__HIER_AUTO] = "auto",
    [COLL__HIER_OFF] = "off",
    [COLL__HIER_LEADER] = "leader",
    [COLL__HIER_SLICED] = "sliced",
};
static const char *const progresses[] = {
    [COLL__PROGRESS_CALLER] = "caller",
    [COLL__PROGRESS_THREAD] = "thread",
};
static const char *const logs[] = {
    [COLL__LOG_OFF] = "off",   [COLL__LOG_ERROR] = "error", [COLL__LOG_WARN] = "warn",
    [COLL__LOG_INFO] = "info", [COLL__LOG_DEBUG] = "debug",
};

static bool parse_choice(const coll__env_type_t *type, const char *text, coll__env_limits_t limits, void *field) {
    (void)limits;
    for (size_t i = 0; i < type->choice_count; i++) {
        if (strcmp(text, type->choices[i]) == 0) {
            *(int *)field = (int)i;
            return true;
        }
    }
    return false;
}

static void format_choice(const coll__env_type_t *type, const void *field, char *text, size_t capacity) {
    snprintf(text, capacity, "%s", type->choices[*(const int *)field]);
}

static void allowed_choice(const coll__env_type_t *type, coll__env_limits_t limits, char *text, size_t capacity) {
    (void)limits;
    size_t used = 0;
    for (size_t i = 0; i < type->choice_count && used < capacity; i++) {
        const char *glue = i == 0 ? "" : i + 1 < type->choice_count ? ", " : " and ";
        used += (size_t)snprintf(text + used, capacity - used, "%s%s", glue, type->choices[i]);
    }
}

/* ---- the types ---- */

#define TYPE(name, label_, parse_, format_, allowed_) \
    const coll__env_type_t coll__env_type_##name = {  \
        .label = label_, .parse = parse_, .format = format_, .allowed = allowed_}
#define CHOICE(name, label_, list)                          \
    const coll__env_type_t coll__env_type_choice_##name = { \
        .label = label_,                                    \
        .choices = list,                                    \
        .choice_count = sizeof list / sizeof list[0],       \
        .parse = parse_choice,                              \
        .format = format_choice,                            \
        .allowed = allowed_choice,                          \
    }

TYPE(int, "integer", parse_int, format_int, allowed_int);
TYPE(bytes, "bytes", parse_bytes, format_bytes, allowed_bytes);
TYPE(seconds, "seconds", parse_seconds, format_seconds, allowed_seconds);
TYPE(flag, "0|1", parse_flag, format_int, allowed_flag);
TYPE(spin, "auto|microseconds", parse_spin, format_spin, allowed_spin);
TYPE(text, "text", parse_text, format_text, allowed_text);
CHOICE(transport, "auto|shm|ofi", transports);
CHOICE(hier, "auto|off|leader|sliced", hiers);
CHOICE(progress, "caller|thread", progresses);
CHOICE(log, "off|error|warn|info|debug", logs);

const coll__env_type_t coll__env_type_secret = {
    .label = "text",
    .parse = parse_text,
    .format = format_text,
    .allowed = allowed_text,
    .secret = true,
};
