/* Threads as ranks on one segment: what the thread sanitizer can see of the rings, the slots and the sleeping flags. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "support/shm_rank.h"
#include "transport/shm/shm.h"

enum { RANKS = 4, PACKETS = 2000, TRANSFERS = 4, BYTES = 200001 };

static coll__local_segment_t local;
static pthread_barrier_t meet;

typedef struct thread {
    pthread_t id;
    coll__shm_rank_t self;
    bool parks;
    int failed; /* line */
    unsigned char out[BYTES], in[RANKS][TRANSFERS][BYTES];
} thread_t;

/* A thread that fails says where and still comes to the barriers. */
#define expect(thread, condition)              \
    do {                                       \
        if (!(condition) && !(thread)->failed) \
            (thread)->failed = __LINE__;       \
    } while (0)

static void work(thread_t *thread) {
    const coll__transport_ops_t *ops = &coll__transport_shm;
    coll__shm_rank_t *self = &thread->self;
    for (int peer = 0; peer < RANKS; peer++)
        for (uint32_t i = 0; i < TRANSFERS && peer != self->rank; i++)
            expect(thread, ops->bulk_recv(self->transport, peer, (uint32_t)peer * TRANSFERS + i, thread->in[peer][i],
                                          BYTES, self) == 0);
    pthread_barrier_wait(&meet);
    for (int peer = 0; peer < RANKS; peer++)
        for (uint32_t i = 0; i < TRANSFERS && peer != self->rank; i++)
            expect(thread, ops->bulk_send(self->transport, peer, (uint32_t)self->rank * TRANSFERS + i, thread->out,
                                          BYTES, self) == 0);
    for (int number = 0; number < PACKETS && !thread->failed; number++)
        for (int peer = 0; peer < RANKS; peer++)
            if (peer != self->rank)
                expect(thread, coll__shm_rank_send(self, peer, number, number % 20 ? 48 + number % 30 * 8 : 8192) == 0);
    for (bool done = false; !done && !thread->failed;) {
        done = self->bulk_done == 2 * TRANSFERS * (RANKS - 1);
        for (int peer = 0; peer < RANKS; peer++)
            done &= peer == self->rank || self->packets[peer] == PACKETS;
        if (!done)
            expect(thread, coll__shm_rank_turn(self) == 0);
    }
    expect(thread, self->wrong == 0);
    for (int peer = 0; peer < RANKS && !thread->failed; peer++)
        for (int i = 0; i < TRANSFERS && peer != self->rank; i++)
            for (size_t at = 0; at < BYTES; at++)
                expect(thread, thread->in[peer][i][at] == (unsigned char)(at + (size_t)peer));
}

static void *body(void *arg) {
    thread_t *thread = arg;
    int rank = thread->self.rank;
    for (size_t at = 0; at < BYTES; at++)
        thread->out[at] = (unsigned char)(at + (size_t)rank);
    expect(thread, coll__shm_rank_open(&thread->self, &local, rank, thread->parks) == 0);
    work(thread);
    pthread_barrier_wait(&meet);
    if (thread->self.transport)
        coll__transport_shm.close(thread->self.transport);
    return NULL;
}

static void run(bool parks) {
    thread_t *threads = calloc(RANKS, sizeof *threads);
    assert_non_null(threads);
    assert_int_equal(coll__local_segment_open(&local, RANKS, coll__shm_region_bytes(RANKS, COLL__SHM_RANK_PACKET)), 0);
    assert_int_equal(pthread_barrier_init(&meet, NULL, RANKS), 0);
    for (int rank = 0; rank < RANKS; rank++) {
        threads[rank].self.rank = rank;
        threads[rank].parks = parks;
        assert_int_equal(pthread_create(&threads[rank].id, NULL, body, &threads[rank]), 0);
    }
    for (int rank = 0; rank < RANKS; rank++)
        assert_int_equal(pthread_join(threads[rank].id, NULL), 0);
    for (int rank = 0; rank < RANKS; rank++)
        assert_int_equal(threads[rank].failed, 0);
    pthread_barrier_destroy(&meet);
    coll__local_segment_close(&local);
    free(threads);
}

static void yielding(void **state) {
    (void)state;
    run(false);
}

static void parking(void **state) {
    (void)state;
    run(true);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(yielding),
        cmocka_unit_test(parking),
    };
    return cmocka_run_group_tests_name("threads on shared memory", tests, NULL, NULL);
}
