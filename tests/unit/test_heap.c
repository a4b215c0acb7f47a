/* The heap of symmetric memory. fallocate() is this program's own, so that memory can run out when a test wants it to.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "node/heap.h"

enum { MIB = 1 << 20 };

static off_t memory_left = -1; /* what fallocate() still gives; -1: as much as there is */

int fallocate(int fd, int mode, off_t offset, off_t bytes) {
    if (mode == 0 && memory_left >= 0) {
        if (bytes > memory_left) {
            errno = ENOSPC;
            return -1;
        }
        memory_left -= bytes;
    }
    return (int)syscall(SYS_fallocate, fd, mode, offset, bytes);
}

/* Bytes of real memory behind the heap. */
static size_t resident(void) {
    struct stat file;
    size_t capacity;
    assert_int_equal(fstat(coll__heap_fd(&capacity), &file), 0);
    return (size_t)file.st_blocks * 512;
}

static void *alloc(size_t bytes) {
    void *memory = NULL;
    assert_int_equal(coll__heap_alloc(bytes, &memory), 0);
    assert_non_null(memory);
    return memory;
}

static void pieces_are_aligned_and_apart(void **state) {
    (void)state;
    static const size_t sizes[] = {0,     1,     63,    64,    65,     128,    129,     4095,    4096,         4097,
                                   32768, 65535, 65536, 65537, 131072, 999999, 1 << 20, 3 << 20, (3 << 20) + 1};
    enum { SIZES = sizeof sizes / sizeof sizes[0], EACH = 3 };
    unsigned char *piece[SIZES][EACH];
    size_t before = coll__heap_in_use(), total = 0;
    for (int k = 0; k < EACH; k++)
        for (int i = 0; i < SIZES; i++) {
            piece[i][k] = alloc(sizes[i]);
            assert_int_equal((uintptr_t)piece[i][k] % (sizes[i] >= 65536 ? 4096 : 64), 0);
            memset(piece[i][k], 16 * k + i + 1, sizes[i]);
            total += sizes[i];
        }
    assert_true(coll__heap_in_use() >= before + total);
    for (int k = 0; k < EACH; k++)
        for (int i = 0; i < SIZES; i++) {
            for (size_t at = 0; at < sizes[i]; at++)
                assert_int_equal(piece[i][k][at], (unsigned char)(16 * k + i + 1));
            assert_true(coll__heap_free(piece[i][k]));
        }
    assert_int_equal(coll__heap_in_use(), before);
}

static void what_is_no_piece_is_not_freed(void **state) {
    (void)state;
    char *large = alloc(MIB), *small = alloc(100);
    int on_stack;
    size_t before = coll__heap_in_use();
    assert_false(coll__heap_free(&on_stack));
    assert_false(coll__heap_free(large + 4096)); /* inside one */
    assert_false(coll__heap_free(small + 64));
    assert_int_equal(coll__heap_in_use(), before);
    assert_true(coll__heap_free(large));
    assert_false(coll__heap_free(large)); /* twice */
    assert_true(coll__heap_free(small));
    assert_false(coll__heap_free(small));
}

static void freed_memory_is_used_again(void **state) {
    (void)state;
    void *large = alloc(2 * MIB), *small = alloc(1000);
    assert_true(coll__heap_free(large));
    assert_true(coll__heap_free(small));
    assert_ptr_equal(alloc(2 * MIB), large);
    assert_ptr_equal(alloc(1024), small); /* of the same class */
    assert_true(coll__heap_free(large));
    assert_true(coll__heap_free(small));
}

/* Pages go back to the system when a large piece is freed, and neighbours join to make room for a larger one. */
static void freed_pages_go_back(void **state) {
    (void)state;
    enum { PIECES = 8 };
    static const int order[PIECES] = {1, 3, 2, 6, 0, 7, 4, 5}; /* neighbours on no side, one side, both */
    char *piece[PIECES];
    size_t before = resident();
    for (int i = 0; i < PIECES; i++)
        piece[i] = alloc(2 * MIB);
    for (int i = 1; i < PIECES; i++)
        assert_ptr_equal(piece[i], piece[i - 1] + 2 * MIB);
    assert_true(resident() >= before + PIECES * 2 * MIB); /* reserved before it is touched */
    for (int i = 0; i < PIECES; i++) {
        assert_true(coll__heap_free(piece[order[i]]));
        assert_int_equal(resident(), before + (size_t)(PIECES - 1 - i) * 2 * MIB);
    }
    char *whole = alloc(PIECES * 2 * MIB);
    assert_ptr_equal(whole, piece[0]);
    for (size_t at = 0; at < PIECES * 2 * MIB; at += 4096)
        assert_int_equal(whole[at], 0); /* a hole that was punched */
    assert_true(coll__heap_free(whole));
    assert_int_equal(resident(), before);
}

