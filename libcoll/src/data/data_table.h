/* THE lists of datatypes and operators: names, sizes, which goes with which, and the order of the kernel tables. */
#ifndef COLL__DATA_TABLE_H
#define COLL__DATA_TABLE_H

#include <coll.h>

/* Kinds of datatypes, as far as operators care. */
enum coll__dtype_kind {
    COLL__KIND_BOOL = 1,
    COLL__KIND_SIGNED = 2,
    COLL__KIND_UNSIGNED = 4,
    COLL__KIND_REAL = 8,
    COLL__KIND_COMPLEX = 16,
};

/* X(constant, name, bytes, kind). The names are numpy's. */
#define COLL__DTYPE_TABLE(X)                              \
    X(COLL_BOOL, "bool", 1, COLL__KIND_BOOL)              \
    X(COLL_INT8, "int8", 1, COLL__KIND_SIGNED)            \
    X(COLL_INT16, "int16", 2, COLL__KIND_SIGNED)          \
    X(COLL_INT32, "int32", 4, COLL__KIND_SIGNED)          \
    X(COLL_INT64, "int64", 8, COLL__KIND_SIGNED)          \
    X(COLL_UINT8, "uint8", 1, COLL__KIND_UNSIGNED)        \
    X(COLL_UINT16, "uint16", 2, COLL__KIND_UNSIGNED)      \
    X(COLL_UINT32, "uint32", 4, COLL__KIND_UNSIGNED)      \
    X(COLL_UINT64, "uint64", 8, COLL__KIND_UNSIGNED)      \
    X(COLL_FLOAT16, "float16", 2, COLL__KIND_REAL)        \
    X(COLL_BFLOAT16, "bfloat16", 2, COLL__KIND_REAL)      \
    X(COLL_FLOAT32, "float32", 4, COLL__KIND_REAL)        \
    X(COLL_FLOAT64, "float64", 8, COLL__KIND_REAL)        \
    X(COLL_COMPLEX64, "complex64", 8, COLL__KIND_COMPLEX) \
    X(COLL_COMPLEX128, "complex128", 16, COLL__KIND_COMPLEX)

#define COLL__KINDS_INTEGER (COLL__KIND_SIGNED | COLL__KIND_UNSIGNED)
#define COLL__KINDS_NUMBER  (COLL__KINDS_INTEGER | COLL__KIND_REAL) /* with an order */
#define COLL__KINDS_ORDERED (COLL__KIND_BOOL | COLL__KINDS_NUMBER)
#define COLL__KINDS_BITS    (COLL__KIND_BOOL | COLL__KINDS_INTEGER)
#define COLL__KINDS_ALL     (COLL__KINDS_ORDERED | COLL__KIND_COMPLEX)

/* X(constant, name, kinds). */
#define COLL__OP_TABLE(X)                                               \
    X(COLL_SUM, "sum", COLL__KINDS_ALL)   /* bool: or, as numpy does */ \
    X(COLL_PROD, "prod", COLL__KINDS_ALL) /* bool: and */               \
    X(COLL_MIN, "min", COLL__KINDS_ORDERED)                             \
    X(COLL_MAX, "max", COLL__KINDS_ORDERED)                             \
    X(COLL_AVG, "avg", COLL__KINDS_NUMBER | COLL__KIND_COMPLEX)         \
    X(COLL_LAND, "land", COLL__KINDS_ORDERED)                           \
    X(COLL_LOR, "lor", COLL__KINDS_ORDERED)                             \
    X(COLL_LXOR, "lxor", COLL__KINDS_ORDERED)                           \
    X(COLL_BAND, "band", COLL__KINDS_BITS)                              \
    X(COLL_BOR, "bor", COLL__KINDS_BITS)                                \
    X(COLL_BXOR, "bxor", COLL__KINDS_BITS)                              \
    X(COLL_MINLOC, "minloc", COLL__KINDS_NUMBER)                        \
    X(COLL_MAXLOC, "maxloc", COLL__KINDS_NUMBER)

#endif
