/* Random tuning rules, always the same ones: no crash, refusals that explain themselves, and every accepted rule
 * decides. */
#include "select/select.h"
#include "topo/topo.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "support/reference.h"

static uint64_t seed;

static size_t below(size_t limit) {
    return (size_t)(coll__reference_random(&seed) % limit);
}

/* Glues pieces together, mostly in the order of the grammar, and damages a byte now and then. */
static void random_rules(char *text, size_t capacity) {
    static const char *const operations[] = {"allreduce", "reduce",   "barrier", "broadcast",
                                             "allgather", "sendrecv", "",        "ring"};
    static const char *const middles[] = {"",
                                          "0",
                                          "64k-inf",
                                          "8-4",
                                          "ranks=2-8",
                                          "nodes=1",
                                          "ranks=",
                                          "nodes=inf",
                                          "-",
                                          "1-2-3",
                                          "99999999999999999999",
                                          "ranks=1:nodes=1-2",
                                          "  7 ",
                                          "%s%n",
                                          "1m-2g"};
    static const char *const algorithms[] = {
        "ring", "linear", "binomial",           "tree",        "bruck", "dissemination", "chain", "ordered",
        "",     "rong",   "recursive_doubling", "rabenseifner"};
    static const char *const ends[] = {",", ";", ",,", " ; ", "", "#", "\n", ":"};
    size_t length = 0;
    text[0] = 0;
    for (size_t rules = 1 + below(3); rules > 0; rules--) {
        length += (size_t)snprintf(text + length, capacity - length, "%s", operations[below(8)]);
        for (size_t parts = below(4); parts > 0; parts--)
            length += (size_t)snprintf(text + length, capacity - length, ":%s", middles[below(15)]);
        length += (size_t)snprintf(text + length, capacity - length, ":%s%s", algorithms[below(12)], ends[below(8)]);
        assert_true(length < capacity);
    }
    if (length > 0 && below(6) == 0)
        text[below(length)] = (char)(1 + below(255));
}

/* A decision, or a refusal that names the variable. */
static void check_decisions(const coll__rules_t *rules) {
    coll__topo_t topo = {.size = 8, .node_count = 2};
    for (int operation = 0; operation < COLL_OP_SENDRECV; operation++) {
        coll__plan_t plan = {.operation = (coll_operation_t)operation,
                             .size = 7 + (int)below(2),
                             .count = below(1 << 20),
                             .element = 8,
                             .commutative = below(2),
                             .arity = 2,
                             .topo = &topo};
        const coll__algo_t *algo = NULL;
        char why[64];
        int status = coll__select(rules, &plan, below(2), &algo, why, sizeof why);
        if (status == 0) {
            assert_int_equal(algo->operation, operation);
            assert_true(!algo->applies || algo->applies(&plan));
            assert_true(strlen(why) > 0);
        } else {
            assert_int_equal(status, COLL_ERR_CONFIG);
            assert_non_null(strstr(coll_error_message(), "COLL_TUNE"));
        }
    }
}

static void test_rules(void **state) {
    (void)state;
    seed = 7;
    int accepted = 0, refused = 0;
    for (int round = 0; round < 30000; round++) {
        char text[1024];
        coll__rules_t *rules = NULL;
        random_rules(text, sizeof text);
        int status = coll__rules_create(text, "", &rules);
        if (status == 0) {
            check_decisions(rules);
            coll__rules_free(rules);
            accepted++;
        } else {
            assert_int_equal(status, COLL_ERR_CONFIG);
            assert_null(rules);
            assert_non_null(strstr(coll_error_message(), "COLL_TUNE: rule \""));
            assert_true(strstr(coll_error_message(), "allowed") || strstr(coll_error_message(), "a rule is") ||
                        strstr(coll_error_message(), "longer than"));
            refused++;
        }
    }
    assert_true(accepted > 500);
    assert_true(refused > 500);
}

/* Bytes that follow no grammar at all. */
static void test_noise(void **state) {
    (void)state;
    seed = 11;
    for (int round = 0; round < 30000; round++) {
        char text[300];
        size_t length = below(sizeof text);
        for (size_t i = 0; i < length; i++)
            text[i] = below(3) ? ":,;=- kmg0\n"[below(11)] : (char)(1 + below(255));
        text[length] = 0;
        coll__rules_t *rules = NULL;
        int status = coll__rules_create(text, "", &rules);
        assert_true(status == 0 || status == COLL_ERR_CONFIG);
        coll__rules_free(rules);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_rules), cmocka_unit_test(test_noise)};
    return cmocka_run_group_tests_name("fuzz/tune", tests, NULL, NULL);
}
