/* Ranks as forked processes: see ranks.h.
 *
 * Idea: an idle child leads a process group, so that the group's id stays valid until the end; the ranks join it. A
 * table in shared memory holds the pids, signals asked for and the meeting counter. The parent polls: ranks that ended,
 * signals that fell due, the deadline. */
#include "support/ranks.h"

#include <arpa/inet.h>
#include <coll.h>
#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const double GRACE = 5.0; /* seconds that the others have after the first failure */

typedef struct rank_slot {
    _Atomic pid_t pid;
    atomic_bool over;       /* ended, by whatever */
    atomic_bool kill_asked; /* by the test: its death by SIGKILL does not count */
    atomic_bool stopped;    /* by the test, and not continued */
    atomic_int due_signal;  /* to be sent by the parent at due_at; 0: none */
    double due_at;
} rank_slot_t;

typedef struct ranks_table {
    int size;
    atomic_int arrived[COLL__RANKS_MAX]; /* meetings of each rank */
    rank_slot_t slots[COLL__RANKS_MAX];
    _Alignas(64) unsigned char shared[COLL__RANKS_SHARED_BYTES];
} ranks_table_t;

static ranks_table_t *table; /* of the latest call, kept for the parent to read; shared with the children */
static int own_rank = -1;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void nap(void) {
    struct timespec t = {.tv_nsec = 1000000};
    nanosleep(&t, NULL);
}

/* ---- In the children ---------------------------------------------------------------------------------------- */

void coll__rank_signal(int rank, int signal) {
    rank_slot_t *slot = &table->slots[rank];
    if (signal == SIGKILL)
        atomic_store(&slot->kill_asked, true);
    if (signal == SIGSTOP || signal == SIGCONT)
        atomic_store(&slot->stopped, signal == SIGSTOP);
    if (!atomic_load(&slot->over))
        kill(atomic_load(&slot->pid), signal);
}

void coll__rank_signal_after(int rank, int signal, double seconds) {
    table->slots[rank].due_at = now() + seconds;
    atomic_store(&table->slots[rank].due_signal, signal);
}

pid_t coll__rank_pid(int rank) {
    return atomic_load(&table->slots[rank].pid);
}

void *coll__ranks_shared(void) {
    return table->shared;
}

int coll__ranks_meet(double seconds) {
    const double deadline = now() + seconds;
    const int meeting = atomic_fetch_add(&table->arrived[own_rank], 1) + 1;
    for (int rank = 0; rank < table->size; rank++) {
        while (atomic_load(&table->arrived[rank]) < meeting && !atomic_load(&table->slots[rank].over)) {
            if (now() > deadline)
                return -1;
            nap();
        }
    }
    return 0;
}

void coll__check_report(const char *file, int line, const char *call, int status) {
    fprintf(stderr, "%s:%d: rank %d: %s gave %s: %s\n", file, line, own_rank, call, coll_status_name(status),
            coll_error_message());
}

static void set_number(const char *name, long value) {
    char text[32];
    snprintf(text, sizeof text, "%ld", value);
    setenv(name, text, 1);
}

static void set_environment(int rank, int size, int listener, int port, const char *secret) {
    static const char *const others[] = {"RANK",        "WORLD_SIZE",  "LOCAL_RANK",    "LOCAL_WORLD_SIZE",
                                         "MASTER_ADDR", "MASTER_PORT", "COLL_LISTEN_FD"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        unsetenv(others[i]);
    set_number("COLL_RANK", rank);
    set_number("COLL_SIZE", size);
    setenv("COLL_ADDR", "127.0.0.1", 1);
    set_number("COLL_PORT", port);
    setenv("COLL_SECRET", secret, 1);
    if (rank == 0)
        set_number("COLL_LISTEN_FD", listener);
    else
        close(listener);
}

/* A child dies with its parent, also when the parent is gone before it could ask for that. */
static void follow_parent(pid_t parent, pid_t group) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(127);
    setpgid(0, group);
}

/* ---- In the parent ------------------------------------------------------------------------------------------ */

static int listen_on_loopback(int *port) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (fd >= 0 && bind(fd, (struct sockaddr *)&address, sizeof address) == 0 && listen(fd, COLL__RANKS_MAX) == 0 &&
        getsockname(fd, (struct sockaddr *)&address, &length) == 0) {
        *port = ntohs(address.sin_port);
        return fd;
    }
    perror("fork_ranks: no listening socket");
    if (fd >= 0)
        close(fd);
    return -1;
}

static int make_secret(char *text, size_t capacity) {
    unsigned char bytes[16];
    if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes)
        return -1;
    for (size_t i = 0; i < sizeof bytes; i++)
        snprintf(text + 2 * i, capacity - 2 * i, "%02x", bytes[i]);
    return 0;
}

/* The idle child that leads the group; its only purpose is that the group's id cannot be taken by another. */
static pid_t fork_leader(void) {
    const pid_t parent = getpid();
    pid_t leader = fork();
    if (leader == 0) {
        follow_parent(parent, 0);
        for (;;)
            pause();
    }
    if (leader > 0)
        setpgid(leader, leader);
    return leader;
}

