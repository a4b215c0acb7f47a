/* Collectives of one node by ranks that take turns in one thread: every order of their steps that a scheduler might
 * choose, drawn at random but the same in every run, with several operations under way, on ordinary and on symmetric
 * memory. Races between processes become plain sequences here. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/status.h"
#include "node/channel.h"
#include "node/heap.h"
#include "support/local_segment.h"

enum { MOST_RANKS = 5, UNDER_WAY = 3 };

static uint64_t random_state;

static unsigned draw(unsigned below) {
    random_state = random_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (unsigned)(random_state >> 33) % below;
}

/* One rank: its view of the region, its place in the communicator, and its calls under way. */
struct rank {
    coll__node_t *node;
    coll__channel_t *channel;
    struct call {
        coll__node_op_t op;
        int32_t *send, *recv;
        bool symmetric;
    } calls[UNDER_WAY];
    int begun, done;
};

struct job {
    int size;
    coll__local_segment_t segment;
    struct rank ranks[MOST_RANKS];
    uint64_t sequence;
};

static void open_job(struct job *job, int size) {
    memset(job, 0, sizeof *job);
    job->size = size;
    assert_int_equal(coll__local_segment_open(&job->segment, size, coll__node_region_bytes(size)), 0);
    int members[MOST_RANKS] = {0, 1, 2, 3, 4};
    size_t heap_bytes;
    int heap_fd = coll__heap_fd(&heap_bytes);
    assert_true(heap_fd >= 0);
    for (int i = 0; i < size; i++) {
        coll__segment_t *view = &job->segment.view[i];
        view->node = view->transport;
        assert_int_equal(coll__node_open(view, &job->ranks[i].node), 0);
        for (int other = 0; other < size; other++)
            if (other != i)
                assert_int_equal(coll__node_map_heap(job->ranks[i].node, other, getpid(), heap_fd, heap_bytes), 0);
        coll__node_use_heaps(job->ranks[i].node);
    }
    for (int i = 0; i < size; i++)
        assert_int_equal(coll__channel_attach(job->ranks[i].node, 7, members, size, i, &job->ranks[i].channel), 0);
}

static void close_job(struct job *job) {
    for (int i = 0; i < job->size; i++) {
        coll__channel_detach(job->ranks[i].channel);
        coll__node_close(job->ranks[i].node);
    }
    coll__local_segment_close(&job->segment);
}

static int32_t *array(size_t count, bool symmetric) {
    void *memory = NULL;
    if (symmetric)
        assert_int_equal(coll__heap_alloc(count * sizeof(int32_t), &memory), 0);
    else
        memory = malloc(count * sizeof(int32_t));
    assert_non_null(memory);
    return memory;
}

static void release(int32_t *memory, bool symmetric) {
    if (symmetric)
        assert_true(coll__heap_free(memory));
    else
        free(memory);
}

static int32_t element(int rank, uint64_t sequence, size_t i) {
    return (int32_t)((uint64_t)(rank + 1) * 100003 + sequence * 977 + i * (uint64_t)(rank + 3)) & 0xffffff;
}

static void make_calls(struct job *job, int index, coll_operation_t operation, size_t count) {
    job->sequence++;
    int root = (int)draw((unsigned)job->size);
    for (int i = 0; i < job->size; i++) {
        struct call *call = &job->ranks[i].calls[index];
        size_t blocks = operation == COLL_OP_ALLGATHER ? (size_t)job->size : 1;
        call->symmetric = draw(2);
        call->send = array(count, call->symmetric);
        call->recv = array(count * blocks, call->symmetric);
        for (size_t k = 0; k < count; k++)
            call->send[k] = element(i, job->sequence, k);
        memset(call->recv, 0xee, count * blocks * sizeof(int32_t));
        if (operation == COLL_OP_BROADCAST && i == root)
            memcpy(call->recv, call->send, count * sizeof(int32_t));
        call->op = (coll__node_op_t){.operation = operation,
                                     .dtype = COLL_INT32,
                                     .op = COLL_SUM,
                                     .kernel = coll__data_kernel(COLL_SUM, COLL_INT32),
                                     .root = root,
                                     .count = count,
                                     .bytes = count * sizeof(int32_t),
                                     .send = operation == COLL_OP_BROADCAST ? NULL : call->send,
                                     .recv = call->recv,
                                     .sequence = job->sequence,
                                     .fingerprint = 1 + (uint64_t)operation};
        coll__node_prepare(&call->op);
    }
}

