/* Non-temporal stores are part of every x86-64; elsewhere this is memcpy(). */
#include "base/stream.h"

#include <stdint.h>
#include <string.h>

#ifdef __SSE2__
#include <emmintrin.h>

enum { LINE = 64, WORDS = LINE / sizeof(__m128i) };

void coll__stream_copy(void *to, const void *from, size_t bytes) {
    unsigned char *target = to;
    const unsigned char *source = from;
    size_t head = (size_t)(-(uintptr_t)target % LINE);
    if (head > bytes)
        head = bytes;
    memcpy(target, source, head);
    target += head, source += head, bytes -= head;
    /* Whole lines: a partly written one would be merged in memory. */
    for (; bytes >= LINE; target += LINE, source += LINE, bytes -= LINE) {
        __m128i line[WORDS];
        for (int i = 0; i < WORDS; i++)
            line[i] = _mm_loadu_si128((const __m128i *)(const void *)source + i);
        for (int i = 0; i < WORDS; i++)
            _mm_stream_si128((__m128i *)(void *)target + i, line[i]);
    }
    memcpy(target, source, bytes);
    _mm_sfence(); /* streamed stores are not ordered by anything weaker */
}

#else

void coll__stream_copy(void *to, const void *from, size_t bytes) {
    memcpy(to, from, bytes);
}

#endif
