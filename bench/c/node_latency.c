/* What an 8-byte allreduce of two pinned ranks costs beside the bare exchange of two flags, in one run.
 *
 *   node_latency [ROUNDS]      prints both medians in microseconds and their ratio
 *
 * The two are measured in turn, block by block, so that a change of the machine's speed hits both alike.
 */
#include <coll.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { BLOCKS = 101, BLOCK = 2000 };

struct line {
    _Alignas(128) atomic_ulong flag;
    double value;
};

static double now_us(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

/* Each writes its value and its flag in one line, then waits for the other's: nothing can be less. */
static double bare(struct line *lines, int rank, unsigned long *at, double *sum) {
    for (int i = 0; i < BLOCK; i++) {
        lines[rank].value = 1 + rank;
        atomic_store_explicit(&lines[rank].flag, ++*at, memory_order_release);
        while (atomic_load_explicit(&lines[!rank].flag, memory_order_acquire) < *at)
            __builtin_ia32_pause();
        *sum += lines[0].value + lines[1].value;
    }
    return *sum;
}

static int compare(const void *a, const void *b) {
    return *(const double *)a < *(const double *)b ? -1 : 1;
}

static double median(double *values) {
    qsort(values, BLOCKS, sizeof *values, compare);
    return values[BLOCKS / 2];
}

static int run(int rank, struct line *lines) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(rank, &set);
    sched_setaffinity(0, sizeof set, &set);
    char text[16];
    snprintf(text, sizeof text, "%d", rank);
    setenv("COLL_RANK", text, 1);
    coll_comm_t *comm;
    if (coll_init(NULL, &comm) < 0) {
        fprintf(stderr, "%s\n", coll_error_message());
        return 1;
    }
    static double flags[BLOCKS], calls[BLOCKS], persistent[BLOCKS];
    unsigned long at = 0;
    double sum = 0, x = 1 + rank, y = 0;
    coll_request_t *handle;
    coll_allreduce_init(&x, &y, 1, COLL_FLOAT64, COLL_SUM, comm, &handle);
    for (int block = 0; block < BLOCKS; block++) {
        coll_barrier(comm);
        double start = now_us();
        bare(lines, rank, &at, &sum);
        double middle = now_us();
        for (int i = 0; i < BLOCK; i++)
            coll_allreduce(&x, &y, 1, COLL_FLOAT64, COLL_SUM, comm);
        double end = now_us();
        for (int i = 0; i < BLOCK; i++)
            coll_run(handle, -1);
        persistent[block] = (now_us() - end) / BLOCK;
        flags[block] = (middle - start) / BLOCK;
        calls[block] = (end - middle) / BLOCK;
        if (y != 3)
            return 2;
    }
    if (rank == 0) {
        double f = median(flags), c = median(calls), p = median(persistent);
        printf("bare flags %.4f us, coll_allreduce %.4f us (%.2f x), persistent %.4f us (%.2f x)\n", f, c, c / f, p,
               p / f);
    }
    coll_request_free(handle);
    coll_finalize();
    return sum > 0 ? 0 : 3;
}

int main(void) {
    struct line *lines = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    char port[16];
    snprintf(port, sizeof port, "%d", 20000 + getpid() % 20000);
    setenv("COLL_SIZE", "2", 1);
    setenv("COLL_ADDR", "127.0.0.1", 1);
    setenv("COLL_PORT", port, 1);
    setenv("COLL_SECRET", "node_latency", 1);
    pid_t child = fork();
    if (child == 0)
        exit(run(1, lines));
    int failed = run(0, lines), status = 0;
    waitpid(child, &status, 0);
    return failed || status;
}