/* Small pieces come from slabs of a mebibyte: thousands of them cost little more than their bytes. */
static void small_pieces_share_slabs(void **state) {
    (void)state;
    enum { PIECES = 16384 };
    static char *piece[PIECES];
    size_t before = resident();
    for (int i = 0; i < PIECES; i++)
        memset(piece[i] = alloc(64), i, 64);
    assert_true(resident() <= before + 2 * MIB);
    for (int i = 0; i < PIECES; i++)
        assert_true(piece[i][0] == (char)i && piece[i][63] == (char)i);
    for (int i = 0; i < PIECES; i++)
        assert_true(coll__heap_free(piece[i]));
    size_t after = resident();
    for (int i = 0; i < PIECES; i++)
        piece[i] = alloc(33);
    assert_int_equal(resident(), after);
    for (int i = 0; i < PIECES; i++)
        assert_true(coll__heap_free(piece[i]));
}

static void no_memory_is_an_error(void **state) {
    (void)state;
    size_t capacity, before = coll__heap_in_use(), pages = resident();
    assert_true(coll__heap_fd(&capacity) >= 0);
    void *memory = NULL;
    assert_int_equal(coll__heap_alloc(capacity + 1, &memory), COLL_ERR_MEMORY);
    assert_non_null(strstr(coll_error_message(), "more than this machine has"));
    assert_int_equal(coll__heap_alloc(SIZE_MAX, &memory), COLL_ERR_MEMORY);

    memory_left = 3 * MIB + MIB / 2;
    char *first = alloc(2 * MIB);
    assert_int_equal(coll__heap_alloc(2 * MIB, &memory), COLL_ERR_MEMORY);
    assert_non_null(strstr(coll_error_message(), "2097152 bytes"));
    assert_null(memory);
    assert_int_equal(coll__heap_alloc(64, &memory), 0); /* there is a slab left */
    assert_true(coll__heap_free(memory));
    char *other;
    int got = 0;
    while (coll__heap_alloc(32768, (void **)&other) == 0) { /* from slabs: one more, then none */
        memset(other, 1, 32768);                            /* what was given can be written: never a SIGBUS */
        got++;
    }
    assert_true(got >= 32 && got < 128);
    memset(first, 1, 2 * MIB);
    assert_true(coll__heap_free(first));
    memory_left = -1;
    assert_true(coll__heap_alloc(2 * MIB, &memory) == 0 && coll__heap_free(memory));
    assert_true(coll__heap_in_use() > before && resident() >= pages);
}

static void places_are_found(void **state) {
    (void)state;
    char *memory = alloc(MIB), *other = alloc(MIB);
    uint64_t base, offset;
    size_t capacity;
    int fd = coll__heap_fd(&capacity);
    assert_true(coll__heap_find(memory, MIB, &base));
    assert_true(coll__heap_find(memory + 1000, 24, &offset));
    assert_int_equal(offset, base + 1000);
    assert_true(coll__heap_find(other, 0, &offset));
    assert_int_equal(offset - base, other - memory);
    assert_true(coll__heap_find(memory - base, capacity, &offset));
    assert_int_equal(offset, 0);
    assert_false(coll__heap_find(memory - base, capacity + 1, &offset));
    assert_false(coll__heap_find(memory - base - 1, 1, &offset));
    assert_false(coll__heap_find(memory - base + capacity, 1, &offset));
    assert_false(coll__heap_find(memory, SIZE_MAX, &offset));
    assert_false(coll__heap_find(&capacity, 8, &offset));
    assert_false(coll__heap_find(NULL, 0, &offset));

    /* What a peer does: the same memory through the descriptor. */
    memcpy(memory + 5000, "seen", 5);
    char *view = mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)base);
    assert_ptr_not_equal(view, MAP_FAILED);
    assert_string_equal(view + 5000, "seen");
    memcpy(view + 6000, "back", 5);
    assert_string_equal(memory + 6000, "back");
    munmap(view, MIB);
    assert_true(coll__heap_free(memory));
    assert_true(coll__heap_free(other));
}

/* What an operation that was given up might still write to is never another's. */
static void retained_memory_is_left_alone(void **state) {
    (void)state;
    char *large = alloc(MIB), *small = alloc(200);
    int on_stack;
    coll__heap_retain(large + 12345); /* any place in it */
    coll__heap_retain(small);
    coll__heap_retain(&on_stack);
    coll__heap_retain(NULL);
    size_t pages = resident(), used = coll__heap_in_use();
    assert_true(coll__heap_free(large));
    assert_true(coll__heap_free(small));
    assert_int_equal(resident(), pages);
    assert_true(coll__heap_in_use() < used);
    char *piece[3];
    for (int i = 0; i < 3; i++) {
        piece[i] = alloc(MIB);
        assert_true(piece[i] >= large + MIB || piece[i] + MIB <= large);
    }
    for (int i = 0; i < 3; i++)
        assert_true(coll__heap_free(piece[i]));
    assert_ptr_not_equal(piece[0] = alloc(200), small);
    assert_true(coll__heap_free(piece[0]));
}

