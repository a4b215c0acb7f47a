/* See shm_rank.h. */
#include "support/shm_rank.h"

#include <sched.h>
#include <string.h>

#include "base/error.h"
#include "base/status.h"

/* Packets carry their number, everywhere. */
static void on_packet(void *context, int peer, const void *packet, size_t bytes) {
    coll__shm_rank_t *self = context;
    const uint64_t *words = packet;
    uint64_t number = (uint64_t)self->packets[peer]++;
    for (size_t i = 0; i < bytes / 8; i++)
        self->wrong += words[i] != number;
}

static void on_bulk(void *context, void *cookie, int status) {
    coll__shm_rank_t *self = context;
    (void)cookie;
    self->bulk_done++;
    self->wrong += status != 0;
}

int coll__shm_rank_open(coll__shm_rank_t *self, coll__local_segment_t *local, int rank, bool parks) {
    *self = (coll__shm_rank_t){.segment = &local->view[rank], .rank = rank, .size = local->size, .parks = parks};
    coll__transport_args_t args = {.world_rank = rank,
                                   .world_size = local->size,
                                   .max_packet = COLL__SHM_RANK_PACKET,
                                   .segment = self->segment,
                                   .sink = {self, on_packet, on_bulk}};
    int status = coll__transport_shm.open(&args, &self->transport);
    for (uint32_t peer = 0; peer < (uint32_t)local->size && status == 0; peer++) {
        coll__transport_address_t address;
        int world_rank = (int)peer;
        status = coll__transport_shm.address(self->transport, &address);
        memcpy(address.address, &peer, sizeof peer);
        if (status == 0 && world_rank != rank)
            status = coll__transport_shm.connect(self->transport, &world_rank, &address, 1);
    }
    return status;
}

static int ready(void *context) {
    return coll__transport_shm.arm(((coll__shm_rank_t *)context)->transport) != 0;
}

int coll__shm_rank_turn(coll__shm_rank_t *self) {
    int events = coll__transport_shm.poll(self->transport);
    if (events < 0)
        return -1;
    if (events > 0)
        return 0;
    if (!self->parks) {
        sched_yield();
        return 0;
    }
    int slept = coll__local_segment_park(self->segment, ready, self, COLL__SHM_RANK_PATIENCE * 1000);
    self->naps++;
    return slept < 0 ? -1 : 0;
}

int coll__shm_rank_send(coll__shm_rank_t *self, int peer, int number, size_t bytes) {
    uint64_t words[COLL__SHM_RANK_PACKET / 8];
    for (size_t i = 0; i < bytes / 8; i++)
        words[i] = (uint64_t)number;
    for (;;) {
        int status = coll__transport_shm.send(self->transport, peer, words, bytes < 48 ? bytes : 48, words + 6,
                                              bytes < 48 ? 0 : bytes - 48);
        if (status <= 0)
            return status;
        if (coll__shm_rank_turn(self) < 0)
            return -1;
    }
}
