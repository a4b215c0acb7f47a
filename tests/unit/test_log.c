/* Lines of the log: which are written, how they look, that they stay whole. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/log.h"

static char captured[8192];
static int saved_stderr;
static FILE *file;

static void capture_begin(void) {
    file = tmpfile();
    assert_non_null(file);
    fflush(stderr);
    saved_stderr = dup(STDERR_FILENO);
    dup2(fileno(file), STDERR_FILENO);
}

static const char *capture_end(void) {
    dup2(saved_stderr, STDERR_FILENO);
    close(saved_stderr);
    rewind(file);
    size_t length = fread(captured, 1, sizeof captured - 1, file);
    captured[length] = '\0';
    fclose(file);
    return captured;
}

static void log_all(void) {
    coll__log(COLL__LOG_OFF, "off");
    coll__log(COLL__LOG_ERROR, "an %s", "error");
    coll__log(COLL__LOG_WARN, "a warning");
    coll__log(COLL__LOG_INFO, "some info");
    coll__log(COLL__LOG_DEBUG, "details %d", 5);
    coll__log(99, "no level");
}

static void test_before_setup(void **state) {
    (void)state;
    capture_begin();
    log_all();
    assert_string_equal(capture_end(), "coll[?] error: an error\ncoll[?] warn: a warning\n");
}

static void test_levels(void **state) {
    (void)state;
    static const char *const expected[] = {
        "",
        "coll[3] error: an error\n",
        "coll[3] error: an error\ncoll[3] warn: a warning\n",
        "coll[3] error: an error\ncoll[3] warn: a warning\ncoll[3] info: some info\n",
        "coll[3] error: an error\ncoll[3] warn: a warning\ncoll[3] info: some info\ncoll[3] debug: details 5\n",
    };
    for (int level = COLL__LOG_OFF; level <= COLL__LOG_DEBUG; level++) {
        coll__log_setup(level, 3);
        capture_begin();
        log_all();
        assert_string_equal(capture_end(), expected[level]);
    }
}

static void test_long_lines_are_cut_but_end(void **state) {
    (void)state;
    static char text[5000];
    memset(text, 'x', sizeof text - 1);
    coll__log_setup(COLL__LOG_INFO, 0);
    capture_begin();
    coll__log(COLL__LOG_INFO, "%s", text);
    coll__log(COLL__LOG_INFO, "next");
    const char *lines = capture_end();
    const char *end = strchr(lines, '\n');
    assert_non_null(end);
    assert_int_equal(end - lines, 2046);
    assert_string_equal(end + 1, "coll[0] info: next\n");
}

static void test_errno_is_kept(void **state) {
    (void)state;
    coll__log_setup(COLL__LOG_INFO, 0);
    int stderr_copy = dup(STDERR_FILENO);
    close(STDERR_FILENO);
    errno = ENOMEM;
    coll__log(COLL__LOG_INFO, "nobody hears this");
    int seen = errno;
    dup2(stderr_copy, STDERR_FILENO);
    close(stderr_copy);
    assert_int_equal(seen, ENOMEM);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_before_setup),
        cmocka_unit_test(test_levels),
        cmocka_unit_test(test_long_lines_are_cut_but_end),
        cmocka_unit_test(test_errno_is_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
