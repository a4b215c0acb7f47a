/* What init needs to know of the shm transport beyond its contract: how large its region of the segment must be. */
#ifndef COLL__SHM_H
#define COLL__SHM_H

#include <stddef.h>

size_t coll__shm_region_bytes(int local_size, size_t max_packet); /* a multiple of the page size */

#endif
