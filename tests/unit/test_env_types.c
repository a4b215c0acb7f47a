/* The field types of the environment: what each takes, refuses and writes back. */
#include <locale.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/env.h"
#include "base/env_types.h"

static const coll__env_limits_t no_limits = {0, 0};

static void refuses(const coll__env_type_t *type, coll__env_limits_t limits, const char *const *texts) {
    _Alignas(max_align_t) char field[sizeof(coll__env_text)];
    for (; *texts != NULL; texts++) {
        memset(field, 0x55, sizeof field);
        if (type->parse(type, *texts, limits, field))
            fail_msg("%s took \"%s\"", type->label, *texts);
        assert_int_equal(field[0], 0x55); /* and the field is as before */
    }
}

static void allows(const coll__env_type_t *type, coll__env_limits_t limits, const char *expected) {
    char text[256];
    type->allowed(type, limits, text, sizeof text);
    assert_string_equal(text, expected);
}

static int parsed_int(const coll__env_type_t *type, coll__env_limits_t limits, const char *text) {
    int value = -12345;
    if (!type->parse(type, text, limits, &value))
        fail_msg("%s refused \"%s\"", type->label, text);
    return value;
}

static void formats(const coll__env_type_t *type, const void *field, const char *expected) {
    char text[1024];
    type->format(type, field, text, sizeof text);
    assert_string_equal(text, expected);
}

static void test_int(void **state) {
    (void)state;
    const coll__env_type_t *type = &coll__env_type_int;
    const coll__env_limits_t limits = {-1, 65535};
    assert_int_equal(parsed_int(type, limits, "0"), 0);
    assert_int_equal(parsed_int(type, limits, "-1"), -1);
    assert_int_equal(parsed_int(type, limits, "65535"), 65535);
    assert_int_equal(parsed_int(type, limits, "007"), 7);
    refuses(type, limits,
            (const char *const[]){"", " 1", "1 ", "+1", "-2", "65536", "1x", "0x10", "1.0", "1e3", "-", "--1", "- 1",
                                  "one", "\t1", "1\n", "99999999999999999999", "-99999999999999999999", NULL});
    allows(type, limits, "integers from -1 to 65535");
    allows(type, (coll__env_limits_t){0, INT32_MAX}, "integers from 0 up");
    formats(type, &(int){-7}, "-7");
}

static void test_flag(void **state) {
    (void)state;
    const coll__env_type_t *type = &coll__env_type_flag;
    assert_int_equal(parsed_int(type, no_limits, "0"), 0);
    assert_int_equal(parsed_int(type, no_limits, "1"), 1);
    refuses(type, no_limits, (const char *const[]){"", "2", "01", "1 ", " 1", "true", "yes", "on", "-1", NULL});
    allows(type, no_limits, "0 and 1");
    formats(type, &(int){1}, "1");
}

static void test_spin(void **state) {
    (void)state;
    const coll__env_type_t *type = &coll__env_type_spin;
    const coll__env_limits_t limits = {0, 1000};
    assert_int_equal(parsed_int(type, limits, "auto"), COLL__SPIN_AUTO);
    assert_int_equal(parsed_int(type, limits, "0"), 0);
    assert_int_equal(parsed_int(type, limits, "1000"), 1000);
    refuses(type, limits, (const char *const[]){"", "-1", "1001", "Auto", "auto ", "autos", "1us", NULL});
    allows(type, limits, "auto and integers from 0 to 1000 (microseconds)");
    formats(type, &(int){COLL__SPIN_AUTO}, "auto");
    formats(type, &(int){20}, "20");
}

static void test_bytes(void **state) {
    (void)state;
    const coll__env_type_t *type = &coll__env_type_bytes;
    const coll__env_limits_t limits = {256, 1 << 20};
    size_t value;
    assert_true(type->parse(type, "8k", limits, &value) && value == 8192);
    assert_true(type->parse(type, "256", limits, &value) && value == 256);
    assert_true(type->parse(type, "1M", limits, &value) && value == 1 << 20);
    refuses(type, limits,
            (const char *const[]){"", "255", "1025k", "2m", "8kb", "8 k", " 8k", "8k ", "-8k", "k", "inf", "8.5k",
                                  "0x100", NULL});
    allows(type, limits, "bytes from 256 to 1m, with k, m or g for powers of 1024");
    formats(type, &(size_t){8192}, "8k");
    formats(type, &(size_t){8193}, "8193");
    formats(type, &(size_t){0}, "0");
    formats(type, &(size_t){(size_t)3 << 30}, "3g");
}

