/* The public collectives, each in its three forms over the one road of submit.c. */
#include "api/api.h"

static coll__call_t barrier_call(void) {
    return (coll__call_t){.operation = COLL_OP_BARRIER, .dtype = COLL_UINT8};
}

static coll__call_t broadcast_call(void *buffer, size_t count, coll_dtype_t dtype, int root) {
    return (coll__call_t){
        .operation = COLL_OP_BROADCAST, .recv = buffer, .count = count, .dtype = dtype, .root = root, .has_root = true};
}

static coll__call_t reduce_call(const void *send, void *recv, size_t count, coll_dtype_t dtype, coll_op_t op,
                                int root) {
    return (coll__call_t){.operation = COLL_OP_REDUCE,
                          .send = send,
                          .recv = recv,
                          .count = count,
                          .dtype = dtype,
                          .op = op,
                          .root = root,
                          .reduces = true,
                          .has_root = true};
}

static coll__call_t allreduce_call(const void *send, void *recv, size_t count, coll_dtype_t dtype, coll_op_t op) {
    return (coll__call_t){.operation = COLL_OP_ALLREDUCE,
                          .send = send,
                          .recv = recv,
                          .count = count,
                          .dtype = dtype,
                          .op = op,
                          .reduces = true};
}

static coll__call_t allgather_call(const void *send, void *recv, size_t count, coll_dtype_t dtype) {
    return (coll__call_t){.operation = COLL_OP_ALLGATHER, .send = send, .recv = recv, .count = count, .dtype = dtype};
}

int coll_barrier(coll_comm_t *comm) {
    coll__call_t call = barrier_call();
    return coll__call_blocking(&call, comm);
}

int coll_ibarrier(coll_comm_t *comm, coll_request_t **request) {
    coll__call_t call = barrier_call();
    return coll__call_start(&call, comm, request);
}

int coll_barrier_init(coll_comm_t *comm, coll_request_t **request) {
    coll__call_t call = barrier_call();
    return coll__call_persistent(&call, comm, request);
}

int coll_broadcast(void *buffer, size_t count, coll_dtype_t dtype, int root, coll_comm_t *comm) {
    coll__call_t call = broadcast_call(buffer, count, dtype, root);
    return coll__call_blocking(&call, comm);
}

int coll_ibroadcast(void *buffer, size_t count, coll_dtype_t dtype, int root, coll_comm_t *comm,
                    coll_request_t **request) {
    coll__call_t call = broadcast_call(buffer, count, dtype, root);
    return coll__call_start(&call, comm, request);
}

int coll_broadcast_init(void *buffer, size_t count, coll_dtype_t dtype, int root, coll_comm_t *comm,
                        coll_request_t **request) {
    coll__call_t call = broadcast_call(buffer, count, dtype, root);
    return coll__call_persistent(&call, comm, request);
}

int coll_reduce(const void *send, void *recv, size_t count, coll_dtype_t dtype, coll_op_t op, int root,
                coll_comm_t *comm) {
    coll__call_t call = reduce_call(send, recv, count, dtype, op, root);
    return coll__call_blocking(&call, comm);
}

int coll_ireduce(const void *send, void *recv, size_t count, coll_dtype_t dtype, coll_op_t op, int root,
                 coll_comm_t *comm, coll_request_t **request) {
    coll__call_t call = reduce_call(send, recv, count, dtype, op, root);
    return coll__call_start(&call, comm, request);
}

int coll_reduce_init(const void *send, void *recv, size_t count, coll_dtype_t dtype, coll_op_t op, int root,
                     coll_comm_t *comm, coll_request_t **request) {
    coll__call_t call = reduce_call(send, recv, count, dtype, op, root);
    return coll__call_persistent(&call, comm, request);
}

int coll_allreduce(const void *send, void *recv, size_t count, coll_dtype_t dtype, coll_op_t op, coll_comm_t *comm) {
    coll__call_t call = allreduce_call(send, recv, count, dtype, op);
    return coll__call_blocking(&call, comm);
}

int coll_iallreduce(const void *send, void *recv, size_t count, coll_dtype_t dtype, coll_op_t op, coll_comm_t *comm,
                    coll_request_t **request) {
    coll__call_t call = allreduce_call(send, recv, count, dtype, op);
    return coll__call_start(&call, comm, request);
}

int coll_allreduce_init(const void *send, void *recv, size_t count, coll_dtype_t dtype, coll_op_t op, coll_comm_t *comm,
                        coll_request_t **request) {
    coll__call_t call = allreduce_call(send, recv, count, dtype, op);
    return coll__call_persistent(&call, comm, request);
}

int coll_allgather(const void *send, void *recv, size_t count, coll_dtype_t dtype, coll_comm_t *comm) {
    coll__call_t call = allgather_call(send, recv, count, dtype);
    return coll__call_blocking(&call, comm);
}

int coll_iallgather(const void *send, void *recv, size_t count, coll_dtype_t dtype, coll_comm_t *comm,
                    coll_request_t **request) {
    coll__call_t call = allgather_call(send, recv, count, dtype);
    return coll__call_start(&call, comm, request);
}

int coll_allgather_init(const void *send, void *recv, size_t count, coll_dtype_t dtype, coll_comm_t *comm,
                        coll_request_t **request) {
    coll__call_t call = allgather_call(send, recv, count, dtype);
    return coll__call_persistent(&call, comm, request);
}
