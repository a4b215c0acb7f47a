/* Schedules as text, one line a step. */
#include "sched/sched.h"

#include <stdarg.h>
#include <stdio.h>

enum { REF_TEXT = 32 };

void coll__ref_print(coll__ref_t ref, char *text, size_t capacity) {
    static const char *const names[COLL__BUF_COUNT] = {"send", "recv", "scratch"};
    snprintf(text, capacity, "%s+%zu", names[ref.buffer], ref.offset);
}

typedef struct writer {
    char *text;
    size_t capacity, length; /* length as if there were room for all */
} writer_t;

static void write_text(writer_t *writer, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void write_text(writer_t *writer, const char *format, ...) {
    size_t room = writer->length < writer->capacity ? writer->capacity - writer->length : 0;
    va_list args;
    va_start(args, format);
    int length = vsnprintf(room ? writer->text + writer->length : NULL, room, format, args);
    va_end(args);
    writer->length += (size_t)length;
}

static void print_step(writer_t *writer, const coll__step_t *step) {
    char source[REF_TEXT], right[REF_TEXT], target[REF_TEXT];
    coll__ref_print(step->source, source, sizeof source);
    coll__ref_print(step->right, right, sizeof right);
    coll__ref_print(step->target, target, sizeof target);
    write_text(writer, "round %d: ", step->round);
    switch (step->kind) {
    case COLL__STEP_SEND:
        write_text(writer, "send %zu B to %d from %s\n", step->bytes, step->peer, source);
        break;
    case COLL__STEP_RECV:
        write_text(writer, "recv %zu B from %d into %s\n", step->bytes, step->peer, target);
        break;
    case COLL__STEP_REDUCE:
        write_text(writer, "reduce %zu B of %s and %s into %s\n", step->bytes, source, right, target);
        break;
    case COLL__STEP_NODE:
        write_text(writer, "the whole call on the node's segment\n");
        break;
    case COLL__STEP_FOLD:
        write_text(writer, "fold %d inputs of %zu B, %s as number %d among %s, into %s\n", step->inputs, step->bytes,
                   right, step->place, source, target);
        break;
    case COLL__STEP_COPY:
        write_text(writer, "copy %zu B of %s into %s\n", step->bytes, source, target);
        break;
    }
}

size_t coll__sched_print(const coll__sched_t *sched, char *text, size_t capacity) {
    writer_t writer = {text, capacity, 0};
    if (capacity)
        text[0] = 0;
    for (int i = 0; i < sched->step_count; i++)
        print_step(&writer, &sched->steps[i]);
    return writer.length;
}
