/* THE list of transports. A row gives the extern symbol, the conformance suite's run, statistics and `pycoll info`. */
#ifndef COLL__TRANSPORT_TABLE_H
#define COLL__TRANSPORT_TABLE_H

#include "transport/transport.h"

/* X(name, summary) in the order of preference; sim is for simulations only and never chosen by a job. */
#define COLL__TRANSPORT_TABLE(X)                                        \
    X(self, "messages of a process to itself")                          \
    X(shm, "shared memory between processes of one user on one node")   \
    X(ofi, "libfabric between nodes")                                   \
    X(sim, "a simulated network on a virtual clock, inside one process")

#define COLL__TRANSPORT_EXTERN(name, summary) extern const coll__transport_ops_t coll__transport_##name;
COLL__TRANSPORT_TABLE(COLL__TRANSPORT_EXTERN)
#undef COLL__TRANSPORT_EXTERN

enum {
#define COLL__TRANSPORT_ID(name, summary) COLL__TRANSPORT_ID_##name,
    COLL__TRANSPORT_TABLE(COLL__TRANSPORT_ID)
#undef COLL__TRANSPORT_ID
        COLL__TRANSPORT_COUNT
};

#endif
