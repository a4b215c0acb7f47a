/* One write a line, so that the lines of several ranks on one terminal stay whole. */
#include "base/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static atomic_int threshold = COLL__LOG_WARN;
static atomic_int own_rank = -1; /* not known yet */

static const char *const level_names[] = {
    [COLL__LOG_OFF] = "off",   [COLL__LOG_ERROR] = "error", [COLL__LOG_WARN] = "warn",
    [COLL__LOG_INFO] = "info", [COLL__LOG_DEBUG] = "debug",
};

void coll__log_setup(int level, int rank) {
    atomic_store_explicit(&threshold, level, memory_order_relaxed);
    atomic_store_explicit(&own_rank, rank, memory_order_relaxed);
}

static void write_all(const char *text, size_t length) {
    while (length > 0) {
        ssize_t written = write(STDERR_FILENO, text, length);
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0)
            return; /* there is nobody to tell */
        text += written;
        length -= (size_t)written;
    }
}

void coll__log(int level, const char *format, ...) {
    if (level <= COLL__LOG_OFF || level > COLL__LOG_DEBUG ||
        level > atomic_load_explicit(&threshold, memory_order_relaxed))
        return;

    int caller_errno = errno; /* a log line must not change what its caller is about to look at */
    char line[2048];
    int rank = atomic_load_explicit(&own_rank, memory_order_relaxed);
    int head = rank < 0 ? snprintf(line, sizeof line, "coll[?] %s: ", level_names[level])
                        : snprintf(line, sizeof line, "coll[%d] %s: ", rank, level_names[level]);

    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line + head, sizeof line - (size_t)head - 1, format, arguments); /* one byte is kept for the newline */
    va_end(arguments);

    size_t length = strlen(line);
    line[length] = '\n';
    write_all(line, length + 1);
    errno = caller_errno;
}
