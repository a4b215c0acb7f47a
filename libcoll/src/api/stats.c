/* Counters by name. The list is THE list: coll_stats_count/get and comm.stats() follow it. */
#include <stdio.h>
#include <string.h>

#include "api/api.h"
#include "node/heap.h"
#include "transport/transport_table.h"

#define TRANSPORT_STATS(X, name)                                                          \
    X(name, messages_sent, "packets sent over " #name)                                    \
    X(name, messages_received, "packets received over " #name)                            \
    X(name, bytes_sent, "bytes of packets sent over " #name ", headers included")         \
    X(name, bytes_received, "bytes of packets received over " #name ", headers included") \
    X(name, bulk_sent, "bulk transfers sent over " #name)                                 \
    X(name, bulk_received, "bulk transfers received over " #name)                         \
    X(name, bulk_bytes_sent, "bytes of bulk transfers sent over " #name)                  \
    X(name, bulk_bytes_received, "bytes of bulk transfers received over " #name)          \
    X(name, copied_bytes, "bytes that " #name " copied with this process's CPU")          \
    X(name, again, "times that " #name " had no room or nothing to give")                 \
    X(name, registrations, "memory registrations made by " #name)

static double transport_value(const coll__engine_t *engine, const char *name, size_t offset) {
    for (int i = 0; i < engine->transport_count; i++) {
        const coll__transport_t *transport = engine->transports[i];
        if (strcmp(transport->ops->name, name) != 0)
            continue;
        uint64_t value;
        memcpy(&value, (const char *)&transport->counters + offset, sizeof value);
        return (double)value;
    }
    return 0;
}

enum source { OF_HEAP, OF_COMM, OF_ENGINE, OF_P2P, OF_TRANSPORT };
struct row {
    const char *name, *help;
    enum source source;
    const char *transport;
    size_t offset;
    double scale; /* 0: a uint64_t; otherwise a double to be multiplied */
};

#define ENGINE_ROW(field, help) \
    { #field, help, OF_ENGINE, NULL, offsetof(coll__engine_t, counters.field), 0 }
#define P2P_ROW(field, help) \
    { #field, help, OF_P2P, NULL, offsetof(coll__p2p_counters_t, field), 0 }
#define TRANSPORT_ROW(name, field, help) \
    {#name "_" #field, help, OF_TRANSPORT, #name, offsetof(coll__transport_counters_t, field), 0},

static const struct row ROWS[] = {
    {"comm_calls", "collective calls on this communicator", OF_COMM, NULL, offsetof(coll_comm_t, calls), 0},
    ENGINE_ROW(calls, "calls of this process, messages included"),
    ENGINE_ROW(parks, "times that a wait went to sleep"),
    ENGINE_ROW(wakes, "times that a peer or the watcher woke it"),
    {"spin_seconds", "time that waits spent spinning or yielding", OF_ENGINE, NULL,
     offsetof(coll__engine_t, counters.spin_ns), 1e-9},
    {"park_seconds", "time that waits slept", OF_ENGINE, NULL, offsetof(coll__engine_t, counters.park_ns), 1e-9},
    P2P_ROW(eager, "messages sent eagerly"),
    P2P_ROW(rendezvous, "messages sent by rendezvous"),
    P2P_ROW(unexpected, "messages that came before their receive"),
    P2P_ROW(credit_stalls, "messages sent by rendezvous only because no credit was left"),
    {"symmetric_bytes", "bytes of symmetric memory handed out", OF_HEAP, NULL, 0, 0},
    TRANSPORT_STATS(TRANSPORT_ROW, self) TRANSPORT_STATS(TRANSPORT_ROW, shm) TRANSPORT_STATS(TRANSPORT_ROW, ofi)};

size_t coll_stats_count(void) {
    return sizeof ROWS / sizeof ROWS[0];
}

int coll_stats_get(coll_comm_t *comm, size_t index, coll_stat_info_t *info) {
    coll__engine_t *engine;
    if (!info)
        return coll__error(COLL_ERR_ARG, "stats_get: info is NULL");
    if (index >= coll_stats_count())
        return coll__error(COLL_ERR_ARG, "stats_get: index is %zu, allowed are 0 to %zu", index,
                           coll_stats_count() - 1);
    int status = coll__enter(comm, "stats_get", &engine);
    if (status < 0)
        return status;
    const struct row *row = &ROWS[index];
    info->name = row->name;
    info->help = row->help;
    if (row->source == OF_TRANSPORT) {
        info->value = transport_value(engine, row->transport, row->offset);
    } else if (row->source == OF_HEAP) {
        info->value = (double)coll__heap_in_use();
    } else {
        const char *base = row->source == OF_COMM  ? (const char *)comm
                           : row->source == OF_P2P ? (const char *)coll__p2p_counters(engine->p2p)
                                                   : (const char *)engine;
        uint64_t whole;
        double real;
        memcpy(&whole, base + row->offset, sizeof whole);
        memcpy(&real, base + row->offset, sizeof real);
        info->value = row->scale > 0 ? real * row->scale : (double)whole;
    }
    coll__engine_unlock(engine);
    return 0;
}

int coll_stats_algo(coll_comm_t *comm, size_t index, uint64_t *calls) {
    coll__engine_t *engine;
    if (!calls)
        return coll__error(COLL_ERR_ARG, "stats_algo: calls is NULL");
    if (index >= coll__algo_count())
        return coll__error(COLL_ERR_ARG, "stats_algo: index is %zu, allowed are 0 to %zu", index,
                           coll__algo_count() - 1);
    int status = coll__enter(comm, "stats_algo", &engine);
    if (status < 0)
        return status;
    *calls = comm->algo_calls[index];
    coll__engine_unlock(engine);
    return 0;
}
