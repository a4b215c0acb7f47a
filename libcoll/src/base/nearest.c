/* Edit distance after Wagner and Fischer, "The String-to-String Correction Problem", JACM 21(1), 1974, by two rows. */
#include "base/nearest.h"

#include <stdint.h>
#include <string.h>

enum { LONGEST = 63 };

static size_t smaller(size_t a, size_t b) {
    return a < b ? a : b;
}

size_t coll__edit_distance(const char *a, const char *b) {
    size_t a_length = strnlen(a, LONGEST), b_length = strnlen(b, LONGEST);
    size_t above[LONGEST + 1], row[LONGEST + 1];
    for (size_t j = 0; j <= b_length; j++)
        above[j] = j;
    for (size_t i = 1; i <= a_length; i++) {
        row[0] = i;
        for (size_t j = 1; j <= b_length; j++) {
            size_t replaced = above[j - 1] + (a[i - 1] != b[j - 1]);
            row[j] = smaller(replaced, smaller(above[j], row[j - 1]) + 1);
        }
        memcpy(above, row, sizeof above);
    }
    return above[b_length];
}

const char *coll__nearest(const char *word, const char *const *names, size_t count) {
    const char *best = NULL;
    size_t best_distance = SIZE_MAX;
    for (size_t i = 0; i < count; i++) {
        size_t distance = coll__edit_distance(word, names[i]);
        if (distance < best_distance) {
            best = names[i];
            best_distance = distance;
        }
    }
    return best;
}
