/* Proving that both sides know the job's secret, without saying it. */
#ifndef COLL__BOOTSTRAP_AUTH_H
#define COLL__BOOTSTRAP_AUTH_H

#include <stdbool.h>
#include <stddef.h>

#include "bootstrap/wire.h"

typedef struct coll__key {
    unsigned char bytes[32];
} coll__key_t;

/* Stretches the secret to a key. COLL_ERR_BOOTSTRAP if the system has no random numbers. */
int coll__auth_key(const char *secret, coll__key_t *key);

/* This process's greeting, with a fresh nonce. */
void coll__auth_greet(coll__greeting_t *greeting);

/* Is this a greeting of this library at all? */
bool coll__auth_is_greeting(const coll__greeting_t *greeting);

/* 0, or COLL_ERR_BOOTSTRAP naming both versions; `who` is the other side, for the message. */
int coll__auth_check_version(const coll__greeting_t *theirs, const char *who);

typedef enum coll__auth_side { COLL__AUTH_CLIENT, COLL__AUTH_HUB } coll__auth_side_t;

/* What `side` must present: a keyed hash over its name, both greetings and the claimed rank and size. */
void coll__auth_prove(const coll__key_t *key, coll__auth_side_t side, const coll__greeting_t *client,
                      const coll__greeting_t *hub, const coll__proof_t *claim, unsigned char mac[COLL__MAC_BYTES]);

/* In constant time. */
bool coll__auth_equal(const unsigned char a[COLL__MAC_BYTES], const unsigned char b[COLL__MAC_BYTES]);

/* A value that only holders of the key can compute from a label and data. */
void coll__auth_derive(const coll__key_t *key, const char *label, const void *data, size_t bytes,
                       unsigned char out[COLL__MAC_BYTES]);

#endif
