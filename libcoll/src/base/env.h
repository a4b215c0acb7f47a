/* The environment as a struct. Only env.c calls getenv. */
#ifndef COLL__ENV_H
#define COLL__ENV_H

#include <coll.h>
#include <stdbool.h>

enum coll__transport_choice { COLL__TRANSPORT_AUTO, COLL__TRANSPORT_SHM, COLL__TRANSPORT_OFI };
enum coll__hier_choice { COLL__HIER_AUTO, COLL__HIER_OFF, COLL__HIER_LEADER, COLL__HIER_SLICED };
enum coll__progress_choice { COLL__PROGRESS_CALLER, COLL__PROGRESS_THREAD };
enum coll__log_choice { COLL__LOG_OFF, COLL__LOG_ERROR, COLL__LOG_WARN, COLL__LOG_INFO, COLL__LOG_DEBUG };
enum { COLL__SPIN_AUTO = -1 };

/* Field types of env_table.h. */
typedef int coll__env_int;
typedef size_t coll__env_bytes;
typedef double coll__env_seconds;
typedef int coll__env_flag;
typedef int coll__env_spin; /* microseconds, or COLL__SPIN_AUTO */
typedef int coll__env_choice_transport, coll__env_choice_hier, coll__env_choice_progress, coll__env_choice_log;
typedef char coll__env_text[1024];

enum { COLL__MOST_RANKS = 1 << 20 };
typedef char coll__env_secret[1024]; /* a text that is never shown */

#include "base/env_table.h"

typedef struct coll__env {
#define COLL__ENV_FIELD(field, name, type, default_, checked, help) coll__env_##type field;
    COLL__ENV_TABLE(COLL__ENV_FIELD)
#undef COLL__ENV_FIELD
} coll__env_t;

/* Reads and checks the whole environment. COLL_ERR_CONFIG names the variable, its value and what is allowed. A
 * variable COLL_... that is not in the table is an error too (a typing mistake), with the nearest name; except names
 * that begin with COLL_TEST_. RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT fill what COLL_... leaves unset; both set
 * and different, or half a pair (RANK without WORLD_SIZE, COLL_RANK without COLL_SIZE, ...) is an error that names
 * them; LOCAL_RANK and LOCAL_WORLD_SIZE must not contradict them. */
int coll__env_read(coll__env_t *env);

/* The variables with checked == 1 as "NAME=value\n" lines, to be compared between ranks. Returns the length. */
size_t coll__env_checked_text(const coll__env_t *env, char *text, size_t capacity);

/* Compares two such texts; on a difference writes the first differing NAME and both values and returns 1. */
int coll__env_checked_differ(const char *mine, const char *theirs, char *what, size_t capacity);

/* Parses "64k" or "inf" (SIZE_MAX). Returns the number of characters used, 0 if there is no number. */
size_t coll__parse_bytes(const char *text, size_t *bytes);

#endif
