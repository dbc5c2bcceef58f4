/**
 * @file agent/redis/script.h  The Lua scripts: the store's `take` and `settle`, `lease` and
 *       `sync`, and `beat`.
 *
 * Model:     each algorithm stands as limit/NAME.lua beside its C twin and gives the same
 *            answers; redis/take.lua, settle.lua, lease.lua and sync.lua are what is done with
 *            them. The build puts one text a script together. Scripts run on the server's
 *            clock and are handed no time. All counters of a call are read, answered and
 *            written in it, so a call is all or nothing.
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
 *            lease: host (8) and ttl (4, in ms), then for each counter the limit, want (4),
 *            cap (4), divisor (2), the new lease's seq (4), how many reports (1), and for
 *            each of these seq (4) and spent (4). sync: host (8) and keep (4, in ms), then
 *            for each counter the limit, seq (4) and delta (4).
 *
 *            A reply is an array of integers. take: 1 if allowed, else 0; then for each
 *            charge flags (1 allowed, 2 charged, 4 its value was none and was replaced, 8
 *            it had no time to live and got one), remaining, reset, retry, window_end and
 *            delay as in struct limit_answer with -1 for LIMIT_NEVER, and place, 0 where
 *            not charged. A peek's charges have three more: remaining, reset and window_end
 *            of the counter as it stands. settle: flags for each charge (2 changed, 4 as
 *            above). lease: for each counter flags (4, 8 as above), what is granted and its
 *            place (0, 0: nothing), remaining, reset and window_end of the counter after
 *            it, what all its leases took together, and a bit for each report that came
 *            before its lease ended. sync: the server's time, then for each counter flags
 *            (2: delta was charged; 4, 8) and its state in three numbers, as struct
 *            limit_state has them: prev, curr, window; level, at, 0; or count, window, 0.
 *
 *            beat, which counts who lives: one key; "+NAME" lives, "-NAME" ends, "?" only
 *            asks. The reply is an integer: how many live.
 *
 *            Counters are strings: the algorithm's letter and its numbers, binary, and behind
 *            these records of what hosts hold (redis/records.lua). Each has a time to live,
 *            set with its value: a second longer than until it is as if untouched and the
 *            last record has ended. Commands that scripts call: TIME MGET SET PTTL PEXPIRE
 *            DEL, and beat ZADD ZREM ZREMRANGEBYSCORE ZCARD.
 *
 *            A lease is charged when it is granted: min(want, cap less what all leases of
 *            the counter took, what remains / divisor), if that is at least 2. A report
 *            ends it and gives back what was not spent, as settle does. One that nobody
 *            reports ends ttl after it was granted, and is taken back whole by the next
 *            script that opens the counter, a peek included: a report that comes later is
 *            not accepted. A call that is carried out twice grants the same lease once; its
 *            reports are accepted once.
 *
 *            An exchange of sync charges delta, which is never refused, but leaves a
 *            counter in debt of one size at most. For `keep` after it last came none of the
 *            same host, by a limit of the same requests and size, is charged whose seq is
 *            not after its seq (as serial numbers, modulo 2^32). With a delta of 0 nothing is
 *            charged or kept.
 *
 *            Only counters whose states have a fixed size have records: of sliding and
 *            fixed windows and token buckets. A counter has SCRIPT_RECORDS_MAX: where these
 *            are used up no lease is granted, and an exchange is charged each time it comes.
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
extern const struct script script_lease;
extern const struct script script_sync;

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

    SCRIPT_HOST_BYTES = 8,
    SCRIPT_RECORDS_MAX = 256,     /* of a counter; as records.lua says */
    SCRIPT_KEPT_MS_MAX = 60000,   /* of a record, likewise */
    SCRIPT_LEASE_LEAST = 2,       /* what is granted at least; as lease.lua says */
    SCRIPT_LEASE_KEYS_MAX = 64,   /* of a call */
    SCRIPT_LEASE_REPORTS_MAX = 4, /* on a counter, likewise */
    SCRIPT_LEASE_ORDER_BYTES_MAX = SCRIPT_LIMIT_BYTES_MAX + 15
                                   + 8 * SCRIPT_LEASE_REPORTS_MAX,
    SCRIPT_LEASE_BYTES_MAX = SCRIPT_HOST_BYTES + 4
                             + SCRIPT_LEASE_KEYS_MAX * SCRIPT_LEASE_ORDER_BYTES_MAX,
    SCRIPT_LEASE_NUMBERS = 8,
    SCRIPT_LEASE_REPLY_NUMBERS_MAX = SCRIPT_LEASE_KEYS_MAX * SCRIPT_LEASE_NUMBERS,
    SCRIPT_SYNC_KEYS_MAX = 64,
    SCRIPT_SYNC_BYTES_MAX = SCRIPT_HOST_BYTES + 4
                            + SCRIPT_SYNC_KEYS_MAX * (SCRIPT_LIMIT_BYTES_MAX + 8),
    SCRIPT_SYNC_NUMBERS = 4, /* of a counter; one more stands before them */
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

