/* Which of this host's addresses other nodes are to use. */
#ifndef COLL__INTERFACE_H
#define COLL__INTERFACE_H

#include <stddef.h>

#include "base/env.h"

/* Writes the address as text: COLL_IFACE (a name or an address), or the one from which rank 0's host is reached, or the
 * first interface that is up, or loopback. An error lists what there is. */
int coll__interface_address(const coll__env_t *env, char *text, size_t capacity);

#endif
