/* Several ranks in one test program, as forked processes.
 *
 *     static int body(int rank, int size, void *arg) { ...; return 0; }
 *     assert_int_equal(coll__fork_ranks(4, 20.0, body, NULL), 0);
 *
 * Every rank is a child with the variables that a launcher would set: COLL_RANK, COLL_SIZE, COLL_ADDR=127.0.0.1,
 * COLL_PORT, COLL_SECRET (fresh for each call) and, for rank 0, COLL_LISTEN_FD. Variables of another launcher (RANK,
 * WORLD_SIZE,
 * ...) are removed. Standard output and error are the parent's. A child that returns from its body leaves by _exit(),
 * so no handler of atexit() runs; a body that wants them calls exit() itself.
 *
 * The parent waits for all. When a rank fails, the others have GRACE seconds to notice, then are killed; at the
 * deadline all that are left are. What failed is said on standard error. Only own children are ever signalled, and
 * none survives the call, nor the test program if that is killed.
 *
 * cmocka's assertions jump in the parent only: in a body use coll__check, which prints where and makes the body fail.
 */
#ifndef COLL__TEST_RANKS_H
#define COLL__TEST_RANKS_H

#include <stdio.h>
#include <sys/types.h>

enum { COLL__RANKS_MAX = 128 };

/* What fork_ranks gives when ranks could not be run at all, or the deadline passed. */
enum { COLL__RANKS_DEADLINE = -1, COLL__RANKS_SETUP = -2 };

typedef int (*coll__rank_body_t)(int rank, int size, void *arg);

/* 0 if every body returned 0. Otherwise the code of the rank that failed first (its body's value, or 128 + signal),
 * or one of the negative values above. */
int coll__fork_ranks(int ranks, double deadline_s, coll__rank_body_t body, void *arg);

/* ---- For failure tests, called from a body ------------------------------------------------------------------ */

/* Sends a signal (SIGKILL, SIGSTOP, SIGCONT, SIGINT, ...) to a rank; the caller itself is allowed. A rank that then
 * dies by SIGKILL counts as neither success nor failure; every other rank's body must still return 0. A rank stopped
 * and never continued is killed when all others are done, and does not count either. */
void coll__rank_signal(int rank, int signal);

/* The same, by the parent, `seconds` from now: for a moment at which the caller is blocked. */
void coll__rank_signal_after(int rank, int signal, double seconds);

pid_t coll__rank_pid(int rank);

/* Waits for all ranks, without the library under test. A rank that was killed is not waited for. Returns 0, or -1
 * when `seconds` have passed. */
int coll__ranks_meet(double seconds);

/* A scratch area that all ranks share, for flags and results. Zero at the start of each fork_ranks; the parent may read
 * it afterwards, until the next one. */
enum { COLL__RANKS_SHARED_BYTES = 1 << 16 };
void *coll__ranks_shared(void);

/* ---- In a body ---------------------------------------------------------------------------------------------- */

/* Makes the body return 1, with place and condition on standard error, unless the condition holds. */
#define coll__check(condition)                                                        \
    do {                                                                              \
        if (!(condition)) {                                                           \
            fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #condition); \
            return 1;                                                                 \
        }                                                                             \
    } while (0)

/* The same for a call of libcoll that must succeed: prints the status and the library's message. */
#define coll__check_ok(call)                                                   \
    do {                                                                       \
        int coll__check_status = (call);                                       \
        if (coll__check_status != 0) {                                         \
            coll__check_report(__FILE__, __LINE__, #call, coll__check_status); \
            return 1;                                                          \
        }                                                                      \
    } while (0)

void coll__check_report(const char *file, int line, const char *call, int status);

#endif
