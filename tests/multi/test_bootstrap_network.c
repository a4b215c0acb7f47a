/* Machines with odd networks: no name, loopback alone, one address family alone, an address that is translated. Each
 * machine is a network and host name namespace of its own. */
#include <errno.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "bootstrap/tcp.h"
#include "bootstrap_helper.h"

enum { RANKS = 4, PORT = 23456, CANNOT_MAKE = 99 };

typedef struct machine {
    bool v4, v6;
    const char *host_of_rank_0;
    const char *host_of_others;
    bool few_ports; /* connections may get the very port they go to */
} machine_t;

/* The kernel's request to take an IPv6 address from an interface; its header is not for C libraries' programs. */
struct in6_request {
    struct in6_addr address;
    uint32_t prefix;
    int interface;
};

static int make_machine(const machine_t *machine) {
    if (unshare(CLONE_NEWNET | CLONE_NEWUTS) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWNET | CLONE_NEWUTS) != 0)
        return -1;
    if (sethostname("nobody-knows-this-name", 22) != 0)
        return -1;
    int v4 = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), v6 = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    struct ifreq loopback = {.ifr_name = "lo"};
    int failed = ioctl(v4, SIOCGIFFLAGS, &loopback);
    loopback.ifr_flags |= IFF_UP;
    failed = failed || ioctl(v4, SIOCSIFFLAGS, &loopback); /* brings both addresses */
    if (!machine->v4) {
        *(struct sockaddr_in *)&loopback.ifr_addr = (struct sockaddr_in){.sin_family = AF_INET};
        failed = failed || ioctl(v4, SIOCSIFADDR, &loopback);
    }
    if (!machine->v6 && v6 >= 0) {
        struct in6_request gone = {in6addr_loopback, 128, (int)if_nametoindex("lo")};
        failed = failed || (ioctl(v6, SIOCDIFADDR, &gone) && errno != EADDRNOTAVAIL);
    }
    close(v4);
    close(v6);
    FILE *range = machine->few_ports ? fopen("/proc/sys/net/ipv4/ip_local_port_range", "w") : NULL;
    failed = failed || (machine->few_ports && range == NULL);
    if (range != NULL) {
        fprintf(range, "%d %d", PORT, PORT + 7);
        failed = fclose(range) != 0 || failed;
    }
    return failed ? -1 : 0;
}

static int run_rank(int rank, const char *host) {
    coll__job_opts_t opts = {.rank = rank,
                             .size = RANKS,
                             .host = host,
                             .port = PORT,
                             .listen_fd = -1,
                             .secret = "s",
                             .deadline = coll__deadline_after(10),
                             .wake_fd = -1};
    coll__job_t *job;
    char all[RANKS], mine = (char)('a' + rank);
    int64_t start = coll__now_ns();
    coll__check_ok(coll__job_join(&opts, &job));
    coll__check(coll__now_ns() - start < INT64_C(5000000000));
    coll__check_ok(coll__job_allgather(job, &mine, 1, all, coll__deadline_after(10)));
    coll__check(memcmp(all, "abcd", RANKS) == 0);
    coll__check_ok(leave(job, 10));
    return 0;
}

/* Nobody listens at PORT. The kernel grants a connection from a port to itself all the same, ... */
static bool some_connection_meets_itself(void) {
    struct sockaddr_in self = {
        .sin_family = AF_INET, .sin_port = htons(PORT), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const struct linger drop = {.l_onoff = 1};
    bool met = false;
    for (int i = 0; i < 200 && !met; i++) {
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        met = connect(fd, (struct sockaddr *)&self, sizeof self) == 0;
        setsockopt(fd, SOL_SOCKET, SO_LINGER, &drop, sizeof drop);
        close(fd);
    }
    return met;
}

/* ... and we do not take it. */
static int count_connections(void) {
    coll__tcp_addresses_t addresses;
    int count = coll__tcp_resolve("127.0.0.1", PORT, &addresses) != 0;
    for (int i = 0; i < 200; i++) {
        int fd = coll__tcp_connect(&addresses, coll__deadline_after(1));
        count += fd >= 0;
        if (fd >= 0)
            close(fd);
    }
    return count;
}

/* In a child: 0, or what went wrong. */
static int run_machine(const machine_t *machine) {
    if (make_machine(machine) != 0)
        return CANNOT_MAKE;
    pid_t pids[RANKS];
    int failed = 0, status;
    if (machine->few_ports) {
        failed = !some_connection_meets_itself() || count_connections() != 0;
    }
    for (int r = 0; r < RANKS; r++)
        if ((pids[r] = fork()) == 0)
            _exit(run_rank(r, r == 0 ? machine->host_of_rank_0 : machine->host_of_others));
    for (int r = 0; r < RANKS; r++)
        failed |= waitpid(pids[r], &status, 0) != pids[r] || status != 0;
    return failed;
}

static void on_machine(machine_t machine) {
    pid_t pid = fork();
    if (pid == 0)
        _exit(run_machine(&machine));
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (WIFEXITED(status) && WEXITSTATUS(status) == CANNOT_MAKE) {
        print_message("this machine allows no network namespaces: not tested\n");
        skip();
    }
    assert_int_equal(status, 0);
}

static void test_a_name_that_nobody_resolves(void **state) {
    (void)state;
    on_machine((machine_t){true, true, "nobody-knows-this-name", "nobody-knows-this-name", false});
}

static void test_loopback_alone(void **state) {
    (void)state;
    on_machine((machine_t){true, true, "localhost", "localhost", false});
    on_machine((machine_t){true, true, "127.0.0.1", "localhost", false});
    on_machine((machine_t){true, true, "localhost", "::1", false});
}

static void test_without_ipv6(void **state) {
    (void)state;
    on_machine((machine_t){true, false, "localhost", "localhost", false});
    on_machine((machine_t){true, false, "nobody-knows-this-name", "127.0.0.1", false});
}

static void test_without_ipv4(void **state) {
    (void)state;
    on_machine((machine_t){false, true, "localhost", "localhost", false});
    on_machine((machine_t){false, true, "nobody-knows-this-name", "nobody-knows-this-name", false});
    on_machine((machine_t){false, true, "::1", "::1", false});
}

static void test_an_address_that_is_not_of_this_machine(void **state) {
    (void)state;
    on_machine((machine_t){true, true, "192.0.2.1", "127.0.0.1", false});
    on_machine((machine_t){true, false, "192.0.2.1", "127.0.0.1", false});
    on_machine((machine_t){false, true, "2001:db8::1", "::1", false});
}

static void test_connections_that_meet_themselves(void **state) {
    (void)state;
    on_machine((machine_t){true, true, "127.0.0.1", "127.0.0.1", .few_ports = true});
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_connections_that_meet_themselves),
        cmocka_unit_test(test_a_name_that_nobody_resolves),
        cmocka_unit_test(test_loopback_alone),
        cmocka_unit_test(test_without_ipv6),
        cmocka_unit_test(test_without_ipv4),
        cmocka_unit_test(test_an_address_that_is_not_of_this_machine),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
