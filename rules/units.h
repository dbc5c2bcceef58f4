/**
 * @file rules/units.h  Numbers with a meaning: amounts, spans of time, ticks.
 *
 * Model:     text of a file <-> int64_t in a stated unit. No locale, no strtol.
 * Ownership: nothing is kept.
 * Threads:   no shared state.
 * Errors:    a closed enum; outputs are untouched then.
 * Limits:    amounts 0 to RULES_AMOUNT_MAX; spans 1 ms to 31 days.
 */
#ifndef RULES_UNITS_H
#define RULES_UNITS_H

#include "rules/rules.h"

#define RULES_PER_US_MIN INT64_C(1000)
#define RULES_PER_US_MAX (INT64_C(31) * 86400 * 1000000)

enum {
    RULES_TICKS_MAX = 1000000, /* per in ticks: products then stay exact in 2^53 */
    RULES_SPAN_TEXT_BYTES_MAX = 32,
};

enum rules_units_status {
    RULES_UNITS_OK = 0,
    RULES_UNITS_NOT_A_NUMBER,
    RULES_UNITS_OUT_OF_RANGE,
    RULES_UNITS_NO_UNIT, /* a span: digits alone */
};

/**
 * Read a whole number, digits only, no leading zero.
 *
 * @errors RULES_UNITS_NOT_A_NUMBER, RULES_UNITS_OUT_OF_RANGE (over RULES_AMOUNT_MAX)
 */
RULES_MUST_USE enum rules_units_status rules_amount_parse(struct rules_bytes text,
                                                          int64_t *amount);

/** Read minute, hour, day, week or month. @return false when it is none of them */
RULES_MUST_USE bool rules_unit_parse(struct rules_bytes text, enum rules_unit *unit);
const char *rules_unit_name(enum rules_unit unit);

/**
 * Read a whole number with ms, s, m, h or d behind it.
 *
 * @errors all but RULES_UNITS_OK
 */
RULES_MUST_USE enum rules_units_status rules_span_parse(struct rules_bytes text,
                                                        int64_t *span_us);

/**
 * Read a share: a number from 0 to 100 with at most two decimals and % behind it.
 *
 * @param permyriad  hundredths of a percent, 0 to 10000
 * @errors RULES_UNITS_NOT_A_NUMBER, RULES_UNITS_OUT_OF_RANGE, RULES_UNITS_NO_UNIT
 */
RULES_MUST_USE enum rules_units_status rules_share_parse(struct rules_bytes text,
                                                         int32_t *permyriad);

/** Write hundredths of a percent as rules_share_parse reads them. */
void rules_share_print(int32_t permyriad, char out[RULES_SPAN_TEXT_BYTES_MAX]);

/** A factor as a fraction: numerator / 1000. */
struct rules_factor {
    int64_t thousandths;
};

/**
 * Read a number with at most three decimals and x behind it: 10x, 2.5x.
 *
 * @errors RULES_UNITS_NOT_A_NUMBER, RULES_UNITS_OUT_OF_RANGE (over 10^9 thousandths)
 */
RULES_MUST_USE enum rules_units_status rules_factor_parse(struct rules_bytes text,
                                                          struct rules_factor *factor);

/** Write a factor as rules_factor_parse reads it. */
void rules_factor_print(struct rules_factor factor,
                        char out[RULES_SPAN_TEXT_BYTES_MAX]);

/** @return amount x factor, rounded down */
int64_t rules_factor_apply(struct rules_factor factor, int64_t amount);

/** @return amount x to / from, rounded down; all at most RULES_AMOUNT_MAX, from not 0 */
int64_t rules_amount_scale(int64_t amount, int64_t to, int64_t from);

/** Write a span as rules_span_parse reads it, in the largest unit that is exact. */
void rules_span_print(int64_t span_us, char out[RULES_SPAN_TEXT_BYTES_MAX]);

/** @return the smallest power of ten of 1 us that leaves at most RULES_TICKS_MAX */
int64_t rules_tick_us(int64_t per_us);

#endif
