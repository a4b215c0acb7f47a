/* BLAKE2b, keyed, over fresh nonces: libsodium's crypto_generichash. A label at the front of each hash keeps an answer
 * of one kind from being used as one of another kind. */
#include "bootstrap/auth.h"

#include <coll.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"

_Static_assert(sizeof(coll__greeting_t) == 104 && sizeof(coll__proof_t) == 40 && sizeof(coll__verdict_t) == 36,
               "what goes over the wire has no padding");

int coll__auth_key(const char *secret, coll__key_t *key) {
    static const unsigned char context[] = "libcoll: key of a job's secret";
    if (sodium_init() < 0)
        return coll__error(COLL_ERR_BOOTSTRAP, "libsodium found no source of random numbers");
    crypto_generichash(key->bytes, sizeof key->bytes, (const unsigned char *)secret, strlen(secret), context,
                       sizeof context);
    return 0;
}

void coll__auth_greet(coll__greeting_t *greeting) {
    memset(greeting, 0, sizeof *greeting);
    memcpy(greeting->magic, COLL__MAGIC, sizeof greeting->magic);
    greeting->protocol = COLL__PROTOCOL;
    snprintf(greeting->version, sizeof greeting->version, "%s", coll_version());
    randombytes_buf(greeting->nonce, sizeof greeting->nonce);
}

bool coll__auth_is_greeting(const coll__greeting_t *greeting) {
    return memcmp(greeting->magic, COLL__MAGIC, sizeof greeting->magic) == 0 &&
           greeting->version[sizeof greeting->version - 1] == '\0';
}

int coll__auth_check_version(const coll__greeting_t *theirs, const char *who) {
    coll__greeting_t mine;
    coll__auth_greet(&mine);
    if (theirs->protocol == mine.protocol && strcmp(theirs->version, mine.version) == 0)
        return 0;
    return coll__error(COLL_ERR_BOOTSTRAP,
                       "%s runs libcoll %s (protocol %u), this process runs %s (protocol %u); all ranks need the same",
                       who, theirs->version, theirs->protocol, mine.version, mine.protocol);
}

void coll__auth_prove(const coll__key_t *key, coll__auth_side_t side, const coll__greeting_t *client,
                      const coll__greeting_t *hub, const coll__proof_t *claim, unsigned char mac[COLL__MAC_BYTES]) {
    const unsigned char *label = (const unsigned char *)(side == COLL__AUTH_CLIENT ? "client" : "hub...");
    crypto_generichash_state hash;
    crypto_generichash_init(&hash, key->bytes, sizeof key->bytes, COLL__MAC_BYTES);
    crypto_generichash_update(&hash, label, 6);
    crypto_generichash_update(&hash, (const unsigned char *)client, sizeof *client);
    crypto_generichash_update(&hash, (const unsigned char *)hub, sizeof *hub);
    crypto_generichash_update(&hash, (const unsigned char *)&claim->rank, sizeof claim->rank);
    crypto_generichash_update(&hash, (const unsigned char *)&claim->size, sizeof claim->size);
    crypto_generichash_final(&hash, mac, COLL__MAC_BYTES);
}

bool coll__auth_equal(const unsigned char a[COLL__MAC_BYTES], const unsigned char b[COLL__MAC_BYTES]) {
    return sodium_memcmp(a, b, COLL__MAC_BYTES) == 0;
}

void coll__auth_derive(const coll__key_t *key, const char *label, const void *data, size_t bytes,
                       unsigned char out[COLL__MAC_BYTES]) {
    crypto_generichash_state hash;
    crypto_generichash_init(&hash, key->bytes, sizeof key->bytes, COLL__MAC_BYTES);
    crypto_generichash_update(&hash, (const unsigned char *)label, strlen(label) + 1);
    crypto_generichash_update(&hash, data, bytes);
    crypto_generichash_final(&hash, out, COLL__MAC_BYTES);
}
