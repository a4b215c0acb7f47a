/* The algorithm table: names agree with symbols and files, and every row says all about itself. */
#include "algo/algo.h"
#include "algo/algo_table.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

typedef struct row {
    const coll__algo_t *algo;
    const char *operation, *name;
} row_t;

static const row_t rows[] = {
#define ROW(operation, name) {&coll__##operation##_##name, #operation, #name},
    COLL__ALGO_TABLE(ROW)
#undef ROW
};
enum { ROWS = sizeof rows / sizeof rows[0] };

static void test_names(void **state) {
    (void)state;
    assert_int_equal(coll__algo_count(), ROWS);
    for (size_t i = 0; i < ROWS; i++) {
        assert_ptr_equal(coll__algo_get(i), rows[i].algo);
        assert_int_equal(coll__algo_index(rows[i].algo), i);
        assert_string_equal(rows[i].algo->name, rows[i].name);
        assert_string_equal(coll_operation_name(rows[i].algo->operation), rows[i].operation);
        assert_ptr_equal(coll__algo_find(rows[i].algo->operation, rows[i].name), rows[i].algo); /* unique */
    }
    assert_null(coll__algo_get(ROWS));
    assert_null(coll__algo_find(COLL_OP_BARRIER, "ring"));
    assert_null(coll__algo_find(COLL_OP_ALLREDUCE, ""));
    assert_int_equal(coll__algo_index(NULL), ROWS);
}

static void assert_line(const char *text) {
    assert_non_null(text);
    assert_null(strchr(text, '\n'));
    size_t length = strlen(text);
    assert_true(length == 0 || (text[0] != ' ' && text[length - 1] != ' ' && text[length - 1] != '.'));
}

static void test_texts(void **state) {
    (void)state;
    for (size_t i = 0; i < ROWS; i++) {
        const coll__algo_t *algo = rows[i].algo;
        const char *const texts[] = {algo->summary, algo->rounds_text, algo->bytes_text, algo->source};
        for (size_t j = 0; j < sizeof texts / sizeof texts[0]; j++) {
            assert_line(texts[j]);
            assert_true(texts[j][0] != 0);
        }
        assert_line(algo->restrictions);
        assert_int_equal(algo->restrictions[0] != 0, algo->applies != NULL); /* a restriction is told and checked */
        assert_true(algo->build && algo->rounds && algo->messages && algo->bytes);
    }
}

/* Each operation with algorithms has its baseline, named linear or at least a linear row, and something to choose. */
static void test_every_operation_has_a_choice(void **state) {
    (void)state;
    for (int operation = 0; operation < COLL_OP_SENDRECV; operation++) {
        size_t count = 0;
        for (size_t i = 0; i < ROWS; i++)
            count += rows[i].algo->operation == (coll_operation_t)operation && !rows[i].algo->baseline;
        assert_true(count >= 2);
        assert_non_null(coll__algo_find((coll_operation_t)operation, "linear"));
    }
}

static void test_reductions_have_ordered_rows(void **state) {
    (void)state;
    assert_true(coll__algo_find(COLL_OP_REDUCE, "ordered_pairwise")->ordered);
    assert_true(coll__algo_find(COLL_OP_ALLREDUCE, "ordered")->ordered);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_texts),
        cmocka_unit_test(test_every_operation_has_a_choice),
        cmocka_unit_test(test_reductions_have_ordered_rows),
    };
    return cmocka_run_group_tests_name("algo", tests, NULL, NULL);
}
