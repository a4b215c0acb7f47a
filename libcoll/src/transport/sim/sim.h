/* The simulated network: ends in one process, messages delivered on a virtual clock by the LogGP model
 * (Alexandrov, Ionescu, Schauser, Scheiman, "LogGP", SPAA 1995) with parameters for links inside and between nodes. */
#ifndef COLL__SIM_H
#define COLL__SIM_H

#include <stdint.h>

typedef struct coll__sim_link {
    double latency_ns;      /* L */
    double overhead_ns;     /* o, at the sender and at the receiver */
    double gap_ns;          /* g, between messages of one sender */
    double gap_per_byte_ns; /* G */
} coll__sim_link_t;

typedef struct coll__sim_world coll__sim_world_t;

/* node_of[size]: ranks with equal numbers share a node; NULL: each rank on a node of its own. */
coll__sim_world_t *coll__sim_world_create(int size, const int *node_of, coll__sim_link_t inside,
                                          coll__sim_link_t between);
void coll__sim_world_free(coll__sim_world_t *world);

/* Virtual time of a rank, in nanoseconds: later than everything it has sent or received so far. */
double coll__sim_now(const coll__sim_world_t *world, int rank);
/* Messages and bytes sent so far over links inside and between nodes. */
void coll__sim_traffic(const coll__sim_world_t *world, int between_nodes, uint64_t *messages, uint64_t *bytes);

#endif
