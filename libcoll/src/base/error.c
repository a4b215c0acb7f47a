/* This thread's last error. Everything that fails in the library ends here, so a caller finds one sentence, the ranks
 * it is about and the call it belongs to, whatever layer noticed it. */
#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static _Thread_local coll__error_info_t last = {.sequence = -1};

int coll__error(int status, const char *format, ...) {
    /* Formatted aside first: the arguments may point into the last message, when a layer adds its own words to it. */
    char message[sizeof last.message];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);

    memcpy(last.message, message, sizeof message);
    last.status = status;
    last.rank_count = 0;
    last.operation[0] = '\0';
    last.sequence = -1;
    return status;
}

void coll__error_add_ranks(const int *ranks, size_t count) {
    size_t room = (size_t)(COLL__ERROR_RANKS - last.rank_count);
    size_t kept = count < room ? count : room;
    if (kept > 0)
        memcpy(last.ranks + last.rank_count, ranks, kept * sizeof ranks[0]);
    last.rank_count += (int)kept;
    if (kept < count) {
        size_t length = strlen(last.message);
        snprintf(last.message + length, sizeof last.message - length, " (and %zu more ranks)", count - kept);
    }
}

void coll__error_set_call(const char *operation, int64_t sequence) {
    snprintf(last.operation, sizeof last.operation, "%s", operation);
    last.sequence = sequence;
}

void coll__error_save(coll__error_info_t *into) {
    *into = last;
}

int coll__error_raise(const coll__error_info_t *info) {
    last = *info;
    return last.status;
}

const char *coll_error_message(void) {
    return last.message;
}

size_t coll_error_ranks(int *ranks, size_t capacity) {
    size_t count = (size_t)last.rank_count;
    size_t filled = count < capacity ? count : capacity;
    if (ranks != NULL && filled > 0)
        memcpy(ranks, last.ranks, filled * sizeof ranks[0]);
    return count;
}

const char *coll_error_operation(void) {
    return last.operation;
}

int64_t coll_error_sequence(void) {
    return last.sequence;
}
