/* The grammar of tuning rules: what is accepted means what it says, what is not is refused with what is allowed. */
#include "select/rule.h"
#include "topo/topo.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static coll__rule_t rule;

static int parse(const char *text) {
    return coll__rule_parse(text, strlen(text), "HERE", &rule);
}

static void assert_span(coll__span_t span, size_t low, size_t high) {
    assert_true(span.low == low && span.high == high);
}

static void test_full_rule(void **state) {
    (void)state;
    assert_int_equal(parse("allreduce:64k-inf:ranks=8-64:nodes=2:ring"), 0);
    assert_int_equal(rule.operation, COLL_OP_ALLREDUCE);
    assert_span(rule.bytes, 65536, SIZE_MAX);
    assert_span(rule.ranks, 8, 64);
    assert_span(rule.nodes, 2, 2);
    assert_string_equal(rule.algo->name, "ring");
    assert_string_equal(rule.text, "allreduce:64k-inf:ranks=8-64:nodes=2:ring");
    assert_string_equal(rule.source, "HERE");
}

static void test_parts_left_out(void **state) {
    (void)state;
    static const char *const same[] = {
        "barrier:linear",        "barrier::linear",      "barrier:::linear",           "barrier::::linear",
        " barrier : : linear\t", "barrier:0-inf:linear", "barrier:ranks=0-inf:linear", "barrier::nodes=0-inf:linear",
    };
    for (size_t i = 0; i < sizeof same / sizeof same[0]; i++) {
        assert_int_equal(parse(same[i]), 0);
        assert_int_equal(rule.operation, COLL_OP_BARRIER);
        assert_span(rule.bytes, 0, SIZE_MAX);
        assert_span(rule.ranks, 0, SIZE_MAX);
        assert_span(rule.nodes, 0, SIZE_MAX);
        assert_string_equal(rule.algo->name, "linear");
    }
    assert_int_equal(parse("reduce:nodes=4-8:binomial"), 0);
    assert_span(rule.nodes, 4, 8);
    assert_int_equal(parse("reduce: 0 : ranks=3 : binomial"), 0);
    assert_span(rule.bytes, 0, 0);
    assert_span(rule.ranks, 3, 3);
    assert_string_equal(rule.text, "reduce: 0 : ranks=3 : binomial");
}

/* Only as many characters as it is told to look at. */
static void test_length(void **state) {
    (void)state;
    assert_int_equal(coll__rule_parse("barrier:linear,rubbish", 14, "HERE", &rule), 0);
    assert_string_equal(rule.algo->name, "linear");
}

static void assert_refused(const char *text, const char *part_of_message) {
    assert_int_equal(parse(text), COLL_ERR_CONFIG);
    const char *message = coll_error_message();
    if (!strstr(message, part_of_message) || !strstr(message, "HERE: rule"))
        fail_msg("\"%s\" gives \"%s\", without \"%s\"", text, message, part_of_message);
}

static void test_refused(void **state) {
    (void)state;
    assert_refused("ring", "too few parts; a rule is operation:bytes:ranks=range:nodes=range:algorithm");
    assert_refused("allreduce:1:2:3:4:ring", "too many parts");
    assert_refused("allreduces:ring",
                   "no operation \"allreduces\"; allowed are barrier, broadcast, reduce, allreduce, allgather");
    assert_refused("all reduce:ring", "no operation \"all reduce\"");
    assert_refused(":ring", "no operation \"\"");
    assert_refused("sendrecv:ring", "no operation \"sendrecv\"");
    assert_refused("barrier:ring", "barrier has no algorithm \"ring\"; allowed are ");
    assert_refused("barrier:ring", "linear, binomial, dissemination");
    assert_refused("barrier:", "barrier has no algorithm \"\"");
    assert_refused("ALLREDUCE:ring", "no operation \"ALLREDUCE\"");
    assert_refused("allreduce:64q:ring", "\"64q\" is not a range; allowed are ranges like 64k-inf");
    assert_refused("allreduce:8-4:ring", "\"8-4\" is not a range");
    assert_refused("allreduce:-4:ring", "not a range");
    assert_refused("allreduce:4-:ring", "not a range");
    assert_refused("allreduce:4-8-9:ring", "not a range");
    assert_refused("allreduce:99999999999999999999999:ring", "not a range");
    assert_refused("allreduce:ranks=:ring", "\"ranks=\" is not a range; allowed are ranges like ranks=64k-inf");
    assert_refused("allreduce:ranks=2:ranks=3:ring", "\"ranks=3\" is out of place");
    assert_refused("allreduce:nodes=2:ranks=3:ring", "\"ranks=3\" is out of place");
    assert_refused("allreduce:1:2:ring", "\"2\" is out of place");
    assert_refused("allreduce:bytes=1:ring", "\"bytes=1\" is not a range");
    char longest[400];
    memset(longest, 'x', sizeof longest - 1);
    longest[sizeof longest - 1] = 0;
    assert_refused(longest, "longer than 159 characters");
}

static bool fits(const char *text, size_t count, int size, int nodes) {
    coll__topo_t topo = {.size = size, .node_count = nodes};
    coll__plan_t plan = {.operation = COLL_OP_REDUCE, .size = size, .count = count, .element = 8, .topo = &topo};
    assert_int_equal(parse(text), 0);
    return coll__rule_fits(&rule, &plan);
}

static void test_fits(void **state) {
    (void)state;
    assert_true(fits("reduce:linear", 0, 1, 1));
    assert_true(fits("reduce:linear", SIZE_MAX / 8, 1000000, 5));
    assert_false(fits("broadcast:linear", 0, 1, 1));
    assert_false(fits("reduce:16-32:linear", 1, 2, 1));
    assert_true(fits("reduce:16-32:linear", 2, 2, 1));
    assert_true(fits("reduce:16-32:linear", 4, 2, 1));
    assert_false(fits("reduce:16-32:linear", 5, 2, 1));
    assert_false(fits("reduce::ranks=3-4:linear", 5, 2, 1));
    assert_true(fits("reduce::ranks=3-4:linear", 5, 4, 1));
    assert_false(fits("reduce::ranks=3-4:nodes=2:linear", 5, 4, 1));
    assert_true(fits("reduce::ranks=3-4:nodes=2:linear", 5, 4, 2));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_full_rule), cmocka_unit_test(test_parts_left_out), cmocka_unit_test(test_length),
        cmocka_unit_test(test_refused),   cmocka_unit_test(test_fits),
    };
    return cmocka_run_group_tests_name("rule", tests, NULL, NULL);
}
