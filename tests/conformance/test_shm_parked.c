/* Shared memory between processes that sleep at once whenever there is nothing to do: no wake-up is lost, neither of a
 * receiver nor of a sender that waits for room. The sleeps have no safety net: one lost wake-up ends the test. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "support/ranks.h"
#include "support/shm_rank.h"
#include "transport/shm/shm.h"

static coll__local_segment_t local;

#define wait_for(self, condition) \
    while (!(condition))          \
    coll__check(coll__shm_rank_turn(self) == 0)

/* Each rank sends to all and waits for all, 1,000 times. */
static int rounds(int rank, int size, void *arg) {
    enum { ROUNDS = 1000 };
    coll__shm_rank_t self;
    (void)arg;
    coll__check_ok(coll__shm_rank_open(&self, &local, rank, true));
    for (int round = 0; round < ROUNDS; round++) {
        for (int peer = 0; peer < size; peer++)
            if (peer != rank)
                coll__check(coll__shm_rank_send(&self, peer, round, 56) == 0);
        for (int peer = 0; peer < size; peer++)
            if (peer != rank)
                wait_for(&self, self.packets[peer] > round);
    }
    coll__check(self.wrong == 0);
    coll__check(self.naps > 0);
    coll__check(coll__ranks_meet(10) == 0); /* peers may still write this rank's wake fd */
    coll__transport_shm.close(self.transport);
    return 0;
}

/* Rings and slots run full: rank 0 sends much faster than the others read, with packets of all kinds and bulk data. */
static int full(int rank, int size, void *arg) {
    enum { PACKETS = 20000, TRANSFERS = 20, BYTES = 1000003 };
    static unsigned char buffer[COLL__SHM_RANK_MAX][BYTES];
    coll__shm_rank_t self;
    (void)arg;
    coll__check_ok(coll__shm_rank_open(&self, &local, rank, true));
    const coll__transport_ops_t *ops = &coll__transport_shm;
    if (rank != 0)
        for (uint32_t i = 0; i < TRANSFERS; i++)
            coll__check_ok(ops->bulk_recv(self.transport, 0, i, buffer[i % COLL__SHM_RANK_MAX], BYTES, &self));
    coll__check(coll__ranks_meet(10) == 0); /* in place of the packets that announce them */
    if (rank == 0) {
        for (size_t i = 0; i < BYTES; i++)
            buffer[0][i] = (unsigned char)(i * 7);
        for (int peer = 1; peer < size; peer++)
            for (uint32_t i = 0; i < TRANSFERS; i++)
                coll__check_ok(ops->bulk_send(self.transport, peer, i, buffer[0], BYTES, &self));
        for (int number = 0; number < PACKETS; number++)
            for (int peer = 1; peer < size; peer++)
                coll__check(
                    coll__shm_rank_send(&self, peer, number, number % 50 ? 56 : COLL__SHM_RANK_PACKET / 8 * 8) == 0);
        wait_for(&self, self.bulk_done == TRANSFERS * (size - 1));
        coll__check(ops->drained(self.transport) == 1);
    } else {
        wait_for(&self, self.bulk_done == TRANSFERS && self.packets[0] == PACKETS);
        for (size_t i = 0; i < BYTES; i++)
            for (int b = 0; b < COLL__SHM_RANK_MAX; b++)
                coll__check(buffer[b][i] == (unsigned char)(i * 7));
    }
    coll__check(self.wrong == 0);
    coll__check(coll__ranks_meet(10) == 0);
    ops->close(self.transport);
    return 0;
}

static void run(int size, coll__rank_body_t body) {
    assert_int_equal(coll__local_segment_open(&local, size, coll__shm_region_bytes(size, COLL__SHM_RANK_PACKET)), 0);
    assert_int_equal(coll__fork_ranks(size, 60, body, NULL), 0);
    coll__local_segment_close(&local);
}

static void two_ranks(void **state) {
    (void)state;
    run(2, rounds);
}
static void eight_ranks(void **state) {
    (void)state;
    run(8, rounds);
}
static void full_rings(void **state) {
    (void)state;
    run(2, full);
}
static void full_rings_of_two(void **state) {
    (void)state;
    run(3, full);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_ranks),
        cmocka_unit_test(eight_ranks),
        cmocka_unit_test(full_rings),
        cmocka_unit_test(full_rings_of_two),
    };
    return cmocka_run_group_tests_name("parked ranks on shared memory", tests, NULL, NULL);
}
