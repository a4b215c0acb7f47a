/* The libfabric transport among peers that misbehave: those that die or stop in the middle of a transfer, those that
 * give up and unmap their memory, and strangers. Three ranks over loopback, of which one may be another process. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <arpa/inet.h>
#include <cmocka.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "transport/transport_table.h"

#ifdef COLL_HAVE_LIBFABRIC

enum { RANKS = 3, MAX_PACKET = 8192 + 64, WAIT_S = 10 };

/* What a rank was told. */
typedef struct rank {
    coll__transport_t *transport;
    int packets, done;
    int last_peer;
    uint64_t expected[RANKS]; /* next number in the packets of each peer */
    bool wrong;
} rank_t;

static rank_t ranks[RANKS];
static coll__env_t env;

/* A packet is a number and then bytes that follow from it. */
static unsigned char byte_at(uint64_t number, size_t at) {
    return (unsigned char)(number * 31 + at * 7);
}

static void on_packet(void *context, int peer, const void *packet, size_t bytes) {
    rank_t *rank = context;
    const unsigned char *data = packet;
    uint64_t number;
    rank->wrong |= (uintptr_t)packet % 8 != 0 || bytes < sizeof number;
    memcpy(&number, packet, sizeof number);
    rank->wrong |= number != rank->expected[peer]++;
    for (size_t i = sizeof number; i < bytes; i++)
        rank->wrong |= data[i] != byte_at(number, i);
    rank->packets++;
    rank->last_peer = peer;
}

static void on_bulk_done(void *context, void *cookie, int status) {
    rank_t *rank = context;
    rank->done++;
    (void)cookie;
    rank->wrong |= status != 0;
}

static void open_rank(int me, coll__transport_address_t *address) {
    coll__transport_args_t args = {.env = &env, .world_rank = me, .world_size = RANKS, .max_packet = MAX_PACKET};
    ranks[me] = (rank_t){0};
    args.sink = (coll__sink_t){.context = &ranks[me], .packet = on_packet, .bulk_done = on_bulk_done};
    int status = coll__transport_ofi.open(&args, &ranks[me].transport);
    if (status)
        print_error("%s\n", coll_error_message());
    assert_int_equal(status, 0);
    assert_int_equal(coll__transport_ofi.address(ranks[me].transport, address), 0);
}

static void connect_rank(int me, const coll__transport_address_t *addresses) {
    for (int peer = 0; peer < RANKS; peer++) {
        if (peer != me)
            assert_int_equal(coll__transport_ofi.connect(ranks[me].transport, &peer, &addresses[peer], 1), 0);
    }
}

static int setup(void **state) {
    (void)state;
    coll__transport_address_t addresses[RANKS];
    for (int me = 0; me < RANKS; me++)
        open_rank(me, &addresses[me]);
    for (int me = 0; me < RANKS; me++)
        connect_rank(me, addresses);
    return 0;
}

static int teardown(void **state) {
    (void)state;
    for (int me = 0; me < RANKS; me++) {
        if (ranks[me].transport)
            coll__transport_ofi.close(ranks[me].transport);
        ranks[me].transport = NULL;
    }
    return 0;
}

static void poll_rank(int me) {
    int events = coll__transport_ofi.poll(ranks[me].transport);
    if (events < 0)
        print_error("rank %d: %s\n", me, coll_error_message());
    assert_true(events >= 0);
}

static void poll_all(void) {
    for (int me = 0; me < RANKS; me++) {
        if (ranks[me].transport)
            poll_rank(me);
    }
}

/* Polls all ranks until the condition holds. */
#define until(condition)                                                  \
    do {                                                                  \
        int64_t deadline = coll__now_ns() + WAIT_S * INT64_C(1000000000); \
        while (!(condition)) {                                            \
            assert_true(coll__now_ns() < deadline);                       \
            poll_all();                                                   \
        }                                                                 \
    } while (0)

static int try_send(int from, int to, uint64_t number, size_t bytes) {
    static unsigned char data[MAX_PACKET];
    memcpy(data, &number, sizeof number);
    for (size_t i = sizeof number; i < bytes; i++)
        data[i] = byte_at(number, i);
    return coll__transport_ofi.send(ranks[from].transport, to, data, sizeof number, data + sizeof number,
                                    bytes - sizeof number);
}

static void send_packet(int from, int to, uint64_t number, size_t bytes) {
    until(try_send(from, to, number, bytes) == 0);
}

static void assert_right(void) {
    for (int me = 0; me < RANKS; me++)
        assert_false(ranks[me].wrong);
}

static void fill(unsigned char *data, size_t bytes, unsigned seed) {
    for (size_t i = 0; i < bytes; i++)
        data[i] = (unsigned char)(i * 13 + i / 251 + seed);
}

/* The buffers are the caller's when cancel returns: what still arrives must not touch them, nor disturb what follows.
 */
