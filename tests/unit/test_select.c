/* Selection: precedence, forced algorithms, deterministic mode, and built-in rules that cover every call. */
#include "select/select.h"
#include "topo/topo.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static coll__topo_t topo = {.node_count = 1};
static char path[64];

static coll__plan_t plan_of(coll_operation_t operation, size_t bytes, int size) {
    topo.size = size;
    return (coll__plan_t){.operation = operation,
                          .op = COLL_SUM,
                          .commutative = true,
                          .size = size,
                          .count = bytes,
                          .element = 1,
                          .arity = 2,
                          .topo = &topo};
}

static coll__rules_t *create(const char *tune, const char *file) {
    coll__rules_t *rules = NULL;
    assert_int_equal(coll__rules_create(tune, file, &rules), 0);
    assert_non_null(rules);
    return rules;
}

static const char *selected(const coll__rules_t *rules, coll__plan_t plan, bool deterministic, char *why, size_t room) {
    const coll__algo_t *algo = NULL;
    assert_int_equal(coll__select(rules, &plan, deterministic, &algo, why, room), 0);
    assert_int_equal(algo->operation, plan.operation);
    return algo->name;
}

/* What the variable and a file of these contents choose for an allreduce of so many bytes on 8 ranks. */
static const char *allreduce(const coll__rules_t *rules, size_t bytes, char why[200]) {
    return selected(rules, plan_of(COLL_OP_ALLREDUCE, bytes, 8), false, why, why ? 200 : 0);
}

static void write_file(const char *text, size_t length) {
    snprintf(path, sizeof path, "/tmp/coll-rules-XXXXXX");
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, length), length);
    close(fd);
}

/* A literal, which may have bytes 0 in it. */
#define WRITE_FILE(text) write_file(text, sizeof(text) - 1)

static int remove_file(void **state) {
    (void)state;
    if (path[0])
        unlink(path);
    path[0] = 0;
    return 0;
}

static void test_precedence(void **state) {
    (void)state;
    char why[200];
    const char *text = "# a comment\n"
                       "\n"
                       "allreduce:0-100:linear # wins nowhere that COLL_TUNE speaks of\n"
                       "  allreduce:0-200:tree\r\n"
                       "allreduce:0-150:rabenseifner";
    write_file(text, strlen(text));
    coll__rules_t *rules = create("allreduce:50-60:ring;,allreduce:55-70:ordered", path);
    assert_string_equal(allreduce(rules, 50, why), "ring");
    assert_string_equal(why, "ring, by the rule \"allreduce:50-60:ring\" of COLL_TUNE");
    assert_string_equal(allreduce(rules, 60, why), "ring");
    assert_string_equal(allreduce(rules, 61, why), "ordered");
    assert_string_equal(allreduce(rules, 49, why), "linear");
    assert_string_equal(allreduce(rules, 150, why), "tree");
    assert_non_null(strstr(why, "allreduce:0-200:tree\" of COLL_TUNE_FILE /tmp/coll-rules-"));
    assert_non_null(strstr(why, "line 4"));
    assert_string_equal(allreduce(rules, 201, why), "recursive_doubling");
    assert_non_null(strstr(why, "of built-in rules"));
    assert_string_equal(allreduce(rules, 201, NULL), "recursive_doubling");
    char small[8];
    assert_string_equal(selected(rules, plan_of(COLL_OP_ALLREDUCE, 50, 8), false, small, sizeof small), "ring");
    assert_string_equal(small, "ring, b");
    coll__rules_free(rules);
}

static void assert_config_error(int status, const char *part_of_message) {
    assert_int_equal(status, COLL_ERR_CONFIG);
    if (!strstr(coll_error_message(), part_of_message))
        fail_msg("\"%s\" is without \"%s\"", coll_error_message(), part_of_message);
}

static void test_bad_rules(void **state) {
    (void)state;
    coll__rules_t *rules = NULL;
    assert_config_error(coll__rules_create("barrier:linear,allreduce:rong", "", &rules),
                        "COLL_TUNE: rule \"allreduce:rong\": allreduce has no algorithm \"rong\"; allowed are ");
    assert_config_error(coll__rules_create("", "/no/such/file", &rules),
                        "COLL_TUNE_FILE: /no/such/file cannot be read: No such");
    assert_config_error(coll__rules_create("", "/tmp", &rules), "COLL_TUNE_FILE: /tmp cannot be read: Is a directory");
    assert_config_error(coll__rules_create("", "/dev/zero", &rules),
                        "COLL_TUNE_FILE: /dev/zero is a device or a pipe, allowed is a file");
    WRITE_FILE("barrier:linear\n\n# fine\nbarrier:lineal\n");
    assert_config_error(coll__rules_create("", path, &rules), "line 4: rule \"barrier:lineal\"");
    remove_file(NULL);
    WRITE_FILE("barrier:linear\0:ring\n");
    assert_config_error(coll__rules_create("", path, &rules), "line 1: has a byte 0");
    remove_file(NULL);
    WRITE_FILE("barrier:linear\rbarrier:binomial\n"); /* no line end of ours */
    assert_config_error(coll__rules_create("", path, &rules), "is not a range");
    assert_null(rules);
}

