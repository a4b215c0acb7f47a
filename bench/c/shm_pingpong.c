/* The shm transport alone, two pinned processes: half of the round trip of 8 bytes, of bulk data of several sizes, and
 * the price of a poll with nothing to do, in microseconds. Placement of virtual CPUs decides much, so the plain flag
 * latency is measured first and printed beside it.
 *
 *     shm_pingpong [local ranks, default 2: the others are connected and idle]
 */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/cpu.h"
#include "support/local_segment.h"
#include "transport/shm/shm.h"
#include "transport/transport_table.h"

enum { HEADER = 48, MAX_PACKET = 8 * 1024 + HEADER, SAMPLES = 101, FLAG_ROUNDS = 1000, PACKET_ROUNDS = 200 };

typedef struct side {
    coll__transport_t *transport;
    int rank;
    int packets, bulk_done; /* arrived so far */
    int awaited;            /* packets waited for so far */
    char received[MAX_PACKET];
} side_t;

static void on_packet(void *context, int peer, const void *packet, size_t bytes) {
    side_t *side = context;
    (void)peer;
    memcpy(side->received, packet, bytes); /* as the layer above does */
    side->packets++;
}

static void on_bulk(void *context, void *cookie, int status) {
    (void)cookie;
    if (status < 0)
        exit(1);
    ((side_t *)context)->bulk_done++;
}

static void must(int status) {
    if (status < 0) {
        fprintf(stderr, "shm_pingpong: %s\n", coll_error_message());
        exit(1);
    }
}

static void send_packet(side_t *side, size_t payload_bytes) {
    static const char header[HEADER], payload[MAX_PACKET];
    const coll__transport_ops_t *ops = side->transport->ops;
    int status;
    while ((status = ops->send(side->transport, 1 - side->rank, header, HEADER, payload, payload_bytes)) == COLL__AGAIN)
        must(ops->poll(side->transport));
    must(status);
}

static void await(side_t *side, const int *what, int value) {
    while (*what < value) {
        int events = side->transport->ops->poll(side->transport);
        must(events);
        if (events == 0)
            coll__cpu_pause();
    }
}

static void packets(side_t *side, size_t payload_bytes, int rounds) {
    for (int i = 0; i < rounds; i++) {
        if (side->rank == 0)
            send_packet(side, payload_bytes);
        await(side, &side->packets, ++side->awaited);
        if (side->rank == 1)
            send_packet(side, payload_bytes);
    }
}

