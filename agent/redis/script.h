/**
 * @file agent/redis/script.h  The Lua scripts: the store's `take` and `settle`, and `beat`.
 *
 * Model:     each algorithm stands as limit/NAME.lua beside its C twin and gives the same
 *            answers; redis/take.lua and redis/settle.lua are what is done with them. The
 *            build puts one text a script together. Scripts run on the server's clock and
 *            are handed no time. All counters of a call are read, answered and written in
 *            it, so a call is all or nothing.
 *
 *            A call is EVALSHA sha1 n KEYS... ARGUMENT: a key for each charge, in order,
 *            and one argument of records, numbers big-endian and unsigned.
 *            Times are in us, lengths of windows in ticks.
 *
 *            | record of a limit | bytes |                                            |
 *            | ----------------- | ----- | ------------------------------------------ |
 *            | algorithm         | 1     | enum limit_algorithm                       |
 *            | flags             | 1     | 1: lenient; 128: follows the calendar      |
 *            | requests, size    | 4, 4  |                                            |
 *            | W, tick           | 4, 4  | per_ticks, tick_us                         |
 *            | max_delay         | 4     | max_delay_ticks                            |
 *            | starts            | 8 x 3 | with the flag 128 only: when the calendar's|
 *            |                   |       | window begins and the next two do, in s of |
 *            |                   |       | the wall clock                             |
 *
 *            take: a byte, 1 for a peek; then for each charge the limit, tie (1) and cost
 *            (4). settle: for each charge the limit, place (8), amount (4), truth (4).
 *
 *            A reply is an array of integers. take: 1 if allowed, else 0; then for each
 *            charge flags (1 allowed, 2 charged, 4 its value was none and was replaced, 8
 *            it had no time to live and got one), remaining, reset, retry, window_end and
 *            delay as in struct limit_answer with -1 for LIMIT_NEVER, and place, 0 where
 *            not charged. A peek's charges have three more: remaining, reset and window_end
 *            of the counter as it stands. settle: flags for each charge (2 changed, 4 as
 *            above).
 *
 *            beat, which counts who lives: one key; "+NAME" lives, "-NAME" ends, "?" only
 *            asks. The reply is an integer: how many live.
 *
 *            Counters are strings: the algorithm's letter and its numbers, binary. Each has
 *            a time to live, set with its value: a second longer than until it is as if
 *            untouched. Commands that scripts call: TIME MGET SET PTTL PEXPIRE DEL, and
 *            beat ZADD ZREM ZREMRANGEBYSCORE ZCARD.
 * Ownership: writes into the caller's room; keeps nothing.
 * Threads:   no shared state.
 * Errors:    what a server says is checked in full: a reply of another shape, or with
 *            numbers that contradict each other, is none.
 * Limits:    Redis 5.0 or newer.
 */
#ifndef AGENT_REDIS_SCRIPT_H
#define AGENT_REDIS_SCRIPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/store/store.h"

struct script {
    const char *text; /* not terminated */
    size_t text_bytes;
    const char *sha1; /* of the text, as EVALSHA takes it */
};

extern const struct script script_take;
extern const struct script script_settle;
extern const struct script script_beat;

enum {
    SCRIPT_LIMIT_BYTES_MIN = 22,
    SCRIPT_LIMIT_BYTES_MAX = SCRIPT_LIMIT_BYTES_MIN + 8 * CALENDAR_UPCOMING,
    SCRIPT_CHARGE_MORE_BYTES = 5, /* tie and cost */
    SCRIPT_CHARGE_BYTES_MAX = SCRIPT_LIMIT_BYTES_MAX + SCRIPT_CHARGE_MORE_BYTES,
    SCRIPT_TAKE_BYTES_MAX = 1 + STORE_CHARGES_MAX * SCRIPT_CHARGE_BYTES_MAX,
    SCRIPT_SETTLEMENT_BYTES_MAX = SCRIPT_LIMIT_BYTES_MAX + 16,

    SCRIPT_CHARGE_NUMBERS = 7,
    SCRIPT_PEEK_NUMBERS = SCRIPT_CHARGE_NUMBERS + 3,
    SCRIPT_REPLY_NUMBERS_MAX = 1 + STORE_CHARGES_MAX * SCRIPT_PEEK_NUMBERS,
};

enum script_status {
    SCRIPT_OK = 0,
    SCRIPT_BAD_LENGTH, /* more or fewer numbers than the call has answers */
    SCRIPT_BAD_NUMBER, /* one that no script says */
};

/** What scripts found amiss. */
struct script_repairs {
    unsigned
        n_values;    /* keys that held something else than a state of their algorithm */
    unsigned n_ttls; /* keys without a time to live */
};

/**
 * Write the argument of a take.
 *
 * @param take  has 1 to STORE_CHARGES_MAX charges. `now` only says which windows of
 *              calendars to send.
 * @param out   room for SCRIPT_TAKE_BYTES_MAX
 * @return bytes written
 */
size_t script_encode_take(const struct store_take *take, uint8_t *out);

/**
 * Fill the answers of a take from a reply.
 *
 * @param repairs  added to
 * @return not SCRIPT_OK: the answers are not to be used
 */
MUST_USE enum script_status script_decode_take(const int64_t *numbers, size_t n_numbers,
                                               struct store_take *take,
                                               struct script_repairs *repairs);

/**
 * Write what the argument of settlements has for one of them.
 *
 * @param out  room for SCRIPT_SETTLEMENT_BYTES_MAX
 * @return bytes written
 */
size_t script_encode_settlement(const struct store_settlement *settlement,
                                uint8_t *out);

/**
 * The same for giving back a charge, whose limit may be gone.
 *
 * @param take  the argument that script_encode_take wrote; idx: which charge of it
 */
size_t script_encode_giving_back(const uint8_t *take, unsigned idx, int64_t place,
                                 int64_t amount, uint8_t *out);

/**
 * Read the reply to settlements.
 *
 * @param n          how many were sent
 * @param n_changed  how many were not too late
 * @param repairs    added to
 */
MUST_USE enum script_status script_decode_settlements(const int64_t *numbers,
                                                      size_t n_numbers, size_t n,
                                                      unsigned *n_changed,
                                                      struct script_repairs *repairs);

#endif
