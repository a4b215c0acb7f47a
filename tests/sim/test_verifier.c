/* The verifier itself: sound schedules pass, and each kind of damage is found for what it is. */
#include "algo/algo.h"
#include "support/verify.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

enum { SIZE = 4, COUNT = 8 };

static coll__verifier_t *verifier;
static coll__plan_t plan;
static coll__sched_t *scheds;
static coll__verify_result_t result;
static uint64_t inputs[SIZE * COUNT];

/* x -> a x + b on pairs of halves: associative, does not commute. */
static void compose(const void *left, const void *right, void *target, size_t bytes) {
    for (size_t at = 0; at < bytes; at += 8) {
        uint32_t a[2], b[2], both[2];
        memcpy(a, (const char *)left + at, 8);
        memcpy(b, (const char *)right + at, 8);
        both[0] = a[0] * b[0];
        both[1] = a[0] * b[1] + a[1];
        memcpy((char *)target + at, both, 8);
    }
}

static int set_up(void **state) {
    (void)state;
    verifier = coll__verifier_create();
    for (size_t i = 0; i < SIZE * COUNT; i++)
        inputs[i] = (i + 3) * UINT64_C(0x9e3779b97f4a7c15) | 1;
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    coll__verifier_free(verifier);
    return 0;
}

static void begin(coll_operation_t operation, const char *name) {
    const coll__algo_t *algo = coll__algo_find(operation, name);
    assert_non_null(algo);
    plan = (coll__plan_t){.operation = operation, .size = SIZE, .count = COUNT, .element = 8, .arity = 2};
    scheds = coll__verifier_build(verifier, algo->build, &plan);
}

static bool run(void) {
    return coll__verifier_run(verifier, &plan, scheds, compose, inputs, &result);
}

/* It must fail, and say this. */
static void assert_fault(const char *what) {
    assert_false(run());
    if (!strstr(result.fault, what))
        fail_msg("the fault is \"%s\", not \"%s\"", result.fault, what);
}

/* Every output is the fold of all inputs in rank order. */
static bool right_result(void) {
    uint64_t fold[COUNT];
    memcpy(fold, inputs, sizeof fold);
    for (int rank = 1; rank < SIZE; rank++)
        compose(fold, inputs + rank * COUNT, fold, sizeof fold);
    for (int rank = 0; rank < SIZE; rank++)
        if (memcmp(coll__verifier_output(verifier, rank), fold, sizeof fold) != 0)
            return false;
    return true;
}

/* The first step of a kind in a rank's schedule. */
static coll__step_t *first(int rank, coll__step_kind_t kind) {
    for (int i = 0; i < scheds[rank].step_count; i++)
        if (scheds[rank].steps[i].kind == kind)
            return &scheds[rank].steps[i];
    fail_msg("rank %d has no step of kind %d", rank, (int)kind);
    return NULL;
}

static void remove_step(int rank, coll__step_t *step) {
    coll__sched_t *sched = &scheds[rank];
    size_t after = (size_t)(sched->steps + sched->step_count - (step + 1));
    memmove(step, step + 1, after * sizeof *step);
    sched->step_count--;
}

static void test_sound(void **state) {
    (void)state;
    for (int in_place = 0; in_place < 2; in_place++) {
        begin(COLL_OP_ALLREDUCE, "recursive_doubling");
        plan.in_place = in_place;
        assert_true(run());
        assert_string_equal(result.fault, "");
        assert_true(right_result());
        assert_int_equal(result.rounds, 2);
        assert_int_equal(result.messages, 8);
        assert_int_equal(result.bytes, 8 * COUNT * 8);
        assert_int_equal(result.busiest, 2 * COUNT * 8);
        assert_int_equal(coll__verifier_sent(verifier, 3), 2);
        assert_int_equal(coll__verifier_received(verifier, 3), 2);
    }
}

