#include "agent/store/health.h"

#include <stdlib.h>

#include "agent/log.h"

static const struct {
    const char *metric;
    const char *help;
} count_rows[HEALTH_COUNTS_N] = {
#define X(name, metric, help) [HEALTH_##name] = {metric, help},
    HEALTH_TABLE(X)
#undef X
};

static void set_agents(struct health *health, unsigned n_agents)
{
    atomic_store_explicit(&health->n_agents, n_agents > 0 ? n_agents : 1,
                          memory_order_relaxed);
}

struct health *health_new(int64_t slow_us, unsigned n_agents, struct instant now)
{
    struct health *health = calloc(1, sizeof(*health));
    if (health == NULL) {
        return NULL;
    }
    for (unsigned i = 0; i < SEAM_NODES_MAX; i++) {
        breaker_init(&health->breakers[i], slow_us, now);
    }
    set_agents(health, n_agents);
    health_note_asked(health, now);
    return health;
}

void health_free(struct health *health)
{
    free(health);
}

void health_add(struct health *health, enum health_count count, uint64_t n)
{
    (void)atomic_fetch_add_explicit(&health->counts[count], n, memory_order_relaxed);
}

uint64_t health_get(const struct health *health, enum health_count count)
{
    return atomic_load_explicit(&health->counts[count], memory_order_relaxed);
}

const char *health_metric(enum health_count count)
{
    return count_rows[count].metric;
}

const char *health_help(enum health_count count)
{
    return count_rows[count].help;
}

void health_begin(struct health *health)
{
    (void)atomic_fetch_add_explicit(&health->n_under_way, 1, memory_order_relaxed);
}

void health_end(struct health *health)
{
    (void)atomic_fetch_sub_explicit(&health->n_under_way, 1, memory_order_relaxed);
}

unsigned health_n_under_way(const struct health *health)
{
    return atomic_load_explicit(&health->n_under_way, memory_order_relaxed);
}

unsigned health_n_agents(const struct health *health)
{
    return atomic_load_explicit(&health->n_agents, memory_order_relaxed);
}

/* Who sees that it was heard sees what. */
void health_hear_agents(struct health *health, unsigned n_agents)
{
    set_agents(health, n_agents);
    atomic_store_explicit(&health->is_agents_heard, true, memory_order_release);
}

bool health_has_heard_agents(const struct health *health)
{
    return atomic_load_explicit(&health->is_agents_heard, memory_order_acquire);
}

void health_note_asked(struct health *health, struct instant now)
{
    atomic_store_explicit(&health->asked_at_us, now.us, memory_order_relaxed);
}

struct instant health_asked_at(const struct health *health)
{
    return (struct instant){
        .us = atomic_load_explicit(&health->asked_at_us, memory_order_relaxed),
    };
}

bool health_passes(struct health *health, unsigned node, struct instant now,
                   uint32_t draw)
{
    return node >= SEAM_NODES_MAX || breaker_passes(&health->breakers[node], now, draw);
}

bool health_is_slow(struct health *health, unsigned node, struct instant now)
{
    return node < SEAM_NODES_MAX
           && breaker_read(&health->breakers[node], now).cause == BREAKER_SLOW;
}

unsigned health_n_nodes(const struct health *health)
{
    return atomic_load_explicit(&health->n_nodes, memory_order_relaxed);
}

bool health_wants_probe(struct health *health, unsigned node, struct instant now,
                        uint32_t draw)
{
    return breaker_wants_probe(&health->breakers[node], now, draw);
}

struct breaker_status health_status(struct health *health, unsigned node,
                                    struct instant now)
{
    return breaker_read(&health->breakers[node], now);
}

uint64_t health_round_trips(const struct health *health, unsigned span)
{
    return atomic_load_explicit(&health->round_trips[span], memory_order_relaxed);
}

uint64_t health_round_trips_us(const struct health *health)
{
    return atomic_load_explicit(&health->round_trips_us, memory_order_relaxed);
}

const char *health_failure(const struct health *health, unsigned node)
{
    const char *text = atomic_load_explicit(&health->failures[node],
                                            memory_order_relaxed);
    return text != NULL ? text : "none";
}

static const char *error_text(enum seam_error error)
{
    static const char *const texts[] = {
        [SEAM_ERROR_NONE] = "an answer that was not understood",
        [SEAM_ERROR_MOVED] = "a slot is elsewhere",
        [SEAM_ERROR_TRYAGAIN] = "a slot is being moved",
        [SEAM_ERROR_CLUSTER_DOWN] = "the cluster is down",
        [SEAM_ERROR_LOADING] = "it loads its data, or has no primary",
        [SEAM_ERROR_READ_ONLY] = "it is a replica",
        [SEAM_ERROR_BUSY] = "a script keeps it busy",
        [SEAM_ERROR_NO_SCRIPT] = "it does not keep our scripts",
        [SEAM_ERROR_DENIED] = "the user may not do that",
        [SEAM_ERROR_OUT_OF_MEMORY] = "its memory is full",
        [SEAM_ERROR_NO_WRITES] = "its disk or its replicas are missing",
        [SEAM_ERROR_WRONG_TYPE] = "a key holds something foreign",
        [SEAM_ERROR_OTHER] = "an error",
    };
    return texts[error];
}