/* One way each in turn, announced beforehand as the contract asks: the receiver's packet says that it is ready. */
static void bulk(side_t *side, char *buffer, size_t bytes, int rounds) {
    const coll__transport_ops_t *ops = side->transport->ops;
    int other = 1 - side->rank;
    for (int i = 0; i < 2 * rounds; i++) {
        int next = side->bulk_done + 1;
        if (i % 2 == side->rank) {
            await(side, &side->packets, ++side->awaited);
            must(ops->bulk_send(side->transport, other, (uint32_t)i, buffer, bytes, side));
        } else {
            must(ops->bulk_recv(side->transport, other, (uint32_t)i, buffer, bytes, side));
            send_packet(side, 8);
        }
        await(side, &side->bulk_done, next);
    }
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void report(const char *what, double *us) {
    qsort(us, SAMPLES, sizeof *us, by_value);
    printf("%-24s median %9.3f   min %9.3f   max %9.3f\n", what, us[SAMPLES / 2], us[0], us[SAMPLES - 1]);
    fflush(stdout);
}

/* Each side writes a line of its own; values only grow. */
static void flags(atomic_int *flag, int rank, int first, int rounds) {
    atomic_int *mine = &flag[rank * 32], *other = &flag[(1 - rank) * 32];
    for (int value = first + 1; value <= first + rounds; value++) {
        if (rank == 0)
            atomic_store_explicit(mine, value, memory_order_release);
        while (atomic_load_explicit(other, memory_order_acquire) != value)
            coll__cpu_pause();
        if (rank == 1)
            atomic_store_explicit(mine, value, memory_order_release);
    }
}

static void run(int rank, coll__local_segment_t *segment, atomic_int *flag) {
    cpu_set_t cpus, one;
    CPU_ZERO(&one);
    int seen = 0;
    sched_getaffinity(0, sizeof cpus, &cpus);
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &cpus) && seen++ == rank)
            CPU_SET(cpu, &one);
    if (CPU_COUNT(&one) == 1)
        sched_setaffinity(0, sizeof one, &one);

    side_t side = {.rank = rank};
    coll__transport_args_t args = {.world_rank = rank,
                                   .world_size = segment->size,
                                   .max_packet = MAX_PACKET,
                                   .segment = &segment->view[rank],
                                   .sink = {&side, on_packet, on_bulk}};
    must(coll__transport_shm.open(&args, &side.transport));
    int peers[COLL__LOCAL_SEGMENT_MAX], count = 0;
    coll__transport_address_t addresses[COLL__LOCAL_SEGMENT_MAX];
    for (int peer = 0; peer < segment->size; peer++) {
        if (peer != rank) {
            uint32_t local = (uint32_t)peer;
            must(coll__transport_shm.address(side.transport, &addresses[count]));
            memcpy(addresses[count].address, &local, sizeof local);
            peers[count++] = peer;
        }
    }
    must(coll__transport_shm.connect(side.transport, peers, addresses, count));

    double us[SAMPLES];
    static const size_t packet_sizes[] = {8, 256, 1024, 2000, 4096, 8192};
    static const size_t bulk_sizes[] = {16 << 10, 64 << 10, 256 << 10, 1 << 20, 16 << 20};
    char *buffer = aligned_alloc(4096, 16 << 20), what[32];
    if (!buffer)
        exit(1);
    memset(buffer, rank, 16 << 20);

    for (int i = 0; i < SAMPLES; i++) {
        packets(&side, 8, 1); /* begins together */
        int64_t start = coll__now_ns();
        flags(flag, rank, i * FLAG_ROUNDS, FLAG_ROUNDS);
        us[i] = (double)(coll__now_ns() - start) / FLAG_ROUNDS / 2 / 1e3;
    }
    if (rank == 0)
        report("flag, half round trip", us);
    for (size_t s = 0; s < sizeof packet_sizes / sizeof *packet_sizes; s++) {
        for (int i = 0; i < SAMPLES; i++) {
            packets(&side, 8, 1);
            int64_t start = coll__now_ns();
            packets(&side, packet_sizes[s], PACKET_ROUNDS);
            us[i] = (double)(coll__now_ns() - start) / PACKET_ROUNDS / 2 / 1e3;
        }
        snprintf(what, sizeof what, "packet of %zu", packet_sizes[s]);
        if (rank == 0)
            report(what, us);
    }
    for (size_t s = 0; s < sizeof bulk_sizes / sizeof *bulk_sizes; s++) {
        int rounds = bulk_sizes[s] > (1 << 20) ? 1 : 10;
        for (int i = 0; i < SAMPLES; i++) {
            packets(&side, 8, 1);
            int64_t start = coll__now_ns();
            bulk(&side, buffer, bulk_sizes[s], rounds);
            us[i] = (double)(coll__now_ns() - start) / rounds / 2 / 1e3;
        }
        snprintf(what, sizeof what, "bulk of %zu KiB", bulk_sizes[s] >> 10);
        if (rank == 0)
            report(what, us);
    }
    if (rank == 0) {
        for (int i = 0; i < SAMPLES; i++) {
            int64_t start = coll__now_ns();
            for (int n = 0; n < 10000; n++)
                must(coll__transport_shm.poll(side.transport));
            us[i] = (double)(coll__now_ns() - start) / 10000 / 1e3;
        }
        report("idle poll", us);
    }
    free(buffer);
    coll__transport_shm.close(side.transport);
}

int main(int argc, char **argv) {
    int size = argc > 1 ? atoi(argv[1]) : 2;
    coll__local_segment_t segment;
    if (size < 2 || size > COLL__LOCAL_SEGMENT_MAX) {
        fprintf(stderr, "shm_pingpong: %d local ranks, allowed are 2 to %d\n", size, COLL__LOCAL_SEGMENT_MAX);
        return 2;
    }
    if (coll__local_segment_open(&segment, size, coll__shm_region_bytes(size, MAX_PACKET)) < 0) {
        perror("shm_pingpong: mmap");
        return 1;
    }
    atomic_int *flag = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (flag == MAP_FAILED)
        return 1;
    pid_t child = fork();
    if (child == 0) {
        run(1, &segment, flag);
        _exit(0);
    }
    int status = 1;
    if (child > 0) {
        run(0, &segment, flag);
        waitpid(child, &status, 0);
    }
    coll__local_segment_close(&segment);
    return status == 0 ? 0 : 1;
}
