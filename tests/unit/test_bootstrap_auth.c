/* The proofs: right ones are accepted, and nothing else is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "bootstrap/auth.h"
#include "coll.h"

typedef struct talk {
    coll__key_t key;
    coll__greeting_t client, hub;
    coll__proof_t claim;
} talk_t;

static talk_t new_talk(const char *secret) {
    talk_t talk = {.claim = {.rank = 3, .size = 8}};
    assert_int_equal(coll__auth_key(secret, &talk.key), 0);
    coll__auth_greet(&talk.client);
    coll__auth_greet(&talk.hub);
    return talk;
}

static void prove(const talk_t *talk, coll__auth_side_t side, unsigned char mac[COLL__MAC_BYTES]) {
    coll__auth_prove(&talk->key, side, &talk->client, &talk->hub, &talk->claim, mac);
}

static void test_every_part_counts(void **state) {
    (void)state;
    talk_t talk = new_talk("secret");
    unsigned char right[COLL__MAC_BYTES], other[COLL__MAC_BYTES];
    prove(&talk, COLL__AUTH_CLIENT, right);
    prove(&talk, COLL__AUTH_CLIENT, other);
    assert_true(coll__auth_equal(right, other));

    prove(&talk, COLL__AUTH_HUB, other); /* what one side says is not what the other has to say */
    assert_false(coll__auth_equal(right, other));

    /* Any bit of what both know changes the proof. */
    unsigned char *bytes = (unsigned char *)&talk;
    const size_t end = offsetof(talk_t, claim) + offsetof(coll__proof_t, mac);
    for (size_t i = 0; i < end; i++) {
        bytes[i] ^= 1;
        prove(&talk, COLL__AUTH_CLIENT, other);
        assert_false(coll__auth_equal(right, other));
        bytes[i] ^= 1;
    }
    for (size_t i = 0; i < COLL__MAC_BYTES; i++) {
        memcpy(other, right, sizeof other);
        other[i] ^= 0x80;
        assert_false(coll__auth_equal(right, other));
    }
}

static void test_nonces_are_fresh(void **state) {
    (void)state;
    coll__greeting_t a, b;
    coll__auth_greet(&a);
    coll__auth_greet(&b);
    assert_memory_not_equal(a.nonce, b.nonce, sizeof a.nonce);
    assert_int_equal(coll__auth_check_version(&a, "it"), 0);
}

static void test_secrets_give_different_keys(void **state) {
    (void)state;
    coll__key_t a, b;
    const char *const others[] = {"", "secre", "secret ", "Secret"};
    assert_int_equal(coll__auth_key("secret", &a), 0);
    assert_int_equal(coll__auth_key("secret", &b), 0);
    assert_memory_equal(&a, &b, sizeof a);
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(coll__auth_key(others[i], &b), 0);
        assert_memory_not_equal(&a, &b, sizeof a);
    }
}

static void test_versions_must_be_equal(void **state) {
    (void)state;
    coll__greeting_t theirs;
    coll__auth_greet(&theirs);
    assert_true(coll__auth_is_greeting(&theirs));
    strcpy(theirs.version, "9.8.7");
    assert_true(coll__auth_is_greeting(&theirs));
    assert_int_equal(coll__auth_check_version(&theirs, "rank 0 at there:1"), COLL_ERR_BOOTSTRAP);
    assert_non_null(strstr(coll_error_message(), "rank 0 at there:1"));
    assert_non_null(strstr(coll_error_message(), "9.8.7"));
    assert_non_null(strstr(coll_error_message(), coll_version()));

    coll__auth_greet(&theirs);
    theirs.protocol = COLL__PROTOCOL + 1;
    assert_int_equal(coll__auth_check_version(&theirs, "it"), COLL_ERR_BOOTSTRAP);

    memset(theirs.version, 'x', sizeof theirs.version); /* a text without an end is not printed */
    assert_false(coll__auth_is_greeting(&theirs));
    coll__auth_greet(&theirs);
    theirs.magic[0] = 'L';
    assert_false(coll__auth_is_greeting(&theirs));
}

static void test_derived_values_differ_by_purpose(void **state) {
    (void)state;
    talk_t talk = new_talk("secret");
    unsigned char a[COLL__MAC_BYTES], b[COLL__MAC_BYTES];
    coll__auth_derive(&talk.key, "name", "12", 2, a);
    coll__auth_derive(&talk.key, "name", "12", 2, b);
    assert_true(coll__auth_equal(a, b));
    coll__auth_derive(&talk.key, "name1", "2", 1, b);
    assert_false(coll__auth_equal(a, b));
    coll__auth_derive(&talk.key, "name", "13", 2, b);
    assert_false(coll__auth_equal(a, b));
    talk = new_talk("another");
    coll__auth_derive(&talk.key, "name", "12", 2, b);
    assert_false(coll__auth_equal(a, b));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_part_counts),
        cmocka_unit_test(test_nonces_are_fresh),
        cmocka_unit_test(test_secrets_give_different_keys),
        cmocka_unit_test(test_versions_must_be_equal),
        cmocka_unit_test(test_derived_values_differ_by_purpose),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
