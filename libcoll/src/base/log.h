/* Lines on standard error, "coll[rank] level: text", according to COLL_LOG. */
#ifndef COLL__LOG_H
#define COLL__LOG_H

#include "base/env.h"

void coll__log_setup(int level, int rank);
void coll__log(int level, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