/* Forced but impossible: an error with the reason, never another algorithm. */
static void test_forced_but_impossible(void **state) {
    (void)state;
    const coll__algo_t *algo = NULL;
    coll__rules_t *rules = create("allgather:neighbour_exchange,allreduce:ring,reduce:binomial", "");
    coll__plan_t plan = plan_of(COLL_OP_ALLGATHER, 10, 5);
    assert_config_error(coll__select(rules, &plan, false, &algo, NULL, 0),
                        "neighbour_exchange cannot run it: the number of ranks must be even");
    assert_non_null(strstr(coll_error_message(), "COLL_TUNE: rule \"allgather:neighbour_exchange\""));
    plan = plan_of(COLL_OP_ALLREDUCE, 10, 5);
    plan.commutative = false;
    assert_config_error(coll__select(rules, &plan, false, &algo, NULL, 0), "the operator must commute");
    plan.commutative = true;
    assert_config_error(coll__select(rules, &plan, true, &algo, NULL, 0), "COLL_DETERMINISTIC=1");
    plan = plan_of(COLL_OP_REDUCE, 10, 5);
    assert_config_error(coll__select(rules, &plan, true, &algo, NULL, 0), "COLL_DETERMINISTIC=1");
    assert_int_equal(coll__select(rules, &plan, false, &algo, NULL, 0), 0);
    plan = plan_of(COLL_OP_BROADCAST, 10, 5);
    assert_int_equal(coll__select(rules, &plan, true, &algo, NULL, 0), 0); /* reduces nothing */
    coll__rules_free(rules);
}

/* Every row can be forced where it applies. */
static void test_every_row_can_be_forced(void **state) {
    (void)state;
    for (size_t i = 0; i < coll__algo_count(); i++) {
        const coll__algo_t *row = coll__algo_get(i), *algo = NULL;
        char rule[100];
        snprintf(rule, sizeof rule, "%s:%s", coll_operation_name(row->operation), row->name);
        coll__rules_t *rules = create(rule, "");
        coll__plan_t plan = plan_of(row->operation, 100, 8);
        plan.node = true;
        assert_int_equal(coll__select(rules, &plan, false, &algo, NULL, 0), 0);
        assert_ptr_equal(algo, row);
        coll__rules_free(rules);
    }
}

/* Whatever the call, the built-in rules give an algorithm that applies, is no baseline, and in deterministic mode is
 * ordered. */
static void test_builtin_rules_cover_all(void **state) {
    (void)state;
    static const int sizes[] = {1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 31, 32, 33, 64, 100, 1000, 4096, 1 << 20};
    static const coll_operation_t operations[] = {COLL_OP_BARRIER, COLL_OP_BROADCAST, COLL_OP_REDUCE, COLL_OP_ALLREDUCE,
                                                  COLL_OP_ALLGATHER};
    coll__rules_t *rules = create("", "");
    for (size_t o = 0; o < sizeof operations / sizeof operations[0]; o++)
        for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++)
            for (int power = -1; power < 40; power++)
                for (int mode = 0; mode < 4; mode++) {
                    bool deterministic = mode & 1;
                    const coll__algo_t *algo = NULL;
                    coll__plan_t plan = plan_of(operations[o], power < 0 ? 0 : ((size_t)1 << power) + 1, sizes[s]);
                    plan.commutative = mode & 2;
                    assert_int_equal(coll__select(rules, &plan, deterministic, &algo, NULL, 0), 0);
                    assert_false(algo->baseline);
                    assert_true(!algo->applies || algo->applies(&plan));
                    bool reduces = plan.operation == COLL_OP_REDUCE || plan.operation == COLL_OP_ALLREDUCE;
                    assert_true(algo->ordered || !deterministic || !reduces);
                }
    coll__rules_free(rules);
}

/* Ranks must not differ in what is local. */
static void test_local_facts_do_not_matter(void **state) {
    (void)state;
    coll__rules_t *rules = create("", "");
    for (size_t i = 0; i < coll__algo_count(); i++)
        for (int power = 0; power < 30; power++) {
            const coll__algo_t *first = NULL, *second = NULL;
            coll__plan_t plan = plan_of(coll__algo_get(i)->operation, (size_t)1 << power, 7);
            assert_int_equal(coll__select(rules, &plan, false, &first, NULL, 0), 0);
            plan.rank = 3;
            plan.in_place = true;
            assert_int_equal(coll__select(rules, &plan, false, &second, NULL, 0), 0);
            assert_ptr_equal(first, second);
        }
    coll__rules_free(rules);
}

static uint64_t hash_of(const char *tune, const char *file) {
    coll__rules_t *rules = create(tune, file);
    uint64_t hash = coll__rules_hash(rules);
    coll__rules_free(rules);
    return hash;
}

static void test_hash(void **state) {
    (void)state;
    static const char *const different[] = {
        "",
        "allreduce:ring",
        "allreduce:tree",
        "allgather:ring",
        "allreduce:0-1k:ring",
        "allreduce:0-2k:ring",
        "allreduce:1-1k:ring",
        "allreduce::ranks=0-1k:ring",
        "allreduce::nodes=0-1k:ring",
        "allreduce:ring,allreduce:tree",
        "allreduce:tree,allreduce:ring",
    };
    enum { COUNT = sizeof different / sizeof different[0] };
    uint64_t hashes[COUNT];
    for (size_t i = 0; i < COUNT; i++) {
        hashes[i] = hash_of(different[i], "");
        for (size_t j = 0; j < i; j++)
            assert_true(hashes[i] != hashes[j]);
    }
    /* How and where a rule is written does not change what it decides. */
    assert_true(hash_of(" allreduce : 0-1024 :: ring ;", "") == hashes[4]);
    WRITE_FILE("allreduce:0-1k:ring\n");
    assert_true(hash_of("", path) == hashes[4]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_precedence, remove_file),
        cmocka_unit_test_teardown(test_bad_rules, remove_file),
        cmocka_unit_test(test_forced_but_impossible),
        cmocka_unit_test(test_every_row_can_be_forced),
        cmocka_unit_test(test_builtin_rules_cover_all),
        cmocka_unit_test(test_local_facts_do_not_matter),
        cmocka_unit_test_teardown(test_hash, remove_file),
    };
    return cmocka_run_group_tests_name("select", tests, NULL, NULL);
}
