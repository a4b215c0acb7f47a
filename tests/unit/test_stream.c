/* The streamed copy is a copy, whatever the alignment and the length. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/stream.h"

static void every_alignment_and_length(void **state) {
    (void)state;
    enum { SPACE = 1024 };
    unsigned char source[SPACE], target[SPACE];
    for (size_t i = 0; i < SPACE; i++)
        source[i] = (unsigned char)(i * 31 + 7);
    for (size_t to = 0; to < 70; to++) {
        for (size_t from = 0; from < 20; from += 3) {
            for (size_t bytes = 0; bytes < 300; bytes += bytes < 140 ? 1 : 17) {
                memset(target, 0, SPACE);
                coll__stream_copy(target + to, source + from, bytes);
                assert_memory_equal(target + to, source + from, bytes);
                for (size_t i = 0; i < SPACE; i++)
                    if (i < to || i >= to + bytes)
                        assert_int_equal(target[i], 0);
            }
        }
    }
}

static void large(void **state) {
    (void)state;
    enum { BYTES = 3 << 20 };
    unsigned char *source = malloc(BYTES), *target = malloc(BYTES);
    assert_true(source && target);
    for (size_t i = 0; i < BYTES; i++)
        source[i] = (unsigned char)(i * 2654435761u >> 13);
    coll__stream_copy(target, source, BYTES);
    assert_memory_equal(target, source, BYTES);
    free(source);
    free(target);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_alignment_and_length),
        cmocka_unit_test(large),
    };
    return cmocka_run_group_tests_name("streamed copy", tests, NULL, NULL);
}
