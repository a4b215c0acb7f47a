/* The verifier's look at one rank's schedule: ranges, numbering of rounds, and races inside a round. */
#include "support/verify_internal.h"

#include <stdio.h>
#include <stdlib.h>

typedef struct checker {
    const coll__plan_t *plan;
    const coll__sched_t *sched;
    const coll__verify_memory_t *memory;
    int rank, step;
    coll__verify_access_t *flights; /* of the round's SEND and RECV so far */
    int flight_count;
    char *fault;
    size_t fault_bytes;
} checker_t;

static bool wrong(checker_t *checker, const char *what) {
    snprintf(checker->fault, checker->fault_bytes, "rank %d of %d, step %d: %s", checker->rank, checker->plan->size,
             checker->step, what);
    return false;
}

static bool check_ref(checker_t *checker, coll__ref_t ref, size_t bytes, bool writes) {
    size_t whole = checker->memory->bytes[ref.buffer];
    if (ref.offset > whole || bytes > whole - ref.offset)
        return wrong(checker, "reaches beyond its buffer");
    if (writes && ref.buffer == COLL__BUF_SEND)
        return wrong(checker, "writes into the input");
    if (ref.buffer != COLL__BUF_SCRATCH && ref.offset % checker->plan->element != 0)
        return wrong(checker, "begins inside an element");
    return true;
}

static coll__verify_access_t access_of(const checker_t *checker, coll__ref_t ref, size_t bytes, bool writes) {
    const char *begin = checker->memory->at[ref.buffer] + ref.offset;
    return (coll__verify_access_t){begin, begin + bytes, writes, checker->step};
}

static bool overlap(coll__verify_access_t a, coll__verify_access_t b) {
    return a.begin < b.end && b.begin < a.end;
}

/* A local step's access against all that is in flight in its round. */
static bool check_race(checker_t *checker, coll__verify_access_t access) {
    for (int i = 0; i < checker->flight_count; i++)
        if ((access.writes || checker->flights[i].writes) && overlap(access, checker->flights[i]))
            return wrong(checker, "races with a message of its round");
    return true;
}

static int by_begin(const void *a, const void *b) {
    const coll__verify_access_t *x = a, *y = b;
    return x->begin < y->begin ? -1 : x->begin > y->begin;
}

/* The messages of a round against each other. */
static bool check_flights(checker_t *checker) {
    const char *end = NULL, *written_end = NULL; /* of what begins before */
    qsort(checker->flights, (size_t)checker->flight_count, sizeof *checker->flights, by_begin);
    for (int i = 0; i < checker->flight_count; i++) {
        const coll__verify_access_t *flight = &checker->flights[i];
        checker->step = flight->step;
        if (flight->begin < (flight->writes ? end : written_end))
            return wrong(checker, "races with a message of its round");
        end = flight->end > end ? flight->end : end;
        written_end = flight->writes && flight->end > written_end ? flight->end : written_end;
    }
    checker->flight_count = 0;
    return true;
}

static bool check_message(checker_t *checker, const coll__step_t *step) {
    bool receives = step->kind == COLL__STEP_RECV;
    coll__ref_t ref = receives ? step->target : step->source;
    if (step->peer < 0 || step->peer >= checker->plan->size)
        return wrong(checker, "talks to a rank that does not exist");
    if (step->peer == checker->rank)
        return wrong(checker, "talks to itself");
    if (!check_ref(checker, ref, step->bytes, receives))
        return false;
    if (step->bytes > 0)
        checker->flights[checker->flight_count++] = access_of(checker, ref, step->bytes, receives);
    return true;
}

static bool check_fold(checker_t *checker, const coll__step_t *step) {
    if (step->inputs < 1 || step->place < 0 || step->place >= step->inputs)
        return wrong(checker, "folds no inputs, or has no place among them");
    size_t others = (size_t)(step->inputs - 1) * step->bytes;
    if ((others && !check_ref(checker, step->source, others, false)) ||
        !check_ref(checker, step->right, step->bytes, false) || !check_ref(checker, step->target, step->bytes, true))
        return false;
    coll__verify_access_t source = access_of(checker, step->source, others, false);
    coll__verify_access_t own = access_of(checker, step->right, step->bytes, false);
    coll__verify_access_t target = access_of(checker, step->target, step->bytes, true);
    if (!check_race(checker, source) || !check_race(checker, own) || !check_race(checker, target))
        return false;
    if (overlap(own, target) && own.begin != target.begin)
        return wrong(checker, "has a target that overlaps its own input");
    if (others && overlap(source, target))
        return wrong(checker, "has a target that overlaps the others' inputs");
    return step->bytes % checker->plan->element == 0 || wrong(checker, "folds a part of an element");
}

static bool check_local(checker_t *checker, const coll__step_t *step) {
    if (step->kind == COLL__STEP_FOLD)
        return check_fold(checker, step);
    bool reduces = step->kind == COLL__STEP_REDUCE;
    if (!check_ref(checker, step->source, step->bytes, false) || !check_ref(checker, step->target, step->bytes, true))
        return false;
    coll__verify_access_t target = access_of(checker, step->target, step->bytes, true);
    coll__verify_access_t source = access_of(checker, step->source, step->bytes, false);
    if (!check_race(checker, target) || !check_race(checker, source))
        return false;
    if (overlap(source, target) && !(reduces && source.begin == target.begin))
        return wrong(checker, "has a target that overlaps its source");
    if (!reduces)
        return true;

    if (!check_ref(checker, step->right, step->bytes, false))
        return false;
    coll__verify_access_t right = access_of(checker, step->right, step->bytes, false);
    if (!check_race(checker, right))
        return false;
    if (overlap(right, target) && right.begin != target.begin)
        return wrong(checker, "has a target that overlaps its right operand");
    return step->bytes % checker->plan->element == 0 || wrong(checker, "reduces a part of an element");
}

bool coll__verify_check(const coll__plan_t *plan, const coll__sched_t *sched, int rank,
                        const coll__verify_memory_t *memory, coll__verify_access_t *flights, char *fault,
                        size_t fault_bytes) {
    checker_t checker = {.plan = plan,
                         .sched = sched,
                         .memory = memory,
                         .rank = rank,
                         .flights = flights,
                         .fault = fault,
                         .fault_bytes = fault_bytes};
    int round = 0;
    for (int i = 0; i < sched->step_count; i++) {
        const coll__step_t *step = &sched->steps[i];
        checker.step = i;
        if (step->round != round) {
            if (i == 0 || step->round != round + 1)
                return wrong(&checker, "rounds are not numbered 0, 1, 2, ...");
            round++;
            if (!check_flights(&checker))
                return false;
            checker.step = i;
        }
        if (step->kind == COLL__STEP_NODE)
            return wrong(&checker, "is not made of messages");
        bool message = step->kind == COLL__STEP_SEND || step->kind == COLL__STEP_RECV;
        if (!(message ? check_message(&checker, step) : check_local(&checker, step)))
            return false;
    }
    if (sched->round_count != (sched->step_count ? round + 1 : 0))
        return wrong(&checker, "the number of rounds is wrong");
    return check_flights(&checker);
}
