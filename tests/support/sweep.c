/* The sweep over the algorithm table; see sweep.h. */
#include "support/sweep.h"

#include "support/verify.h"
#include "topo/topo.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { LENGTH = 1000, SIZE_MAX_FULL = 64, ELEMENT = 8, MESSAGES_MAX = 300000 };

/* What the elements are. Every kind has 8 bytes. */
typedef enum kind {
    WHOLE,  /* doubles with whole values: any order of folding gives the same exact sum */
    ROUGH,  /* doubles whose sum depends on the order in its last bits: for strict left folds */
    AFFINE, /* maps x -> a x + b modulo 2^32 under composition: associative, does not commute */
    KINDS
} kind_t;

static const char *const kind_names[] = {"whole", "rough", "affine"};

typedef struct affine {
    uint32_t factor, offset;
} affine_t;

static void op_sum(const void *left, const void *right, void *target, size_t bytes) {
    const double *a = left, *b = right;
    double *sum = target;
    for (size_t i = 0; i < bytes / sizeof *sum; i++)
        sum[i] = a[i] + b[i];
}

static void op_affine(const void *left, const void *right, void *target, size_t bytes) {
    const affine_t *a = left, *b = right;
    affine_t *both = target;
    for (size_t i = 0; i < bytes / sizeof *both; i++)
        both[i] = (affine_t){a[i].factor * b[i].factor, a[i].factor * b[i].offset + a[i].offset};
}

static coll__verify_op_t op_of(kind_t kind) {
    return kind == AFFINE ? op_affine : op_sum;
}

/* A well-mixed number for each element: nothing that is exchanged, dropped or added twice goes unnoticed. */
static uint64_t mix(uint64_t value) {
    value ^= value >> 30;
    value *= UINT64_C(0xbf58476d1ce4e5b9);
    value ^= value >> 27;
    value *= UINT64_C(0x94d049bb133111eb);
    return value ^ value >> 31;
}

static void fill(kind_t kind, void *element, uint64_t seed) {
    uint64_t random = mix(seed + 1);
    double number = (double)(int64_t)(random >> 32) - 2147483648.0;
    affine_t map = {(uint32_t)random | 1, (uint32_t)(random >> 32)};
    if (kind == ROUGH)
        number *= random & 1 ? 1e-5 : 1e5 / 3;
    memcpy(element, kind == AFFINE ? (void *)&map : (void *)&number, ELEMENT);
}

/* Inputs of all ranks, and their left fold in rank order. */
typedef struct data {
    int size;
    size_t count;
    char *inputs, *fold;
} data_t;

static data_t make_data(kind_t kind, int size, size_t count) {
    size_t bytes = count * ELEMENT;
    data_t data = {size, count, malloc((size_t)size * bytes + 1), malloc(bytes + 1)};
    assert_non_null(data.inputs);
    assert_non_null(data.fold);
    for (size_t i = 0; i < (size_t)size * count; i++)
        fill(kind, data.inputs + i * ELEMENT, i);
    memcpy(data.fold, data.inputs, bytes);
    for (int rank = 1; rank < size; rank++)
        op_of(kind)(data.fold, data.inputs + (size_t)rank * bytes, data.fold, bytes);
    return data;
}

static void free_data(data_t *data) {
    free(data->inputs);
    free(data->fold);
}

typedef struct sweep {
    coll__verifier_t *verifier;
    const coll__algo_t *algo;
    coll__plan_t plan;
    kind_t kind;
    const data_t *data;
    size_t runs;
} sweep_t;

