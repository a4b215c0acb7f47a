/* THE list of statuses: X(constant, text). coll.h has the same names as an enum; a unit test holds the two together. */
#ifndef COLL__STATUS_H
#define COLL__STATUS_H

#include <coll.h>

#define COLL__STATUS_TABLE(X)                                                     \
    X(COLL_SUCCESS, "success")                                                    \
    X(COLL_ERR_ARG, "an argument has a value that is not allowed")                \
    X(COLL_ERR_TYPE, "this operator does not apply to this datatype")             \
    X(COLL_ERR_MEMORY, "out of memory")                                           \
    X(COLL_ERR_TIMEOUT, "the deadline passed")                                    \
    X(COLL_ERR_RANK_FAILED, "a peer died or left")                                \
    X(COLL_ERR_MISMATCH, "the ranks' calls do not match")                         \
    X(COLL_ERR_CLOSED, "the communicator is closed or broken")                    \
    X(COLL_ERR_BOOTSTRAP, "the ranks could not meet")                             \
    X(COLL_ERR_CONFIG, "an environment variable has a value that is not allowed") \
    X(COLL_ERR_TRANSPORT, "shared memory or the network refused")                 \
    X(COLL_ERR_STATE, "not possible in this state")                               \
    X(COLL_ERR_TRUNCATE, "a message was longer than its receive buffer")          \
    X(COLL_ERR_PEER, "another rank reported an error in its call")                \
    X(COLL_ERR_INTERRUPTED, "interrupted; look at signals and resume")            \
    X(COLL_ERR_USER, "a user's reduction function failed")                        \
    X(COLL_ERR_UNSUPPORTED, "this build or machine cannot do it")                 \
    X(COLL_ERR_INTERNAL, "a fault of the library")

/* Not an error and never seen by callers: nothing could be done now, try again after progress. */
enum { COLL__AGAIN = 1 };

#endif
