/* What the conformance suite does not ask: the libfabric transport's own promises. Three endpoints live in this one
 * process and talk over loopback, with the libfabric that the loader finds. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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
    size_t last_bytes;
    uint64_t expected[RANKS]; /* next number in the packets of each peer */
    bool wrong;
    void *last_cookie;
    int last_status;
} rank_t;

static rank_t ranks[RANKS];
static coll__env_t env;
static size_t max_packet = MAX_PACKET;

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
    rank->last_bytes = bytes;
}

static void on_bulk_done(void *context, void *cookie, int status) {
    rank_t *rank = context;
    rank->done++;
    rank->last_cookie = cookie;
    rank->last_status = status;
}

static void open_rank(int me, coll__transport_address_t *address) {
    coll__transport_args_t args = {.env = &env, .world_rank = me, .world_size = RANKS, .max_packet = max_packet};
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
#define until(condition)                                                                                               \
    do {                                                                                                               \
        int64_t deadline = coll__now_ns() + WAIT_S * INT64_C(1000000000);                                              \
        while (!(condition)) {                                                                                         \
            assert_true(coll__now_ns() < deadline);                                                                    \
            poll_all();                                                                                                \
        }                                                                                                              \
    } while (0)

static int try_send(int from, int to, uint64_t number, size_t bytes) {
    static unsigned char data[1 << 21];
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

/* ---- packets ---- */

static void packets_of_every_length_arrive_whole_and_in_order(void **state) {
    (void)state;
    uint64_t number = 0;
    for (size_t bytes = 8; bytes <= max_packet; bytes += bytes < 64 ? 1 : bytes / 5) {
        send_packet(0, 1, number, bytes);
        number++;
    }
    send_packet(0, 1, number++, max_packet);
    until(ranks[1].packets == (int)number);
    assert_int_equal(ranks[1].last_bytes, max_packet);
    assert_right();
}

/* A sender that is faster than the receiver must be told to wait, and lose nothing. */
static void a_flood_is_held_back_and_nothing_is_lost(void **state) {
    (void)state;
    enum { COUNT = 3000 };
    int sent = 0, refused = 0;
    while (sent < COUNT) { /* rank 1 does not poll until the flood stops */
        if (try_send(0, 1, (uint64_t)sent, (size_t)(16 + sent % 8000)) == 0) {
            sent++;
            refused = 0;
            continue;
        }
        poll_rank(0);
        if (++refused > 200)
            poll_rank(1);
    }
    until(ranks[1].packets == COUNT);
    assert_true(ranks[0].transport->counters.again > 0);
    assert_int_equal(ranks[1].transport->counters.messages_received, COUNT);
    assert_right();
}

/* ---- bulk ---- */

static void fill(unsigned char *data, size_t bytes, unsigned seed) {
    for (size_t i = 0; i < bytes; i++)
        data[i] = (unsigned char)(i * 13 + i / 251 + seed);
}

static void bulk_of_awkward_lengths_arrives(void **state) {
    (void)state;
    static const size_t lengths[] = {1, 7, 4096, 65535, 65536, 65537, 3 * 65536 + 5, (8 << 20) + 3};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        size_t bytes = lengths[i];
        unsigned char *from = malloc(bytes), *to = calloc(1, bytes + 1);
        fill(from, bytes, (unsigned)i);
        int before = ranks[2].done + ranks[0].done;
        assert_int_equal(coll__transport_ofi.bulk_recv(ranks[2].transport, 0, 1000 + (uint32_t)i, to, bytes, to), 0);
        assert_int_equal(coll__transport_ofi.bulk_send(ranks[0].transport, 2, 1000 + (uint32_t)i, from, bytes, from),
                         0);
        until(ranks[2].done + ranks[0].done == before + 2);
        assert_ptr_equal(ranks[2].last_cookie, to);
        assert_ptr_equal(ranks[0].last_cookie, from);
        assert_int_equal(ranks[2].last_status, 0);
        assert_memory_equal(from, to, bytes);
        assert_int_equal(to[bytes], 0);
        free(from);
        free(to);
    }
    assert_int_equal(ranks[0].transport->counters.registrations, 0); /* tcp registers nothing */
}

/* Many transfers between all pairs, with packets in between. */
static void bulk_in_all_directions_at_once(void **state) {
    (void)state;
    enum { EACH = 6, BYTES = 300001 };
    static unsigned char from[RANKS][RANKS][EACH][BYTES], to[RANKS][RANKS][EACH][BYTES];
    uint64_t number[RANKS][RANKS] = {{0}};
    for (int me = 0; me < RANKS; me++) {
        for (int peer = 0; peer < RANKS; peer++) {
            for (int k = 0; peer != me && k < EACH; k++) {
                fill(from[me][peer][k], BYTES, (unsigned)(me * 100 + peer * 10 + k));
                assert_int_equal(coll__transport_ofi.bulk_recv(ranks[me].transport, peer, (uint32_t)k, to[me][peer][k],
                                                               BYTES, to[me][peer][k]),
                                 0);
            }
        }
    }
    for (int k = 0; k < EACH; k++) {
        for (int me = 0; me < RANKS; me++) {
            for (int peer = 0; peer < RANKS; peer++) {
                if (peer == me)
                    continue;
                assert_int_equal(coll__transport_ofi.bulk_send(ranks[me].transport, peer, (uint32_t)k,
                                                               from[me][peer][k], BYTES, from[me][peer][k]),
                                 0);
                send_packet(me, peer, number[me][peer]++, 40);
            }
        }
    }
    until(ranks[0].done == 4 * EACH && ranks[1].done == 4 * EACH && ranks[2].done == 4 * EACH);
    for (int me = 0; me < RANKS; me++) {
        for (int peer = 0; peer < RANKS; peer++) {
            if (peer != me)
                assert_memory_equal(to[me][peer], from[peer][me], sizeof to[me][peer]);
        }
    }
    assert_right();
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

/* ---- sleeping ---- */

static bool readable(int fd, int timeout_ms) {
    struct pollfd entry = {.fd = fd, .events = POLLIN};
    return poll(&entry, 1, timeout_ms) == 1;
}

/* An armed sleeper wakes for a packet, and an idle one does not wake. */
static void an_armed_sleeper_wakes_for_what_arrives_and_for_nothing_else(void **state) {
    (void)state;
    send_packet(0, 1, 0, 64); /* connects */
    until(ranks[1].packets == 1 && coll__transport_ofi.drained(ranks[0].transport));
    for (int i = 0; i < 20; i++)
        poll_all();
    for (int round = 1; round <= 20; round++) {
        until(coll__transport_ofi.arm(ranks[1].transport) == 0);
        int fd = coll__transport_ofi.fd(ranks[1].transport);
        assert_true(fd >= 0);
        if (round % 10 == 1)
            assert_false(readable(fd, 20));
        assert_int_equal(try_send(0, 1, (uint64_t)round, 64), 0);
        assert_true(readable(fd, 1000));
        until(ranks[1].packets == round + 1);
    }
    assert_right();
}

/* ---- peers that die ---- */

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
    print_message("          %d wake-ups in 250 ms\n", wakes);
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

/* ---- the rest ---- */

static int setup_large(void **state) {
    max_packet = (1 << 20) + 64;
    return setup(state);
}

static int teardown_large(void **state) {
    max_packet = MAX_PACKET;
    return teardown(state);
}

static void probe_says_what_it_would_use(void **state) {
    (void)state;
    char why[512] = "", detail[512] = "";
    assert_int_equal(coll__transport_ofi.probe(&env, why, sizeof why, detail, sizeof detail), 1);
    print_message("          %s\n", detail);
    assert_non_null(strstr(detail, "libfabric.so.1"));
    assert_non_null(strstr(detail, "127.0.0.1"));
}

static void bad_settings_are_named(void **state) {
    (void)state;
    char why[512] = "", detail[512] = "";
    coll__env_t bad = env;
    strcpy(bad.provider, "carrier-pigeon");
    assert_int_equal(coll__transport_ofi.probe(&bad, why, sizeof why, detail, sizeof detail), 0);
    assert_non_null(strstr(why, "carrier-pigeon"));
    assert_non_null(strstr(why, "COLL_PROVIDER can be one of: "));
    assert_non_null(strstr(why, "tcp"));
    bad = env;
    strcpy(bad.iface, "nosuch0");
    assert_int_equal(coll__transport_ofi.probe(&bad, why, sizeof why, detail, sizeof detail), 0);
    assert_non_null(strstr(why, "COLL_IFACE is \"nosuch0\""));
    assert_non_null(strstr(why, "lo (127.0.0.1)"));
}

/* libpsm and its like replace handlers of signals while libfabric loads. */
static void on_signal(int number) {
    (void)number;
}

static void loading_leaves_the_signal_handlers(void **state) {
    (void)state;
    static const int numbers[] = {SIGINT, SIGTERM, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
    struct sigaction action = {.sa_handler = on_signal}, now;
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        sigaction(numbers[i], &action, NULL);
    probe_says_what_it_would_use(NULL);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        sigaction(numbers[i], NULL, &now);
        assert_ptr_equal(now.sa_handler, on_signal);
        signal(numbers[i], SIG_DFL);
    }
}

int main(void) {
    strcpy(env.iface, "lo");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(loading_leaves_the_signal_handlers), /* first: it loads libfabric */
        cmocka_unit_test(a_killed_peer_costs_nothing_but_itself),
        cmocka_unit_test(a_stopped_peer_costs_nothing_but_itself),
        cmocka_unit_test_setup_teardown(packets_of_every_length_arrive_whole_and_in_order, setup, teardown),
        cmocka_unit_test_setup_teardown(packets_of_every_length_arrive_whole_and_in_order, setup_large, teardown_large),
        cmocka_unit_test_setup_teardown(a_flood_is_held_back_and_nothing_is_lost, setup, teardown),
        cmocka_unit_test_setup_teardown(bulk_of_awkward_lengths_arrives, setup, teardown),
        cmocka_unit_test_setup_teardown(bulk_in_all_directions_at_once, setup, teardown),
        cmocka_unit_test_setup_teardown(a_cancelled_transfer_never_touches_its_buffer_again, setup, teardown),
        cmocka_unit_test_setup_teardown(an_armed_sleeper_wakes_for_what_arrives_and_for_nothing_else, setup, teardown),
        cmocka_unit_test(bad_settings_are_named),
    };
    return cmocka_run_group_tests_name("ofi_transport", tests, NULL, NULL);
}

#else

static void a_build_without_libfabric_says_so(void **state) {
    (void)state;
    char why[512] = "", detail[512] = "x";
    coll__env_t env = {0};
    coll__transport_args_t args = {.env = &env, .world_size = 1};
    coll__transport_t *transport;
    assert_int_equal(coll__transport_ofi.probe(&env, why, sizeof why, detail, sizeof detail), 0);
    assert_non_null(strstr(why, "libfabric-dev"));
    assert_int_equal(coll__transport_ofi.open(&args, &transport), COLL_ERR_UNSUPPORTED);
    assert_non_null(strstr(coll_error_message(), "libfabric-dev"));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_build_without_libfabric_says_so)};
    return cmocka_run_group_tests_name("ofi_transport", tests, NULL, NULL);
}

#endif
