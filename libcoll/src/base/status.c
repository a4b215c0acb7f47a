/* Statuses as text, from the one table. */
#include "base/status.h"

const char *coll_strerror(int status) {
    switch (status) {
#define TEXT(constant, text) \
    case constant:           \
        return text;
        COLL__STATUS_TABLE(TEXT)
#undef TEXT
    default:
        return "no such status";
    }
}

const char *coll_status_name(int status) {
    switch (status) {
#define NAME(constant, text) \
    case constant:           \
        return #constant;
        COLL__STATUS_TABLE(NAME)
#undef NAME
    default:
        return "no such status";
    }
}
