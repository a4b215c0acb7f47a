/* Comparing the cards: ranks that differ from rank 0 in the same way are named together. */
#include "api/cards.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"

static void append_rank(char *text, size_t capacity, int rank, int *shown) {
    size_t used = strlen(text);
    if (++*shown <= 16)
        snprintf(text + used, capacity - used, *shown == 1 ? "%d" : ", %d", rank);
    else if (*shown == 17)
        snprintf(text + used, capacity - used, ", ...");
}

/* Ranks that differ from rank 0 in the same way are named together; the first such difference is the error. */
int coll__cards_compare_first(const coll__first_card_t *cards, int size) {
    const coll__first_card_t *zero = &cards[0];
    char what[512] = "", ranks[128] = "", other[512];
    int shown = 0, list[COLL__ERROR_RANKS], count = 0;
    for (int rank = 1; rank < size; rank++) {
        const coll__first_card_t *card = &cards[rank];
        if (strcmp(zero->version, card->version) != 0)
            snprintf(other, sizeof other, "libcoll's version is %s on rank 0 and %s", zero->version, card->version);
        else if (!coll__env_checked_differ(zero->checked, card->checked, other, sizeof other)) {
            if (zero->rules_hash == card->rules_hash)
                continue;
            snprintf(other, sizeof other, "the rules of COLL_TUNE and COLL_TUNE_FILE differ from rank 0's");
        }
        if (!*what)
            snprintf(what, sizeof what, "%s", other);
        if (strcmp(what, other) != 0)
            continue;
        append_rank(ranks, sizeof ranks, rank, &shown);
        if (count < COLL__ERROR_RANKS)
            list[count++] = rank;
    }
    if (!count)
        return 0;
    int status =
        coll__error(COLL_ERR_CONFIG, "the ranks do not agree: %s, on rank%s %s", what, shown > 1 ? "s" : "", ranks);
    coll__error_add_ranks(list, (size_t)count);
    return status;
}

int coll__cards_compare_second(const coll__second_card_t *cards, int size) {
    for (int rank = 0; rank < size; rank++) {
        const coll__second_card_t *card = &cards[rank];
        if (card->status < 0) {
            int status = coll__error(card->status, "%s (on rank %d)", card->message, rank);
            coll__error_add_ranks(&rank, 1);
            return status;
        }
        const char *mine = cards[0].address[COLL__TRANSPORT_ID_ofi].identity;
        const char *theirs = card->address[COLL__TRANSPORT_ID_ofi].identity;
        if (strcmp(mine, theirs) != 0) {
            int status =
                coll__error(COLL_ERR_CONFIG,
                            "the ranks' libfabric differs, and different ones cannot talk to each other: rank 0 has "
                            "%s, rank %d has %s",
                            mine, rank, theirs);
            coll__error_add_ranks(&rank, 1);
            return status;
        }
    }
    return 0;
}

static int count_bits(const uint64_t *mask) {
    int bits = 0;
    for (int word = 0; word < COLL__CPU_MASK_WORDS; word++)
        bits += __builtin_popcountll(mask[word]);
    return bits;
}

int coll__cards_cpus(const coll__first_card_t *cards, const int *ranks, int count) {
    uint64_t all[COLL__CPU_MASK_WORDS] = {0};
    int most = 0, quota = INT_MAX;
    for (int i = 0; i < count; i++) {
        const coll__first_card_t *card = &cards[ranks[i]];
        most = card->cpus > most ? card->cpus : most;
        if (card->cpus < count_bits(card->cpu_mask)) /* a control group allows less; ranks mostly share it */
            quota = card->cpus < quota ? card->cpus : quota;
        for (int word = 0; word < COLL__CPU_MASK_WORDS; word++)
            all[word] |= card->cpu_mask[word];
    }
    int together = count_bits(all);
    if (together == 0)
        return most;
    return together < quota ? together : quota;
}