static int32_t expected(const struct job *job, const coll__node_op_t *op, size_t i) {
    if (op->operation == COLL_OP_BROADCAST)
        return element(op->root, op->sequence, i);
    if (op->operation == COLL_OP_ALLGATHER)
        return element((int)(i / op->count), op->sequence, i % op->count);
    int32_t sum = 0;
    for (int rank = 0; rank < job->size; rank++)
        sum += element(rank, op->sequence, i);
    return sum;
}

static void check_and_free(const struct job *job, int index) {
    for (int i = 0; i < job->size; i++) {
        const struct call *call = &job->ranks[i].calls[index];
        const coll__node_op_t *op = &call->op;
        size_t results = op->operation == COLL_OP_ALLGATHER ? op->count * (size_t)job->size : op->count;
        if (op->operation == COLL_OP_REDUCE && i != op->root)
            results = 0;
        for (size_t k = 0; k < results; k++)
            if (call->recv[k] != expected(job, op, k))
                fail_msg("%s of %zu int32 on %d ranks, rank %d%s: element %zu is %d, expected %d",
                         coll_operation_name(op->operation), op->count, job->size, i,
                         call->symmetric ? " (symmetric)" : "", k, call->recv[k], expected(job, op, k));
        for (size_t k = 0; k < op->count; k++)
            if (call->send[k] != element(i, op->sequence, k))
                fail_msg("%s of %zu int32: rank %d's input changed", coll_operation_name(op->operation), op->count, i);
        release(call->send, call->symmetric);
        release(call->recv, call->symmetric);
    }
}

/* A rank begins calls as it likes, and steps the first that is not done. */
static void take_turn(struct rank *rank, int calls) {
    while (rank->begun < calls && (rank->begun == rank->done || draw(2)))
        coll__node_begin(rank->channel, &rank->calls[rank->begun++].op);
    for (int index = rank->done; index < rank->begun; index++) {
        int status = coll__node_step(rank->channel, &rank->calls[index].op);
        assert_true(status == 0 || status == COLL__AGAIN);
        if (status == 0)
            rank->done++;
    }
}

static void run(struct job *job, int calls) {
    int left = job->size;
    for (int i = 0; i < job->size; i++)
        job->ranks[i].begun = job->ranks[i].done = 0;
    for (long turns = 0; left; turns++) {
        assert_true(turns < 1000000);
        struct rank *rank = &job->ranks[draw((unsigned)job->size)];
        int stays = 1 + (int)draw(3); /* sometimes a rank has several turns while the others have none */
        if (rank->done == calls)
            continue;
        while (stays-- && rank->done < calls)
            take_turn(rank, calls);
        left -= rank->done == calls;
    }
    for (int index = 0; index < calls; index++)
        check_and_free(job, index);
}

/* The last chunk of these is shorter than the others, is the only one, or comes when all places are in use. */
static const size_t counts[] = {1, 8, 2048, 2049, 5000, 16384, 40001, 262144, 272657, 300001, 524288, 560003};

static void any_order_of_turns_gives_the_same(void **state) {
    (void)state;
    static const coll_operation_t operations[] = {COLL_OP_ALLREDUCE, COLL_OP_REDUCE, COLL_OP_BROADCAST,
                                                  COLL_OP_ALLGATHER};
    for (int size = 2; size <= MOST_RANKS; size++) {
        struct job job;
        random_state = (uint64_t)size;
        open_job(&job, size);
        for (int round = 0; round < 25; round++) {
            int calls = 1 + (int)draw(UNDER_WAY);
            for (int index = 0; index < calls; index++)
                make_calls(&job, index, operations[draw(4)], counts[draw(sizeof counts / sizeof *counts)]);
            run(&job, calls);
        }
        close_job(&job);
    }
}

/* Every length around the number of places, whose last chunk is cut at other lines than the first. */
static void a_shorter_last_chunk_is_taken_after_the_first(void **state) {
    (void)state;
    for (int size = 2; size <= 3; size++) {
        struct job job;
        random_state = 99;
        open_job(&job, size);
        for (size_t count = 262144 - 4096; count < 262144 + 65536; count += 3989) {
            make_calls(&job, 0, COLL_OP_ALLREDUCE, count);
            run(&job, 1);
        }
        close_job(&job);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_order_of_turns_gives_the_same),
        cmocka_unit_test(a_shorter_last_chunk_is_taken_after_the_first),
    };
    return cmocka_run_group_tests_name("node_turns", tests, NULL, NULL);
}
