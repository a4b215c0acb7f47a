/* Messages with descriptors between processes of one machine: SCM_RIGHTS over unix sockets of packets. */
#ifndef COLL__BOOTSTRAP_FDS_H
#define COLL__BOOTSTRAP_FDS_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { COLL__FDS_AT_ONCE = 60 }; /* the kernel takes 253 in a message */

/* Listens at an abstract name (no file, gone with the process), or connects to it. -1 with errno. */
int coll__fds_listen(const char *name);
int coll__fds_connect(const char *name);

/* Who is at the other end: 0 if it is a process of this user, then *pid is its id (0: not visible here). -1 otherwise.
 */
int coll__fds_peer(int fd, pid_t *pid);

/* One packet with up to COLL__FDS_AT_ONCE descriptors. The receiver's are close-on-exec, and its `bytes` and `fd_count`
 * are what it expects: any other packet is EPROTO and its descriptors are closed. 0, or -1 with errno (ECONNRESET: hung
 * up, EAGAIN: nothing yet, or no room). */
int coll__fds_send(int fd, const void *packet, size_t bytes, const int *fds, int fd_count);
int coll__fds_receive(int fd, void *packet, size_t bytes, int *fds, int fd_count);

/* The same, waiting until the deadline (ETIMEDOUT). */
int coll__fds_send_wait(int fd, const void *packet, size_t bytes, const int *fds, int fd_count, int64_t deadline);
int coll__fds_receive_wait(int fd, void *packet, size_t bytes, int *fds, int fd_count, int64_t deadline);

#endif
