#include "rules/units.h"

#include "tests/unit/rules/support.h"

static void test_amounts(void **state)
{
    int64_t amount = -5;

    (void)state;
    assert_int_equal(rules_amount_parse(bytes_of("0"), &amount), RULES_UNITS_OK);
    assert_int_equal(amount, 0);
    assert_int_equal(rules_amount_parse(bytes_of("1000000000"), &amount),
                     RULES_UNITS_OK);
    assert_int_equal(amount, RULES_AMOUNT_MAX);
    assert_int_equal(rules_amount_parse(bytes_of("1000000001"), &amount),
                     RULES_UNITS_OUT_OF_RANGE);
    assert_int_equal(rules_amount_parse(bytes_of("99999999999999999999999"), &amount),
                     RULES_UNITS_OUT_OF_RANGE);
    assert_int_equal(amount, RULES_AMOUNT_MAX);
}

static void test_no_amounts(void **state)
{
    static const char *const texts[] = {"",    "-1", "+1",  "1.5", "1e3", "0x10",
                                        "010", "00", "1_0", " 1",  "1 ",  "ten"};
    int64_t amount = -5;

    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        assert_int_equal(rules_amount_parse(bytes_of(texts[i]), &amount),
                         RULES_UNITS_NOT_A_NUMBER);
    }
    assert_int_equal(amount, -5);
}

static void test_spans(void **state)
{
    static const struct {
        const char *text;
        enum rules_units_status status;
        int64_t us;
    } cases[] = {
        {"1ms", RULES_UNITS_OK, 1000},
        {"60s", RULES_UNITS_OK, 60000000},
        {"5m", RULES_UNITS_OK, 300000000},
        {"24h", RULES_UNITS_OK, INT64_C(86400000000)},
        {"31d", RULES_UNITS_OK, RULES_PER_US_MAX},
        {"2678400s", RULES_UNITS_OK, RULES_PER_US_MAX},
        {"32d", RULES_UNITS_OUT_OF_RANGE, 0},
        {"2678400001ms", RULES_UNITS_OUT_OF_RANGE, 0},
        {"0s", RULES_UNITS_OUT_OF_RANGE, 0},
        {"99999999999999999999d", RULES_UNITS_OUT_OF_RANGE, 0},
        {"60", RULES_UNITS_NO_UNIT, 0},
        {"minute", RULES_UNITS_NOT_A_NUMBER, 0},
        {"1.5s", RULES_UNITS_NOT_A_NUMBER, 0},
        {"-1s", RULES_UNITS_NOT_A_NUMBER, 0},
        {"01s", RULES_UNITS_NOT_A_NUMBER, 0},
        {"1 s", RULES_UNITS_NOT_A_NUMBER, 0},
        {"1w", RULES_UNITS_NOT_A_NUMBER, 0},
        {"1S", RULES_UNITS_NOT_A_NUMBER, 0},
        {"s", RULES_UNITS_NOT_A_NUMBER, 0},
        {"", RULES_UNITS_NOT_A_NUMBER, 0},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int64_t us = 0;

        assert_int_equal(rules_span_parse(bytes_of(cases[i].text), &us),
                         cases[i].status);
        assert_int_equal(us, cases[i].us);
    }
}

static void test_print(void **state)
{
    static const char *const texts[] = {"1ms", "1500ms", "90s", "1m",
                                        "61m", "25h",    "31d"};
    char out[RULES_SPAN_TEXT_BYTES_MAX];
    int64_t us;

    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        assert_int_equal(rules_span_parse(bytes_of(texts[i]), &us), RULES_UNITS_OK);
        rules_span_print(us, out);
        assert_string_equal(out, texts[i]);
    }
}

static void test_ticks(void **state)
{
    (void)state;
    assert_int_equal(rules_tick_us(1000), 1);
    assert_int_equal(rules_tick_us(1000000), 1);
    assert_int_equal(rules_tick_us(1001000), 10);
    assert_int_equal(rules_tick_us(60000000), 100);
    assert_int_equal(rules_tick_us(RULES_PER_US_MAX), 10000000);
}

