/* The libfabric transport alone, two processes: half of the round trip, in microseconds, of packets and of bulk data,
 * beside a bare TCP connection between the same two processes over the same path, in turns.
 *
 *     ofi_pingpong                    over loopback
 *     ofi_pingpong NS0 NS1            between two network namespaces (root; `ip netns list` names them)
 *
 * Both sides poll without sleeping, except in the rows marked "parked", where both sleep on their descriptors. The
 * receiver of bulk data has posted it before the sender starts: the announcement that the layer above makes is not in
 * the figures.
 */
#include <arpa/inet.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "transport/transport_table.h"

enum { HEADER = 48, MAX_PACKET = 8 * 1024 + HEADER, SAMPLES = 11, LARGEST = 16 << 20 };

typedef struct side {
    int rank;
    coll__transport_t *transport;
    int packets, bulk_done;    /* so far */
    int packets_due, bulk_due; /* waited for so far: the next may come early */
    bool parked;
    int tcp;
    int channel; /* to the other process, before the network is there */
    char *in, *out;
    uint32_t id;
} side_t;

static void fail(const char *what) {
    fprintf(stderr, "ofi_pingpong: %s: %s\n", what, coll_error_message());
    exit(1);
}

static void must(const char *what, int status) {
    if (status < 0)
        fail(what);
}

static void on_packet(void *context, int peer, const void *packet, size_t bytes) {
    (void)peer, (void)packet, (void)bytes;
    ((side_t *)context)->packets++;
}

static void on_bulk(void *context, void *cookie, int status) {
    (void)cookie;
    must("a bulk transfer", status);
    ((side_t *)context)->bulk_done++;
}

/* ---- one exchange of each kind: rank 0 sends first ---- */

static void wait_for(side_t *side, const int *what, int value) {
    const coll__transport_ops_t *ops = side->transport->ops;
    while (*what < value) {
        int events = ops->poll(side->transport);
        must("poll", events);
        if (events == 0 && side->parked && ops->arm(side->transport) == 0) {
            struct pollfd entry = {.fd = ops->fd(side->transport), .events = POLLIN};
            poll(&entry, 1, 1000);
        }
    }
}

static void send_packet(side_t *side, size_t bytes) {
    static const char header[HEADER], payload[MAX_PACKET];
    const coll__transport_ops_t *ops = side->transport->ops;
    int status;
    while ((status = ops->send(side->transport, 1 - side->rank, header, HEADER, payload, bytes)) == COLL__AGAIN)
        must("poll", ops->poll(side->transport));
    must("send", status);
}

static void packet_round(side_t *side, size_t bytes) {
    if (side->rank == 0)
        send_packet(side, bytes);
    wait_for(side, &side->packets, ++side->packets_due);
    if (side->rank == 1)
        send_packet(side, bytes);
}

static void bulk_round(side_t *side, size_t bytes) {
    const coll__transport_ops_t *ops = side->transport->ops;
    uint32_t id = side->id++;
    if (side->rank == 0) {
        must("bulk_recv", ops->bulk_recv(side->transport, 1, id, side->in, bytes, side->in));
        must("bulk_send", ops->bulk_send(side->transport, 1, id, side->out, bytes, side->out));
        wait_for(side, &side->bulk_done, side->bulk_due += 2);
    } else { /* its receive was posted in the round before */
        wait_for(side, &side->bulk_done, ++side->bulk_due);
        must("bulk_recv", ops->bulk_recv(side->transport, 0, id + 1, side->in, bytes, side->in));
        must("bulk_send", ops->bulk_send(side->transport, 0, id, side->out, bytes, side->out));
        wait_for(side, &side->bulk_done, ++side->bulk_due);
    }
}

static void tcp_move(side_t *side, bool out, size_t bytes) {
    for (size_t at = 0; at < bytes;) {
        ssize_t moved = out ? send(side->tcp, side->out + at, bytes - at, MSG_DONTWAIT)
                            : recv(side->tcp, side->in + at, bytes - at, MSG_DONTWAIT);
        if (moved > 0) {
            at += (size_t)moved;
        } else if (side->parked) {
            struct pollfd entry = {.fd = side->tcp, .events = out ? POLLOUT : POLLIN};
            poll(&entry, 1, 1000);
        }
    }
}

static void tcp_round(side_t *side, size_t bytes) {
    tcp_move(side, side->rank == 0, bytes);
    tcp_move(side, side->rank != 0, bytes);
}

/* ---- measuring ---- */

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double sample(side_t *side, void (*round)(side_t *, size_t), size_t bytes, int rounds) {
    int64_t start = coll__now_ns();
    for (int i = 0; i < rounds; i++)
        round(side, bytes);
    while (
        !side->transport->ops->drained(side->transport)) /* or the last answer would wait while the other kind runs */
        must("poll", side->transport->ops->poll(side->transport));
    return (double)(coll__now_ns() - start) / 1e3 / (2.0 * rounds);
}

static double median(double *us) {
    qsort(us, SAMPLES, sizeof *us, by_value);
    return us[SAMPLES / 2];
}

