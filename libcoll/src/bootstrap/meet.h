/* How a rank other than 0 finds rank 0 and convinces it. */
#ifndef COLL__BOOTSTRAP_MEET_H
#define COLL__BOOTSTRAP_MEET_H

#include "bootstrap/auth.h"
#include "bootstrap/bootstrap.h"

/* Connects to rank 0, which may come later, and proves both ways that the secret is the same. *fd is then a nonblocking
 * connection that carries frames. */
int coll__meet(const coll__job_opts_t *opts, const coll__key_t *key, int *fd);

#endif
