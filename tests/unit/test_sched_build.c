/* Building and printing schedules. */
#include "sched/sched.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static coll__arena_t arena;
static coll__builder_t builder;
static coll__sched_t sched;

static int set_up(void **state) {
    (void)state;
    coll__arena_init(&arena, 256);
    coll__build_begin(&builder, &arena);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    coll__arena_free(&arena);
    return 0;
}

static void test_empty(void **state) {
    (void)state;
    char text[8] = "x";
    coll__build_round(&builder);
    coll__build_copy(&builder, coll__ref(COLL__BUF_SEND, 0), coll__ref(COLL__BUF_RECV, 0), 0);
    coll__build_reduce(&builder, coll__ref(COLL__BUF_SEND, 0), coll__ref(COLL__BUF_RECV, 0),
                       coll__ref(COLL__BUF_RECV, 0), 0);
    coll__build_round(&builder);
    assert_int_equal(coll__build_finish(&builder, &sched), 0);
    assert_int_equal(sched.step_count, 0);
    assert_int_equal(sched.round_count, 0);
    assert_int_equal(sched.scratch_bytes, 0);
    assert_int_equal(coll__sched_print(&sched, text, sizeof text), 0);
    assert_string_equal(text, "");
}

static void test_rounds_and_text(void **state) {
    (void)state;
    coll__ref_t scratch = coll__build_scratch(&builder, 8);
    coll__build_round(&builder);
    coll__build_copy(&builder, coll__ref(COLL__BUF_SEND, 0), coll__ref(COLL__BUF_RECV, 16), 8);
    coll__build_send(&builder, 3, coll__ref(COLL__BUF_SEND, 0), 8);
    coll__build_recv(&builder, 1, scratch, 8);
    coll__build_round(&builder);
    coll__build_round(&builder);
    coll__build_reduce(&builder, scratch, coll__ref(COLL__BUF_RECV, 16), coll__ref(COLL__BUF_RECV, 0), 8);
    coll__build_send(&builder, 2, scratch, 0);
    coll__build_round(&builder);
    assert_int_equal(coll__build_finish(&builder, &sched), 0);
    assert_int_equal(sched.step_count, 5);
    assert_int_equal(sched.round_count, 2);

    const char *expected = "round 0: copy 8 B of send+0 into recv+16\n"
                           "round 0: send 8 B to 3 from send+0\n"
                           "round 0: recv 8 B from 1 into scratch+0\n"
                           "round 1: reduce 8 B of scratch+0 and recv+16 into recv+0\n"
                           "round 1: send 0 B to 2 from scratch+0\n";
    char text[512], small[20];
    assert_int_equal(coll__sched_print(&sched, text, sizeof text), strlen(expected));
    assert_string_equal(text, expected);
    assert_int_equal(coll__sched_print(&sched, small, sizeof small), strlen(expected));
    assert_memory_equal(small, expected, sizeof small - 1);
    assert_int_equal(small[sizeof small - 1], 0);
    assert_int_equal(coll__sched_print(&sched, NULL, 0), strlen(expected));
}

static void test_scratch_is_apart_and_aligned(void **state) {
    (void)state;
    static const size_t sizes[] = {1, 64, 65, 0, 100};
    size_t end = 0;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        coll__ref_t ref = coll__build_scratch(&builder, sizes[i]);
        assert_int_equal(ref.buffer, COLL__BUF_SCRATCH);
        assert_int_equal(ref.offset % 64, 0);
        assert_true(ref.offset >= end);
        end = ref.offset + sizes[i];
    }
    assert_int_equal(coll__build_finish(&builder, &sched), 0);
    assert_true(sched.scratch_bytes >= end);
}

/* Steps survive the growth of their array. */
static void test_many(void **state) {
    (void)state;
    enum { MANY = 1000 };
    for (int i = 0; i < MANY; i++) {
        coll__build_send(&builder, i, coll__ref(COLL__BUF_SEND, (size_t)i * 8), (size_t)i);
        if (i % 3 == 2)
            coll__build_round(&builder);
    }
    assert_int_equal(coll__build_finish(&builder, &sched), 0);
    assert_int_equal(sched.step_count, MANY);
    assert_int_equal(sched.round_count, (MANY + 2) / 3);
    for (int i = 0; i < MANY; i++) {
        assert_int_equal(sched.steps[i].kind, COLL__STEP_SEND);
        assert_int_equal(sched.steps[i].peer, i);
        assert_int_equal(sched.steps[i].round, i / 3);
        assert_int_equal(sched.steps[i].bytes, i);
        assert_int_equal(sched.steps[i].source.offset, i * 8);
    }
}

/* The builder of a schedule for which there is no memory goes on without harm and says so at the end. */
static void test_no_memory(void **state) {
    (void)state;
    builder.status = COLL_ERR_MEMORY;
    for (int i = 0; i < 100; i++)
        coll__build_send(&builder, i, coll__ref(COLL__BUF_SEND, 0), 8);
    assert_int_equal(coll__build_finish(&builder, &sched), COLL_ERR_MEMORY);
    assert_non_null(strstr(coll_error_message(), "out of memory"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_empty, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_rounds_and_text, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_scratch_is_apart_and_aligned, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_many, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_no_memory, set_up, tear_down),
    };
    return cmocka_run_group_tests_name("sched_build", tests, NULL, NULL);
}
