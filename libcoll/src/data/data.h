/* Datatypes, operators and the kernels that combine arrays. */
#ifndef COLL__DATA_H
#define COLL__DATA_H

#include <coll.h>

/* target[i] = left[i] op right[i]. `target` may be `left` or `right` (exactly, not shifted). For AVG this is the sum;
 * the division comes once at the end through coll__data_finish(). MINLOC and MAXLOC: count elements = count / 2 pairs.
 */
typedef void (*coll__kernel_t)(const void *left, const void *right, void *target, size_t count);

/* The kernel for this machine's CPU level; NULL if the pair is not supported. */
coll__kernel_t coll__data_kernel(coll_op_t op, coll_dtype_t dtype);

/* COLL_ERR_TYPE with a message that lists the datatypes allowed for `op`, or COLL_ERR_ARG if there is no such op or
 * datatype; 0 otherwise. MINLOC and MAXLOC with an odd count are COLL_ERR_ARG. */
int coll__data_check(coll_op_t op, coll_dtype_t dtype, size_t count);

/* AVG: divides the folded sum by `ranks` (integers truncate toward zero); does nothing for other operators. */
void coll__data_finish(coll_op_t op, coll_dtype_t dtype, void *values, size_t count, int ranks);

/* Folds `inputs` pointers left to right, ((in[0] op in[1]) op in[2]) ..., into target, block by block through the
 * cache; half precision keeps float32 between the steps. target may be one of the inputs. */
void coll__data_fold(coll_op_t op, coll_dtype_t dtype, const void *const *inputs, int input_count, void *target,
                     size_t count);

#endif