/** What a host says of one lease of its own. */
struct script_lease_report {
    uint32_t seq;
    int64_t spent; /* of its amount */
};

/** What a host wants of one counter, and what it has done with earlier leases. */
struct script_lease_order {
    const struct limit *limit; /* may have records (script_may_lease) */
    int64_t want;              /* 0: reports only */
    int64_t cap;               /* of all leases of the counter together */
    unsigned divisor;          /* of what remains: 1 to 65535 */
    uint32_t new_seq;          /* of the lease that is wanted: no other one of the host
                                * that may not have ended has it */
    unsigned n_reports;
    struct script_lease_report reports[SCRIPT_LEASE_REPORTS_MAX];
};

struct script_lease_reply {
    int64_t grant; /* 0: none; it ends ttl after the server answered */
    int64_t place;
    int64_t remaining; /* of the counter after all, as are reset and window_end */
    int64_t reset_us;
    int64_t window_end_us;
    int64_t out;       /* what its leases took together, the new one included */
    unsigned accepted; /* a bit for each report: 0: its lease was taken back */
};

/** Whether counters of a limit may be leased and synced. */
bool script_may_lease(const struct limit *limit);

/**
 * Write the argument of a call of leases.
 *
 * @param host      SCRIPT_HOST_BYTES that no other process has
 * @param ttl_ms    of what is granted: 1 to SCRIPT_KEPT_MS_MAX
 * @param now       as for script_encode_take
 * @param orders    1 to SCRIPT_LEASE_KEYS_MAX, each of another counter
 * @param out       room for SCRIPT_LEASE_BYTES_MAX
 * @return bytes written
 */
size_t script_encode_lease(const uint8_t *host, int64_t ttl_ms, struct instant now,
                           const struct script_lease_order *orders, unsigned n_orders,
                           uint8_t *out);

/**
 * Fill a reply for each order.
 *
 * @param repairs  added to
 * @return not SCRIPT_OK: the replies are not to be used
 */
MUST_USE enum script_status script_decode_lease(const int64_t *numbers,
                                                size_t n_numbers,
                                                const struct script_lease_order *orders,
                                                unsigned n_orders,
                                                struct script_lease_reply *replies,
                                                struct script_repairs *repairs);

/** What a host counted of one counter. */
struct script_sync_order {
    const struct limit *limit; /* as of a lease */
    uint32_t seq;              /* of this delta; the host's next one is larger */
    int64_t delta;             /* since the one before: 0 to LIMIT_AMOUNT_MAX */
};

struct script_sync_reply {
    bool is_charged;          /* now: else it had been before, or there was nothing */
    struct instant now;       /* of the server, when it answered */
    struct limit_state state; /* of the counter after it, on the server's clock */
};

/**
 * Write the argument of a call of sync.
 *
 * @param keep_ms  how long a call may come again: 1 to SCRIPT_KEPT_MS_MAX
 * @param orders   1 to SCRIPT_SYNC_KEYS_MAX, each of another counter
 * @param out      room for SCRIPT_SYNC_BYTES_MAX
 * @return bytes written
 */
size_t script_encode_sync(const uint8_t *host, int64_t keep_ms, struct instant now,
                          const struct script_sync_order *orders, unsigned n_orders,
                          uint8_t *out);

/**
 * Fill a reply for each order.
 *
 * @param repairs  added to
 * @return as script_decode_lease
 */
MUST_USE enum script_status script_decode_sync(const int64_t *numbers, size_t n_numbers,
                                               const struct script_sync_order *orders,
                                               unsigned n_orders,
                                               struct script_sync_reply *replies,
                                               struct script_repairs *repairs);

#endif
