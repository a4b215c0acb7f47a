/* The job's secret: the one given, or one that the user's processes share through a file only the user can read. */
#ifndef COLL__BOOTSTRAP_SECRET_H
#define COLL__BOOTSTRAP_SECRET_H

#include <stddef.h>

enum { COLL__SECRET_BYTES = 1024 };

/* `given` unless empty, otherwise the secret of the user's home directory. COLL_ERR_BOOTSTRAP says what to do. */
int coll__secret(const char *given, char secret[COLL__SECRET_BYTES]);

/* The secret kept in directory `home`, made there if there is none. */
int coll__secret_in(const char *home, char secret[COLL__SECRET_BYTES]);

#endif
