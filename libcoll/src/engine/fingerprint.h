/* A collective call in 64 bits, so that each message can carry it and a mismatch can be put into words without asking.
 */
#ifndef COLL__FINGERPRINT_H
#define COLL__FINGERPRINT_H

#include <coll.h>
#include <stdint.h>

/* operation 5 bits, dtype 5, op 6, root 12, count 36: larger counts and roots keep their low bits. Never 0. */
uint64_t coll__fingerprint(coll_operation_t operation, coll_dtype_t dtype, coll_op_t op, int root, size_t count);

/* "allreduce(1000 x float64, sum)", "broadcast(8 x int32, root=2)", "barrier()". */
void coll__fingerprint_print(uint64_t fingerprint, char *text, size_t capacity);

#endif