static void row(side_t *side, size_t bytes, bool bulk, bool parked) {
    double ours[SAMPLES], tcp[SAMPLES];
    int rounds = bytes > (1 << 20) ? 2 : bytes > 65536 ? 10 : 100;
    void (*round)(side_t *, size_t) = bulk ? bulk_round : packet_round;
    side->parked = parked;
    if (bulk && side->rank == 1)
        must("bulk_recv", side->transport->ops->bulk_recv(side->transport, 0, side->id, side->in, bytes, side->in));
    packet_round(side, 8); /* both are here, and the receive above is posted before the answer */
    for (int i = -1; i < SAMPLES; i++) {
        double first = sample(side, round, bytes, rounds), second = sample(side, tcp_round, bytes, rounds);
        if (i < 0)
            continue; /* warm up */
        ours[i] = first;
        tcp[i] = second;
    }
    if (bulk && side->rank == 1)
        side->transport->ops->bulk_cancel(side->transport, side->in); /* one too many */
    side->id++;                                                       /* nobody was told of that one: its id is lost */
    if (side->rank == 0)
        printf("%10zu %-7s %-7s %10.2f %10.2f %8.2f\n", bytes, bulk ? "bulk" : "packet", parked ? "parked" : "",
               median(ours), median(tcp), median(ours) / median(tcp));
    fflush(stdout);
}

/* ---- setting up ---- */

static void exchange(side_t *side, const void *mine, void *theirs, size_t bytes) {
    if (write(side->channel, mine, bytes) != (ssize_t)bytes || read(side->channel, theirs, bytes) != (ssize_t)bytes)
        exit(1); /* the other side has said why */
}

static void enter_namespace(const char *name) {
    char path[256];
    snprintf(path, sizeof path, "/run/netns/%s", name);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || setns(fd, CLONE_NEWNET)) {
        perror(path);
        exit(1);
    }
    close(fd);
}

/* The first address that is not loopback's, or 127.0.0.1. */
static struct sockaddr_in own_address(bool loopback) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct ifaddrs *list = NULL;
    if (getifaddrs(&list))
        exit(1);
    for (const struct ifaddrs *entry = list; entry && !loopback; entry = entry->ifa_next) {
        if (!entry->ifa_addr || entry->ifa_addr->sa_family != AF_INET || strcmp(entry->ifa_name, "lo") == 0)
            continue;
        address.sin_addr = ((struct sockaddr_in *)entry->ifa_addr)->sin_addr;
        break;
    }
    freeifaddrs(list);
    return address;
}

static void open_tcp(side_t *side, struct sockaddr_in address) {
    int listener = socket(AF_INET, SOCK_STREAM, 0), one = 1;
    struct sockaddr_in theirs;
    socklen_t length = sizeof address;
    if (bind(listener, (struct sockaddr *)&address, sizeof address) || listen(listener, 1) ||
        getsockname(listener, (struct sockaddr *)&address, &length))
        fail("listening");
    exchange(side, &address, &theirs, sizeof address);
    side->tcp = side->rank == 0 ? accept(listener, NULL, NULL) : socket(AF_INET, SOCK_STREAM, 0);
    if (side->rank == 1 && connect(side->tcp, (struct sockaddr *)&theirs, sizeof theirs))
        fail("connecting");
    setsockopt(side->tcp, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    close(listener);
}

static int run(int rank, int channel, const char *namespace) {
    static char in[LARGEST], out[LARGEST];
    static coll__env_t env;
    side_t side = {.rank = rank, .channel = channel, .in = in, .out = out};
    int other = 1 - rank;
    cpu_set_t cpu;
    CPU_ZERO(&cpu);
    CPU_SET(rank, &cpu);
    sched_setaffinity(0, sizeof cpu, &cpu);
    if (namespace)
        enter_namespace(namespace);
    memset(in, 1, sizeof in);
    memset(out, 2, sizeof out);
    struct sockaddr_in address = own_address(!namespace);
    inet_ntop(AF_INET, &address.sin_addr, env.iface, sizeof env.iface);
    open_tcp(&side, address);

    coll__transport_args_t args = {.env = &env, .world_rank = rank, .world_size = 2, .max_packet = MAX_PACKET};
    args.sink = (coll__sink_t){.context = &side, .packet = on_packet, .bulk_done = on_bulk};
    coll__transport_address_t mine, theirs;
    must("open", coll__transport_ofi.open(&args, &side.transport));
    must("address", coll__transport_ofi.address(side.transport, &mine));
    exchange(&side, &mine, &theirs, sizeof mine);
    must("connect", coll__transport_ofi.connect(side.transport, &other, &theirs, 1));
    if (rank == 0)
        printf("%s at %s, medians of half a round trip, us\n%10s %-15s %10s %10s %8s\n", mine.identity, env.iface,
               "bytes", "", "ofi", "bare tcp", "ratio");
    row(&side, 8, false, false);
    row(&side, 8, false, true);
    row(&side, 1024, false, false);
    row(&side, 8192, false, false);
    for (size_t bytes = 8192; bytes <= LARGEST; bytes *= 2)
        row(&side, bytes, true, false);
    char byte = 0;
    exchange(&side, &byte, &byte, 1); /* neither leaves before the other is done */
    coll__transport_ofi.close(side.transport);
    return 0;
}

int main(int argc, char **argv) {
    int channel[2];
    if (argc != 1 && argc != 3) {
        fprintf(stderr, "usage: ofi_pingpong [NS0 NS1]\n");
        return 2;
    }
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, channel))
        return 1;
    pid_t child = fork();
    if (child < 0)
        return 1;
    close(channel[child != 0]);
    if (child == 0)
        return run(1, channel[1], argc == 3 ? argv[2] : NULL);
    int status = run(0, channel[0], argc == 3 ? argv[1] : NULL), child_status = 0;
    waitpid(child, &child_status, 0);
    return status ? status : child_status ? 1 : 0;
}
