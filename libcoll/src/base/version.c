/* The version, which the build passes in; a plain compile without it says so. */
#include <coll.h>

#ifndef COLL_VERSION_STRING
#define COLL_VERSION_STRING "0.0.0+unknown"
#endif

const char *coll_version(void) {
    return COLL_VERSION_STRING;
}
