/* COLL_TRACE: a line for each finished operation,
 *     seconds-since-start  operation  sequence  elements-of-the-call  algorithm  microseconds  status
 * written by the process's own stdio buffer, so that tracing costs little. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "engine/engine.h"

struct coll__trace {
    FILE *file;
    int64_t start;
};

int coll__trace_open(const char *path, int rank, coll__trace_t **trace) {
    *trace = NULL;
    if (!*path)
        return 0;
    char name[1200];
    const char *mark = strstr(path, "%r");
    if (mark)
        snprintf(name, sizeof name, "%.*s%d%s", (int)(mark - path), path, rank, mark + 2);
    else
        snprintf(name, sizeof name, "%s", path);
    coll__trace_t *made = malloc(sizeof *made);
    if (!made)
        return coll__error(COLL_ERR_MEMORY, "out of memory for COLL_TRACE");
    made->file = fopen(name, "we");
    if (!made->file) {
        free(made);
        return coll__error(COLL_ERR_CONFIG, "COLL_TRACE=%s: the file cannot be written: %m", path);
    }
    made->start = coll__now_ns();
    fprintf(made->file, "# seconds operation sequence call algorithm microseconds status\n");
    *trace = made;
    return 0;
}

void coll__trace_call(coll__trace_t *trace, const coll_request_t *request) {
    char call[96] = "-";
    if (request->operation != COLL_OP_SENDRECV)
        coll__fingerprint_print(request->fingerprint, call, sizeof call);
    for (char *c = call; *c; c++)
        if (*c == ' ')
            *c = '_';
    int64_t now = coll__now_ns();
    fprintf(trace->file, "%.6f %s %llu %s %s %.3f %s\n", (double)(request->started_at - trace->start) / 1e9,
            coll__request_name(request), (unsigned long long)request->sequence, call,
            request->algo_name ? request->algo_name : "-", (double)(now - request->started_at) / 1e3,
            coll_status_name(request->status));
}

void coll__trace_close(coll__trace_t *trace) {
    if (!trace)
        return;
    fclose(trace->file);
    free(trace);
}