static void fault(const sweep_t *sweep, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void fault(const sweep_t *sweep, const char *format, ...) {
    char what[512];
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    const coll__plan_t *plan = &sweep->plan;
    fail_msg("%s %s, %d ranks, %zu elements, root %d, %s, %s, arity %d: %s", coll_operation_name(plan->operation),
             sweep->algo->name, plan->size, plan->count, plan->root, plan->in_place ? "in place" : "not in place",
             kind_names[sweep->kind], plan->arity, what);
}

/* ---- results ------------------------------------------------------------------------------------------------ */

/* ROUGH sums of rows that are not ordered are equal to no reference, but on all ranks alike. */
static const void *expected_fold(const sweep_t *sweep) {
    bool open = sweep->kind == ROUGH && !sweep->algo->ordered;
    return open ? coll__verifier_output(sweep->verifier, 0) : sweep->data->fold;
}

static void check_rank(const sweep_t *sweep, int rank) {
    const coll__plan_t *plan = &sweep->plan;
    const void *expected = NULL;
    size_t bytes = plan->count * ELEMENT;
    switch (plan->operation) {
    case COLL_OP_BARRIER:
        for (int other = 0; other < plan->size; other++)
            if (!coll__verifier_heard(sweep->verifier, rank, other))
                fault(sweep, "rank %d leaves the barrier without having heard of rank %d", rank, other);
        return;
    case COLL_OP_BROADCAST:
        expected = sweep->data->inputs;
        break;
    case COLL_OP_REDUCE:
        if (rank != plan->root)
            return;
        expected = sweep->data->fold;
        break;
    case COLL_OP_ALLREDUCE:
        expected = expected_fold(sweep);
        break;
    case COLL_OP_ALLGATHER:
        expected = sweep->data->inputs;
        bytes *= (size_t)plan->size;
        break;
    default:
        fault(sweep, "the sweep has no reference for this operation");
    }
    const char *output = coll__verifier_output(sweep->verifier, rank);
    if (bytes == 0 || memcmp(output, expected, bytes) == 0)
        return;
    size_t at = 0;
    while (output[at] == ((const char *)expected)[at])
        at++;
    fault(sweep, "wrong result on rank %d, element %zu", rank, at / ELEMENT);
}

static void check_cost(const sweep_t *sweep, const char *what, uint64_t found, uint64_t form) {
    if (found != form)
        fault(sweep, "%llu %s, but the closed form says %llu", (unsigned long long)found, what,
              (unsigned long long)form);
}

static void run(sweep_t *sweep) {
    coll__verify_result_t result;
    const coll__algo_t *algo = sweep->algo;
    coll__plan_t *plan = &sweep->plan;
    const coll__sched_t *scheds = coll__verifier_build(sweep->verifier, algo->build, plan);
    if (!coll__verifier_run(sweep->verifier, plan, scheds, op_of(sweep->kind), sweep->data->inputs, &result))
        fault(sweep, "%s", result.fault);
    for (int rank = 0; rank < plan->size; rank++)
        check_rank(sweep, rank);
    plan->rank = plan->size - 1; /* closed forms are the same on every rank */
    check_cost(sweep, "rounds", result.rounds, algo->rounds(plan));
    check_cost(sweep, "messages", result.messages, algo->messages(plan));
    check_cost(sweep, "bytes", result.bytes, algo->bytes(plan));
    sweep->runs++;
}

/* ---- cases -------------------------------------------------------------------------------------------------- */

static bool is_reduction(coll_operation_t operation) {
    return operation == COLL_OP_REDUCE || operation == COLL_OP_ALLREDUCE;
}

static bool is_rooted(coll_operation_t operation) {
    return operation == COLL_OP_BROADCAST || operation == COLL_OP_REDUCE;
}

/* Which kinds of elements tell something about a row: a reduce that is not ordered has nothing to say about ROUGH. A
 * row that is has shown the shape of its fold by ROUGH, and needs AFFINE for the sides of its operands only: not at
 * every root. */
static bool kind_matters(const coll__algo_t *algo, kind_t kind, const coll__plan_t *plan) {
    if (!is_reduction(algo->operation))
        return kind == WHOLE;
    if (kind == ROUGH)
        return algo->ordered || algo->operation == COLL_OP_ALLREDUCE;
    if (kind == AFFINE)
        return !algo->ordered || plan->root % 8 == 0 || plan->root == plan->size - 1;
    return !algo->ordered;
}

static void run_kind(sweep_t *sweep, kind_t kind, const data_t *data, int root) {
    coll__plan_t *plan = &sweep->plan;
    sweep->kind = kind;
    sweep->data = data;
    *plan = (coll__plan_t){.operation = sweep->algo->operation,
                           .dtype = COLL_FLOAT64,
                           .op = COLL_SUM,
                           .commutative = kind != AFFINE,
                           .size = data->size,
                           .root = root,
                           .count = data->count,
                           .element = ELEMENT,
                           .in_place = plan->in_place,
                           .arity = 2 + (data->size + root) % 5,
                           .topo = plan->topo};
    if (kind_matters(sweep->algo, kind, plan) && (!sweep->algo->applies || sweep->algo->applies(plan)) &&
        sweep->algo->messages(plan) <= MESSAGES_MAX)
        run(sweep);
}

static void run_roots(sweep_t *sweep, kind_t kind, const data_t *data, const int *roots, int root_count) {
    int size = data->size;
    coll__topo_t *topo;
    int *labels = calloc((size_t)size, sizeof *labels);
    assert_non_null(labels);
    for (int rank = 0; rank < size; rank++)
        labels[rank] = rank;
    assert_int_equal(coll__topo_create(labels, size, &topo), 0);
    free(labels);
    sweep->plan.topo = topo;
    for (int i = 0; i < root_count; i++)
        for (int in_place = 0; in_place < 2; in_place++) {
            sweep->plan.in_place = in_place;
            run_kind(sweep, kind, data, roots[i]);
        }
    coll__topo_free(topo);
}

typedef bool (*choice_t)(const coll__algo_t *algo);

static void sweep_count(sweep_t *sweep, coll_operation_t operation, choice_t chosen, int size, size_t count,
                        const int *roots, int root_count) {
    for (kind_t kind = 0; kind < KINDS; kind++) {
        if (kind != WHOLE && !is_reduction(operation))
            continue;
        data_t data = make_data(kind, size, count);
        for (size_t i = 0; i < coll__algo_count(); i++) {
            sweep->algo = coll__algo_get(i);
            if (sweep->algo->operation == operation && (!chosen || chosen(sweep->algo)))
                run_roots(sweep, kind, &data, roots, root_count);
        }
        free_data(&data);
    }
}

static void sweep_size(sweep_t *sweep, coll_operation_t operation, choice_t chosen, int size) {
    int roots[SIZE_MAX_FULL] = {0};
    for (int root = 0; root < size; root++)
        roots[root] = root;
    size_t ranks = (size_t)size;
    size_t counts[] = {0, 1, ranks - 1, ranks, LENGTH};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        bool again = false;
        for (size_t j = 0; j < i; j++)
            again = again || counts[j] == counts[i];
        bool nothing = operation == COLL_OP_BARRIER && i > 0;
        if (!again && !nothing)
            sweep_count(sweep, operation, chosen, size, counts[i], roots, is_rooted(operation) ? size : 1);
    }
}

size_t coll__sweep(coll_operation_t operation, choice_t chosen) {
    static const int large[] = {127, 257, 1000};
    sweep_t sweep = {.verifier = coll__verifier_create()};
    for (int size = 1; size <= SIZE_MAX_FULL; size++)
        sweep_size(&sweep, operation, chosen, size);
    for (size_t i = 0; i < sizeof large / sizeof large[0]; i++) {
        int roots[] = {0, 1, large[i] - 1};
        sweep_count(&sweep, operation, chosen, large[i], 5, roots, is_rooted(operation) ? 3 : 1);
    }
    coll__verifier_free(sweep.verifier);
    return sweep.runs;
}

void coll__sweep_case(const coll__algo_t *algo, int size, size_t count, int root) {
    sweep_t sweep = {.verifier = coll__verifier_create(), .algo = algo};
    data_t data = make_data(WHOLE, size, count);
    run_roots(&sweep, WHOLE, &data, &root, 1);
    assert_true(sweep.runs > 0);
    free_data(&data);
    coll__verifier_free(sweep.verifier);
}
