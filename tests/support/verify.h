/* The verifier: runs the schedules of all ranks of one collective in this process, on real data, and finds what is
 * wrong.
 *
 * It is stricter than any engine: a SEND ends only when its RECV has been posted (rendezvous), and buffers in flight
 * until the round's end must not be touched. Found are: ranks and offsets out of range, lengths that differ between the
 * two ends of a message, deadlock, input overwritten, two steps of a round that race for the same memory, and rounds
 * that are not numbered 0, 1, 2, ... What the collective should have computed is the caller's business: it compares the
 * outputs.
 */
#ifndef COLL__TEST_VERIFY_H
#define COLL__TEST_VERIFY_H

#include "sched/sched.h"

/* target = left op right. */
typedef void (*coll__verify_op_t)(const void *left, const void *right, void *target, size_t bytes);

typedef struct coll__verify_result {
    char fault[256]; /* "" if the schedules are sound */
    uint64_t rounds; /* longest chain of messages, each sent after the one before had arrived at its sender */
    uint64_t messages, bytes;
    uint64_t busiest; /* bytes sent by the rank that sends most */
} coll__verify_result_t;

typedef struct coll__verifier coll__verifier_t;

coll__verifier_t *coll__verifier_create(void); /* ends the program when out of memory, like everything here */
void coll__verifier_free(coll__verifier_t *verifier);

/* Builds the schedules of all ranks of plan->size; plan->rank does not matter. They may be changed before the run. */
coll__sched_t *coll__verifier_build(coll__verifier_t *verifier, coll__build_fn build, const coll__plan_t *plan);

/* Runs them. `inputs` has plan->size inputs one after the other, as long as the plan's COLL__BUF_SEND (of a broadcast:
 * the root's COLL__BUF_RECV only). Memory that nobody wrote is all ones: NaN to floating-point operators. Returns true
 * and an empty fault, or false. */
bool coll__verifier_run(coll__verifier_t *verifier, const coll__plan_t *plan, const coll__sched_t *scheds,
                        coll__verify_op_t op, const void *inputs, coll__verify_result_t *result);

/* Of the last run: the rank's COLL__BUF_RECV; how many messages it sent and received. */
const void *coll__verifier_output(const coll__verifier_t *verifier, int rank);
uint64_t coll__verifier_sent(const coll__verifier_t *verifier, int rank);
uint64_t coll__verifier_received(const coll__verifier_t *verifier, int rank);

/* Of the last run: by the end, `rank` had heard of `other`, directly or through others. What a barrier is for. */
bool coll__verifier_heard(const coll__verifier_t *verifier, int rank, int other);

/* Bytes of the buffers that the plan's operation has on plan->rank. */
size_t coll__verify_send_bytes(const coll__plan_t *plan);
size_t coll__verify_recv_bytes(const coll__plan_t *plan);

#endif
