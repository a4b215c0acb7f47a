/* The simulated network keeps LogGP's times exactly, whoever is polled when. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "transport/sim/sim.h"
#include "transport/transport_table.h"

enum { RANKS_MAX = 64, PACKET_MAX = 4096 };

/* Powers of two in nanoseconds: sums are exact. */
static const coll__sim_link_t inside = {.latency_ns = 64, .overhead_ns = 16, .gap_ns = 32, .gap_per_byte_ns = 0.25};
static const coll__sim_link_t between = {.latency_ns = 1024, .overhead_ns = 128, .gap_ns = 256, .gap_per_byte_ns = 2};

typedef struct network network_t;
typedef struct rank {
    network_t *network;
    int rank;
    int packets, bulk;
    coll__transport_t *transport;
} rank_t;

struct network {
    coll__sim_world_t *world;
    int size;
    void (*react)(rank_t *rank, int peer, size_t bytes);
    int rounds;
    rank_t rank[RANKS_MAX];
};

static const char zeros[1 << 16];

static void send(rank_t *from, int to, size_t bytes) {
    assert_int_equal(from->transport->ops->send(from->transport, to, zeros, 0, zeros, bytes), 0);
}

static void on_packet(void *context, int peer, const void *packet, size_t bytes) {
    rank_t *rank = context;
    (void)packet;
    rank->packets++;
    if (rank->network->react)
        rank->network->react(rank, peer, bytes);
}

static void on_bulk(void *context, void *cookie, int status) {
    (void)cookie;
    assert_int_equal(status, 0);
    ((rank_t *)context)->bulk++;
}

static void open_network(network_t *network, int size, const int *node_of) {
    memset(network, 0, sizeof *network);
    network->size = size;
    network->world = coll__sim_world_create(size, node_of, inside, between);
    assert_non_null(network->world);
    int peers[RANKS_MAX];
    coll__transport_address_t addresses[RANKS_MAX] = {0};
    for (int r = 0; r < size; r++) {
        rank_t *rank = &network->rank[r];
        *rank = (rank_t){.network = network, .rank = r};
        coll__transport_args_t args = {.world_rank = r,
                                       .world_size = size,
                                       .max_packet = PACKET_MAX,
                                       .sim_world = network->world,
                                       .sink = {rank, on_packet, on_bulk}};
        assert_int_equal(coll__transport_sim.open(&args, &rank->transport), 0);
        int count = 0;
        for (int peer = 0; peer < size; peer++)
            if (peer != r)
                peers[count++] = peer;
        assert_int_equal(coll__transport_sim.connect(rank->transport, peers, addresses, count), 0);
    }
}

static void close_network(network_t *network) {
    for (int r = 0; r < network->size; r++)
        coll__transport_sim.close(network->rank[r].transport);
    coll__sim_world_free(network->world);
}

/* Polls in rounds until a round and its repetitions find nothing; `stride` (coprime to size) sets the order within a
 * round. */
static void run(network_t *network, int stride) {
    for (int quiet = 0; quiet < 4;) {
        int events = 0;
        for (int i = 0; i < network->size; i++)
            events += coll__transport_sim.poll(network->rank[i * stride % network->size].transport);
        quiet = events ? 0 : quiet + 1;
    }
}

static double now(const network_t *network, int rank) {
    return coll__sim_now(network->world, rank);
}

static double one_way(coll__sim_link_t link, size_t bytes) {
    return link.latency_ns + 2 * link.overhead_ns + (bytes > 1 ? (double)(bytes - 1) * link.gap_per_byte_ns : 0);
}

static void pong(rank_t *rank, int peer, size_t bytes) {
    if (rank->rank == 1 || --rank->network->rounds > 0)
        send(rank, peer, bytes);
}

static void ping_pong(void **state) {
    (void)state;
    static const size_t lengths[] = {0, 1, 2, 8, 1000, PACKET_MAX};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        for (int same = 0; same < 2; same++) {
            network_t network;
            open_network(&network, 2, (int[]){0, !same});
            network.react = pong;
            network.rounds = 10;
            send(&network.rank[0], 1, lengths[i]);
            run(&network, 1);
            assert_int_equal(network.rank[0].packets, 10);
            assert_true(now(&network, 0) == 10 * 2 * one_way(same ? inside : between, lengths[i]));
            close_network(&network);
        }
    }
}

/* n packets in a row: the port is busy for (k-1)G and then for the gap; processors overlap with it. */
static void train(void **state) {
    (void)state;
    network_t network;
    enum { COUNT = 20, BYTES = 101 };
    open_network(&network, 2, NULL);
    for (int i = 0; i < COUNT; i++)
        send(&network.rank[0], 1, BYTES);
    assert_true(now(&network, 0) == COUNT * between.overhead_ns);
    run(&network, 1);
    double port = (BYTES - 1) * between.gap_per_byte_ns + between.gap_ns;
    assert_true(now(&network, 1) == (COUNT - 1) * port + one_way(between, BYTES));
    close_network(&network);
}

