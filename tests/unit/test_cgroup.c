/* CPU quotas, from control-group files made up in a temporary folder. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/cgroup.h"

static char root[] = "/tmp/coll_cgroup_XXXXXX";
static char made[64][256]; /* files and folders, in the order they were made */
static int made_count;

static void remember(const char *path) {
    assert_true(made_count < 64);
    snprintf(made[made_count++], sizeof made[0], "%s", path);
}

/* Writes a file below the root and the folders it lies in. */
static void write_file(const char *path, const char *text) {
    char full[256];
    snprintf(full, sizeof full, "%s/%s", root, path);
    for (char *slash = full + strlen(root) + 1; (slash = strchr(slash, '/')) != NULL; slash++) {
        *slash = '\0';
        if (mkdir(full, 0700) == 0)
            remember(full);
        *slash = '/';
    }
    FILE *file = fopen(full, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
    remember(full);
}

static int setup(void **state) {
    (void)state;
    made_count = 0;
    strcpy(root + strlen(root) - 6, "XXXXXX");
    return mkdtemp(root) == NULL;
}

static int teardown(void **state) {
    (void)state;
    while (made_count > 0)
        remove(made[--made_count]);
    return rmdir(root);
}

static int cpus(const char *membership) {
    char path[256];
    write_file("membership", membership);
    snprintf(path, sizeof path, "%s/membership", root);
    return coll__cgroup_cpus(path, root);
}

static void test_v2(void **state) {
    (void)state;
    write_file("a/b/cpu.max", "200000 100000\n");
    assert_int_equal(cpus("0::/a/b\n"), 2);
}

static void test_v2_rounds_up(void **state) {
    (void)state;
    write_file("a/cpu.max", "150000 100000\n");
    write_file("b/cpu.max", "1000 100000\n");
    assert_int_equal(cpus("0::/a\n"), 2);
    assert_int_equal(cpus("0::/b\n"), 1);
}

static void test_v2_ancestors_count(void **state) {
    (void)state;
    write_file("a/b/c/cpu.max", "800000 100000\n");
    write_file("a/b/cpu.max", "max 100000\n");
    write_file("a/cpu.max", "300000 100000\n");
    assert_int_equal(cpus("0::/a/b/c\n"), 3);
}

/* Inside a container the path can be the host's, of which only the mount's root is there. */
static void test_v2_path_is_not_mounted(void **state) {
    (void)state;
    write_file("cpu.max", "400000 100000\n");
    assert_int_equal(cpus("0::/system.slice/docker-123.scope\n"), 4);
    assert_int_equal(cpus("0::/\n"), 4);
}

static void test_v2_no_limit(void **state) {
    (void)state;
    write_file("a/cpu.max", "max 100000\n");
    assert_int_equal(cpus("0::/a\n"), 0);
}

static void test_v1(void **state) {
    (void)state;
    write_file("cpu,cpuacct/job/cpu.cfs_quota_us", "250000\n");
    write_file("cpu,cpuacct/job/cpu.cfs_period_us", "100000\n");
    assert_int_equal(cpus("9:memory:/other\n4:cpu,cpuacct:/job\n1:name=systemd:/job\n"), 3);
}

static void test_v1_plain_folder(void **state) {
    (void)state;
    write_file("cpu/cpu.cfs_quota_us", "100000\n");
    write_file("cpu/cpu.cfs_period_us", "50000\n");
    assert_int_equal(cpus("4:cpuacct,cpu:/not/mounted\n"), 2);
}

static void test_v1_no_limit(void **state) {
    (void)state;
    write_file("cpu/cpu.cfs_quota_us", "-1\n");
    write_file("cpu/cpu.cfs_period_us", "100000\n");
    assert_int_equal(cpus("4:cpu:/\n"), 0);
}

static void test_other_controllers_are_not_cpu(void **state) {
    (void)state;
    write_file("cpuset/cpu.cfs_quota_us", "100000\n");
    write_file("cpuset/cpu.cfs_period_us", "100000\n");
    assert_int_equal(cpus("4:cpuset,cpuacct:/\n"), 0);
}

static void test_both_versions(void **state) {
    (void)state;
    write_file("cpu/cpu.cfs_quota_us", "500000\n");
    write_file("cpu/cpu.cfs_period_us", "100000\n");
    write_file("a/cpu.max", "600000 100000\n");
    assert_int_equal(cpus("4:cpu:/\n0::/a\n"), 5);
}

static void test_nonsense(void **state) {
    (void)state;
    write_file("a/cpu.max", "many few\n");
    write_file("b/cpu.max", "");
    write_file("c/cpu.max", "100000 0\n");
    assert_int_equal(cpus("0::/a\n"), 0);
    assert_int_equal(cpus("0::/b\n"), 0);
    assert_int_equal(cpus("0::/c\n"), 0);
    assert_int_equal(cpus("no colons here\n"), 0);
    assert_int_equal(cpus("one:colon\n"), 0);
    assert_int_equal(cpus(""), 0);
    assert_int_equal(coll__cgroup_cpus("/nonexistent/membership", root), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_v2),
        TEST(test_v2_rounds_up),
        TEST(test_v2_ancestors_count),
        TEST(test_v2_path_is_not_mounted),
        TEST(test_v2_no_limit),
        TEST(test_v1),
        TEST(test_v1_plain_folder),
        TEST(test_v1_no_limit),
        TEST(test_other_controllers_are_not_cpu),
        TEST(test_both_versions),
        TEST(test_nonsense),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
