/* A copy for data that another core will read next: it goes past this core's caches.
 *
 * An ordinary copy leaves the lines dirty in the writer's cache, and the reader fetches each from there, at the price
 * of the distance between the two cores. Streamed lines wait in memory (or the shared cache), where the reader's
 * prefetcher finds them: measured 1.5 to 6 times as fast from 16 KiB on, most where the cores are far apart. Below a
 * few KiB an ordinary copy wins.
 */
#ifndef COLL__STREAM_H
#define COLL__STREAM_H

#include <stddef.h>

/* memcpy(), complete and ordered before every later store of this thread. */
void coll__stream_copy(void *to, const void *from, size_t bytes);

#endif
