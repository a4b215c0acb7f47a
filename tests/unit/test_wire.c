/* Headers that arrive: what is valid, and what is wrong with everything else. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "p2p/wire.h"

static coll__wire_header_t header_of(coll__wire_kind_t kind, size_t bytes) {
    return (coll__wire_header_t){.kind = (uint8_t)kind, .version = COLL__WIRE_VERSION, .bytes = bytes};
}

static void valid(void **state) {
    (void)state;
    for (int kind = COLL__WIRE_EAGER; kind < COLL__WIRE_KINDS; kind++) {
        coll__wire_header_t header = header_of(kind, kind == COLL__WIRE_EAGER ? 24 : SIZE_MAX);
        header.credits = UINT16_MAX;
        header.comm = header.match = header.fingerprint = UINT64_MAX;
        header.id = header.bulk_id = UINT32_MAX;
        assert_null(coll__wire_check(&header, sizeof header + (kind == COLL__WIRE_EAGER ? 24 : 0)));
    }
    coll__wire_header_t empty = header_of(COLL__WIRE_EAGER, 0);
    assert_null(coll__wire_check(&empty, sizeof empty));
}

static void short_packets(void **state) {
    (void)state;
    coll__wire_header_t header = header_of(COLL__WIRE_CREDIT, 0);
    for (size_t bytes = 0; bytes < sizeof header; bytes++)
        assert_string_equal(coll__wire_check(&header, bytes), "it is shorter than a header");
}

static void wrong_fields(void **state) {
    (void)state;
    coll__wire_header_t header = header_of(COLL__WIRE_RTS, 100);
    header.version++;
    assert_string_equal(coll__wire_check(&header, sizeof header), "its version is another one");
    for (int kind = 0; kind < 256; kind++) {
        header = header_of((coll__wire_kind_t)kind, 0);
        const char *wrong = coll__wire_check(&header, sizeof header);
        if (kind >= COLL__WIRE_EAGER && kind < COLL__WIRE_KINDS)
            assert_null(wrong);
        else
            assert_string_equal(wrong, "its kind is unknown");
    }
    header = header_of(COLL__WIRE_NACK, 0);
    header.zero = 1;
    assert_string_equal(coll__wire_check(&header, sizeof header), "its reserved field is not zero");
}

static void wrong_lengths(void **state) {
    (void)state;
    static const char *const text = "its length is not the one that its header says";
    coll__wire_header_t eager = header_of(COLL__WIRE_EAGER, 24), control = header_of(COLL__WIRE_CTS, 0);
    assert_string_equal(coll__wire_check(&eager, sizeof eager + 23), text);
    assert_string_equal(coll__wire_check(&eager, sizeof eager + 25), text);
    assert_string_equal(coll__wire_check(&eager, sizeof eager), text);
    eager.bytes = UINT64_MAX;
    assert_string_equal(coll__wire_check(&eager, sizeof eager + 24), text);
    assert_string_equal(coll__wire_check(&control, sizeof control + 1), text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(valid),
        cmocka_unit_test(short_packets),
        cmocka_unit_test(wrong_fields),
        cmocka_unit_test(wrong_lengths),
    };
    return cmocka_run_group_tests_name("wire", tests, NULL, NULL);
}
