/* Notices are rare (an error, a broken communicator) and the engine fetches them soon; the bound is for a process that
 * never calls the library again while others talk. */
#include "bootstrap/notice.h"

#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "base/log.h"
#include "bootstrap/bootstrap.h"

struct coll__notice {
    struct coll__notice *prev, *next;
    int from;
    size_t bytes;
    unsigned char data[];
};

static void drop_oldest(coll__notices_t *notices) {
    struct coll__notice *oldest = notices->list;
    DL_DELETE(notices->list, oldest);
    notices->count--;
    free(oldest);
}

void coll__notices_add(coll__notices_t *notices, int from, const void *bytes, size_t count) {
    if (count == 0 || count > COLL__NOTICE_BYTES)
        return; /* coll__job_post lets none through */
    struct coll__notice *notice = malloc(sizeof *notice + count);
    if (notice == NULL) {
        coll__log(COLL__LOG_ERROR, "no memory for a notice from rank %d: it is lost", from);
        return;
    }
    notice->from = from;
    notice->bytes = count;
    memcpy(notice->data, bytes, count);
    DL_APPEND(notices->list, notice);
    if (++notices->count > COLL__NOTICES_KEPT) {
        if (notices->lost++ == 0)
            coll__log(COLL__LOG_WARN, "more than %d notices wait: the oldest are lost, the first from rank %d",
                      COLL__NOTICES_KEPT, notices->list->from);
        drop_oldest(notices);
    }
}

size_t coll__notices_take(coll__notices_t *notices, void *into, int *from) {
    struct coll__notice *oldest = notices->list;
    if (oldest == NULL)
        return 0;
    size_t bytes = oldest->bytes;
    memcpy(into, oldest->data, bytes);
    *from = oldest->from;
    drop_oldest(notices);
    return bytes;
}

void coll__notices_clear(coll__notices_t *notices) {
    while (notices->list != NULL)
        drop_oldest(notices);
}