/* Packets from all to one: they arrive together, and the receiver's overhead lines them up. */
static void fan_in(void **state) {
    (void)state;
    for (int stride = 1; stride < 9; stride += 2) {
        network_t network;
        open_network(&network, 16, NULL);
        for (int rank = 1; rank < 16; rank++)
            send(&network.rank[rank], 0, 8);
        run(&network, stride);
        assert_int_equal(network.rank[0].packets, 15);
        assert_true(now(&network, 0) == one_way(between, 8) + 14 * between.overhead_ns);
        close_network(&network);
    }
}

/* A dissemination barrier whose ranks start at different times: rank 0 has sent for a while already. What it ends with
 * must not depend on the order of polls. */
static void disseminate(rank_t *rank, int peer, size_t bytes) {
    (void)peer;
    int distance = (int)bytes * 2, size = rank->network->size;
    if (distance < size)
        send(rank, (rank->rank + distance) % size, (size_t)distance);
}

static void order_of_polls_does_not_matter(void **state) {
    (void)state;
    double first[RANKS_MAX];
    for (int stride = 1; stride < 32; stride += 2) {
        network_t network;
        int nodes[RANKS_MAX];
        for (int rank = 0; rank < 32; rank++)
            nodes[rank] = rank / 4;
        open_network(&network, 32, nodes);
        network.react = disseminate;
        for (int i = 0; i < 5; i++)
            send(&network.rank[0], 9, 64); /* not answered: 64 * 2 is beyond the size */
        for (int i = 0; i < 32; i++) {
            int rank = i * stride % 32;
            send(&network.rank[rank], (rank + 1) % 32, 1);
        }
        run(&network, stride);
        for (int rank = 0; rank < 32; rank++) {
            assert_int_equal(network.rank[rank].packets, 5 + 5 * (rank == 9));
            if (stride == 1)
                first[rank] = now(&network, rank);
            assert_true(now(&network, rank) == first[rank]);
        }
        close_network(&network);
    }
}

/* The classic case against delivering as it comes: a late packet is there first, the early one comes by a detour. */
static void relay(rank_t *rank, int peer, size_t bytes) {
    (void)peer, (void)bytes;
    if (rank->rank == 1)
        send(rank, 2, 1);
}

static void time_waits_for_who_may_send_earlier(void **state) {
    (void)state;
    network_t network;
    open_network(&network, 4, (int[]){0, 0, 0, 1});
    network.react = relay;
    send(&network.rank[3], 2, PACKET_MAX); /* arrives at rank 2 after 9 microseconds */
    send(&network.rank[0], 1, 1);          /* and this, through rank 1, after 192 ns */
    coll__transport_sim.poll(network.rank[2].transport);
    coll__transport_sim.poll(network.rank[2].transport);
    assert_int_equal(network.rank[2].packets, 0);
    run(&network, 3);
    assert_int_equal(network.rank[2].packets, 2);
    assert_true(now(&network, 2) == one_way(between, PACKET_MAX));
    close_network(&network);
}

static void bulk_data(void **state) {
    (void)state;
    network_t network;
    static char target[1 << 16];
    open_network(&network, 2, NULL);
    coll__transport_t *from = network.rank[0].transport, *to = network.rank[1].transport;
    assert_int_equal(coll__transport_sim.bulk_recv(to, 0, 1, target, sizeof target, target), 0);
    assert_int_equal(coll__transport_sim.bulk_send(from, 1, 1, zeros, sizeof zeros, target), 0);
    run(&network, 1);
    assert_int_equal(network.rank[0].bulk + network.rank[1].bulk, 2);
    double rest = (sizeof zeros - 1) * between.gap_per_byte_ns;
    assert_true(now(&network, 0) == between.overhead_ns + rest); /* the buffer is free when the last byte has left */
    assert_true(now(&network, 1) == one_way(between, sizeof zeros));
    close_network(&network);
}

static void traffic(void **state) {
    (void)state;
    network_t network;
    uint64_t messages, bytes;
    open_network(&network, 3, (int[]){5, 5, 6});
    send(&network.rank[0], 1, 10);
    send(&network.rank[0], 2, 100);
    send(&network.rank[2], 1, 1000);
    coll__sim_traffic(network.world, 0, &messages, &bytes);
    assert_int_equal(messages, 1);
    assert_int_equal(bytes, 10);
    coll__sim_traffic(network.world, 1, &messages, &bytes);
    assert_int_equal(messages, 2);
    assert_int_equal(bytes, 1100);
    close_network(&network);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ping_pong),
        cmocka_unit_test(train),
        cmocka_unit_test(fan_in),
        cmocka_unit_test(order_of_polls_does_not_matter),
        cmocka_unit_test(time_waits_for_who_may_send_earlier),
        cmocka_unit_test(bulk_data),
        cmocka_unit_test(traffic),
    };
    return cmocka_run_group_tests_name("simulated times", tests, NULL, NULL);
}
