/* The one place that makes an error: a status plus this thread's message, ranks, operation and sequence. */
#ifndef COLL__ERROR_H
#define COLL__ERROR_H

#include <coll.h>

/* Records the message (printf form) for this thread, forgets ranks and operation, and returns `status`:
 *     return coll__error(COLL_ERR_ARG, "root is %d, allowed are 0 to %d", root, size - 1);
 */
int coll__error(int status, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Adds to the error recorded last. */
void coll__error_add_ranks(const int *ranks, size_t count);
void coll__error_set_call(const char *operation, int64_t sequence);

/* An error as a value: made in one thread (the watcher), raised in another. */
enum { COLL__ERROR_RANKS = 64 };
typedef struct coll__error_info {
    int status;
    int rank_count; /* ranks beyond COLL__ERROR_RANKS are counted in the message only */
    int ranks[COLL__ERROR_RANKS];
    int64_t sequence;
    char operation[24];
    char message[1024];
} coll__error_info_t;

void coll__error_save(coll__error_info_t *into);       /* this thread's last error */
int coll__error_raise(const coll__error_info_t *info); /* makes it this thread's last error, returns its status */

#endif
