/* The names of the collectives, as errors, rules and tables write them. */
#include <coll.h>

const char *coll_operation_name(coll_operation_t operation) {
    static const char *const names[COLL_OPERATION_COUNT] = {
        [COLL_OP_BARRIER] = "barrier",     [COLL_OP_BROADCAST] = "broadcast", [COLL_OP_REDUCE] = "reduce",
        [COLL_OP_ALLREDUCE] = "allreduce", [COLL_OP_ALLGATHER] = "allgather", [COLL_OP_SENDRECV] = "sendrecv",
    };
    return (unsigned)operation < COLL_OPERATION_COUNT ? names[operation] : "no such operation";
}
