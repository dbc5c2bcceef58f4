#include "rules/units.h"

#include <inttypes.h>
#include <string.h>

struct unit {
    const char *name;
    int64_t us;
};

static const struct unit units[] = {
    {"d", INT64_C(86400000000)},
    {"h", INT64_C(3600000000)},
    {"m", 60000000},
    {"s", 1000000},
    {"ms", 1000},
};

static const char *const calendar[] = {
    [RULES_MINUTE] = "minute", [RULES_HOUR] = "hour",   [RULES_DAY] = "day",
    [RULES_WEEK] = "week",     [RULES_MONTH] = "month",
};

enum {
    N_UNITS = sizeof units / sizeof units[0],
    N_CALENDAR = sizeof calendar / sizeof calendar[0],
};

static bool is_text(struct rules_bytes text, const char *name)
{
    return text.len == strlen(name) && memcmp(text.ptr, name, text.len) == 0;
}

/** Digits from the start of a text; their value stops growing above RULES_PER_US_MAX. */
static size_t digits_read(struct rules_bytes text, int64_t *value)
{
    size_t n = 0;

    *value = 0;
    for (; n < text.len && text.ptr[n] >= '0' && text.ptr[n] <= '9'; n++) {
        if (*value <= RULES_PER_US_MAX) {
            *value = *value * 10 + (text.ptr[n] - '0');
        }
    }
    return n > 1 && text.ptr[0] == '0' ? 0 : n;
}

enum rules_units_status rules_amount_parse(struct rules_bytes text, int64_t *amount)
{
    int64_t value;
    size_t n = digits_read(text, &value);

    if (n == 0 || n < text.len) {
        return RULES_UNITS_NOT_A_NUMBER;
    }
    if (value > RULES_AMOUNT_MAX) {
        return RULES_UNITS_OUT_OF_RANGE;
    }
    *amount = value;
    return RULES_UNITS_OK;
}

static int64_t unit_find_us(struct rules_bytes name)
{
    for (size_t i = 0; i < N_UNITS; i++) {
        if (is_text(name, units[i].name)) {
            return units[i].us;
        }
    }
    return 0;
}

bool rules_unit_parse(struct rules_bytes text, enum rules_unit *unit)
{
    for (size_t i = 0; i < N_CALENDAR; i++) {
        if (is_text(text, calendar[i])) {
            *unit = (enum rules_unit)i;
            return true;
        }
    }
    return false;
}

const char *rules_unit_name(enum rules_unit unit)
{
    return calendar[unit];
}

enum rules_units_status rules_span_parse(struct rules_bytes text, int64_t *span_us)
{
    int64_t value;
    size_t n = digits_read(text, &value);

    if (n == 0) {
        return RULES_UNITS_NOT_A_NUMBER;
    }
    if (n == text.len) {
        return RULES_UNITS_NO_UNIT;
    }

    int64_t unit_us = unit_find_us((struct rules_bytes){text.ptr + n, text.len - n});

    if (unit_us == 0) {
        return RULES_UNITS_NOT_A_NUMBER;
    }
    if (value > RULES_PER_US_MAX / unit_us || value * unit_us < RULES_PER_US_MIN) {
        return RULES_UNITS_OUT_OF_RANGE;
    }
    *span_us = value * unit_us;
    return RULES_UNITS_OK;
}

/** Decimals, up to `n_max`, as a whole number of the last one. @return how many */
static size_t decimals_read(struct rules_bytes text, size_t n_max, int64_t *value)
{
    size_t n = 0;

    *value = 0;
    for (size_t i = 0; i < n_max; i++) {
        bool is_digit = n == i && n < text.len && text.ptr[n] >= '0'
                        && text.ptr[n] <= '9';

        *value = *value * 10 + (is_digit ? text.ptr[n] - '0' : 0);
        n += is_digit;
    }
    return n;
}

