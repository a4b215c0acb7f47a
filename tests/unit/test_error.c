/* The thread's last error: message, ranks, call, and errors carried between threads. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"

static void test_nothing_yet(void **state) {
    (void)state;
    int ranks[1];
    assert_string_equal(coll_error_message(), "");
    assert_string_equal(coll_error_operation(), "");
    assert_int_equal(coll_error_sequence(), -1);
    assert_int_equal(coll_error_ranks(ranks, 1), 0);
}

static void test_message_and_call(void **state) {
    (void)state;
    assert_int_equal(coll__error(COLL_ERR_ARG, "root is %d, allowed are 0 to %d", 9, 3), COLL_ERR_ARG);
    assert_string_equal(coll_error_message(), "root is 9, allowed are 0 to 3");
    assert_int_equal(coll_error_sequence(), -1);
    coll__error_set_call("allreduce", 17);
    assert_string_equal(coll_error_operation(), "allreduce");
    assert_int_equal(coll_error_sequence(), 17);
}

static void test_ranks(void **state) {
    (void)state;
    int ranks[4] = {-5, -5, -5, -5};
    coll__error(COLL_ERR_TIMEOUT, "ranks are missing");
    coll__error_add_ranks((const int[]){2, 5}, 2);
    coll__error_add_ranks((const int[]){7}, 1);
    coll__error_add_ranks(NULL, 0);
    assert_int_equal(coll_error_ranks(ranks, 4), 3);
    assert_memory_equal(ranks, ((const int[]){2, 5, 7, -5}), sizeof ranks);

    ranks[0] = ranks[1] = -5;
    assert_int_equal(coll_error_ranks(ranks, 1), 3); /* how many there are, whatever fits */
    assert_memory_equal(ranks, ((const int[]){2, -5, 7, -5}), sizeof ranks);
    assert_int_equal(coll_error_ranks(NULL, 0), 3);
    assert_string_equal(coll_error_message(), "ranks are missing");
}

static void test_more_ranks_than_room(void **state) {
    (void)state;
    int ranks[200], got[200];
    for (int i = 0; i < 200; i++)
        ranks[i] = i;
    coll__error(COLL_ERR_TIMEOUT, "ranks are missing");
    coll__error_add_ranks(ranks, 200);
    assert_int_equal(coll_error_ranks(got, 200), COLL__ERROR_RANKS);
    assert_memory_equal(got, ranks, COLL__ERROR_RANKS * sizeof ranks[0]);
    assert_string_equal(coll_error_message(), "ranks are missing (and 136 more ranks)");
}

static void test_next_error_forgets(void **state) {
    (void)state;
    coll__error(COLL_ERR_TIMEOUT, "one");
    coll__error_add_ranks((const int[]){1}, 1);
    coll__error_set_call("barrier", 3);
    coll__error(COLL_ERR_STATE, "two");
    assert_int_equal(coll_error_ranks(NULL, 0), 0);
    assert_string_equal(coll_error_operation(), "");
    assert_int_equal(coll_error_sequence(), -1);
}

static void test_message_may_quote_the_last_one(void **state) {
    (void)state;
    coll__error(COLL_ERR_TRANSPORT, "no route");
    coll__error(COLL_ERR_BOOTSTRAP, "cannot meet: %s", coll_error_message());
    assert_string_equal(coll_error_message(), "cannot meet: no route");
}

static void test_long_texts_are_cut(void **state) {
    (void)state;
    char text[5000];
    memset(text, 'x', sizeof text);
    text[sizeof text - 1] = '\0';
    coll__error(COLL_ERR_ARG, "%s", text);
    assert_int_equal(strlen(coll_error_message()), sizeof(((coll__error_info_t *)0)->message) - 1);
    coll__error_set_call(text, 1);
    assert_int_equal(strlen(coll_error_operation()), sizeof(((coll__error_info_t *)0)->operation) - 1);
}

static void *fail_in_thread(void *into) {
    if (strcmp(coll_error_message(), "") != 0) /* the other thread's error is not seen here */
        return NULL;
    coll__error(COLL_ERR_RANK_FAILED, "rank 3 died");
    coll__error_add_ranks((const int[]){3}, 1);
    coll__error_set_call("broadcast", 8);
    coll__error_save(into);
    return into;
}

static void test_carried_between_threads(void **state) {
    (void)state;
    coll__error_info_t info;
    pthread_t thread;
    void *result;
    coll__error(COLL_ERR_ARG, "mine");
    assert_int_equal(pthread_create(&thread, NULL, fail_in_thread, &info), 0);
    assert_int_equal(pthread_join(thread, &result), 0);
    assert_ptr_equal(result, &info);
    assert_string_equal(coll_error_message(), "mine");

    int rank;
    assert_int_equal(coll__error_raise(&info), COLL_ERR_RANK_FAILED);
    assert_string_equal(coll_error_message(), "rank 3 died");
    assert_string_equal(coll_error_operation(), "broadcast");
    assert_int_equal(coll_error_sequence(), 8);
    assert_int_equal(coll_error_ranks(&rank, 1), 1);
    assert_int_equal(rank, 3);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing_yet),
        cmocka_unit_test(test_message_and_call),
        cmocka_unit_test(test_ranks),
        cmocka_unit_test(test_more_ranks_than_room),
        cmocka_unit_test(test_next_error_forgets),
        cmocka_unit_test(test_message_may_quote_the_last_one),
        cmocka_unit_test(test_long_texts_are_cut),
        cmocka_unit_test(test_carried_between_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
