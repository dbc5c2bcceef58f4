/* Two different tuples of key parts never have the same bytes. */

#include <stdlib.h>

#include "rules/key.h"

#include "tests/support/prng.h"
#include "tests/unit/rules/support.h"

enum {
    CASES = 60000,
    PARTS = 3,
    VALUE_BYTES = 120
};

struct part {
    uint8_t kind; /* 0 text, 1 address, 2 address instead */
    size_t name_len;
    size_t value_len;
    uint8_t name[RULES_NAME_BYTES_MAX];
    uint8_t value[VALUE_BYTES];
};

struct tuple {
    size_t n;
    struct part parts[PARTS];
    size_t key_len;
    uint8_t key[RULES_KEY_BYTES_MAX];
};

static struct tuple tuples[CASES];
static struct tuple *order[CASES];

/** Few different bytes and lengths, so that near misses are many. */
static void part_make(struct prng *prng, struct part *part)
{
    static const size_t lens[] = {0, 1, 2, 3, 4, 8, 95, 96, 97, 98};

    part->kind = (uint8_t)prng_below(prng, 3);
    part->name_len = 1 + prng_below(prng, 3);
    memset(part->name, 'a', part->name_len);
    part->value_len = lens[prng_below(prng, 10)];
    for (size_t i = 0; i < part->value_len; i++) {
        part->value[i] = (uint8_t)(i < 94 && i > 3 ? 0 : prng_below(prng, 3));
    }
    if (part->kind > 0) {
        part->value_len = prng_below(prng, 2) > 0 ? 4 : 16;
        memset(part->value + 4, 0, 12); /* one group: only that much counts */
    }
}

static void tuple_encode(struct tuple *tuple)
{
    for (size_t i = 0; i < tuple->n; i++) {
        const struct part *part = &tuple->parts[i];
        struct rules_bytes name = {part->name, part->name_len};
        struct rules_bytes value = {part->value, part->value_len};
        uint8_t *out = tuple->key + tuple->key_len;

        tuple->key_len += part->kind == 0 ? rules_key_put_text(out, name, value)
                          : part->kind == 1
                              ? rules_key_put_address(out, name, value,
                                                      RULES_IP_PREFIX_DEFAULT)
                              : rules_key_put_instead(out, name, value,
                                                      RULES_IP_PREFIX_DEFAULT);
    }
}

static bool is_same(const struct tuple *a, const struct tuple *b)
{
    bool is_equal = a->n == b->n;

    for (size_t i = 0; is_equal && i < a->n; i++) {
        const struct part *p = &a->parts[i];
        const struct part *q = &b->parts[i];

        is_equal = p->kind == q->kind && p->name_len == q->name_len
                   && p->value_len == q->value_len
                   && memcmp(p->value, q->value, p->value_len) == 0;
    }
    return is_equal;
}

static int key_compare(const void *left, const void *right)
{
    const struct tuple *a = *(struct tuple *const *)left;
    const struct tuple *b = *(struct tuple *const *)right;

    if (a->key_len != b->key_len) {
        return a->key_len < b->key_len ? -1 : 1;
    }
    return memcmp(a->key, b->key, a->key_len);
}

static void test_injective(void **state)
{
    struct prng prng;
    uint64_t seed = prng_seed(5);
    size_t n_same = 0;

    (void)state;
    prng_init(&prng, seed);
    for (size_t i = 0; i < CASES; i++) {
        tuples[i].n = prng_below(&prng, PARTS + 1);
        for (size_t j = 0; j < tuples[i].n; j++) {
            part_make(&prng, &tuples[i].parts[j]);
        }
        tuple_encode(&tuples[i]);
        order[i] = &tuples[i];
    }
    qsort(order, CASES, sizeof order[0], key_compare);
    for (size_t i = 1; i < CASES; i++) {
        if (key_compare(&order[i - 1], &order[i]) == 0) {
            n_same++;
            if (!is_same(order[i - 1], order[i])) {
                fail_msg("SEED=%llu: tuples %td and %td", (unsigned long long)seed,
                         order[i - 1] - tuples, order[i] - tuples);
            }
        } else if (is_same(order[i - 1], order[i])) {
            fail_msg("SEED=%llu: one tuple, two keys", (unsigned long long)seed);
        }
    }
    assert_true(n_same > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_injective)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
