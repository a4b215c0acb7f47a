/* A file with 64 hexadecimal digits, mode 0600. It is written under another name and linked into place, so that of many
 * processes that start at once one wins and none reads half a file. The home directory comes from the user database,
 * not from HOME: sudo and containers leave others' there. */
#include "bootstrap/secret.h"

#include <coll.h>
#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"

enum { DIGITS = 64 };

static const char advice[] = "set COLL_SECRET to the same text for all ranks";

/* 1: read; 0: there is none; or an error. */
static int read_file(const char *path, char secret[COLL__SECRET_BYTES]) {
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0) {
        if (errno == ENOENT)
            return 0;
        return coll__error(COLL_ERR_BOOTSTRAP, "cannot read the secret in %s: %s; %s", path, strerror(errno), advice);
    }
    struct stat file;
    ssize_t bytes = 0;
    int status = 1;
    if (fstat(fd, &file) != 0 || !S_ISREG(file.st_mode) || file.st_uid != geteuid())
        status = coll__error(COLL_ERR_BOOTSTRAP, "%s is not a file of this user; remove it or %s", path, advice);
    else if ((file.st_mode & 077) != 0)
        status = coll__error(COLL_ERR_BOOTSTRAP,
                             "%s may be read by others (mode %03o); remove it, so that a new one is made, or %s", path,
                             (unsigned)file.st_mode & 0777, advice);
    else if ((bytes = read(fd, secret, COLL__SECRET_BYTES - 1)) < DIGITS)
        status = coll__error(COLL_ERR_BOOTSTRAP, "%s holds no secret; remove it, so that a new one is made, or %s",
                             path, advice);
    close(fd);
    if (status == 1) {
        secret[bytes] = '\0';
        secret[strcspn(secret, "\r\n")] = '\0';
    }
    return status;
}

static int make_file(const char *home, const char *path) {
    unsigned char random[DIGITS / 2 + 8];
    char digits[2 * sizeof random + 1], scratch[4096 + 64];
    randombytes_buf(random, sizeof random);
    sodium_bin2hex(digits, sizeof digits, random, sizeof random);
    snprintf(scratch, sizeof scratch, "%s.%s", path, digits + DIGITS); /* the digits beyond the secret name the file */

    int fd = open(scratch, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return coll__error(COLL_ERR_BOOTSTRAP, "cannot keep a secret in the home directory %s: %s; %s", home,
                           strerror(errno), advice);
    int failed = fchmod(fd, 0600) != 0 || write(fd, digits, DIGITS) != DIGITS || fsync(fd) != 0;
    failed = close(fd) != 0 || failed;
    failed = failed || (link(scratch, path) != 0 && errno != EEXIST);
    int why = errno;
    unlink(scratch);
    sodium_memzero(digits, sizeof digits);
    if (failed)
        return coll__error(COLL_ERR_BOOTSTRAP, "cannot write the secret %s: %s; %s", path, strerror(why), advice);
    return 0;
}

int coll__secret_in(const char *home, char secret[COLL__SECRET_BYTES]) {
    char path[4096];
    if (snprintf(path, sizeof path, "%s/.libcoll_secret", home) >= (int)sizeof path)
        return coll__error(COLL_ERR_BOOTSTRAP, "the home directory's name is too long; %s", advice);
    if (sodium_init() < 0)
        return coll__error(COLL_ERR_BOOTSTRAP, "libsodium found no source of random numbers");
    int status = read_file(path, secret);
    if (status == 0) {
        status = make_file(home, path);
        if (status == 0)
            status = read_file(path, secret);
        if (status == 0)
            status = coll__error(COLL_ERR_BOOTSTRAP, "the secret %s vanished; %s", path, advice);
    }
    return status < 0 ? status : 0;
}

int coll__secret(const char *given, char secret[COLL__SECRET_BYTES]) {
    if (given != NULL && given[0] != '\0') {
        if (strlen(given) >= COLL__SECRET_BYTES)
            return coll__error(COLL_ERR_BOOTSTRAP, "the secret is %zu bytes long, allowed are %d", strlen(given),
                               COLL__SECRET_BYTES - 1);
        memcpy(secret, given, strlen(given) + 1);
        return 0;
    }
    struct passwd entry, *found = NULL;
    char *text = malloc(1 << 16);
    if (text == NULL)
        return coll__error(COLL_ERR_MEMORY, "no memory to look up the home directory");
    int failed = getpwuid_r(geteuid(), &entry, text, 1 << 16, &found);
    int status;
    if (found == NULL || found->pw_dir == NULL || found->pw_dir[0] != '/')
        status = coll__error(COLL_ERR_BOOTSTRAP, "user %u has no home directory to keep a secret in%s%s; %s",
                             (unsigned)geteuid(), failed ? ": " : "", failed ? strerror(failed) : "", advice);
    else
        status = coll__secret_in(found->pw_dir, secret);
    free(text);
    return status;
}
