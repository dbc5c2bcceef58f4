/**
 * @file agent/limit/limit.h  What a limit means: arithmetic on (state, now, cost).
 *
 * Model:     pure functions. Time is cut into ticks of tick_us, W = per_ticks of them in
 *            `per`; with amounts of at most 10^9 and W at most 10^6 every product is
 *            exact below 2^53. Division is used to cut elapsed time and to answer
 *            remaining (down), reset and retry (up).
 * Ownership: none; a state is 16 bytes that a store keeps. All zero is an untouched
 *            counter.
 * Threads:   no shared state.
 * Errors:    none; limits are checked when rules are loaded.
 */
#ifndef AGENT_LIMIT_LIMIT_H
#define AGENT_LIMIT_LIMIT_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/base.h"
#include "agent/clock.h"
#include "agent/limit/calendar.h"

/** A wait that never ends. */
#define LIMIT_NEVER INT64_MAX

/** Longer waits (over 31 years) are answered as this. */
#define LIMIT_WAIT_US_MAX INT64_C(1000000000000000)

/** Largest requests, size or cost. */
#define LIMIT_AMOUNT_MAX INT64_C(1000000000)

/** Clocks of workers and hosts may differ by this much; more is a step of the clock. */
#define LIMIT_CLOCK_SLACK_US US_PER_S

enum limit_algorithm {
    LIMIT_SLIDING_WINDOW = 0,
    LIMIT_TOKEN_BUCKET,
    LIMIT_FIXED_WINDOW,
    LIMIT_LEAKY_BUCKET,
    LIMIT_SLIDING_LOG, /* has functions of its own: sliding_log.h */
};

enum {
    LIMIT_ALGORITHMS = LIMIT_LEAKY_BUCKET + 1 /* of the functions here */
};

struct limit {
    enum limit_algorithm algorithm;
    int64_t requests;  /* 0 to 10^9 in `per` */
    int64_t size;      /* most at once: burst of a token bucket, limit_leaky_size of a
                        * leaky one, else requests */
    int64_t per_ticks; /* W: 1 to 10^6 */
    int64_t tick_us;   /* a power of ten */
    int64_t max_delay_ticks;         /* D: of a leaky bucket, at most W */
    const struct calendar *calendar; /* of a fixed window that follows the calendar;
                                      * `per` is then their usual length. NULL: none does */
};

struct limit_state {
    union {
        struct {
            uint32_t prev;  /* charged in the window before */
            uint32_t curr;  /* charged in `window` */
            int64_t window; /* number of the window since the epoch */
        } sliding;
        struct {
            int64_t level;    /* used tokens x W */
            int64_t at_ticks; /* when level was right */
        } bucket;
        struct {
            uint32_t count; /* charged in `window` */
            uint32_t zero;
            int64_t window; /* since the epoch; of a calendar: wall-clock start, in s */
        } fixed;
        struct {
            uint32_t first; /* block of the oldest event; 0: none */
            uint32_t last;  /* block of the newest */
            uint16_t used;  /* what all events cost, also those that are out */
            uint8_t first_at;
            uint8_t last_n; /* events in the last block */
            uint32_t zero;
        } log;
        uint64_t events[2]; /* of a log, on the way from one store to another */
    };
};

/** What a limit says about one cost at one moment; waits from that moment, in us. */
struct limit_answer {
    bool is_allowed;
    int64_t remaining;     /* the largest cost that would still pass now */
    int64_t reset_us;      /* until the counter is as if untouched */
    int64_t retry_us;      /* refused: least wait for this cost alone, or LIMIT_NEVER */
    int64_t window_end_us; /* windows: until the current one ends */
    int64_t delay_us;      /* leaky bucket: how long to hold back what is allowed */
};

/**
 * Put right a state whose stamp lies more than LIMIT_CLOCK_SLACK_US after `now`: the
 * clock was stepped back. Nothing is refilled, the stamp becomes now: at most one size
 * more for each step, never a lock-out.
 */
void limit_align(const struct limit *limit, struct limit_state *state,
                 struct instant now);

/**
 * Charge `cost` (0 to 10^9) if it passes.
 *
 * @param state   charged when allowed; unchanged when refused or when cost is 0
 * @param answer  filled; remaining and reset are those after a charge
 * @return answer->is_allowed. Cost 0 always passes; a limit of size 0 refuses all else.
 */
bool limit_take(const struct limit *limit, struct limit_state *state,
                struct instant now, int64_t cost, struct limit_answer *answer);

/**
 * Make the answer to a charge what it would be without that. Of a bucket reset may be a tick
 * too late; of a window that is not empty then, it stays: one window too late, if that charge
 * was the only one in its window.
 *
 * @param cost  which was allowed
 */
void limit_forget(const struct limit *limit, int64_t cost, struct limit_answer *answer);

/**
 * Add to one counter what another of the same limit has counted, each for a part of the
 * same requests: a successor and its predecessor. A window's counts are added by its
 * number, which is exact. A bucket's levels are added as they stand at the later of the
 * two stamps: never more than one bucket would hold that had got both traces, and less
 * by no more than what the second bucket drained while both were in use.
 *
 * @param state  gets the sum, cut where two counters of the largest size would stand, so
 *               that products stay exact. Both may be in debt by that: waited out.
 */
