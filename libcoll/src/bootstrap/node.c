/* Which processes can share memory: the same boot of the same kernel, the same network namespace (unix sockets with
 * abstract names live in it), the same pid namespace (containers), the same user (only he is given the segment). */
#include <coll.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "bootstrap/bootstrap.h"

/* Without /proc the host's name has to do for the boot. */
static void boot_id(char *text, size_t capacity) {
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    ssize_t bytes = fd >= 0 ? read(fd, text, capacity - 1) : -1;
    if (fd >= 0)
        close(fd);
    if (bytes <= 0) {
        memset(text, 0, capacity);
        gethostname(text, capacity - 1);
        return;
    }
    text[bytes] = '\0';
    text[strcspn(text, "\n")] = '\0';
}

static void name_space(const char *kind, char *text, size_t capacity) {
    char path[64];
    snprintf(path, sizeof path, "/proc/self/ns/%s", kind);
    ssize_t bytes = readlink(path, text, capacity - 1);
    text[bytes > 0 ? bytes : 0] = '\0';
}

int coll__node_identity(const coll__env_t *env, char *text, size_t capacity) {
    int length;
    if (env->node[0] != '\0') {
        length = snprintf(text, capacity, "COLL_NODE %s", env->node);
    } else {
        char boot[HOST_NAME_MAX + 1], network[64], processes[64];
        boot_id(boot, sizeof boot);
        name_space("net", network, sizeof network);
        name_space("pid", processes, sizeof processes);
        length = snprintf(text, capacity, "boot %s %s %s uid %u", boot, network, processes, (unsigned)geteuid());
    }
    if (length < 0 || (size_t)length >= capacity)
        return coll__error(COLL_ERR_CONFIG, "COLL_NODE is %d bytes long, allowed are %zu", length, capacity - 1);
    return 0;
}
