/**
 * @file agent/store/health.h  What the workers know together of Redis.
 *
 * Model:     a breaker for each node, how many agents are alive, and what became of calls.
 * Ownership: health_new / health_free. The workers' stores borrow it.
 * Threads:   any; counts are relaxed atomics.
 * Errors:    health_new answers NULL when memory is short. Each change of a breaker is one
 *            log line.
 */
#ifndef AGENT_STORE_HEALTH_H
#define AGENT_STORE_HEALTH_H

#include "agent/store/breaker.h"
#include "agent/store/seam.h"

/** name, metric, help */
#define HEALTH_TABLE(X)                                                               \
    X(CALLS, "store_calls_total", "Calls of scripts that were sent to Redis")         \
    X(TIMEOUTS, "store_timeout_total", "Calls without an answer before the deadline") \
    X(LATE, "store_late_total", "Answers that came after the deadline")               \
    X(UNSENT, "store_unsent_total", "Calls that no connection could take")            \
    X(LOST, "store_lost_total", "Calls whose connection ended before the answer")     \
    X(ERRORS, "store_errors_total", "Calls that Redis refused, or answered wrongly")  \
    X(GIVEN_BACK, "store_given_back_total",                                           \
      "Charges given back, since the request was refused elsewhere")                  \
    X(GIVE_BACKS_LOST, "store_give_backs_lost_total",                                 \
      "Charges that could not be given back: they end with their window")             \
    X(SETTLES_LOST, "store_settles_lost_total", "Settlements that could not be sent") \
    X(REPAIRED, "store_repaired_total",                                               \
      "Keys in Redis that held no counter, or had no time to live")                   \
    X(JOINED, "store_joined_total",                                                   \
      "Requests asked about in the call of another that wanted the same")             \
    X(REFUSED_AGAIN, "store_refused_from_cache_total",                                \
      "Requests refused without asking Redis, which had refused a moment before")     \
    X(POLICY_LOCAL, "store_policy_local_total",                                       \
      "Charges to this host's share instead")                                         \
    X(POLICY_OPEN, "store_policy_open_total", "Charges let pass instead")             \
    X(POLICY_CLOSED, "store_policy_closed_total", "Charges refused instead")

enum health_count {
#define X(name, metric, help) HEALTH_##name,
    HEALTH_TABLE(X)
#undef X
    HEALTH_COUNTS_N
};

enum {
    HEALTH_SPANS_N = 24 /* round trips below 2^n us */
};

struct health {
    struct breaker breakers[SEAM_NODES_MAX];
    _Atomic bool is_proven[SEAM_NODES_MAX];         /* has answered, ever */
    _Atomic(const char *) failures[SEAM_NODES_MAX]; /* the last one; NULL: none yet */
    _Atomic unsigned n_nodes;     /* of Redis that were asked: numbers below it */
    _Atomic unsigned n_agents;    /* that share the traffic; at least 1 */
    _Atomic bool is_agents_heard; /* from Redis */
    _Atomic int64_t asked_at_us;  /* by HAProxy, last; or the start */
    _Atomic unsigned n_under_way; /* takes and settlements with calls under way */
    _Atomic uint64_t counts[HEALTH_COUNTS_N];
    _Atomic uint64_t round_trips[HEALTH_SPANS_N];
    _Atomic uint64_t round_trips_us; /* sum */
};

/**
 * @param slow_us   of breakers; 0: none is slow
 * @param n_agents  to go by until Redis says how many there are; 0 is 1
 */
MUST_USE struct health *health_new(int64_t slow_us, unsigned n_agents,
                                   struct instant now);
void health_free(struct health *health);

void health_add(struct health *health, enum health_count count, uint64_t n);
uint64_t health_get(const struct health *health, enum health_count count);
const char *health_metric(enum health_count count);
const char *health_help(enum health_count count);

/** One more take or settlement has calls under way, or one less. */
void health_begin(struct health *health);
void health_end(struct health *health);
unsigned health_n_under_way(const struct health *health);

/** How many agents share the traffic, this one included: at least 1. */
unsigned health_n_agents(const struct health *health);

/** What is made of what Redis says of that. */
void health_hear_agents(struct health *health, unsigned n_agents);
bool health_has_heard_agents(const struct health *health);

/** HAProxy asked something. Done now and then, not for each request. */
void health_note_asked(struct health *health, struct instant now);
struct instant health_asked_at(const struct health *health);

/** Whether a node is asked. One that is not known is. */
bool health_passes(struct health *health, unsigned node, struct instant now,
                   uint32_t draw);

/** Say how a call ended; its node, outcome and round trip. */
void health_report(struct health *health, const struct seam_call *call,
                   struct instant now);

/** The same for a probe, which is no traffic. */
void health_report_probe(struct health *health, const struct seam_call *call,
                         struct instant now);

struct breaker_status health_status(struct health *health, unsigned node,
                                    struct instant now);

/** Answers that took 2^(span-1) us or longer, and less than 2^span; the last: all others. */
uint64_t health_round_trips(const struct health *health, unsigned span);

/** All together. */
uint64_t health_round_trips_us(const struct health *health);

unsigned health_n_nodes(const struct health *health);

/** Whether the caller is to probe a node now. */
MUST_USE bool health_wants_probe(struct health *health, unsigned node,
                                 struct instant now, uint32_t draw);

/** What the last call of a node that failed ended with, in words. */
const char *health_failure(const struct health *health, unsigned node);

/** Why a node is not asked. */
bool health_is_slow(struct health *health, unsigned node, struct instant now);

#endif
