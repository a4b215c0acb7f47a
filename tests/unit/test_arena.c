/* The arena: alignment, growth, and that a warm one does not ask for memory again. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/arena.h"

static void test_pieces_are_aligned_and_apart(void **state) {
    (void)state;
    enum { PIECES = 300 };
    coll__arena_t arena;
    coll__arena_init(&arena, 0);
    unsigned char *pieces[PIECES];
    for (int i = 0; i < PIECES; i++) {
        pieces[i] = coll__arena_alloc(&arena, (size_t)i);
        assert_non_null(pieces[i]);
        assert_int_equal((uintptr_t)pieces[i] % 16, 0);
        memset(pieces[i], i & 0xff, (size_t)i);
    }
    for (int i = 0; i < PIECES; i++) {
        for (int k = 0; k < i; k++)
            assert_int_equal(pieces[i][k], i & 0xff);
        for (int other = 0; other < i; other++)
            assert_ptr_not_equal(pieces[i], pieces[other]); /* pieces of 0 bytes are different ones too */
    }
    coll__arena_free(&arena);
}

static void test_larger_than_a_block(void **state) {
    (void)state;
    coll__arena_t arena;
    coll__arena_init(&arena, 1024);
    coll__arena_alloc(&arena, 10);
    unsigned char *large = coll__arena_alloc(&arena, 1000000);
    assert_non_null(large);
    memset(large, 1, 1000000);
    coll__arena_free(&arena);
}

static void test_too_much(void **state) {
    (void)state;
    coll__arena_t arena;
    coll__arena_init(&arena, 1024);
    assert_null(coll__arena_alloc(&arena, SIZE_MAX));
    assert_null(coll__arena_alloc(&arena, SIZE_MAX - 20));
    assert_non_null(coll__arena_alloc(&arena, 16)); /* and it still works */
    coll__arena_free(&arena);
}

static void fill(coll__arena_t *arena) {
    for (int i = 0; i < 1000; i++)
        assert_non_null(coll__arena_alloc(arena, 40));
}

static void test_warm_arena_gives_the_same_memory(void **state) {
    (void)state;
    coll__arena_t arena;
    coll__arena_init(&arena, 256);
    fill(&arena);
    coll__arena_reset(&arena);
    fill(&arena); /* may grow once more, when the largest block alone was too small */
    coll__arena_reset(&arena);
    struct coll__arena_block *block = arena.blocks;
    void *first = coll__arena_alloc(&arena, 40);
    for (int round = 0; round < 5; round++) {
        coll__arena_reset(&arena);
        assert_ptr_equal(coll__arena_alloc(&arena, 40), first);
        fill(&arena);
        assert_ptr_equal(arena.blocks, block); /* no block came in front of it */
    }
    coll__arena_free(&arena);
}

static void test_empty(void **state) {
    (void)state;
    coll__arena_t arena;
    coll__arena_init(&arena, 4096);
    coll__arena_reset(&arena);
    coll__arena_free(&arena);
    assert_non_null(coll__arena_alloc(&arena, 8)); /* usable again after free */
    coll__arena_free(&arena);
    coll__arena_free(&arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pieces_are_aligned_and_apart),
        cmocka_unit_test(test_larger_than_a_block),
        cmocka_unit_test(test_too_much),
        cmocka_unit_test(test_warm_arena_gives_the_same_memory),
        cmocka_unit_test(test_empty),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
