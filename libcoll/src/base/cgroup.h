/* The CPU quota that control groups give this process. */
#ifndef COLL__CGROUP_H
#define COLL__CGROUP_H

/* The tightest quota in CPUs, rounded up, over the groups that the file `membership` (as /proc/self/cgroup, v1 and v2)
 * names and all groups above them, with hierarchies mounted under `root` (as /sys/fs/cgroup). 0: no limit. */
int coll__cgroup_cpus(const char *membership, const char *root);

#endif
