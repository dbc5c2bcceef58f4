/**
 * @file agent/observe/counters.h  The one interface through which everybody counts.
 *
 * Model:     a block of counters a thread: one line of the table each, and for every
 *            limit of the rules one for each outcome. Readers add the blocks up.
 * Ownership: counters_new / counters_free.
 * Threads:   a block has one writer; any thread may read it. All accesses are relaxed:
 *            a reader sees each number late, never torn, never going back.
 * Errors:    counters_new answers NULL when memory is short.
 */
#ifndef AGENT_OBSERVE_COUNTERS_H
#define AGENT_OBSERVE_COUNTERS_H

#include <stdatomic.h>
#include <stdint.h>

#include "agent/base.h"

/** name, metric, help */
#define COUNTER_TABLE(X)                                                               \
    X(CONNECTIONS_OPENED, "connections_opened_total", "Connections handed to workers") \
    X(CONNECTIONS_FAILED, "connections_failed_total", "Connections without memory")    \
    X(CONNECTIONS_CLOSED, "connections_closed_total", "Connections closed")            \
    X(HEALTH_CHECKS, "health_checks_total", "HAProxy health checks answered")          \
    X(NOTIFIES, "notifies_total", "NOTIFYs received")                                  \
    X(NOTIFIES_FRAGMENTED, "notifies_fragmented_total",                                \
      "NOTIFYs put together from fragments")                                           \
    X(NOTIFIES_MALFORMED, "notifies_malformed_total",                                  \
      "NOTIFYs that could not be read, without an ACK")                                \
    X(NOTIFIES_ABORTED, "notifies_aborted_total",                                      \
      "Fragmented NOTIFYs given up by HAProxy, without an ACK")                        \
    X(NOTIFIES_WITHOUT_ROOM, "notifies_without_room_total",                            \
      "Fragmented NOTIFYs too large or too many, without a verdict")                   \
    X(NOTIFIES_ORPHANED, "notifies_orphaned_total",                                    \
      "NOTIFYs whose connection went before the answer")                               \
    X(ACKS, "acks_total", "ACK frames written to a connection's output")               \
    X(ACKS_NEUTRAL, "acks_neutral_total", "ACKs without a decision")                   \
    X(ACTIONS_LEFT_OUT, "actions_left_out_total", "Variables without room in an ACK")  \
    X(MESSAGES_UNKNOWN, "messages_unknown_total", "Messages of an unknown name")       \
    X(DOMAIN_MISMATCHES, "domain_mismatches_total", "Requests for another domain")     \
    X(FRAMES_IGNORED, "frames_ignored_total", "Frames of an unknown type, skipped")    \
    X(PEER_DISCONNECTS, "peer_disconnects_total", "DISCONNECT frames from HAProxy")    \
    X(PROTOCOL_ERRORS, "protocol_errors_total", "Connections ended for bad frames")    \
    X(TIMEOUTS, "timeouts_total", "Connections ended by a timer")                      \
    X(IO_ERRORS, "io_errors_total", "Connections ended by a reset or an I/O error")    \
    X(REQUESTS_ALLOWED, "requests_allowed_total", "Requests allowed")                  \
    X(REQUESTS_REFUSED, "requests_refused_total", "Requests refused")                  \
    X(REQUESTS_UNMATCHED, "requests_unmatched_total", "Requests that no rule matched") \
    X(REQUESTS_BLOCKLISTED, "requests_blocklisted_total", "Requests on a block list")  \
    X(REQUESTS_ALLOWLISTED, "requests_allowlisted_total", "Requests on an allow list") \
    X(REQUESTS_KEYLESS, "requests_keyless_total",                                      \
      "Requests refused by no_key: reject")                                            \
    X(REQUESTS_CUT, "requests_cut_total",                                              \
      "Requests with more limits than are looked at")                                  \
    X(KEYS_MISSING, "keys_missing_total", "Rules skipped: no key and no address")      \
    X(KEYS_BY_ADDRESS, "keys_by_address_total",                                        \
      "Keys replaced by the client's address")                                         \
    X(COSTS_RAISED, "costs_raised_total",                                              \
      "Costs from arguments that were missing, ill-formed or below min")               \
    X(COSTS_LOWERED, "costs_lowered_total", "Costs from arguments above max")          \
    X(PATHS_AS_THEY_STAND, "paths_as_they_stand_total", "Paths without a normal form") \
    X(PEEKS, "peeks_total", "Requests asked about by ratelimit-peek")                  \
    X(SETTLES, "settles_total", "Messages ratelimit-settle")                           \
    X(SETTLES_WITHOUT_RECEIPT, "settles_without_receipt_total",                        \
      "Messages ratelimit-settle without a receipt")                                   \
    X(RECEIPTS_MALFORMED, "receipts_malformed_total", "Receipts that are none")        \
    X(RECEIPTS_CUT, "receipts_cut_total",                                              \
      "Charges without room in a receipt: they stay")                                  \
    X(SETTLED_AS_TAKEN, "settled_as_taken_total",                                      \
      "Charges settled that stay as they were taken")                                  \
    X(SETTLED_GIVEN_BACK, "settled_given_back_total", "Charges given back")            \
    X(SETTLED_LOWERED, "settled_lowered_total", "Charges corrected downward")          \
    X(SETTLED_RAISED, "settled_raised_total", "Charges corrected upward")              \
    X(SETTLED_STALE, "settled_stale_total",                                            \
      "Charges not settled: their limit is gone, or another")                          \
    X(SETTLED_TOO_LATE, "settled_too_late_total",                                      \
      "Charges settled too late to change anything")                                   \
    X(LOCAL_FILLED, "local_slots_filled_total",                                        \
      "Slots of the local table ever filled")                                          \
    X(LOCAL_EVICTED, "local_evictions_total", "Live counters evicted from the table")  \
    X(LOCAL_EVENTS_LOST, "local_events_lost_total",                                    \
      "Events of sliding logs for which there was no memory")                          \
    X(LOCAL_RESTORED, "local_restored_total",                                          \
      "Live counters taken over from a snapshot or a predecessor")

