/* What the ranks show each other when they meet: the CPUs that they have together, and disagreements in words. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "api/cards.h"

enum { RANKS = 4 };
static coll__first_card_t cards[RANKS];
static const int all_ranks[RANKS] = {0, 1, 2, 3};

static void show(int rank, int cpus, uint64_t mask) {
    cards[rank].cpus = cpus;
    memset(cards[rank].cpu_mask, 0, sizeof cards[rank].cpu_mask);
    cards[rank].cpu_mask[rank % 2 ? COLL__CPU_MASK_WORDS - 1 : 0] = mask;
}

static void test_pinned(void **state) {
    (void)state;
    for (int rank = 0; rank < RANKS; rank++)
        show(rank, 1, UINT64_C(1) << rank);
    assert_int_equal(coll__cards_cpus(cards, all_ranks, RANKS), 4);
    assert_int_equal(coll__cards_cpus(cards, all_ranks + 2, 1), 1);
}

static void test_shared(void **state) {
    (void)state;
    for (int rank = 0; rank < RANKS; rank++)
        show(rank, 2, 3);
    assert_int_equal(coll__cards_cpus(cards, (const int[]){0, 2}, 2), 2);
    assert_int_equal(coll__cards_cpus(cards, all_ranks, RANKS), 4); /* odd ranks have two others */
}

static void test_quota(void **state) {
    (void)state;
    for (int rank = 0; rank < RANKS; rank++)
        show(rank, 2, 0xffff);
    assert_int_equal(coll__cards_cpus(cards, all_ranks, RANKS), 2);
}

static void test_unknown_masks(void **state) {
    (void)state;
    for (int rank = 0; rank < RANKS; rank++)
        show(rank, 2000, 0);
    assert_int_equal(coll__cards_cpus(cards, all_ranks, RANKS), 2000);
}

static void test_disagreement(void **state) {
    (void)state;
    memset(cards, 0, sizeof cards);
    for (int rank = 0; rank < RANKS; rank++)
        snprintf(cards[rank].checked, sizeof cards[rank].checked, "COLL_PACKET_SIZE=%s\nCOLL_ARITY=2\n",
                 rank % 2 ? "4k" : "8k");
    assert_int_equal(coll__cards_compare_first(cards, 1), 0);
    assert_int_equal(coll__cards_compare_first(cards, RANKS), COLL_ERR_CONFIG);
    int ranks[RANKS];
    assert_int_equal(coll_error_ranks(ranks, RANKS), 2);
    assert_int_equal(ranks[0], 1);
    assert_int_equal(ranks[1], 3);
    assert_non_null(strstr(coll_error_message(), "COLL_PACKET_SIZE"));
    assert_non_null(strstr(coll_error_message(), "1, 3"));
    for (int rank = 0; rank < RANKS; rank++)
        snprintf(cards[rank].checked, sizeof cards[rank].checked, "COLL_PACKET_SIZE=8k\n");
    cards[2].rules_hash = 1;
    assert_int_equal(coll__cards_compare_first(cards, RANKS), COLL_ERR_CONFIG);
    assert_non_null(strstr(coll_error_message(), "COLL_TUNE"));
}

static void test_libfabrics_differ(void **state) {
    (void)state;
    static coll__second_card_t second[RANKS];
    for (int rank = 0; rank < RANKS; rank++)
        snprintf(second[rank].address[COLL__TRANSPORT_ID_ofi].identity, COLL__IDENTITY_BYTES, "tcp 2.5");
    assert_int_equal(coll__cards_compare_second(second, RANKS), 0);
    snprintf(second[3].address[COLL__TRANSPORT_ID_ofi].identity, COLL__IDENTITY_BYTES, "tcp;ofi_rxm 1.17");
    assert_int_equal(coll__cards_compare_second(second, RANKS), COLL_ERR_CONFIG);
    assert_non_null(strstr(coll_error_message(), "rank 3 has tcp;ofi_rxm 1.17"));
    second[1].status = COLL_ERR_TRANSPORT;
    snprintf(second[1].message, sizeof second[1].message, "install libfabric1");
    assert_int_equal(coll__cards_compare_second(second, RANKS), COLL_ERR_TRANSPORT);
    assert_non_null(strstr(coll_error_message(), "install libfabric1 (on rank 1)"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pinned),       cmocka_unit_test(test_shared),
        cmocka_unit_test(test_quota),        cmocka_unit_test(test_unknown_masks),
        cmocka_unit_test(test_disagreement), cmocka_unit_test(test_libfabrics_differ),
    };
    return cmocka_run_group_tests_name("unit/cards", tests, NULL, NULL);
}