static void a_cancelled_transfer_never_touches_its_buffer_again(void **state) {
    (void)state;
    enum { BYTES = 16 << 20 };
    unsigned char *from = malloc(BYTES), *to = malloc(BYTES);
    fill(from, BYTES, 5);
    assert_int_equal(coll__transport_ofi.bulk_recv(ranks[1].transport, 0, 1, to, BYTES, to), 0);
    assert_int_equal(coll__transport_ofi.bulk_send(ranks[0].transport, 1, 1, from, BYTES, from), 0);
    until(ranks[1].transport->counters.bulk_bytes_received > 0);
    assert_int_equal(ranks[1].done, 0);
    coll__transport_ofi.bulk_cancel(ranks[1].transport, to);
    memset(to, 0xAA, BYTES);
    until(ranks[0].done == 1); /* the sender knows nothing of it */
    until(coll__transport_ofi.drained(ranks[0].transport));
    send_packet(0, 1, 0, 16);
    until(ranks[1].packets == 1);
    for (size_t i = 0; i < BYTES; i++)
        assert_int_equal(to[i], 0xAA);
    assert_int_equal(ranks[1].done, 0);

    /* The sender gives up as well, and unmaps its memory at once. */
    assert_int_equal(coll__transport_ofi.bulk_recv(ranks[1].transport, 0, 2, to, BYTES, to), 0);
    assert_int_equal(coll__transport_ofi.bulk_send(ranks[0].transport, 1, 2, from, BYTES, from), 0);
    coll__transport_ofi.bulk_cancel(ranks[0].transport, from);
    free(from);
    send_packet(0, 1, 1, 16);
    until(ranks[1].packets == 2);
    coll__transport_ofi.bulk_cancel(ranks[1].transport, to);
    free(to);
    assert_right();
}

/* ---- peers that die ---- */

static bool readable(int fd, int timeout_ms) {
    struct pollfd entry = {.fd = fd, .events = POLLIN};
    return poll(&entry, 1, timeout_ms) == 1;
}

/* A rank in another process, so that it can be stopped and killed. It reads until it is. */
static pid_t fork_rank_2(void) {
    int addresses_out[2], addresses_in[2];
    assert_int_equal(pipe(addresses_out) | pipe(addresses_in), 0);
    coll__transport_address_t addresses[RANKS];
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        open_rank(2, &addresses[2]);
        if (write(addresses_out[1], &addresses[2], sizeof addresses[2]) < 0)
            _exit(1);
        if (read(addresses_in[0], addresses, 2 * sizeof addresses[0]) < 0)
            _exit(1);
        connect_rank(2, addresses);
        static unsigned char sink[64 << 20];
        coll__transport_ofi.bulk_recv(ranks[2].transport, 0, 7, sink, sizeof sink, sink);
        coll__transport_ofi.bulk_send(ranks[2].transport, 0, 8, sink, sizeof sink, sink);
        for (uint64_t number = 0;;) { /* tells rank 0 now and then that it lives */
            if (number < 100 && try_send(2, 0, number, 4000) == 0)
                number++;
            coll__transport_ofi.poll(ranks[2].transport);
        }
    }
    assert_int_equal(read(addresses_out[0], &addresses[2], sizeof addresses[2]), sizeof addresses[2]);
    open_rank(0, &addresses[0]);
    open_rank(1, &addresses[1]);
    assert_true(write(addresses_in[1], addresses, 2 * sizeof addresses[0]) > 0);
    connect_rank(0, addresses);
    connect_rank(1, addresses);
    close(addresses_in[0]), close(addresses_in[1]), close(addresses_out[0]), close(addresses_out[1]);
    return child;
}

/* Rank 2 ends in the middle of transfers in both directions. Whatever libfabric makes of it: the buffers come back at
 * once, the other peers are served on, an idle process can sleep, and close() ends. */
