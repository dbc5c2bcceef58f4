/**
 * @file rules/time.h  Dates and moments of a file, as Unix time.
 *
 * Model:     text <-> seconds since the epoch, UTC, proleptic Gregorian. No locale, no
 *            time zone, no clock.
 * Ownership: nothing is kept.
 * Threads:   no shared state.
 * Errors:    false; outputs are untouched then.
 * Limits:    years 1970 to 9999.
 */
#ifndef RULES_TIME_H
#define RULES_TIME_H

#include "rules/rules.h"

/** Later than any moment: what never ends, ends then. */
#define RULES_NEVER_S INT64_MAX

/**
 * Read 2027-01-31, which is its 00:00:00, or 2027-01-31T12:30:00Z.
 *
 * @return false for anything else, and for days and times that do not exist
 */
RULES_MUST_USE bool rules_time_parse(struct rules_bytes text, int64_t *at_s);

enum {
    RULES_TIME_TEXT_BYTES_MAX = 32
};

/** Write a moment as rules_time_parse reads it: a date where it is its 00:00:00. */
void rules_time_print(int64_t at_s, char out[RULES_TIME_TEXT_BYTES_MAX]);

#endif
