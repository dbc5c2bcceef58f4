/*
 * Amounts and spans of a rules file.
 *
 * Laws:      what is accepted is within its range, is printed so that it reads back the
 *            same, and agrees with a reader that knows only digits; what is refused leaves
 *            the output alone. Ticks are the smallest that fit.
 * Must reach: every status of units.h, every unit.
 */
#include <inttypes.h>

#include "rules/units.h"

#include "tests/fuzz/fuzz.h"

enum {
    INPUT_BYTES_MAX = 64,
    UNTOUCHED = -7
};

static struct rules_bytes bytes_of(const char *text)
{
    return (struct rules_bytes){.ptr = (const uint8_t *)text, .len = strlen(text)};
}

/* The number that all of `text` is; -1 for none, or one of more than 12 digits. */
static int64_t slow_number(const uint8_t *text, size_t len)
{
    int64_t number = 0;
    if (len == 0 || len > 12 || (len > 1 && text[0] == '0')) {
        return -1;
    }
    for (size_t i = 0; i < len; i++) {
        if (text[i] < '0' || text[i] > '9') {
            return -1;
        }
        number = number * 10 + (text[i] - '0');
    }
    return number;
}

static void check_amount(struct rules_bytes text)
{
    char printed[RULES_SPAN_TEXT_BYTES_MAX];
    int64_t amount = UNTOUCHED;
    int64_t again = UNTOUCHED;
    int64_t slow = slow_number(text.ptr, text.len);
    enum rules_units_status status = rules_amount_parse(text, &amount);
    FUZZ_CHECK((status == RULES_UNITS_OK) == (slow >= 0 && slow <= RULES_AMOUNT_MAX));
    if (status != RULES_UNITS_OK) {
        FUZZ_CHECK(amount == UNTOUCHED);
        return;
    }
    FUZZ_CHECK(amount == slow);
    (void)snprintf(printed, sizeof(printed), "%" PRId64, amount);
    FUZZ_CHECK(rules_amount_parse(bytes_of(printed), &again) == RULES_UNITS_OK);
    FUZZ_CHECK(again == amount);
}

static void check_ticks(int64_t span_us)
{
    int64_t tick_us = rules_tick_us(span_us);
    FUZZ_CHECK(span_us / tick_us <= RULES_TICKS_MAX);
    FUZZ_CHECK(tick_us == 1 || span_us > tick_us / 10 * RULES_TICKS_MAX);
}

/* The span that `text` is; -1 for none. */
static int64_t slow_span_us(struct rules_bytes text)
{
    static const struct {
        const char *name;
        int64_t us;
    } units[] = {{"ms", 1000},
                 {"s", 1000000},
                 {"m", 60000000},
                 {"h", INT64_C(3600000000)},
                 {"d", INT64_C(86400000000)}};
    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
        size_t len = strlen(units[i].name);
        int64_t n = text.len > len ? slow_number(text.ptr, text.len - len) : -1;
        if (n >= 0 && memcmp(text.ptr + text.len - len, units[i].name, len) == 0
            && n <= RULES_PER_US_MAX / units[i].us) {
            return n * units[i].us;
        }
    }
    return -1;
}

static void check_span(struct rules_bytes text)
{
    char printed[RULES_SPAN_TEXT_BYTES_MAX];
    int64_t span_us = UNTOUCHED;
    int64_t again = UNTOUCHED;
    int64_t slow = slow_span_us(text);
    enum rules_units_status status = rules_span_parse(text, &span_us);
    FUZZ_CHECK((status == RULES_UNITS_OK) == (slow >= RULES_PER_US_MIN));
    if (status != RULES_UNITS_OK) {
        FUZZ_CHECK(span_us == UNTOUCHED);
        return;
    }
    FUZZ_CHECK(span_us == slow && span_us <= RULES_PER_US_MAX);
    rules_span_print(span_us, printed);
    FUZZ_CHECK(rules_span_parse(bytes_of(printed), &again) == RULES_UNITS_OK);
    FUZZ_CHECK(again == span_us);
    FUZZ_CHECK(strlen(printed) <= text.len); /* in the largest unit */
    check_ticks(span_us);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    if (len > INPUT_BYTES_MAX) {
        return 0;
    }
    uint8_t *copy = fuzz_copy(data, len);
    struct rules_bytes text = {.ptr = copy, .len = len};
    check_amount(text);
    check_span(text);
    free(copy);
    return 0;
}