static void test_wrong_peer(void **state) {
    (void)state;
    begin(COLL_OP_ALLREDUCE, "recursive_doubling");
    first(1, COLL__STEP_SEND)->peer = 3;
    assert_fault("deadlock");
    begin(COLL_OP_ALLREDUCE, "recursive_doubling");
    first(1, COLL__STEP_SEND)->peer = SIZE;
    assert_fault("a rank that does not exist");
    begin(COLL_OP_ALLREDUCE, "recursive_doubling");
    first(1, COLL__STEP_SEND)->peer = -1;
    assert_fault("a rank that does not exist");
    begin(COLL_OP_ALLREDUCE, "recursive_doubling");
    first(1, COLL__STEP_SEND)->peer = 1;
    assert_fault("talks to itself");
}

static void test_missing_end(void **state) {
    (void)state;
    begin(COLL_OP_ALLGATHER, "linear");
    remove_step(2, first(2, COLL__STEP_RECV));
    assert_fault("deadlock");
    begin(COLL_OP_ALLGATHER, "linear");
    remove_step(2, first(2, COLL__STEP_SEND));
    assert_fault("deadlock");
}

/* All wait for the rank before: nobody can begin. */
static void test_circular_wait(void **state) {
    (void)state;
    begin(COLL_OP_ALLGATHER, "ring");
    for (int rank = 0; rank < SIZE; rank++) {
        coll__sched_t *sched = &scheds[rank];
        for (int i = 0; i < sched->step_count; i++)
            sched->steps[i].round *= 2;
        for (int i = 0; i < sched->step_count; i++)
            if (sched->steps[i].kind == COLL__STEP_RECV)
                sched->steps[i].round++; /* sends wait for their receiver: no RECV is ever posted */
        sched->round_count = 2 * sched->round_count;
    }
    assert_fault("deadlock");
}

static void test_wrong_length(void **state) {
    (void)state;
    begin(COLL_OP_ALLREDUCE, "recursive_doubling");
    first(0, COLL__STEP_SEND)->bytes -= 8;
    assert_fault("sends 56 bytes to rank 1");
    begin(COLL_OP_ALLREDUCE, "recursive_doubling");
    first(0, COLL__STEP_SEND)->bytes += 8;
    assert_fault("beyond its buffer");
    begin(COLL_OP_ALLREDUCE, "recursive_doubling");
    first(0, COLL__STEP_REDUCE)->right.offset = SIZE_MAX - 7;
    assert_fault("beyond its buffer");
    begin(COLL_OP_ALLREDUCE, "recursive_doubling");
    first(0, COLL__STEP_REDUCE)->bytes -= 3;
    assert_fault("a part of an element");
    begin(COLL_OP_ALLREDUCE, "recursive_doubling");
    first(0, COLL__STEP_SEND)->source.offset = 1;
    first(0, COLL__STEP_SEND)->bytes = 8;
    assert_fault("inside an element");
}

/* Sound as schedules, and wrong: the outputs tell. */
static void test_wrong_order(void **state) {
    (void)state;
    begin(COLL_OP_ALLREDUCE, "recursive_doubling");
    coll__step_t *reduce = first(2, COLL__STEP_REDUCE);
    coll__ref_t left = reduce->source;
    reduce->source = reduce->right;
    reduce->right = left;
    assert_true(run());
    assert_false(right_result());
}

static void test_forgotten_fold(void **state) {
    (void)state;
    begin(COLL_OP_ALLREDUCE, "linear");
    first(0, COLL__STEP_FOLD)->inputs--;
    assert_true(run());
    assert_false(right_result());
    begin(COLL_OP_ALLREDUCE, "linear");
    first(0, COLL__STEP_FOLD)->place = 1; /* another order */
    assert_true(run());
    assert_false(right_result());
    begin(COLL_OP_ALLREDUCE, "linear");
    first(0, COLL__STEP_FOLD)->place = SIZE;
    assert_fault("no place among them");
}

static void test_input_overwritten(void **state) {
    (void)state;
    begin(COLL_OP_ALLREDUCE, "recursive_doubling");
    first(3, COLL__STEP_REDUCE)->target = coll__ref(COLL__BUF_SEND, 0);
    assert_fault("writes into the input");
}

