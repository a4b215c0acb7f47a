/* The user's own secret: made once, kept private, refused when it is not. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "bootstrap/secret.h"
#include "coll.h"

static char home[] = "/tmp/libcoll-test-XXXXXX", path[200];

static int make_home(void **state) {
    (void)state;
    memcpy(home + strlen(home) - 6, "XXXXXX", 6);
    if (mkdtemp(home) == NULL)
        return -1;
    snprintf(path, sizeof path, "%s/.libcoll_secret", home);
    return 0;
}

static int remove_home(void **state) {
    (void)state;
    unlink(path);
    return rmdir(home); /* fails if anything else was left behind */
}

static void test_a_given_secret_is_taken_as_it_is(void **state) {
    (void)state;
    char secret[COLL__SECRET_BYTES], long_text[COLL__SECRET_BYTES + 1];
    assert_int_equal(coll__secret("open sesame", secret), 0);
    assert_string_equal(secret, "open sesame");
    memset(long_text, 'x', sizeof long_text);
    long_text[COLL__SECRET_BYTES - 1] = '\0';
    assert_int_equal(coll__secret(long_text, secret), 0);
    assert_string_equal(secret, long_text);
    long_text[COLL__SECRET_BYTES - 1] = 'x';
    long_text[COLL__SECRET_BYTES] = '\0';
    assert_int_equal(coll__secret(long_text, secret), COLL_ERR_BOOTSTRAP);
    assert_non_null(strstr(coll_error_message(), "1024"));
}

static void test_made_once_and_private(void **state) {
    (void)state;
    char first[COLL__SECRET_BYTES], second[COLL__SECRET_BYTES];
    mode_t before = umask(0);
    assert_int_equal(coll__secret_in(home, first), 0);
    umask(before);
    assert_int_equal(coll__secret_in(home, second), 0);
    assert_string_equal(first, second);
    assert_int_equal(strlen(first), 64);
    struct stat file;
    assert_int_equal(stat(path, &file), 0);
    assert_int_equal(file.st_mode & 0777, 0600);

    assert_int_equal(unlink(path), 0);
    assert_int_equal(coll__secret_in(home, second), 0);
    assert_string_not_equal(first, second);
}

/* Many processes at once agree. */
static void test_one_of_many_makes_it(void **state) {
    (void)state;
    int pipes[2];
    assert_int_equal(pipe(pipes), 0);
    pid_t pids[16];
    for (int i = 0; i < 16; i++)
        if ((pids[i] = fork()) == 0) {
            char secret[COLL__SECRET_BYTES];
            int failed = coll__secret_in(home, secret) != 0 || write(pipes[1], secret, 64) != 64;
            _exit(failed);
        }
    char first[64], other[64];
    for (int i = 0; i < 16; i++) {
        int status;
        assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
        assert_int_equal(status, 0);
        assert_int_equal(read(pipes[0], other, 64), 64);
        if (i == 0)
            memcpy(first, other, 64);
        assert_memory_equal(first, other, 64);
    }
    close(pipes[0]);
    close(pipes[1]);
}

static void refuse(const char *word) {
    char secret[COLL__SECRET_BYTES];
    assert_int_equal(coll__secret_in(home, secret), COLL_ERR_BOOTSTRAP);
    if (strstr(coll_error_message(), word) == NULL)
        fail_msg("'%s' is not in: %s", word, coll_error_message());
    assert_non_null(strstr(coll_error_message(), "COLL_SECRET"));
    assert_non_null(strstr(coll_error_message(), home));
}

static void test_refused_when_others_may_read_it(void **state) {
    (void)state;
    char secret[COLL__SECRET_BYTES];
    assert_int_equal(coll__secret_in(home, secret), 0);
    const mode_t open_modes[] = {0604, 0640, 0602, 0660};
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(chmod(path, open_modes[i]), 0);
        refuse("read by others");
    }
    assert_int_equal(chmod(path, 0600), 0);
    assert_int_equal(coll__secret_in(home, secret), 0);
}

static void test_refused_when_it_is_no_secret(void **state) {
    (void)state;
    int fd = open(path, O_CREAT | O_WRONLY, 0600);
    assert_int_equal(write(fd, "short", 5), 5);
    close(fd);
    refuse("holds no secret");
    unlink(path);

    assert_int_equal(symlink("/etc/passwd", path), 0);
    refuse("symbolic links");
    unlink(path);

    assert_int_equal(mkfifo(path, 0600), 0); /* does not hang */
    refuse("not a file of this user");
    unlink(path);

    if (geteuid() == 0) {
        fd = open(path, O_CREAT | O_WRONLY, 0600);
        assert_int_equal(fchown(fd, 12345, 12345), 0);
        close(fd);
        refuse("not a file of this user");
    }
}

static void test_no_place_to_keep_it(void **state) {
    (void)state;
    char secret[COLL__SECRET_BYTES];
    assert_int_equal(coll__secret_in("/proc/no-such-home", secret), COLL_ERR_BOOTSTRAP);
    assert_non_null(strstr(coll_error_message(), "COLL_SECRET"));
    assert_non_null(strstr(coll_error_message(), "/proc/no-such-home"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_given_secret_is_taken_as_it_is),
        cmocka_unit_test_setup_teardown(test_made_once_and_private, make_home, remove_home),
        cmocka_unit_test_setup_teardown(test_one_of_many_makes_it, make_home, remove_home),
        cmocka_unit_test_setup_teardown(test_refused_when_others_may_read_it, make_home, remove_home),
        cmocka_unit_test_setup_teardown(test_refused_when_it_is_no_secret, make_home, remove_home),
        cmocka_unit_test(test_no_place_to_keep_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
