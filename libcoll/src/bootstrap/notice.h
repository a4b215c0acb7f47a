/* Notices that arrived and wait to be fetched: a bounded queue. */
#ifndef COLL__BOOTSTRAP_NOTICE_H
#define COLL__BOOTSTRAP_NOTICE_H

#include <stddef.h>

enum { COLL__NOTICES_KEPT = 256 };

typedef struct coll__notices {
    struct coll__notice *list;
    int count;
    size_t lost;
} coll__notices_t;

/* Copies it in. When the queue is full the oldest goes; the first time with a line in the log. */
void coll__notices_add(coll__notices_t *notices, int from, const void *bytes, size_t count);

/* The oldest: its length, 0 for none. `into` has room for COLL__NOTICE_BYTES. */
size_t coll__notices_take(coll__notices_t *notices, void *into, int *from);

void coll__notices_clear(coll__notices_t *notices);

#endif
