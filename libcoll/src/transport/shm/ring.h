/* A ring of records from one process to one other: single producer, single consumer, in shared memory.
 *
 * The ring is an array of 64-byte cells. A record occupies consecutive cells: one 8-byte word, then the body, so that a
 * body is contiguous and aligned to 8; a record that would cross the end of the array is preceded by a PAD record that
 * fills the rest. The word is written last, with release order, and is what the consumer polls: an idle ring costs it
 * one cached line, and a record of up to 56 bytes costs one line transfer.
 *
 * Invariant: the first word of every free cell is 0. The consumer restores it before it gives cells back, which it
 * does a quarter of the ring at a time (or at once for records that hold a slot, see pool.h) by storing the number of
 * cells read so far. That counter has a line of its own; the producer looks at it only when the ring seems full.
 */
#ifndef COLL__SHM_RING_H
#define COLL__SHM_RING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cpu.h"

enum { COLL__RING_CELL = 64, COLL__RING_WORD = 8 };

/* Kinds of records; 0 is a free cell. */
typedef enum coll__ring_kind {
    COLL__RING_PACKET = 1, /* the body is the packet */
    COLL__RING_PAD,        /* nothing up to the end of the array */
    COLL__RING_SLOT,       /* the packet lies in a slot: the body is a coll__ring_slot_t */
    COLL__RING_BULK        /* a piece of bulk data lies in a slot: the same */
} coll__ring_kind_t;

typedef struct coll__ring_slot {
    uint32_t slot;
    uint32_t id;     /* BULK: of the transfer, chosen by the receiver */
    uint32_t serial; /* BULK: of the transfer, chosen by the sender */
    uint32_t unused;
    uint64_t offset; /* BULK: of this piece */
    uint64_t total;  /* BULK: length of the transfer */
} coll__ring_slot_t;

/* In the segment, followed by the cells. Two lines, because processors prefetch lines in pairs. */
typedef struct coll__ring {
    _Alignas(2 * COLL__CACHE_LINE) _Atomic uint32_t read; /* cells given back so far, modulo 2^32 */
} coll__ring_t;

/* Positions count cells modulo 2^32; the number of cells is a power of two. */
typedef struct coll__ring_out {
    coll__ring_t *ring;
    unsigned char *cells;
    uint32_t count;
    uint32_t head; /* next cell to write */
    uint32_t read; /* ring->read as last seen */
} coll__ring_out_t;

typedef struct coll__ring_in {
    coll__ring_t *ring;
    unsigned char *cells;
    uint32_t count;
    uint32_t tail;      /* next cell to read */
    uint32_t published; /* ring->read as last stored */
} coll__ring_in_t;

static inline _Atomic uint64_t *coll__ring_word(unsigned char *cells, uint32_t count, uint32_t position) {
    return (_Atomic uint64_t *)(void *)(cells + (size_t)(position & (count - 1)) * COLL__RING_CELL);
}

static inline uint32_t coll__ring_cells(size_t body_bytes) {
    return (uint32_t)((body_bytes + COLL__RING_WORD + COLL__RING_CELL - 1) / COLL__RING_CELL);
}

/* The largest body that send() puts into a ring: even with the padding before it, it fits into the three quarters that
 * a consumer who has read everything has given back. */
static inline size_t coll__ring_inline_max(uint32_t count) {
    return (size_t)count * COLL__RING_CELL / 8;
}

/* ---- producer ---- */

static inline void coll__ring_look(coll__ring_out_t *out) {
    out->read = atomic_load_explicit(&out->ring->read, memory_order_acquire);
}

/* Has the consumer claimed to have read what was never written? */
static inline bool coll__ring_corrupt(const coll__ring_out_t *out) {
    return out->head - out->read > out->count;
}

static inline uint32_t coll__ring_padding(const coll__ring_out_t *out, uint32_t cells) {
    uint32_t to_end = out->count - (out->head & (out->count - 1));
    return cells > to_end ? to_end : 0;
}

static inline bool coll__ring_has_room(coll__ring_out_t *out, uint32_t cells) {
    uint32_t need = cells + coll__ring_padding(out, cells);
    if (out->head - out->read + need <= out->count)
        return true;
    coll__ring_look(out);
    return !coll__ring_corrupt(out) && out->head - out->read + need <= out->count;
}

/* Where to write a body of that many cells with its word; NULL: no room. */
static inline unsigned char *coll__ring_reserve(coll__ring_out_t *out, uint32_t cells) {
    if (!coll__ring_has_room(out, cells))
        return NULL;
    uint32_t padding = coll__ring_padding(out, cells);
    if (padding) {
        atomic_store_explicit(coll__ring_word(out->cells, out->count, out->head), (uint64_t)COLL__RING_PAD << 32,
                              memory_order_release);
        out->head += padding;
    }
    return (unsigned char *)coll__ring_word(out->cells, out->count, out->head) + COLL__RING_WORD;
}

/* Makes the record that was reserved last visible; `length` is of the packet or piece. */
static inline void coll__ring_publish(coll__ring_out_t *out, uint32_t cells, coll__ring_kind_t kind, uint32_t length) {
    atomic_store_explicit(coll__ring_word(out->cells, out->count, out->head), (uint64_t)kind << 32 | length,
                          memory_order_release);
    out->head += cells;
}

/* ---- consumer ---- */

/* The word of the next record, 0 if there is none. */
static inline uint64_t coll__ring_peek(const coll__ring_in_t *in) {
    return atomic_load_explicit(coll__ring_word(in->cells, in->count, in->tail), memory_order_acquire);
}

static inline uint32_t coll__ring_to_end(const coll__ring_in_t *in) {
    return in->count - (in->tail & (in->count - 1));
}

/* Is done with the next record. Returns true if cells were given back: the producer may be waiting for them. */
static inline bool coll__ring_consume(coll__ring_in_t *in, uint32_t used_cells, uint32_t cells, bool at_once) {
    for (uint32_t i = 0; i < used_cells; i++)
        atomic_store_explicit(coll__ring_word(in->cells, in->count, in->tail + i), 0, memory_order_relaxed);
    in->tail += cells;
    if (!at_once && in->tail - in->published < in->count / 4)
        return false;
    in->published = in->tail;
    atomic_store_explicit(&in->ring->read, in->tail, memory_order_release);
    return true;
}

#endif