static const struct {
    const char *text;
    enum rules_units_status status;
    int32_t permyriad;
} shares[] = {
    {"0%", RULES_UNITS_OK, 0},
    {"5%", RULES_UNITS_OK, 500},
    {"0.01%", RULES_UNITS_OK, 1},
    {"12.5%", RULES_UNITS_OK, 1250},
    {"99.99%", RULES_UNITS_OK, 9999},
    {"100%", RULES_UNITS_OK, 10000},
    {"100.00%", RULES_UNITS_OK, 10000},
    {"100.01%", RULES_UNITS_OUT_OF_RANGE, 0},
    {"101%", RULES_UNITS_OUT_OF_RANGE, 0},
    {"99999999999999999999%", RULES_UNITS_OUT_OF_RANGE, 0},
    {"5", RULES_UNITS_NO_UNIT, 0},
    {"5.5", RULES_UNITS_NO_UNIT, 0},
    {"", RULES_UNITS_NOT_A_NUMBER, 0},
    {"%", RULES_UNITS_NOT_A_NUMBER, 0},
    {".5%", RULES_UNITS_NOT_A_NUMBER, 0},
    {"5.%", RULES_UNITS_NOT_A_NUMBER, 0},
    {"5.001%", RULES_UNITS_NOT_A_NUMBER, 0},
    {"05%", RULES_UNITS_NOT_A_NUMBER, 0},
    {"-5%", RULES_UNITS_NOT_A_NUMBER, 0},
    {"5 %", RULES_UNITS_NOT_A_NUMBER, 0},
    {"5%%", RULES_UNITS_NOT_A_NUMBER, 0},
};

static void test_shares(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof shares / sizeof shares[0]; i++) {
        int32_t permyriad = -7;

        assert_int_equal(rules_share_parse(bytes_of(shares[i].text), &permyriad),
                         shares[i].status);
        assert_int_equal(permyriad,
                         shares[i].status == RULES_UNITS_OK ? shares[i].permyriad : -7);
    }
}

static const struct {
    const char *text;
    enum rules_units_status status;
    int64_t of_1000; /* what 1000 becomes */
} factors[] = {
    {"10x", RULES_UNITS_OK, 10000},
    {"2.5x", RULES_UNITS_OK, 2500},
    {"0.001x", RULES_UNITS_OK, 1},
    {"0x", RULES_UNITS_OK, 0},
    {"1000000x", RULES_UNITS_OK, 1000000000},
    {"1000000.001x", RULES_UNITS_OUT_OF_RANGE, 0},
    {"99999999999999999999x", RULES_UNITS_OUT_OF_RANGE, 0},
    {"1.0001x", RULES_UNITS_NOT_A_NUMBER, 0},
    {"10", RULES_UNITS_NOT_A_NUMBER, 0},
    {"x", RULES_UNITS_NOT_A_NUMBER, 0},
    {"10X", RULES_UNITS_NOT_A_NUMBER, 0},
    {"1.x", RULES_UNITS_NOT_A_NUMBER, 0},
    {"-1x", RULES_UNITS_NOT_A_NUMBER, 0},
    {"", RULES_UNITS_NOT_A_NUMBER, 0},
};

static void test_factors(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof factors / sizeof factors[0]; i++) {
        struct rules_factor factor = {-7};

        assert_int_equal(rules_factor_parse(bytes_of(factors[i].text), &factor),
                         factors[i].status);
        if (factors[i].status == RULES_UNITS_OK) {
            assert_int_equal(rules_factor_apply(factor, 1000), factors[i].of_1000);
        } else {
            assert_int_equal(factor.thousandths, -7);
        }
    }
    assert_int_equal(rules_factor_apply((struct rules_factor){2500}, 3), 7);
    assert_int_equal(rules_amount_scale(RULES_AMOUNT_MAX, RULES_AMOUNT_MAX, 1),
                     RULES_AMOUNT_MAX * RULES_AMOUNT_MAX);
    assert_int_equal(rules_amount_scale(150, 60, 100), 90);
}

/** What is printed is read as the same number. */
static void test_decimals_print(void **state)
{
    static const char *const share_texts[] = {"0%", "0.01%", "0.5%", "33.33%", "100%"};
    static const char *const factor_texts[] = {"0x", "0.001x", "2.5x", "10x",
                                               "999999.999x"};

    (void)state;
    for (size_t i = 0; i < 5; i++) {
        char got[RULES_SPAN_TEXT_BYTES_MAX];
        struct rules_factor factor;
        int32_t permyriad;

        assert_int_equal(rules_share_parse(bytes_of(share_texts[i]), &permyriad),
                         RULES_UNITS_OK);
        rules_share_print(permyriad, got);
        assert_string_equal(got, share_texts[i]);
        assert_int_equal(rules_factor_parse(bytes_of(factor_texts[i]), &factor),
                         RULES_UNITS_OK);
        rules_factor_print(factor, got);
        assert_string_equal(got, factor_texts[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_amounts), cmocka_unit_test(test_no_amounts),
        cmocka_unit_test(test_spans),   cmocka_unit_test(test_print),
        cmocka_unit_test(test_ticks),   cmocka_unit_test(test_shares),
        cmocka_unit_test(test_factors), cmocka_unit_test(test_decimals_print),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