static void test_races(void **state) {
    (void)state;
    begin(COLL_OP_ALLGATHER, "ring"); /* a RECV into what is being sent */
    first(1, COLL__STEP_RECV)->target = first(1, COLL__STEP_SEND)->source;
    assert_fault("races");
    begin(COLL_OP_ALLGATHER, "linear"); /* two RECVs into one place */
    coll__step_t *recv = first(1, COLL__STEP_RECV);
    for (int i = 0; i < scheds[1].step_count; i++)
        if (scheds[1].steps[i].kind == COLL__STEP_RECV)
            scheds[1].steps[i].target = recv->target;
    assert_fault("races");
    begin(COLL_OP_ALLREDUCE, "recursive_doubling"); /* a REDUCE of what has not arrived */
    coll__step_t *reduce = first(1, COLL__STEP_REDUCE);
    coll__step_t *arrival = first(1, COLL__STEP_RECV);
    for (coll__step_t *step = scheds[1].steps; step < scheds[1].steps + scheds[1].step_count; step++)
        if (step >= reduce)
            step->round--;
    scheds[1].round_count--;
    assert_true(arrival < reduce);
    assert_fault("races");
    begin(COLL_OP_ALLREDUCE,
          "tree"); /* in place, a leaf's input and result are one: they may not be in flight at once */
    plan.in_place = true;
    first(3, COLL__STEP_RECV)->round--;
    scheds[3].round_count--;
    assert_fault("races");
}

static void test_shifted_target(void **state) {
    (void)state;
    begin(COLL_OP_ALLREDUCE, "recursive_doubling");
    coll__step_t *reduce = &scheds[0].steps[scheds[0].step_count - 1];
    assert_int_equal(reduce->kind, COLL__STEP_REDUCE);
    reduce->bytes -= 8;
    reduce->target = reduce->source;
    reduce->target.offset += 8;
    assert_fault("overlaps its source");
}

static void test_numbering(void **state) {
    (void)state;
    begin(COLL_OP_ALLREDUCE, "recursive_doubling");
    scheds[0].round_count++;
    assert_fault("number of rounds");
    begin(COLL_OP_ALLREDUCE, "recursive_doubling");
    scheds[0].steps[scheds[0].step_count - 1].round += 1;
    assert_fault("not numbered");
    begin(COLL_OP_ALLREDUCE, "recursive_doubling");
    for (int i = 0; i < scheds[0].step_count; i++)
        scheds[0].steps[i].round++;
    scheds[0].round_count++;
    assert_fault("not numbered");
}

/* A barrier without its last round lets a rank go too early. */
static void test_heard(void **state) {
    (void)state;
    begin(COLL_OP_BARRIER, "dissemination");
    plan.count = 0;
    assert_true(run());
    for (int rank = 0; rank < SIZE; rank++)
        for (int other = 0; other < SIZE; other++)
            assert_true(coll__verifier_heard(verifier, rank, other));
    for (int rank = 0; rank < SIZE; rank++) {
        scheds[rank].step_count -= 2;
        scheds[rank].round_count--;
    }
    assert_true(run());
    for (int rank = 0; rank < SIZE; rank++) {
        assert_true(coll__verifier_heard(verifier, rank, (rank + SIZE - 1) % SIZE));
        assert_false(coll__verifier_heard(verifier, rank, (rank + 1) % SIZE));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sound),          cmocka_unit_test(test_wrong_peer),
        cmocka_unit_test(test_missing_end),    cmocka_unit_test(test_circular_wait),
        cmocka_unit_test(test_wrong_length),   cmocka_unit_test(test_wrong_order),
        cmocka_unit_test(test_forgotten_fold), cmocka_unit_test(test_input_overwritten),
        cmocka_unit_test(test_races),          cmocka_unit_test(test_shifted_target),
        cmocka_unit_test(test_numbering),      cmocka_unit_test(test_heard),
    };
    return cmocka_run_group_tests_name("sim/verifier", tests, set_up, tear_down);
}
