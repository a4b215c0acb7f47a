/* Packing a call into 64 bits, and putting it into words again. */
#include "engine/fingerprint.h"

#include <stdio.h>

enum { COUNT_BITS = 36, ROOT_BITS = 12, OP_BITS = 6, DTYPE_BITS = 5, OPERATION_BITS = 5 };
enum { USER_OP = (1 << OP_BITS) - 1 };

static uint64_t field(uint64_t value, int bits) {
    return value & ((UINT64_C(1) << bits) - 1);
}

uint64_t coll__fingerprint(coll_operation_t operation, coll_dtype_t dtype, coll_op_t op, int root, size_t count) {
    uint64_t packed = field((uint64_t)operation + 1, OPERATION_BITS);
    packed = packed << DTYPE_BITS | field((uint64_t)dtype, DTYPE_BITS);
    packed = packed << OP_BITS | (op < USER_OP ? (uint64_t)op : USER_OP);
    packed = packed << ROOT_BITS | field((uint64_t)root, ROOT_BITS);
    return packed << COUNT_BITS | field(count, COUNT_BITS);
}

void coll__fingerprint_print(uint64_t fingerprint, char *text, size_t capacity) {
    unsigned long long count = field(fingerprint, COUNT_BITS);
    int root = (int)field(fingerprint >>= COUNT_BITS, ROOT_BITS);
    int op = (int)field(fingerprint >>= ROOT_BITS, OP_BITS);
    coll_dtype_t dtype = (coll_dtype_t)field(fingerprint >>= OP_BITS, DTYPE_BITS);
    coll_operation_t operation = (coll_operation_t)(field(fingerprint >>= DTYPE_BITS, OPERATION_BITS) - 1);
    const char *name = coll_operation_name(operation), *type = coll_dtype_name(dtype);
    const char *reduction = op == USER_OP ? "user's operator" : coll_op_name(op);
    switch (operation) {
    case COLL_OP_BARRIER:
        snprintf(text, capacity, "%s()", name);
        break;
    case COLL_OP_BROADCAST:
        snprintf(text, capacity, "%s(%llu x %s, root=%d)", name, count, type, root);
        break;
    case COLL_OP_REDUCE:
        snprintf(text, capacity, "%s(%llu x %s, %s, root=%d)", name, count, type, reduction, root);
        break;
    case COLL_OP_ALLREDUCE:
        snprintf(text, capacity, "%s(%llu x %s, %s)", name, count, type, reduction);
        break;
    default:
        snprintf(text, capacity, "%s(%llu x %s)", name, count, type);
        break;
    }
}
