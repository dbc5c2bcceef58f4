/*
 * Laws of typed values: what is encoded decodes to the same, every cut of it is noticed
 * without a read past the end, and random bytes never are.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "spop/value.h"

#include "tests/support/guard_page.h"
#include "tests/support/prng.h"

enum {
    N_CASES = 50000,
    N_KINDS = 10,
    TEXT_CAP = 300,
    WIRE_CAP_BYTES = 512
};

static uint64_t seed;
static struct guard_page guard;

static void case_fail(unsigned n, const char *why)
{
    fail_msg("SEED=%llu, case %u: %s", (unsigned long long)seed, n, why);
}

static void value_draw(struct prng *p, uint8_t text[TEXT_CAP], struct spop_value *value)
{
    memset(value, 0, sizeof(*value));
    value->type = (enum spop_value_type)prng_below(p, N_KINDS);
    prng_fill(p, text, TEXT_CAP);
    switch (value->type) {
    case SPOP_VALUE_NULL:
        break;
    case SPOP_VALUE_BOOL:
        value->boolean = prng_below(p, 2) == 1;
        break;
    case SPOP_VALUE_INT32:
    case SPOP_VALUE_UINT32:
    case SPOP_VALUE_INT64:
    case SPOP_VALUE_UINT64:
        value->integer = prng_next(p) >> prng_below(p, 64);
        break;
    case SPOP_VALUE_IPV4:
        value->bytes = (struct spop_bytes){.ptr = text, .len = 4};
        break;
    case SPOP_VALUE_IPV6:
        value->bytes = (struct spop_bytes){.ptr = text, .len = 16};
        break;
    case SPOP_VALUE_STRING:
    case SPOP_VALUE_BINARY:
        value->bytes = (struct spop_bytes){.ptr = text, .len = prng_below(p, TEXT_CAP)};
        break;
    }
}

static bool value_has_bytes(const struct spop_value *value)
{
    return value->type >= SPOP_VALUE_IPV4;
}

static bool value_is_equal(const struct spop_value *a, const struct spop_value *b)
{
    if (a->type != b->type) {
        return false;
    }
    if (value_has_bytes(a)) {
        return a->bytes.len == b->bytes.len
               && memcmp(a->bytes.ptr, b->bytes.ptr, a->bytes.len) == 0;
    }
    if (a->type == SPOP_VALUE_BOOL) {
        return a->boolean == b->boolean;
    }
    return a->type == SPOP_VALUE_NULL || a->integer == b->integer;
}

static void guarded_decode(struct spop_reader *r, const uint8_t *bytes, size_t len,
                           struct spop_value *value)
{
    const uint8_t *place = guard_page_place(&guard, bytes, len);
    spop_reader_init(r, (struct spop_bytes){.ptr = place, .len = len});
    spop_value_decode(r, value);
}

static void random_values_come_back(void **state)
{
    (void)state;
    struct prng p;
    prng_init(&p, seed);
    for (unsigned n = 0; n < N_CASES; n++) {
        uint8_t text[TEXT_CAP];
        uint8_t wire[WIRE_CAP_BYTES];
        struct spop_value value;
        struct spop_value got = {0};
        struct spop_writer w;
        struct spop_reader r;
        value_draw(&p, text, &value);
        spop_writer_init(&w, wire, sizeof(wire));
        spop_value_encode(&w, &value);
        guarded_decode(&r, wire, w.len, &got);
        if (r.status != SPOP_OK || r.len != 0 || !value_is_equal(&value, &got)) {
            case_fail(n, "a value does not come back");
        }
        guarded_decode(&r, wire, prng_below(&p, w.len), &got);
        if (r.status != SPOP_ERR_SHORT || got.type != SPOP_VALUE_NULL) {
            case_fail(n, "a cut value is not noticed");
        }
    }
}

static void random_bytes_are_decoded_or_refused(void **state)
{
    (void)state;
    struct prng p;
    prng_init(&p, seed);
    for (unsigned n = 0; n < N_CASES; n++) {
        uint8_t bytes[32];
        struct spop_value value;
        struct spop_reader r;
        size_t len = prng_below(&p, sizeof(bytes) + 1);
        prng_fill(&p, bytes, len);
        guarded_decode(&r, bytes, len, &value);
        if (r.status != SPOP_OK && r.len != len) {
            case_fail(n, "an error moved the reader");
        }
        if (r.status == SPOP_OK && r.len >= len) {
            case_fail(n, "a value of no bytes");
        }
    }
}

int main(void)
{
    seed = prng_seed(20240902);
    guard_page_init(&guard, WIRE_CAP_BYTES);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_values_come_back),
        cmocka_unit_test(random_bytes_are_decoded_or_refused),
    };
    int n_failed = cmocka_run_group_tests(tests, NULL, NULL);
    guard_page_release(&guard);
    return n_failed;
}