/**
 * Digits, perhaps with decimals behind a point, from the start of a text.
 *
 * @param value  in units of the last decimal of `n_max`
 * @return how many bytes were read, 0 when that is no number
 */
static size_t number_read(struct rules_bytes text, size_t n_max, int64_t *value)
{
    int64_t decimals = 0;
    size_t n = digits_read(text, value);

    if (n > 0 && n < text.len && text.ptr[n] == '.') {
        size_t n_decimals = decimals_read((struct rules_bytes){text.ptr + n + 1,
                                                               text.len - n - 1},
                                          n_max, &decimals);

        n = n_decimals == 0 ? 0 : n + 1 + n_decimals;
    }
    for (size_t i = 0; i < n_max; i++) {
        *value = *value > RULES_PER_US_MAX ? *value : *value * 10;
    }
    *value += decimals;
    return n;
}

enum rules_units_status rules_factor_parse(struct rules_bytes text,
                                           struct rules_factor *factor)
{
    int64_t value;
    size_t n = number_read(text, 3, &value);

    if (n == 0 || text.len - n != 1 || text.ptr[n] != 'x') {
        return RULES_UNITS_NOT_A_NUMBER;
    }
    if (value > RULES_AMOUNT_MAX) {
        return RULES_UNITS_OUT_OF_RANGE;
    }
    factor->thousandths = value;
    return RULES_UNITS_OK;
}

int64_t rules_factor_apply(struct rules_factor factor, int64_t amount)
{
    return rules_amount_scale(amount, factor.thousandths, 1000);
}

int64_t rules_amount_scale(int64_t amount, int64_t to, int64_t from)
{
    return amount * to / from; /* at most 10^18 */
}

enum rules_units_status rules_share_parse(struct rules_bytes text, int32_t *permyriad)
{
    int64_t value;
    size_t n = number_read(text, 2, &value);

    if (n == 0) {
        return RULES_UNITS_NOT_A_NUMBER;
    }
    if (n == text.len) {
        return RULES_UNITS_NO_UNIT;
    }
    if (text.len - n != 1 || text.ptr[n] != '%') {
        return RULES_UNITS_NOT_A_NUMBER;
    }
    if (value > 10000) {
        return RULES_UNITS_OUT_OF_RANGE;
    }
    *permyriad = (int32_t)value;
    return RULES_UNITS_OK;
}

/** Write value / scale, a power of ten, with the decimals that it has, and a unit. */
static void decimal_print(int64_t value, int64_t scale, char unit,
                          char out[RULES_SPAN_TEXT_BYTES_MAX])
{
    int64_t rest = value % scale;
    char *end = out;

    (void)snprintf(out, RULES_SPAN_TEXT_BYTES_MAX, "%" PRId64, value / scale);
    end += strlen(out);
    if (rest > 0) {
        *end++ = '.';
    }
    while (rest > 0) {
        scale /= 10;
        *end++ = (char)('0' + rest / scale);
        rest %= scale;
    }
    *end++ = unit;
    *end = '\0';
}

void rules_share_print(int32_t permyriad, char out[RULES_SPAN_TEXT_BYTES_MAX])
{
    decimal_print(permyriad, 100, '%', out);
}

void rules_factor_print(struct rules_factor factor, char out[RULES_SPAN_TEXT_BYTES_MAX])
{
    decimal_print(factor.thousandths, 1000, 'x', out);
}

void rules_span_print(int64_t span_us, char out[RULES_SPAN_TEXT_BYTES_MAX])
{
    size_t i = 0;

    while (i + 1 < N_UNITS && span_us % units[i].us != 0) {
        i++;
    }
    (void)snprintf(out, RULES_SPAN_TEXT_BYTES_MAX, "%" PRId64 "%s",
                   span_us / units[i].us, units[i].name);
}

int64_t rules_tick_us(int64_t per_us)
{
    int64_t tick_us = 1;

    while (per_us > tick_us * RULES_TICKS_MAX) {
        tick_us *= 10;
    }
    return tick_us;
}
