/*
 * Laws of the varint: every accepted string is the only encoding of its value; what is
 * refused does not fit; every value comes back.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "spop/varint.h"

#include "tests/support/guard_page.h"
#include "tests/support/prng.h"

enum {
    N_CASES = 300000,
    STRING_CAP = 14,
    N_LIMBS = 4
};

static uint64_t seed;

/* Bytes that mean "more" are likely, so that long and overlong strings come up. */
static size_t string_draw(struct prng *p, uint8_t buf[STRING_CAP])
{
    size_t len = prng_below(p, STRING_CAP + 1);
    prng_fill(p, buf, len);
    for (size_t i = 0; i < len; i++) {
        if (prng_below(p, 10) > 0) {
            buf[i] |= i == 0 ? 0xf0 : 0x80;
        }
        if (i == 9 && prng_below(p, 2) == 0) {
            buf[i] &= 0x0f;
        }
    }
    return len;
}

/* The definition, in arithmetic wide enough for any string drawn: 32 bits a limb. */
static void wide_add(uint32_t limbs[N_LIMBS], uint8_t byte, unsigned shift)
{
    uint64_t carry = (uint64_t)byte << (shift % 32);
    for (size_t i = shift / 32; i < N_LIMBS; i++) {
        carry += limbs[i];
        limbs[i] = (uint32_t)carry;
        carry >>= 32;
    }
}

static enum spop_status reference_decode(struct spop_bytes in, uint64_t *value)
{
    uint32_t limbs[N_LIMBS] = {0};
    unsigned shift = 0;
    for (size_t i = 0; i < in.len; i++) {
        wide_add(limbs, in.ptr[i], shift);
        if (limbs[2] || limbs[3]) {
            return SPOP_ERR_VARINT;
        }
        if (in.ptr[i] < (i == 0 ? 240 : 128)) {
            *value = (uint64_t)limbs[1] << 32 | limbs[0];
            return SPOP_OK;
        }
        shift += i == 0 ? 4 : 7;
    }
    return SPOP_ERR_SHORT;
}

static void case_fail(unsigned n, const char *why)
{
    fail_msg("SEED=%llu, case %u: %s", (unsigned long long)seed, n, why);
}

static void string_check(unsigned n, struct spop_bytes in)
{
    uint64_t want = 0;
    uint64_t got = 0;
    size_t n_bytes = 0;
    enum spop_status status = spop_varint_decode(in, &got, &n_bytes);
    if (status != reference_decode(in, &want)) {
        case_fail(n, "not what the definition says");
    }
    if (status != SPOP_OK) {
        return;
    }
    uint8_t buf[SPOP_VARINT_BYTES_MAX];
    size_t len = spop_varint_encode(got, buf);
    if (got != want) {
        case_fail(n, "wrong value");
    }
    if (len != n_bytes || memcmp(buf, in.ptr, len) != 0) {
        case_fail(n, "a second encoding");
    }
}

static void random_strings_obey_the_definition(void **state)
{
    (void)state;
    struct prng p;
    struct guard_page guard;
    prng_init(&p, seed);
    guard_page_init(&guard, STRING_CAP);
    for (unsigned n = 0; n < N_CASES; n++) {
        uint8_t buf[STRING_CAP];
        size_t len = string_draw(&p, buf);
        const uint8_t *place = guard_page_place(&guard, buf, len);
        string_check(n, (struct spop_bytes){.ptr = place, .len = len});
    }
    guard_page_release(&guard);
}

static void random_values_come_back(void **state)
{
    (void)state;
    struct prng p;
    prng_init(&p, seed);
    for (unsigned n = 0; n < N_CASES; n++) {
        uint64_t value = prng_next(&p) >> prng_below(&p, 64);
        uint8_t buf[SPOP_VARINT_BYTES_MAX];
        uint64_t got = 0;
        size_t n_bytes = 0;
        size_t len = spop_varint_encode(value, buf);
        struct spop_bytes in = {.ptr = buf, .len = len};
        if (len > SPOP_VARINT_BYTES_MAX
            || spop_varint_decode(in, &got, &n_bytes) != SPOP_OK || got != value
            || n_bytes != len) {
            case_fail(n, "a value does not come back");
        }
    }
}

int main(void)
{
    seed = prng_seed(20240901);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_strings_obey_the_definition),
        cmocka_unit_test(random_values_come_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