enum counter {
#define X(name, metric, help) COUNTER_##name,
    COUNTER_TABLE(X)
#undef X
    COUNTERS_N
};

/** What became of one limit in one decision. */
#define OUTCOME_TABLE(X)                                                         \
    X(CHARGED, "charged")   /* passed and was charged */                         \
    X(PASSED, "passed")     /* passed, not charged: refused elsewhere, cost 0 */ \
    X(EXCEEDED, "exceeded") /* over the limit; the request went on */            \
    X(REFUSED, "refused")   /* refused the request */                            \
    X(WOULD_REFUSE, "would_refuse") /* in shadow */

enum outcome {
#define X(name, label) OUTCOME_##name,
    OUTCOME_TABLE(X)
#undef X
    OUTCOMES_N
};

struct counters {
    _Alignas(64) _Atomic uint64_t values[COUNTERS_N];
    uint32_t n_limits;
    _Atomic uint64_t *outcomes; /* n_limits x OUTCOMES_N */
};

MUST_USE struct counters *counters_new(uint32_t n_limits);
void counters_free(struct counters *counters);

/** Exchange the outcomes of two blocks. Nobody else may read or write them meanwhile. */
void counters_swap_outcomes(struct counters *a, struct counters *b);

/** Add what another block counted, but for its outcomes. Its writer has come to an end. */
void counters_add_all(struct counters *counters, const struct counters *other);

static inline void counter_bump(_Atomic uint64_t *value, uint64_t n)
{
    /* One writer: no read-modify-write instruction is needed. */
    uint64_t old = atomic_load_explicit(value, memory_order_relaxed);
    atomic_store_explicit(value, old + n, memory_order_relaxed);
}

static inline void counter_add(struct counters *c, enum counter counter, uint64_t n)
{
    counter_bump(&c->values[counter], n);
}

static inline void counter_add_outcome(struct counters *c, uint32_t limit_idx,
                                       enum outcome outcome, uint64_t n)
{
    counter_bump(&c->outcomes[limit_idx * OUTCOMES_N + outcome], n);
}

static inline void counter_outcome(struct counters *c, uint32_t limit_idx,
                                   enum outcome outcome)
{
    counter_add_outcome(c, limit_idx, outcome, 1);
}

static inline uint64_t counter_get(const struct counters *c, enum counter counter)
{
    return atomic_load_explicit(&c->values[counter], memory_order_relaxed);
}

static inline uint64_t counter_get_outcome(const struct counters *c, uint32_t limit_idx,
                                           enum outcome outcome)
{
    return atomic_load_explicit(&c->outcomes[limit_idx * OUTCOMES_N + outcome],
                                memory_order_relaxed);
}

#endif
