/* Calls as 64 bits: different calls differ, and each can be put into words again. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/fingerprint.h"

static const char *words(uint64_t fingerprint) {
    static char text[96];
    coll__fingerprint_print(fingerprint, text, sizeof text);
    return text;
}

static void in_words(void **state) {
    (void)state;
    assert_string_equal(words(coll__fingerprint(COLL_OP_BARRIER, COLL_UINT8, 0, 0, 0)), "barrier()");
    assert_string_equal(words(coll__fingerprint(COLL_OP_BROADCAST, COLL_INT32, 0, 2, 8)),
                        "broadcast(8 x int32, root=2)");
    assert_string_equal(words(coll__fingerprint(COLL_OP_REDUCE, COLL_FLOAT16, COLL_MAX, 4095, 1)),
                        "reduce(1 x float16, max, root=4095)");
    assert_string_equal(words(coll__fingerprint(COLL_OP_ALLREDUCE, COLL_FLOAT64, COLL_SUM, 0, 1000)),
                        "allreduce(1000 x float64, sum)");
    assert_string_equal(words(coll__fingerprint(COLL_OP_ALLREDUCE, COLL_COMPLEX128, 1000, 0, 68719476735)),
                        "allreduce(68719476735 x complex128, user's operator)");
    assert_string_equal(words(coll__fingerprint(COLL_OP_ALLGATHER, COLL_BOOL, 0, 0, 0)), "allgather(0 x bool)");
}

static int compare(const void *a, const void *b) {
    uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;
    return left < right ? -1 : left > right;
}

/* Every operation, datatype and operator, some roots and counts: no two are equal, none is 0. */
static void all_differ(void **state) {
    (void)state;
    static const int roots[] = {0, 1, 63, 4095};
    static const size_t counts[] = {0, 1, 2, 1000, 1001, 1 << 20, (1 << 20) + 1, (UINT64_C(1) << 36) - 1};
    static uint64_t seen[COLL_OP_SENDRECV * COLL_DTYPE_COUNT * (COLL_OP_COUNT + 1) * 4 * 8];
    size_t total = 0;
    for (int operation = 0; operation < COLL_OP_SENDRECV; operation++)
        for (int dtype = 0; dtype < COLL_DTYPE_COUNT; dtype++)
            for (int op = 0; op <= COLL_OP_COUNT; op++)
                for (int root = 0; root < 4; root++)
                    for (int count = 0; count < 8; count++)
                        seen[total++] = coll__fingerprint((coll_operation_t)operation, (coll_dtype_t)dtype,
                                                          op < COLL_OP_COUNT ? op : 5000, roots[root], counts[count]);
    assert_int_equal(total, sizeof seen / sizeof seen[0]);
    qsort(seen, total, sizeof seen[0], compare);
    assert_true(seen[0] != 0);
    for (size_t i = 1; i < total; i++)
        assert_true(seen[i] != seen[i - 1]);
}

/* What does not fit keeps its low bits, and spills into no other field. */
static void large_values(void **state) {
    (void)state;
    assert_string_equal(words(coll__fingerprint(COLL_OP_BROADCAST, COLL_INT8, 0, 4096 + 7, (UINT64_C(1) << 40) + 3)),
                        "broadcast(3 x int8, root=7)");
    assert_int_equal(coll__fingerprint(COLL_OP_REDUCE, COLL_INT8, 63, 0, 1),
                     coll__fingerprint(COLL_OP_REDUCE, COLL_INT8, 64, 0, 1)); /* all users' operators are one */
}

/* Whatever a peer sends in place of one: words, cut where the room ends. */
static void any_bits(void **state) {
    (void)state;
    uint64_t bits = 1;
    for (int i = 0; i < 100000; i++) {
        bits = bits * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        char *text = malloc((size_t)(1 + i % 96));
        coll__fingerprint_print(bits, text, (size_t)(1 + i % 96));
        assert_true(strlen(text) <= (size_t)(i % 96));
        free(text);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(in_words),
        cmocka_unit_test(all_differ),
        cmocka_unit_test(large_values),
        cmocka_unit_test(any_bits),
    };
    return cmocka_run_group_tests_name("fingerprint", tests, NULL, NULL);
}