static void lose_rank_2_by(int signal) {
    enum { BYTES = 64 << 20 };
    pid_t child = fork_rank_2();
    unsigned char *from = malloc(BYTES), *to = malloc(BYTES);
    fill(from, BYTES, 1);
    assert_int_equal(coll__transport_ofi.bulk_recv(ranks[0].transport, 2, 8, to, BYTES, to), 0);
    assert_int_equal(coll__transport_ofi.bulk_send(ranks[0].transport, 2, 7, from, BYTES, from), 0);
    until(ranks[0].transport->counters.bulk_bytes_received > BYTES / 8 &&
          ranks[0].transport->counters.bulk_bytes_sent > BYTES / 8);
    kill(child, signal);
    if (signal == SIGKILL)
        assert_int_equal(waitpid(child, NULL, 0), child);
    int64_t moment = coll__now_ns() + 200 * INT64_C(1000000);
    while (coll__now_ns() < moment) { /* the watcher needs a while to notice */
        (void)try_send(0, 2, 0, 100);
        poll_all();
    }
    int64_t before = coll__now_ns();
    coll__transport_ofi.forget(ranks[0].transport, 2);
    assert_true(coll__now_ns() - before < 100 * INT64_C(1000000));
    free(from);
    free(to);
    assert_int_equal(ranks[0].done, 0);
    assert_true(try_send(0, 2, 0, 100) < 0);

    ranks[0].wrong = false;
    for (uint64_t number = 0; number < 50; number++) {
        send_packet(0, 1, number, 3000);
        send_packet(1, 0, number, 3000);
    }
    until(ranks[1].packets == 50 && ranks[0].expected[1] == 50);
    assert_right();
    until(coll__transport_ofi.drained(ranks[0].transport));

    /* Sleeping: at most a few wake-ups in a quarter of a second, so that a waiting process is idle. */
    int wakes = 0;
    moment = coll__now_ns() + 250 * INT64_C(1000000);
    while (coll__now_ns() < moment && wakes < 1000) {
        poll_rank(0);
        if (coll__transport_ofi.arm(ranks[0].transport) == 0)
            (void)readable(coll__transport_ofi.fd(ranks[0].transport), 50);
        wakes++;
    }
    assert_true(wakes < 100);

    before = coll__now_ns();
    teardown(NULL);
    assert_true(coll__now_ns() - before < INT64_C(2000000000));
    if (signal != SIGKILL) {
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
    }
}

static void a_killed_peer_costs_nothing_but_itself(void **state) {
    (void)state;
    lose_rank_2_by(SIGKILL);
}

static void a_stopped_peer_costs_nothing_but_itself(void **state) {
    (void)state;
    lose_rank_2_by(SIGSTOP);
}

/* ---- strangers ---- */

/* Who speaks libfabric but does not know a rank's key, which only the job's bootstrap carries, is not heard. */
static void a_message_with_a_wrong_key_is_dropped(void **state) {
    (void)state;
    coll__transport_address_t addresses[RANKS];
    for (int me = 0; me < RANKS; me++)
        open_rank(me, &addresses[me]);
    connect_rank(0, addresses);
    connect_rank(1, addresses);
    addresses[0].address[0] ^= 1;
    connect_rank(2, addresses);
    for (uint64_t number = 0; number < 10; number++)
        send_packet(2, 0, number, 100);
    until(coll__transport_ofi.drained(ranks[2].transport));
    send_packet(1, 0, 0, 100);
    until(ranks[0].packets == 1);
    for (int i = 0; i < 1000; i++)
        poll_all();
    assert_int_equal(ranks[0].packets, 1);
    assert_int_equal(ranks[0].last_peer, 1);
    assert_right();
}

/* Who does not even speak libfabric's protocol, at the port of a rank, does no harm. */
static void junk_at_the_port_does_no_harm(void **state) {
    coll__transport_address_t addresses[RANKS];
    struct sockaddr_in address;
    static char junk[100000];
    setup(state);
    assert_int_equal(coll__transport_ofi.address(ranks[0].transport, &addresses[0]), 0);
    memcpy(&address, addresses[0].address + 16, sizeof address);
    assert_int_equal(address.sin_family, AF_INET);
    fill((unsigned char *)junk, sizeof junk, 9);
    for (int talks = 0; talks < 2; talks++) {
        for (int i = 0; i < 5; i++) {
            int fd = socket(AF_INET, SOCK_STREAM, 0);
            assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
            if (talks)
                (void)!send(fd, junk, sizeof junk, MSG_DONTWAIT | MSG_NOSIGNAL);
            for (int polls = 0; polls < 100; polls++)
                poll_all();
            close(fd);
        }
        for (uint64_t number = 0; number < 20; number++)
            send_packet(1, 0, number + 20 * (uint64_t)talks, 3000);
        until(ranks[0].packets == 20 * (talks + 1));
    }
    assert_right();
}

int main(void) {
    strcpy(env.iface, "lo");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(a_killed_peer_costs_nothing_but_itself, teardown),
        cmocka_unit_test_teardown(a_stopped_peer_costs_nothing_but_itself, teardown),
        cmocka_unit_test_setup_teardown(a_cancelled_transfer_never_touches_its_buffer_again, setup, teardown),
        cmocka_unit_test_teardown(a_message_with_a_wrong_key_is_dropped, teardown),
        cmocka_unit_test_teardown(junk_at_the_port_does_no_harm, teardown),
    };
    return cmocka_run_group_tests_name("ofi_peers", tests, NULL, NULL);
}

#else

static void a_build_without_libfabric_opens_nothing(void **state) {
    (void)state;
    coll__env_t env = {0};
    coll__transport_args_t args = {.env = &env, .world_size = 2};
    coll__transport_t *transport;
    assert_int_equal(coll__transport_ofi.open(&args, &transport), COLL_ERR_UNSUPPORTED);
    assert_null(transport);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_build_without_libfabric_opens_nothing)};
    return cmocka_run_group_tests_name("ofi_peers", tests, NULL, NULL);
}

#endif
