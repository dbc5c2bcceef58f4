/**
 * @file agent/store/breaker.h  Whether a Redis node is asked, or policy decides at once.
 *
 * Model:     closed: all calls pass. It opens when a connection is refused, or ends under
 *            calls; when for BREAKER_ROW_US there were failures only, at least
 *            BREAKER_ROW_MIN of them; when half of the calls of the last second failed, of
 *            at least BREAKER_CALLS_MIN; or when for a second the median round trip, of
 *            at least BREAKER_ROW_MIN, was over a bound. Open: none passes; about every
 *            BREAKER_PROBE_US one caller is told to probe. After BREAKER_PROBES_GOOD
 *            probes in a row, each within the bound, it ramps: 1/8, 1/4 and 1/2 of the
 *            calls pass for BREAKER_STEP_US each, then all.
 * Ownership: one for a node, kept by the caller; breaker_init.
 * Threads:   any: the workers share it. breaker_passes reads two words; the others lock a
 *            byte for a moment (spin.h).
 * Errors:    none.
 */
#ifndef AGENT_STORE_BREAKER_H
#define AGENT_STORE_BREAKER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "agent/base.h"
#include "agent/clock.h"

enum {
    BREAKER_ROW_MIN = 5,
    BREAKER_CALLS_MIN = 20,
    BREAKER_PROBES_GOOD = 3,
    BREAKER_SPANS = 10, /* that the last second is counted in */
};

#define BREAKER_ROW_US   (50 * US_PER_MS)
#define BREAKER_SPAN_US  (US_PER_S / BREAKER_SPANS)
#define BREAKER_PROBE_US (250 * US_PER_MS) /* +- 20 % */
#define BREAKER_STEP_US  (50 * US_PER_MS)

enum breaker_state {
    BREAKER_CLOSED = 0,
    BREAKER_OPEN,
    BREAKER_RAMPING,
};

/** Why it opened last. */
enum breaker_cause {
    BREAKER_NO_CAUSE = 0,
    BREAKER_DISCONNECTED, /* refused, or ended under calls */
    BREAKER_FAILURES_ONLY,
    BREAKER_HALF_FAILED,
    BREAKER_SLOW,
};

/** How a call or probe ended. */
enum breaker_result {
    BREAKER_GOOD = 0, /* answered */
    BREAKER_FAILED,   /* no answer in time, or an error of the server as a whole */
    BREAKER_BROKEN,   /* the connection was refused, or ended before the answer */
};

struct breaker_span {
    uint32_t n_good;
    uint32_t n_slow; /* of the good ones */
    uint32_t n_failed;
};

struct breaker {
    _Atomic uint8_t state;   /* an enum breaker_state */
    _Atomic int64_t ramp_us; /* when ramping began */
    _Atomic uint8_t lock;
    /* guarded by lock: */
    enum breaker_cause cause;
    int64_t slow_us;
    struct instant probe_at; /* of the next */
    unsigned n_good_probes;
    uint64_t n_opened;
    unsigned n_row; /* failures in a row */
    struct instant row_at;
    struct instant counted_from; /* the oldest call that is counted is not before it */
    int64_t span;                /* number of the newest */
    struct breaker_span spans[BREAKER_SPANS];
};

/** @param slow_us  round trips longer than this are slow; 0: none is */
void breaker_init(struct breaker *breaker, int64_t slow_us, struct instant now);

/** @param draw  32 random bits. @return whether a call may be made */
bool breaker_passes(const struct breaker *breaker, struct instant now, uint32_t draw);

/** @return whether the caller is to probe the node now: one of all that ask */
MUST_USE bool breaker_wants_probe(struct breaker *breaker, struct instant now,
                                  uint32_t draw);

/**
 * Say how a call ended.
 *
 * @param round_trip_us  of a good one
 * @return whether it has changed its state; one of the callers is told
 */
MUST_USE bool breaker_report(struct breaker *breaker, struct instant now,
                             enum breaker_result result, int64_t round_trip_us);

/** The same for a probe. */
MUST_USE bool breaker_report_probe(struct breaker *breaker, struct instant now,
                                   enum breaker_result result, int64_t round_trip_us);

struct breaker_status {
    enum breaker_state state;
    enum breaker_cause cause;
    uint64_t n_opened;
};

/** As it is now: what time alone changes is seen to. */
struct breaker_status breaker_read(struct breaker *breaker, struct instant now);

const char *breaker_state_text(enum breaker_state state);
const char *breaker_cause_text(enum breaker_cause cause);

#endif
