#include "agent/store/breaker.h"

#include <string.h>

#include "agent/store/spin.h"

static enum breaker_state state_of(const struct breaker *breaker)
{
    return (enum breaker_state)atomic_load_explicit(&breaker->state,
                                                    memory_order_acquire);
}

static void set_state(struct breaker *breaker, enum breaker_state state)
{
    atomic_store_explicit(&breaker->state, (uint8_t)state, memory_order_release);
}

static void forget_calls(struct breaker *breaker, struct instant now)
{
    memset(breaker->spans, 0, sizeof(breaker->spans));
    breaker->span = now.us / BREAKER_SPAN_US;
    breaker->counted_from = now;
    breaker->n_row = 0;
}

void breaker_init(struct breaker *breaker, int64_t slow_us, struct instant now)
{
    memset(breaker, 0, sizeof(*breaker));
    breaker->slow_us = slow_us;
    forget_calls(breaker, now);
}

/* How far ramping has come: step 0 lets 1/8 through, 1 and 2 twice as much each. */
static int64_t ramp_step(const struct breaker *breaker, struct instant now)
{
    int64_t since_us = now.us
                       - atomic_load_explicit(&breaker->ramp_us, memory_order_relaxed);
    return since_us < 0 ? 0 : since_us / BREAKER_STEP_US;
}

bool breaker_passes(const struct breaker *breaker, struct instant now, uint32_t draw)
{
    enum breaker_state state = state_of(breaker);
    if (state != BREAKER_RAMPING) {
        return state == BREAKER_CLOSED;
    }
    int64_t step = ramp_step(breaker, now);
    return step > 2 || draw >> 29 < UINT32_C(1) << step;
}

/* 250 ms +- 20 %. */
static struct instant next_probe(struct instant now, uint32_t draw)
{
    int64_t spread_us = BREAKER_PROBE_US * 2 / 5;
    return instant_add_us(now, BREAKER_PROBE_US - spread_us / 2
                                   + (int64_t)draw * spread_us / UINT32_MAX);
}

bool breaker_wants_probe(struct breaker *breaker, struct instant now, uint32_t draw)
{
    if (state_of(breaker) != BREAKER_OPEN) {
        return false;
    }
    spin_lock(&breaker->lock);
    bool is_due = instant_diff_us(now, breaker->probe_at) >= 0;
    if (is_due) {
        breaker->probe_at = next_probe(now, draw);
    }
    spin_unlock(&breaker->lock);
    return is_due;
}

/* The span of `now`; those between it and the last one that was used hold nothing. */
static struct breaker_span *find_span(struct breaker *breaker, struct instant now)
{
    int64_t number = now.us / BREAKER_SPAN_US;
    if (number - breaker->span >= BREAKER_SPANS) {
        memset(breaker->spans, 0, sizeof(breaker->spans));
        breaker->span = number;
    }
    while (breaker->span < number) {
        breaker->spans[++breaker->span % BREAKER_SPANS] = (struct breaker_span){0};
    }
    return &breaker->spans[breaker->span % BREAKER_SPANS];
}

static void count(struct breaker *breaker, struct instant now,
                  enum breaker_result result, int64_t round_trip_us)
{
    struct breaker_span *span = find_span(breaker, now);
    if (result == BREAKER_GOOD) {
        span->n_good++;
        span->n_slow += breaker->slow_us > 0 && round_trip_us > breaker->slow_us;
        breaker->n_row = 0;
        return;
    }
    span->n_failed++;
    if (breaker->n_row++ == 0) {
        breaker->row_at = now;
    }
}

static enum breaker_cause find_cause(const struct breaker *breaker, struct instant now,
                                     enum breaker_result result)
{
    struct breaker_span sum = {0};
    for (int i = 0; i < BREAKER_SPANS; i++) {
        sum.n_good += breaker->spans[i].n_good;
        sum.n_slow += breaker->spans[i].n_slow;
        sum.n_failed += breaker->spans[i].n_failed;
    }
    if (result == BREAKER_BROKEN) {
        return BREAKER_DISCONNECTED;
    }
    if (breaker->n_row >= BREAKER_ROW_MIN
        && instant_diff_us(now, breaker->row_at) >= BREAKER_ROW_US) {
        return BREAKER_FAILURES_ONLY;
    }
    if (sum.n_good + sum.n_failed >= BREAKER_CALLS_MIN && sum.n_failed >= sum.n_good) {
        return BREAKER_HALF_FAILED;
    }
    bool is_whole_second = instant_diff_us(now, breaker->counted_from) >= US_PER_S;
    if (is_whole_second && sum.n_good >= BREAKER_ROW_MIN
        && sum.n_slow > sum.n_good / 2) {
        return BREAKER_SLOW;
    }
    return BREAKER_NO_CAUSE;
}

static void open_it(struct breaker *breaker, struct instant now,
                    enum breaker_cause cause)
{
    breaker->cause = cause;
    breaker->probe_at = now; /* the first at once: it may have been but a moment */
    breaker->n_good_probes = 0;
    breaker->n_opened++;
    set_state(breaker, BREAKER_OPEN);
}

/* All calls pass again: what was counted while few did is no measure. */
static void end_ramp(struct breaker *breaker, struct instant now)
{
    if (state_of(breaker) == BREAKER_RAMPING && ramp_step(breaker, now) > 2) {
        set_state(breaker, BREAKER_CLOSED);
    }
}

bool breaker_report(struct breaker *breaker, struct instant now,
                    enum breaker_result result, int64_t round_trip_us)
{
    spin_lock(&breaker->lock);
    end_ramp(breaker, now);
    bool has_opened = false;
    if (state_of(breaker) != BREAKER_OPEN) { /* those from before say nothing new */
        count(breaker, now, result, round_trip_us);
        enum breaker_cause cause = find_cause(breaker, now, result);
        has_opened = cause != BREAKER_NO_CAUSE;
        if (has_opened) {
            open_it(breaker, now, cause);
        }
    }
    spin_unlock(&breaker->lock);
    return has_opened;
}

bool breaker_report_probe(struct breaker *breaker, struct instant now,
                          enum breaker_result result, int64_t round_trip_us)
{
    bool has_closed = false;
    spin_lock(&breaker->lock);
    if (state_of(breaker) == BREAKER_OPEN) {
        bool is_good = result == BREAKER_GOOD
                       && (breaker->slow_us == 0 || round_trip_us <= breaker->slow_us);
        breaker->n_good_probes = is_good ? breaker->n_good_probes + 1 : 0;
        has_closed = breaker->n_good_probes >= BREAKER_PROBES_GOOD;
        if (has_closed) {
            forget_calls(breaker, now);
            atomic_store_explicit(&breaker->ramp_us, now.us, memory_order_relaxed);
            set_state(breaker, BREAKER_RAMPING);
        }
    }
    spin_unlock(&breaker->lock);
    return has_closed;
}

struct breaker_status breaker_read(struct breaker *breaker, struct instant now)
{
    spin_lock(&breaker->lock);
    end_ramp(breaker, now);
    struct breaker_status status = {
        .state = state_of(breaker),
        .cause = breaker->cause,
        .n_opened = breaker->n_opened,
    };
    spin_unlock(&breaker->lock);
    return status;
}

const char *breaker_state_text(enum breaker_state state)
{
    static const char *const texts[] = {"closed", "open", "ramping"};
    return texts[state];
}

const char *breaker_cause_text(enum breaker_cause cause)
{
    static const char *const texts[] = {
        "nothing", "disconnected", "only failures", "half of the calls failed", "slow",
    };
    return texts[cause];
}
