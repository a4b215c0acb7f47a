/* Who shares a node: the same text for processes of one machine and user, another for others. */
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "bootstrap/bootstrap.h"

static coll__env_t env;

/* The identity in a child that first does something: 0 if it is `expected`, 1 if not, 2 if the child could not do it.
 */
static int in_child(int (*first)(void), const char *expected) {
    pid_t pid = fork();
    if (pid == 0) {
        char text[300];
        if (first != NULL && first() != 0)
            _exit(2);
        int status = coll__node_identity(&env, text, sizeof text);
        _exit(status != 0 ? 3 : strcmp(text, expected) != 0);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static int another_network(void) {
    return unshare(CLONE_NEWNET);
}

static int another_user(void) {
    return seteuid(12345);
}

static void test_processes_of_one_machine_agree(void **state) {
    (void)state;
    char mine[300];
    env.node[0] = '\0';
    assert_int_equal(coll__node_identity(&env, mine, sizeof mine), 0);
    assert_int_equal(in_child(NULL, mine), 0);
    assert_non_null(strstr(mine, "net:["));
    assert_non_null(strstr(mine, "pid:["));
}

static void test_another_network_or_user_is_another_node(void **state) {
    (void)state;
    char mine[300];
    env.node[0] = '\0';
    assert_int_equal(coll__node_identity(&env, mine, sizeof mine), 0);
    int network = in_child(another_network, mine), user = in_child(another_user, mine);
    if (network == 2 || user == 2) {
        print_message("only root can become another: not tested\n");
        skip();
    }
    assert_int_equal(network, 1);
    assert_int_equal(user, 1);
}

static void test_coll_node_overrides(void **state) {
    (void)state;
    char text[300], small[8];
    strcpy(env.node, "left half");
    assert_int_equal(coll__node_identity(&env, text, sizeof text), 0);
    assert_non_null(strstr(text, "left half"));
    assert_int_equal(in_child(NULL, text), 0);
    strcpy(env.node, "right half");
    assert_int_equal(in_child(NULL, text), 1);
    assert_int_equal(coll__node_identity(&env, small, sizeof small), COLL_ERR_CONFIG);
    assert_non_null(strstr(coll_error_message(), "COLL_NODE"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_processes_of_one_machine_agree),
        cmocka_unit_test(test_another_network_or_user_is_another_node),
        cmocka_unit_test(test_coll_node_overrides),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
