/* Places for recursive doubling; see doubling.h. */
#include "pattern/doubling.h"

#include "pattern/log2.h"

coll__doubling_t coll__doubling(int rank, int size) {
    int levels = coll__log2_floor(size);
    coll__doubling_t doubling = {
        .size = size, .core = 1 << levels, .levels = levels, .extra = size - (1 << levels), .fold = -1};
    if (rank >= 2 * doubling.extra) {
        doubling.place = rank - doubling.extra;
    } else {
        doubling.place = rank % 2 == 0 ? rank / 2 : -1;
        doubling.fold = rank ^ 1;
    }
    return doubling;
}

int coll__doubling_rounds(int size) {
    coll__doubling_t doubling = coll__doubling(0, size);
    int folds = doubling.extra == 0 ? 0 : doubling.extra > doubling.core / 2 ? 2 : 1;
    return doubling.levels + folds;
}

int64_t coll__doubling_messages(int size) {
    coll__doubling_t doubling = coll__doubling(0, size);
    return (int64_t)doubling.core * doubling.levels + 2 * (int64_t)doubling.extra;
}
