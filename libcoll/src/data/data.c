/* Datatypes and operators by name and size, and the check that they go together. */
#include "data/data.h"

#include <stdio.h>

#include "base/error.h"
#include "data/data_table.h"

static const struct {
    const char *name;
    size_t size;
    int kind;
} dtypes[COLL_DTYPE_COUNT] = {
#define ROW(constant, name, size, kind) [constant] = {name, size, kind},
    COLL__DTYPE_TABLE(ROW)
#undef ROW
};

static const struct {
    const char *name;
    int kinds;
} ops[COLL_OP_COUNT] = {
#define ROW(constant, name, kinds) [constant] = {name, kinds},
    COLL__OP_TABLE(ROW)
#undef ROW
};

static int is_dtype(coll_dtype_t dtype) {
    return (unsigned)dtype < COLL_DTYPE_COUNT;
}

static int is_op(coll_op_t op) {
    return op >= 0 && op < COLL_OP_COUNT;
}

size_t coll_dtype_size(coll_dtype_t dtype) {
    return is_dtype(dtype) ? dtypes[dtype].size : 0;
}

const char *coll_dtype_name(coll_dtype_t dtype) {
    return is_dtype(dtype) ? dtypes[dtype].name : "no such datatype";
}

const char *coll_op_name(coll_op_t op) {
    return is_op(op) ? ops[op].name : "no such operator";
}

int coll_op_supports(coll_op_t op, coll_dtype_t dtype) {
    return is_op(op) && is_dtype(dtype) && (ops[op].kinds & dtypes[dtype].kind) != 0;
}

/* "int8, int16, ..." of what `op` works on. */
static void list_dtypes(coll_op_t op, char *text, size_t capacity) {
    size_t used = 0;
    for (int dtype = 0; dtype < COLL_DTYPE_COUNT; dtype++) {
        if (coll_op_supports(op, (coll_dtype_t)dtype) && used < capacity)
            used += (size_t)snprintf(text + used, capacity - used, "%s%s", used > 0 ? ", " : "", dtypes[dtype].name);
    }
}

int coll__data_check(coll_op_t op, coll_dtype_t dtype, size_t count) {
    if (!is_dtype(dtype))
        return coll__error(COLL_ERR_ARG, "dtype is %d, allowed are 0 (%s) to %d (%s)", (int)dtype, dtypes[0].name,
                           COLL_DTYPE_COUNT - 1, dtypes[COLL_DTYPE_COUNT - 1].name);
    if (!is_op(op))
        return coll__error(COLL_ERR_ARG, "op is %d, allowed are 0 (%s) to %d (%s)", op, ops[0].name, COLL_OP_COUNT - 1,
                           ops[COLL_OP_COUNT - 1].name);
    if (!coll_op_supports(op, dtype)) {
        char allowed[256];
        list_dtypes(op, allowed, sizeof allowed);
        return coll__error(COLL_ERR_TYPE, "op %s does not apply to %s, allowed are %s", ops[op].name,
                           dtypes[dtype].name, allowed);
    }
    if ((op == COLL_MINLOC || op == COLL_MAXLOC) && count % 2 != 0)
        return coll__error(COLL_ERR_ARG, "count is %zu, but op %s works on pairs (value, index): it must be even",
                           count, ops[op].name);
    return 0;
}