void limit_merge(const struct limit *limit, struct limit_state *state,
                 const struct limit_state *other);

/** What a charge took, and what it should have taken. */
struct limit_correction {
    int64_t place;  /* where it was taken, as limit_place said */
    int64_t amount; /* what was taken: 0 to 10^9 */
    int64_t truth;  /* what it is to be: likewise; 0 gives all of it back */
};

/** Where a charge that `state` has just taken stands: its window, or its tick. */
int64_t limit_place(const struct limit *limit, const struct limit_state *state);

/**
 * Put a charge right after the fact. Never refused: what is added may leave up to twice
 * the size used, a debt of one size, waited out like anything used. Never less than
 * nothing is used.
 *
 * A count is corrected in the window it was taken in, exactly as if `truth` had been taken
 * then, as long as that window counts. A bucket gives back at most what of `amount` has
 * not drained since, and takes all that is missing now: it is never emptier than if
 * `truth` had been taken then, and fuller by no more than what drained since.
 *
 * @return whether anything changed: not when it comes too late
 */
bool limit_settle(const struct limit *limit, struct limit_state *state,
                  struct instant now, const struct limit_correction *correction);

/** A policy as RateLimit-Policy shows it (draft-ietf-httpapi-ratelimit-headers-11). */
struct limit_policy {
    int64_t quota;    /* q */
    int64_t window_s; /* w; 0 where no whole number of seconds is true: left out */
    int64_t burst;    /* shown as a parameter of its own when not 0 */
};

/** @param policy  filled */
void limit_describe(const struct limit *limit, struct limit_policy *policy);

/**
 * The `r` and `t` of a RateLimit item: units left, and the seconds within which no more
 * than these may be used; a refused client that waits t passes. Of a bucket r/t never
 * exceeds q/w; of a window t is the time to its end.
 */
void limit_advertise(const struct limit *limit, const struct limit_policy *policy,
                     const struct limit_answer *answer, int64_t *available,
                     int64_t *effective_s);

/** A number of ticks as a wait; at most LIMIT_WAIT_US_MAX. */
int64_t limit_ticks_to_us(const struct limit *limit, int64_t ticks);

/** The largest cost that an empty leaky bucket takes: 1, and what drains in max_delay. */
int64_t limit_leaky_size(const struct limit *limit);

/** Two counts of one window as one, cut where a sum would not be exact. */
static inline uint32_t limit_add_counts(uint32_t a, uint32_t b)
{
    int64_t sum = (int64_t)a + b;
    return (uint32_t)(sum < 2 * LIMIT_AMOUNT_MAX ? sum : 2 * LIMIT_AMOUNT_MAX);
}

/** What of `change` a count takes: no more than it holds, no more than there is room
 * for, and so that a sum stays exact. */
static inline int64_t limit_bound_change(int64_t count, int64_t change, int64_t room)
{
    int64_t most = room > 0 ? room : 0;
    int64_t most_counted = 2 * LIMIT_AMOUNT_MAX - count;
    most = most < most_counted ? most : most_counted;
    if (change < 0) {
        return change > -count ? change : -count;
    }
    return change < most ? change : most;
}

/** The algorithms, called through those above (also by the tests of each). */
void fixed_window_align(const struct limit *limit, struct limit_state *state,
                        struct instant now);
bool fixed_window_take(const struct limit *limit, struct limit_state *state,
                       struct instant now, int64_t cost, struct limit_answer *answer);
void fixed_window_merge(struct limit_state *state, const struct limit_state *other);
bool fixed_window_settle(const struct limit *limit, struct limit_state *state,
                         struct instant now, const struct limit_correction *correction);
bool leaky_bucket_take(const struct limit *limit, struct limit_state *state,
                       struct instant now, int64_t cost, struct limit_answer *answer);
/** The level of a bucket of either kind that is aligned, at `now`; `*at_ticks` is the tick of
 *  that. */
int64_t token_bucket_level_now(const struct limit *limit,
                               const struct limit_state *state, struct instant now,
                               int64_t *at_ticks);
void token_bucket_align(const struct limit *limit, struct limit_state *state,
                        struct instant now);
bool token_bucket_take(const struct limit *limit, struct limit_state *state,
                       struct instant now, int64_t cost, struct limit_answer *answer);
void token_bucket_merge(const struct limit *limit, struct limit_state *state,
                        const struct limit_state *other);
bool token_bucket_settle(const struct limit *limit, struct limit_state *state,
                         struct instant now, const struct limit_correction *correction);
void sliding_window_align(const struct limit *limit, struct limit_state *state,
                          struct instant now);
bool sliding_window_take(const struct limit *limit, struct limit_state *state,
                         struct instant now, int64_t cost, struct limit_answer *answer);
void sliding_window_merge(struct limit_state *state, const struct limit_state *other);
bool sliding_window_settle(const struct limit *limit, struct limit_state *state,
                           struct instant now,
                           const struct limit_correction *correction);

#endif
