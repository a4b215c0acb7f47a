/* CPUs that this process may use, and feature levels. */
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/cpu.h"

static void test_count_follows_the_affinity_mask(void **state) {
    (void)state;
    cpu_set_t all, one;
    assert_int_equal(sched_getaffinity(0, sizeof all, &all), 0);
    int count = coll__cpu_count();
    assert_in_range(count, 1, CPU_COUNT(&all));

    int cpu = 0;
    while (!CPU_ISSET(cpu, &all))
        cpu++;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    assert_int_equal(coll__cpu_count(), 1);
    assert_int_equal(sched_setaffinity(0, sizeof all, &all), 0);
    assert_int_equal(coll__cpu_count(), count);
}

static void test_level(void **state) {
    (void)state;
    coll__cpu_level_t level = coll__cpu_level();
    assert_in_range(level, COLL__CPU_BASE, COLL__CPU_LEVELS - 1);
    assert_int_equal(coll__cpu_level(), level);
#if defined(__x86_64__)
    assert_int_equal(level >= COLL__CPU_AVX2, __builtin_cpu_supports("avx2") != 0);
#else
    assert_int_equal(level, COLL__CPU_BASE);
#endif
}

static void test_level_names(void **state) {
    (void)state;
    assert_string_equal(coll__cpu_level_name(COLL__CPU_BASE), "base");
    assert_string_equal(coll__cpu_level_name(COLL__CPU_AVX2), "avx2");
    assert_string_equal(coll__cpu_level_name(COLL__CPU_AVX512), "avx512");
    assert_string_equal(coll__cpu_level_name(COLL__CPU_LEVELS), "no such level");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_count_follows_the_affinity_mask),
        cmocka_unit_test(test_level),
        cmocka_unit_test(test_level_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