/* ---- threads ---- */

/* What a child does with its memory: exits with the number of the first thing that went wrong. */
static int child(unsigned char *large, unsigned char *small, bool with_child) {
    uint64_t offset;
    if (large[0] != 1 || small[0] != 2)
        return 1;
    large[1] = 11; /* the parent sees that */
    if (coll__heap_in_use() != 0 || coll__heap_find(large, 1, &offset))
        return 2;
    if (!coll__heap_free(large) || !coll__heap_free(small))
        return 3;
    unsigned char *own[3];
    static const size_t sizes[] = {MIB, 64, 3 * MIB};
    for (int i = 0; i < 3; i++) {
        own[i] = alloc(sizes[i]);
        memset(own[i], 77, sizes[i]);
    }
    if (large[0] != 1 || small[0] != 2)
        return 4;
    if (with_child) {
        pid_t pid = fork();
        if (pid == 0)
            _exit(own[0][5] == 77 && coll__heap_free(own[0]) ? child(large, small, false) : 5);
        int status;
        if (waitpid(pid, &status, 0) != pid || status != 0 || own[0][5] != 77)
            return 6;
    }
    for (int i = 0; i < 3; i++)
        if (!coll__heap_free(own[i]))
            return 7;
    return 0;
}

static void a_child_shares_but_never_frees(void **state) {
    (void)state;
    unsigned char *large = alloc(MIB), *small = alloc(64);
    size_t before = coll__heap_in_use(), capacity;
    memset(large, 1, MIB);
    memset(small, 2, 64);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        _exit(child(large, small, true));
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_int_equal(large[0], 1);
    assert_int_equal(large[1], 11);
    assert_int_equal(large[MIB - 1], 1);
    assert_int_equal(small[0], 2);
    assert_int_equal(coll__heap_in_use(), before);
    assert_true(coll__heap_fd(&capacity) >= 0);
    assert_true(coll__heap_free(large) && coll__heap_free(small));
}

static void *churn(void *arg) {
    enum { KEPT = 16, ROUNDS = 3000 };
    unsigned state = (unsigned)(uintptr_t)arg, wrong = 0;
    unsigned char *kept[KEPT] = {0};
    size_t bytes[KEPT];
    for (int round = 0; round < ROUNDS; round++) {
        state = state * 1103515245 + 12345;
        int i = (int)(state >> 16) % KEPT;
        if (kept[i]) {
            wrong +=
                kept[i][0] != (unsigned char)(uintptr_t)arg || kept[i][bytes[i] - 1] != (unsigned char)(uintptr_t)arg;
            wrong += !coll__heap_free(kept[i]);
        }
        bytes[i] = state >> 8 & 1 ? 1 + (state >> 20) % 5000 : 65536 + (state >> 20) * 64;
        if (coll__heap_alloc(bytes[i], (void **)&kept[i]) != 0)
            return (void *)1;
        kept[i][0] = kept[i][bytes[i] - 1] = (unsigned char)(uintptr_t)arg;
        uint64_t offset;
        wrong += !coll__heap_find(kept[i], bytes[i], &offset);
    }
    for (int i = 0; i < KEPT; i++)
        if (kept[i])
            wrong += !coll__heap_free(kept[i]);
    return (void *)(uintptr_t)wrong;
}

/* The first use of the heap, by all threads at once: the first test. */
static void threads_share_it(void **state) {
    (void)state;
    enum { THREADS = 4 };
    pthread_t thread[THREADS];
    for (uintptr_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, churn, (void *)(i + 1)), 0);
    uint64_t offset;
    for (int i = 0; i < 1000; i++)
        assert_false(coll__heap_find(&offset, 8, &offset)); /* meanwhile, whether there is a heap yet or not */
    for (int i = 0; i < THREADS; i++) {
        void *wrong;
        assert_int_equal(pthread_join(thread[i], &wrong), 0);
        assert_null(wrong);
    }
    assert_int_equal(coll__heap_in_use(), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(freed_pages_go_back), /* first: it needs a heap without holes */
        cmocka_unit_test(threads_share_it),
        cmocka_unit_test(pieces_are_aligned_and_apart),
        cmocka_unit_test(what_is_no_piece_is_not_freed),
        cmocka_unit_test(freed_memory_is_used_again),
        cmocka_unit_test(small_pieces_share_slabs),
        cmocka_unit_test(no_memory_is_an_error),
        cmocka_unit_test(places_are_found),
        cmocka_unit_test(retained_memory_is_left_alone),
        cmocka_unit_test(a_child_shares_but_never_frees),
    };
    return cmocka_run_group_tests_name("heap", tests, NULL, NULL);
}
