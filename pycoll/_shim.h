/* What the extension adds to libcoll: the blocking calls as Python makes them, in one crossing of the border.
 *
 * - Before anything is sent they look whether the buffers can be used as they are (aligned, not partly overlapping);
 *   if not they give PYCOLL_CAREFUL, and Python takes its careful path, which copies or explains. In Python the same
 *   look costs more than the whole of a small collective.
 * - They note their status for this thread. A Python signal handler may raise the moment a call returns, when the value
 *   returned is lost; pycoll_status() then tells whether an operation is still under way and has to be abandoned.
 */
#include <stdint.h>

#define PYCOLL_API static

enum { PYCOLL_CAREFUL = 1 };

static __thread int pycoll_last_status;

static int pycoll_note(int status)
{
    pycoll_last_status = status;
    return status;
}

static int pycoll_aligned(const void *buffer, coll_dtype_t dtype)
{
    size_t size = coll_dtype_size(dtype);
    size_t alignment = size < sizeof(double) ? size : sizeof(double);
    return alignment && (uintptr_t)buffer % alignment == 0;
}

/* `out` shares bytes with `x`, but is not exactly where `x` is. */
static int pycoll_overlap(const void *x, size_t x_bytes, const void *out, size_t out_bytes)
{
    uintptr_t a = (uintptr_t)x, b = (uintptr_t)out;
    return !(a == b && x_bytes == out_bytes) && a < b + out_bytes && b < a + x_bytes;
}

static int pycoll_plain(const void *x, size_t x_count, const void *out, size_t out_count, coll_dtype_t dtype)
{
    size_t size = coll_dtype_size(dtype);
    return pycoll_aligned(x, dtype) && pycoll_aligned(out, dtype) &&
           !pycoll_overlap(x, x_count * size, out, out_count * size);
}

/* The status of this thread's last blocking call. */
PYCOLL_API int pycoll_status(void)
{
    return pycoll_last_status;
}

PYCOLL_API int pycoll_barrier(coll_comm_t *comm)
{
    return pycoll_note(coll_barrier(comm));
}

PYCOLL_API int pycoll_broadcast(void *buffer, size_t count, coll_dtype_t dtype, int root, coll_comm_t *comm)
{
    return pycoll_note(pycoll_aligned(buffer, dtype) ? coll_broadcast(buffer, count, dtype, root, comm)
                                                     : PYCOLL_CAREFUL);
}

PYCOLL_API int pycoll_reduce(const void *x, void *out, size_t count, coll_dtype_t dtype, coll_op_t op, int root,
                             coll_comm_t *comm)
{
    return pycoll_note(pycoll_plain(x, count, out, count, dtype) ? coll_reduce(x, out, count, dtype, op, root, comm)
                                                                 : PYCOLL_CAREFUL);
}

PYCOLL_API int pycoll_allreduce(const void *x, void *out, size_t count, coll_dtype_t dtype, coll_op_t op,
                                coll_comm_t *comm)
{
    return pycoll_note(pycoll_plain(x, count, out, count, dtype) ? coll_allreduce(x, out, count, dtype, op, comm)
                                                                 : PYCOLL_CAREFUL);
}

PYCOLL_API int pycoll_allgather(const void *x, void *out, size_t count, coll_dtype_t dtype, int size,
                                coll_comm_t *comm)
{
    return pycoll_note(pycoll_plain(x, count, out, count * (size_t)size, dtype)
                           ? coll_allgather(x, out, count, dtype, comm)
                           : PYCOLL_CAREFUL);
}

PYCOLL_API int pycoll_send(const void *x, size_t count, coll_dtype_t dtype, int dest, int tag, coll_comm_t *comm)
{
    return pycoll_note(coll_send(x, count, dtype, dest, tag, comm));
}

/* Waits further for the blocking call that was interrupted. */
PYCOLL_API int pycoll_resume(coll_comm_t *comm)
{
    return pycoll_note(coll_resume(comm));
}

PYCOLL_API int pycoll_wait(coll_request_t *request, double timeout)
{
    return pycoll_note(coll_wait(request, timeout));
}

/* A persistent request, started and waited for. */
PYCOLL_API int pycoll_run(coll_request_t *request, double timeout)
{
    return pycoll_note(coll_run(request, timeout));
}