static void note_failure(struct health *health, const struct seam_call *call)
{
    static const char *const texts[] = {
        [SEAM_TIMEOUT] = "no answer in time",
        [SEAM_DOWN] = "no connection",
        [SEAM_FULL] = "too many calls under way",
        [SEAM_LOST] = "the connection ended",
    };
    if (call->outcome != SEAM_OK) {
        const char *text = call->outcome == SEAM_ERROR ? error_text(call->error)
                                                       : texts[call->outcome];
        atomic_store_explicit(&health->failures[call->node], text,
                              memory_order_relaxed);
    }
}

static void log_change(struct health *health, unsigned node, struct instant now)
{
    struct breaker_status status = breaker_read(&health->breakers[node], now);
    if (status.state == BREAKER_OPEN) {
        bool has_failed = status.cause == BREAKER_FAILURES_ONLY
                          || status.cause == BREAKER_HALF_FAILED;
        log_warning("Redis node %u is not asked any more (%s%s%s): the rules' "
                    "on_store_failure decides",
                    node, breaker_cause_text(status.cause), has_failed ? ": " : "",
                    has_failed ? health_failure(health, node) : "");
    } else {
        log_info("Redis node %u is asked again", node);
    }
}

static void note_node(struct health *health, unsigned node)
{
    unsigned n = atomic_load_explicit(&health->n_nodes, memory_order_relaxed);
    while (n <= node
           && !atomic_compare_exchange_weak_explicit(&health->n_nodes, &n, node + 1,
                                                     memory_order_relaxed,
                                                     memory_order_relaxed)) {
    }
}

static void add_round_trip(struct health *health, int64_t us)
{
    unsigned i = 0;
    while (i < HEALTH_SPANS_N - 1 && us >> i > 0) {
        i++;
    }
    (void)atomic_fetch_add_explicit(&health->round_trips[i], 1, memory_order_relaxed);
    (void)atomic_fetch_add_explicit(&health->round_trips_us, (uint64_t)us,
                                    memory_order_relaxed);
}

/* What an error says of its node as a whole; -1: nothing. */
static int result_of_error(enum seam_error error)
{
    switch (error) {
    case SEAM_ERROR_MOVED:
    case SEAM_ERROR_TRYAGAIN:
        return -1; /* the slot's, not the node's */
    case SEAM_ERROR_NONE:
    case SEAM_ERROR_CLUSTER_DOWN:
    case SEAM_ERROR_LOADING:
    case SEAM_ERROR_READ_ONLY:
    case SEAM_ERROR_BUSY:
    case SEAM_ERROR_NO_SCRIPT:
    case SEAM_ERROR_DENIED:
    case SEAM_ERROR_OUT_OF_MEMORY:
    case SEAM_ERROR_NO_WRITES:
    case SEAM_ERROR_WRONG_TYPE:
    case SEAM_ERROR_OTHER:
        return BREAKER_FAILED;
    }
    NEVER("error");
}

/* What the end of a call says of its node; -1: nothing. Who was never connected to a node
 * has not lost it: it may be the start. */
static int result_of(const struct health *health, const struct seam_call *call)
{
    switch (call->outcome) {
    case SEAM_OK:
        return BREAKER_GOOD;
    case SEAM_TIMEOUT:
        return BREAKER_FAILED;
    case SEAM_LOST:
        return BREAKER_BROKEN;
    case SEAM_DOWN:
        return atomic_load_explicit(&health->is_proven[call->node],
                                    memory_order_relaxed)
                   ? BREAKER_BROKEN
                   : -1;
    case SEAM_FULL:
        return -1;
    case SEAM_ERROR:
        return result_of_error(call->error);
    }
    NEVER("outcome");
}

void health_report(struct health *health, const struct seam_call *call,
                   struct instant now)
{
    static const enum health_count counts[] = {
        [SEAM_TIMEOUT] = HEALTH_TIMEOUTS, [SEAM_DOWN] = HEALTH_UNSENT,
        [SEAM_FULL] = HEALTH_UNSENT,      [SEAM_LOST] = HEALTH_LOST,
        [SEAM_ERROR] = HEALTH_ERRORS,
    };
    bool is_sent = call->outcome != SEAM_DOWN && call->outcome != SEAM_FULL;
    health_add(health, HEALTH_CALLS, is_sent);
    if (call->outcome != SEAM_OK) {
        health_add(health, counts[call->outcome], 1);
    } else {
        add_round_trip(health, call->round_trip_us);
    }
    if (call->node >= SEAM_NODES_MAX) {
        return;
    }
    note_node(health, call->node);
    note_failure(health, call);
    int result = result_of(health, call);
    if (result == BREAKER_GOOD) {
        atomic_store_explicit(&health->is_proven[call->node], true,
                              memory_order_relaxed);
    }
    if (result >= 0
        && breaker_report(&health->breakers[call->node], now,
                          (enum breaker_result)result, call->round_trip_us)) {
        log_change(health, call->node, now);
    }
}

void health_report_probe(struct health *health, const struct seam_call *call,
                         struct instant now)
{
    if (call->node >= SEAM_NODES_MAX) {
        return;
    }
    note_failure(health, call);
    if (breaker_report_probe(&health->breakers[call->node], now,
                             call->outcome == SEAM_OK ? BREAKER_GOOD : BREAKER_FAILED,
                             call->round_trip_us)) {
        log_change(health, call->node, now);
    }
}