static pid_t fork_rank(int rank, int size, pid_t group, int listener, int port, const char *secret,
                       coll__rank_body_t body, void *arg) {
    const pid_t parent = getpid();
    pid_t pid = fork();
    if (pid == 0) {
        follow_parent(parent, group);
        own_rank = rank;
        atomic_store(&table->slots[rank].pid, getpid());
        set_environment(rank, size, listener, port, secret);
        int code = body(rank, size, arg);
        fflush(NULL);
        _exit(code & 255 ? code & 255 : code != 0);
    }
    if (pid > 0) {
        setpgid(pid, group);
        atomic_store(&table->slots[rank].pid, pid);
    }
    return pid;
}

/* 0, or why this rank's end makes the test fail. */
static int judge(int rank, int wait_status) {
    const rank_slot_t *slot = &table->slots[rank];
    if (WIFEXITED(wait_status)) {
        if (WEXITSTATUS(wait_status) != 0)
            fprintf(stderr, "fork_ranks: rank %d of %d failed with code %d\n", rank, table->size,
                    WEXITSTATUS(wait_status));
        return WEXITSTATUS(wait_status);
    }
    if (WTERMSIG(wait_status) == SIGKILL && atomic_load(&slot->kill_asked))
        return 0;
    fprintf(stderr, "fork_ranks: rank %d of %d was ended by signal %d (%s)\n", rank, table->size, WTERMSIG(wait_status),
            strsignal(WTERMSIG(wait_status)));
    return 128 + WTERMSIG(wait_status);
}

static void send_due_signals(void) {
    for (int rank = 0; rank < table->size; rank++) {
        rank_slot_t *slot = &table->slots[rank];
        int signal = atomic_load(&slot->due_signal);
        if (signal != 0 && now() >= slot->due_at) {
            atomic_store(&slot->due_signal, 0);
            coll__rank_signal(rank, signal);
        }
    }
}

/* Ranks that run and were not stopped by the test: those that can still end by themselves. */
static int count_running(void) {
    int running = 0;
    for (int rank = 0; rank < table->size; rank++)
        running += !atomic_load(&table->slots[rank].over) && !atomic_load(&table->slots[rank].stopped);
    return running;
}

/* A dead rank is taken off the process table at once, as a launcher would. */
static int reap(int first_failure) {
    for (int rank = 0; rank < table->size; rank++) {
        rank_slot_t *slot = &table->slots[rank];
        int wait_status;
        if (atomic_load(&slot->over) || waitpid(atomic_load(&slot->pid), &wait_status, WNOHANG) <= 0)
            continue;
        atomic_store(&slot->over, true);
        int code = judge(rank, wait_status);
        if (first_failure == 0)
            first_failure = code;
    }
    return first_failure;
}

static int watch(double deadline_s) {
    const double deadline = now() + deadline_s;
    double give_up = deadline;
    int result = 0;
    while (count_running() > 0) {
        int code = reap(result);
        if (code != 0 && result == 0) {
            result = code;
            give_up = now() + GRACE < deadline ? now() + GRACE : deadline;
        }
        send_due_signals();
        if (now() > give_up) {
            for (int rank = 0; rank < table->size; rank++)
                if (!atomic_load(&table->slots[rank].over))
                    fprintf(stderr, "fork_ranks: rank %d of %d still ran %s\n", rank, table->size,
                            result ? "after another had failed" : "at the deadline");
            return result ? result : COLL__RANKS_DEADLINE;
        }
        nap();
    }
    return result;
}

static void kill_rest(pid_t leader) {
    if (leader > 0)
        kill(-leader, SIGKILL);
    for (int rank = 0; rank < table->size; rank++) {
        rank_slot_t *slot = &table->slots[rank];
        if (atomic_load(&slot->pid) > 0 && !atomic_load(&slot->over)) {
            kill(atomic_load(&slot->pid), SIGKILL);
            waitpid(atomic_load(&slot->pid), NULL, 0);
        }
    }
    if (leader > 0)
        waitpid(leader, NULL, 0);
}

int coll__fork_ranks(int ranks, double deadline_s, coll__rank_body_t body, void *arg) {
    char secret[33];
    int port = 0;
    if (ranks < 1 || ranks > COLL__RANKS_MAX) {
        fprintf(stderr, "fork_ranks: %d ranks, allowed are 1 to %d\n", ranks, COLL__RANKS_MAX);
        return COLL__RANKS_SETUP;
    }
    int listener = listen_on_loopback(&port);
    if (listener < 0 || make_secret(secret, sizeof secret) != 0)
        return COLL__RANKS_SETUP;
    if (table != NULL)
        munmap(table, sizeof *table);
    table = mmap(NULL, sizeof *table, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (table == MAP_FAILED) {
        table = NULL;
        close(listener);
        return COLL__RANKS_SETUP;
    }
    table->size = ranks;
    fflush(NULL); /* or every child would print what is still in the buffers */

    int result = 0;
    pid_t leader = fork_leader();
    for (int rank = 0; rank < ranks && result == 0; rank++)
        if (leader < 0 || fork_rank(rank, ranks, leader, listener, port, secret, body, arg) < 0)
            result = COLL__RANKS_SETUP;
    close(listener);
    if (result == 0)
        result = watch(deadline_s);
    else
        perror("fork_ranks: fork");
    kill_rest(leader);
    return result;
}