static void test_parse_bytes(void **state) {
    (void)state;
    static const struct {
        const char *text;
        size_t used, bytes;
    } cases[] = {
        {"0", 1, 0},
        {"64k", 3, 65536},
        {"64K", 3, 65536},
        {"1m", 2, 1 << 20},
        {"2g", 2, (size_t)2 << 30},
        {"inf", 3, SIZE_MAX},
        {"64k-inf:ring", 3, 65536},
        {"inf:ring", 3, SIZE_MAX},
        {"12 k", 2, 12},
        {"18446744073709551615", 20, SIZE_MAX},
        {"18446744073709551616", 0, 0},
        {"17179869183g", 12, (size_t)17179869183 << 30},
        {"17179869184g", 0, 0},
        {"", 0, 0},
        {"k", 0, 0},
        {"-1", 0, 0},
        {" 1", 0, 0},
        {"in", 0, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        size_t bytes = 0;
        assert_int_equal(coll__parse_bytes(cases[i].text, &bytes), cases[i].used);
        if (cases[i].used > 0)
            assert_true(bytes == cases[i].bytes);
    }
}

static double parsed_seconds(const char *text) {
    double value = -1;
    if (!coll__env_type_seconds.parse(&coll__env_type_seconds, text, (coll__env_limits_t){0, 1000}, &value))
        fail_msg("refused \"%s\"", text);
    return value;
}

static void test_seconds(void **state) {
    (void)state;
    const coll__env_type_t *type = &coll__env_type_seconds;
    assert_true(parsed_seconds("300") == 300);
    assert_true(parsed_seconds("0") == 0);
    assert_true(parsed_seconds("2.5") == 2.5);
    assert_true(parsed_seconds(".5") == .5);
    assert_true(parsed_seconds("1e-05") == 1e-05);
    assert_true(parsed_seconds("1000") == 1000);
    refuses(type, (coll__env_limits_t){0, 1000},
            (const char *const[]){"", "-1", "+1", "1000.1", "1s", "1 ", " 1", "1,5", "inf", "nan", "0x10", "1e",
                                  "1e400", ".", "e5", "1.2.3", NULL});
    allows(type, (coll__env_limits_t){0, 1000}, "seconds from 0 to 1000, such as 30 or 2.5");
    formats(type, &(double){2.5}, "2.5");
}

static void test_seconds_in_any_locale(void **state) {
    (void)state;
    char path[64] = "";
    static const char *const locales[] = {"de_DE.UTF-8", "fr_FR.UTF-8", "C"};
    for (size_t i = 0; i < sizeof locales / sizeof locales[0]; i++) {
        if (setlocale(LC_ALL, locales[i]) == NULL)
            continue; /* the last one is everywhere */
        snprintf(path, sizeof path, "%s", locales[i]);
        assert_true(parsed_seconds("2.5") == 2.5);
        formats(&coll__env_type_seconds, &(double){2.5}, "2.5");
    }
    assert_string_equal(path, "C");
}

static void test_text(void **state) {
    (void)state;
    const coll__env_type_t *type = &coll__env_type_text;
    coll__env_text value;
    char longest[sizeof(coll__env_text)], too_long[sizeof(coll__env_text) + 1];
    memset(longest, 'x', sizeof longest);
    longest[sizeof longest - 1] = '\0';
    memset(too_long, 'x', sizeof too_long);
    too_long[sizeof too_long - 1] = '\0';

    assert_true(type->parse(type, "", no_limits, value));
    assert_string_equal(value, "");
    assert_true(type->parse(type, " kept as it is ", no_limits, value));
    assert_string_equal(value, " kept as it is ");
    assert_true(type->parse(type, longest, no_limits, value));
    assert_string_equal(value, longest);
    formats(type, longest, longest);
    refuses(type, no_limits, (const char *const[]){too_long, "two\nlines", "two\r", NULL});
    allows(type, no_limits, "at most 1023 bytes in one line");
}

static void test_choices(void **state) {
    (void)state;
    assert_int_equal(parsed_int(&coll__env_type_choice_transport, no_limits, "auto"), COLL__TRANSPORT_AUTO);
    assert_int_equal(parsed_int(&coll__env_type_choice_transport, no_limits, "shm"), COLL__TRANSPORT_SHM);
    assert_int_equal(parsed_int(&coll__env_type_choice_transport, no_limits, "ofi"), COLL__TRANSPORT_OFI);
    assert_int_equal(parsed_int(&coll__env_type_choice_hier, no_limits, "auto"), COLL__HIER_AUTO);
    assert_int_equal(parsed_int(&coll__env_type_choice_hier, no_limits, "off"), COLL__HIER_OFF);
    assert_int_equal(parsed_int(&coll__env_type_choice_hier, no_limits, "leader"), COLL__HIER_LEADER);
    assert_int_equal(parsed_int(&coll__env_type_choice_hier, no_limits, "sliced"), COLL__HIER_SLICED);
    assert_int_equal(parsed_int(&coll__env_type_choice_progress, no_limits, "caller"), COLL__PROGRESS_CALLER);
    assert_int_equal(parsed_int(&coll__env_type_choice_progress, no_limits, "thread"), COLL__PROGRESS_THREAD);
    assert_int_equal(parsed_int(&coll__env_type_choice_log, no_limits, "off"), COLL__LOG_OFF);
    assert_int_equal(parsed_int(&coll__env_type_choice_log, no_limits, "debug"), COLL__LOG_DEBUG);
    refuses(&coll__env_type_choice_hier, no_limits,
            (const char *const[]){"", "Auto", "lead", "leaders", " off", "off ", "0", "auto|off", NULL});
    allows(&coll__env_type_choice_hier, no_limits, "auto, off, leader and sliced");
    allows(&coll__env_type_choice_progress, no_limits, "caller and thread");
    formats(&coll__env_type_choice_log, &(int){COLL__LOG_INFO}, "info");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_int),
        cmocka_unit_test(test_flag),
        cmocka_unit_test(test_spin),
        cmocka_unit_test(test_bytes),
        cmocka_unit_test(test_parse_bytes),
        cmocka_unit_test(test_seconds),
        cmocka_unit_test(test_seconds_in_any_locale),
        cmocka_unit_test(test_text),
        cmocka_unit_test(test_choices),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
