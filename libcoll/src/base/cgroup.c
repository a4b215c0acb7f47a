/* Reads /proc/self/cgroup and walks each group's path upwards, since every ancestor's quota holds as well. In a
 * container the path may be the host's while the mount shows only the container's own part: the walk then still meets
 * the root of the mount, where that quota is written. */
#include "base/cgroup.h"

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool read_line(const char *path, char *line, size_t capacity) {
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return false;
    bool got = fgets(line, (int)capacity, file) != NULL;
    fclose(file);
    return got;
}

/* CPUs that quota / period comes to, rounded up; 0 for "no limit" and for nonsense. */
static int quota_cpus(long long quota, long long period) {
    if (quota <= 0 || period <= 0)
        return 0;
    long long cpus = quota / period + (quota % period != 0);
    return cpus < INT_MAX ? (int)cpus : INT_MAX;
}

/* v2: one file with "max 100000" or "150000 100000". */
static int group_cpus_v2(const char *directory) {
    char path[PATH_MAX + 32], line[128];
    long long quota, period;
    snprintf(path, sizeof path, "%s/cpu.max", directory);
    if (!read_line(path, line, sizeof line) || sscanf(line, "%lld %lld", &quota, &period) != 2)
        return 0;
    return quota_cpus(quota, period);
}

/* v1: two files; a quota of -1 is no limit. */
static int group_cpus_v1(const char *directory) {
    char path[PATH_MAX + 32], line[128];
    snprintf(path, sizeof path, "%s/cpu.cfs_quota_us", directory);
    if (!read_line(path, line, sizeof line))
        return 0;
    long long quota = strtoll(line, NULL, 10);
    snprintf(path, sizeof path, "%s/cpu.cfs_period_us", directory);
    if (!read_line(path, line, sizeof line))
        return 0;
    return quota_cpus(quota, strtoll(line, NULL, 10));
}

static int tighter(int a, int b) {
    return a == 0 || (b != 0 && b < a) ? b : a;
}

/* The group `path` ("/a/b" or "/") below `mount` and all above it. */
static int walk(const char *mount, const char *path, int (*group_cpus)(const char *)) {
    char directory[PATH_MAX];
    int length = snprintf(directory, sizeof directory, "%s%s", mount, path);
    if (length < 0 || (size_t)length >= sizeof directory)
        return 0;
    size_t mount_length = strlen(mount);
    int cpus = 0;
    for (;;) {
        cpus = tighter(cpus, group_cpus(directory));
        char *slash = strrchr(directory + mount_length, '/');
        if (slash == NULL)
            return cpus;
        *slash = '\0';
    }
}

static bool has_word(const char *list, const char *word) {
    size_t length = strlen(word);
    for (const char *at = list; (at = strstr(at, word)) != NULL; at += length) {
        if ((at == list || at[-1] == ',') && (at[length] == '\0' || at[length] == ','))
            return true;
    }
    return false;
}

/* One line, "hierarchy:controllers:path"; v2 has no controllers. */
static int line_cpus(char *line, const char *root) {
    line[strcspn(line, "\n")] = '\0';
    char *controllers = strchr(line, ':');
    char *path = controllers != NULL ? strchr(controllers + 1, ':') : NULL;
    if (path == NULL)
        return 0;
    *path++ = '\0';
    controllers++;

    char mount[PATH_MAX];
    if (controllers[0] == '\0')
        return walk(root, path, group_cpus_v2);
    if (!has_word(controllers, "cpu"))
        return 0;
    /* The controllers' joint directory, and "cpu" alone, usually a symbolic link to it. */
    snprintf(mount, sizeof mount, "%s/%s", root, controllers);
    int cpus = walk(mount, path, group_cpus_v1);
    snprintf(mount, sizeof mount, "%s/cpu", root);
    return tighter(cpus, walk(mount, path, group_cpus_v1));
}

int coll__cgroup_cpus(const char *membership, const char *root) {
    FILE *file = fopen(membership, "re");
    if (file == NULL)
        return 0;
    int cpus = 0;
    char *line = NULL;
    size_t capacity = 0;
    while (getline(&line, &capacity, file) > 0)
        cpus = tighter(cpus, line_cpus(line, root));
    free(line);
    fclose(file);
    return cpus;
}
