/* What each rank shows the others when they meet, and how a disagreement is put into words. */
#ifndef COLL__CARDS_H
#define COLL__CARDS_H

#include "transport/transport_table.h"

enum { COLL__CHECKED_BYTES = 4096 };

/* What each rank shows the others before anything is opened. */
typedef struct coll__first_card {
    char version[64];
    char node[256];
    char checked[COLL__CHECKED_BYTES]; /* environment variables that must agree */
    uint64_t rules_hash;
    int32_t pid, heap_fd; /* of symmetric memory; -1: none */
    uint64_t heap_bytes;
    int32_t cpus; /* that the process may use */
    uint64_t cpu_mask[COLL__CPU_MASK_WORDS];
} coll__first_card_t;

/* And after: how far it came, and where it can be reached. */
typedef struct coll__second_card {
    int32_t status;
    char message[700];
    int32_t maps_heaps;                                       /* it has mapped the heap of every rank of its node */
    coll__transport_address_t address[COLL__TRANSPORT_COUNT]; /* of the transports it has opened */
} coll__second_card_t;

/* 0 if all [size] cards agree; otherwise the same error on every rank, naming what differs and the ranks that differ
 * from rank 0. */
int coll__cards_compare_first(const coll__first_card_t *cards, int size);
/* CPUs that the `count` ranks may use together. */
int coll__cards_cpus(const coll__first_card_t *cards, const int *ranks, int count);
int coll__cards_compare_second(const coll__second_card_t *cards, int size);

#endif
