/* What would run for a call, and why; and what this build and machine have. */
#include <stdio.h>
#include <string.h>

#include "api/api.h"
#include "base/cpu.h"
#include "topo/topo.h"
#include "transport/transport_table.h"

static int find(coll__engine_t *engine, coll_comm_t *comm, const coll__call_t *call, coll__route_t **route) {
    *route = coll__route_find(comm, call);
    return *route ? 0 : coll__route_make(engine, comm, call, route);
}

/* [locked] */
static int explain(coll__engine_t *engine, coll_comm_t *comm, const coll__call_t *call, char *text, size_t capacity) {
    coll__plan_t plan;
    coll__route_t *route;
    const coll__algo_t *algo;
    char why[400];
    coll__plan_fill(comm, call, &plan);
    int status = coll__select(coll__world.rules, &plan, engine->env.deterministic, &algo, why, sizeof why);
    if (status == 0)
        status = find(engine, comm, call, &route);
    if (status < 0)
        return status;
    int messages = 0;
    for (int i = 0; i < route->sched->step_count; i++)
        messages += route->sched->steps[i].kind == COLL__STEP_SEND;
    snprintf(text, capacity,
             "%s of %zu bytes on %d ranks, %d node%s: %s (%s)\n"
             "because: %s\n"
             "this rank: %d rounds, %d messages sent, %zu bytes of scratch; all ranks: %llu messages, %llu bytes\n"
             "messages up to %zu bytes are sent eagerly, larger ones by rendezvous",
             coll_operation_name(call->operation), plan.count * plan.element, comm->size, comm->topo->node_count,
             comm->topo->node_count == 1 ? "" : "s", algo->name, algo->summary, why, route->sched->round_count,
             messages, route->sched->scratch_bytes, (unsigned long long)algo->messages(&plan),
             (unsigned long long)algo->bytes(&plan), engine->env.packet_size);
    coll__route_release(route);
    return 0;
}

int coll_explain(coll_comm_t *comm, coll_operation_t operation, size_t bytes, coll_dtype_t dtype, coll_op_t op,
                 char *text, size_t capacity) {
    coll__engine_t *engine;
    if (!text || !capacity)
        return coll__error(COLL_ERR_ARG, "explain: text is NULL or has no room");
    if (operation < 0 || operation >= COLL_OP_SENDRECV)
        return coll__error(COLL_ERR_ARG, "explain: operation is %d, allowed are 0 to %d", (int)operation,
                           COLL_OP_SENDRECV - 1);
    size_t element = coll_dtype_size(dtype);
    if (!element)
        return coll__error(COLL_ERR_ARG, "explain: dtype is %d, allowed are 0 to %d", (int)dtype, COLL_DTYPE_COUNT - 1);
    coll__call_t call = {.operation = operation,
                         .count = bytes / element,
                         .dtype = dtype,
                         .op = op,
                         .reduces = operation == COLL_OP_REDUCE || operation == COLL_OP_ALLREDUCE};
    int status = call.reduces ? coll__data_check(op, dtype, call.count) : 0;
    if (status < 0)
        return status;
    if (!call.reduces)
        call.op = COLL_SUM;
    status = coll__enter(comm, "explain", &engine);
    if (status < 0)
        return status;
    status = explain(engine, comm, &call, text, capacity);
    coll__engine_unlock(engine);
    return status;
}

static void line(char *text, size_t capacity, const char *key, const char *value) {
    size_t used = strlen(text);
    snprintf(text + used, capacity - used, "%s: %s\n", key, value);
}

int coll_info(char *text, size_t capacity) {
    if (!text || !capacity)
        return coll__error(COLL_ERR_ARG, "info: text is NULL or has no room");
    coll__env_t env;
    char value[900], why[400], detail[400];
    *text = 0;
    line(text, capacity, "libcoll", coll_version());
    snprintf(value, sizeof value, "%d usable by this process, kernels for %s", coll__cpu_count(),
             coll__cpu_level_name(coll__cpu_level()));
    line(text, capacity, "cpus", value);
    int status = coll__env_read(&env);
    if (status < 0) {
        line(text, capacity, "environment", coll_error_message());
        return status;
    }
#define TRANSPORT_LINE(name, summary)                                               \
    *why = *detail = 0;                                                             \
    if (coll__transport_##name.probe(&env, why, sizeof why, detail, sizeof detail)) \
        snprintf(value, sizeof value, *detail ? "%s; %s" : "%s", summary, detail);  \
    else                                                                            \
        snprintf(value, sizeof value, "not available: %s", why);                    \
    line(text, capacity, "transport " #name, value);
    COLL__TRANSPORT_TABLE(TRANSPORT_LINE)
#undef TRANSPORT_LINE
    return 0;
}
