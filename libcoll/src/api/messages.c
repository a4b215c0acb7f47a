/* Point-to-point calls. */
#include "api/api.h"

static int check(const char *name, const void *buffer, size_t count, coll_dtype_t dtype) {
    size_t element = coll_dtype_size(dtype);
    if (element == 0)
        return coll__error(COLL_ERR_ARG, "%s: dtype is %d, allowed are 0 to %d", name, (int)dtype,
                           COLL_DTYPE_COUNT - 1);
    if (count > PTRDIFF_MAX / element)
        return coll__error(COLL_ERR_ARG, "%s: count is %zu, which is more bytes than memory can have", name, count);
    if (count && !buffer)
        return coll__error(COLL_ERR_ARG, "%s: buffer is NULL", name);
    return 0;
}

static int prepare(coll__engine_t *engine, coll_comm_t *comm, bool receives, coll_request_t **request) {
    coll_request_t *made = coll__request_get(engine, comm);
    if (!made)
        return COLL_ERR_MEMORY;
    int status = coll__request_reserve_message(made);
    if (status < 0) {
        coll__request_put(engine, made);
        return status;
    }
    made->operation = COLL_OP_SENDRECV;
    made->receives = receives;
    engine->counters.calls++;
    *request = made;
    return 0;
}

/* [locked] */
static int start_send(coll__engine_t *engine, const void *buffer, size_t count, coll_dtype_t dtype, int dest, int tag,
                      coll_comm_t *comm, coll_request_t **request) {
    int status = coll__failure_usable(comm, "send");
    if (status == 0)
        status = check("send", buffer, count, dtype);
    if (status < 0)
        return status;
    if (dest < 0 || dest >= comm->size)
        return coll__error(COLL_ERR_ARG, "send: dest is %d, allowed are 0 to %d", dest, comm->size - 1);
    if (tag < 0)
        return coll__error(COLL_ERR_ARG, "send: tag is %d, allowed are 0 to %d", tag, INT32_MAX);
    status = prepare(engine, comm, false, request);
    if (status < 0)
        return status;
    coll__envelope_t envelope = {.comm = comm->id, .match = COLL__MATCH_USER | (uint64_t)tag};
    coll__run_send(engine, *request, comm->world[dest], &envelope, buffer, count * coll_dtype_size(dtype));
    return 0;
}

static int start_recv(coll__engine_t *engine, void *buffer, size_t count, coll_dtype_t dtype, int source, int tag,
                      coll_comm_t *comm, coll_request_t **request) {
    int status = coll__failure_usable(comm, "recv");
    if (status == 0)
        status = check("recv", buffer, count, dtype);
    if (status < 0)
        return status;
    if (source != COLL_ANY_SOURCE && (source < 0 || source >= comm->size))
        return coll__error(COLL_ERR_ARG, "recv: source is %d, allowed are 0 to %d and COLL_ANY_SOURCE", source,
                           comm->size - 1);
    if (tag != COLL_ANY_TAG && tag < 0)
        return coll__error(COLL_ERR_ARG, "recv: tag is %d, allowed are 0 to %d and COLL_ANY_TAG", tag, INT32_MAX);
    status = prepare(engine, comm, true, request);
    if (status < 0)
        return status;
    coll__envelope_t envelope = {.comm = comm->id,
                                 .match = tag == COLL_ANY_TAG ? COLL__MATCH_ANY_TAG : COLL__MATCH_USER | (uint64_t)tag};
    coll__run_recv(engine, *request, source == COLL_ANY_SOURCE ? COLL__PEER_ANY : comm->world[source], &envelope,
                   buffer, count * coll_dtype_size(dtype));
    return 0;
}

int coll_isend(const void *buffer, size_t count, coll_dtype_t dtype, int dest, int tag, coll_comm_t *comm,
               coll_request_t **request) {
    coll__engine_t *engine;
    if (!request)
        return coll__error(COLL_ERR_ARG, "isend: request is NULL");
    *request = NULL;
    int status = coll__enter(comm, "send", &engine);
    if (status < 0)
        return status;
    status = start_send(engine, buffer, count, dtype, dest, tag, comm, request);
    coll__engine_unlock(engine);
    return status;
}

int coll_irecv(void *buffer, size_t count, coll_dtype_t dtype, int source, int tag, coll_comm_t *comm,
               coll_request_t **request) {
    coll__engine_t *engine;
    if (!request)
        return coll__error(COLL_ERR_ARG, "irecv: request is NULL");
    *request = NULL;
    int status = coll__enter(comm, "recv", &engine);
    if (status < 0)
        return status;
    status = start_recv(engine, buffer, count, dtype, source, tag, comm, request);
    coll__engine_unlock(engine);
    return status;
}

/* [locked] Waits for a message's request and puts it back, or leaves it with the communicator if interrupted. */
static int finish(coll__engine_t *engine, coll_comm_t *comm, coll_request_t *request, coll_recv_status_t *status_out) {
    int status = coll__wait(engine, request, coll__comm_timeout(engine, comm));
    if (status == COLL_ERR_INTERRUPTED) {
        coll__comm_interrupt(comm, request);
        request->status_out = status_out;
        return status;
    }
    if (status == 0 && status_out)
        *status_out = request->received;
    coll__request_put(engine, request);
    return status;
}

int coll_send(const void *buffer, size_t count, coll_dtype_t dtype, int dest, int tag, coll_comm_t *comm) {
    coll__engine_t *engine;
    coll_request_t *request;
    int status = coll__enter(comm, "send", &engine);
    if (status < 0)
        return status;
    status = coll__check_not_interrupted(comm, "send");
    if (status == 0)
        status = start_send(engine, buffer, count, dtype, dest, tag, comm, &request);
    if (status == 0)
        status = finish(engine, comm, request, NULL);
    coll__engine_unlock(engine);
    return status;
}

int coll_recv(void *buffer, size_t count, coll_dtype_t dtype, int source, int tag, coll_recv_status_t *status_out,
              coll_comm_t *comm) {
    coll__engine_t *engine;
    coll_request_t *request;
    int status = coll__enter(comm, "recv", &engine);
    if (status < 0)
        return status;
    status = coll__check_not_interrupted(comm, "recv");
    if (status == 0)
        status = start_recv(engine, buffer, count, dtype, source, tag, comm, &request);
    if (status == 0)
        status = finish(engine, comm, request, status_out);
    coll__engine_unlock(engine);
    return status;
}
