/* The laws of a fleet: hosts with the real stores over simulated nodes, while links lose and
 * delay, hosts are cut off, nodes crash, stop, refuse, babble and forget, slots move and
 * clocks differ. Requests of several rules and policies go on meanwhile. Of nothing that is
 * charged anything drains within a trace, so that sums are exact:
 *
 * - Each take is done once, by its deadline.
 * - What a host refuses without asking Redis would have refused, unless within the last second
 *   something was given back, forgotten or moved.
 * - kept(counter): what the counter charged for requests that were allowed, and the host
 *   heard of. It is never more than the limit's size and what the counter held each time a
 *   node forgot it, or its slot moved.
 * - admitted by policy local: on each host, in all, never more than the size of its bucket.
 * - What hosts heard to be charged for refused requests, they told Redis to give back: all of
 *   that, nothing else. A request that a policy allowed keeps what it charged, also late.
 * - At rest a counter that nobody forgot or moved holds what nodes charged, less what they
 *   gave back; so where no answer and no give-back is lost, nothing of a refused request.
 * - At rest counters of a host hold what its allowed requests charged.
 * - 2 s after the last fault every charge is counted by Redis again.
 * - No context, call or timer stays.
 *
 * SEED=n begins with that seed; TRACES=1 tries that one only. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "agent/log.h"
#include "agent/store/redis.h"

#include "tests/simulation/fleet.h"
#include "tests/support/limit.h"
#include "tests/support/prng.h"
#include "tests/support/seeds.h"

enum {
    TRACES = 2000,
    LIMITS = 6,
    KEYS = 3,
    COUNTERS = LIMITS * KEYS,
    STEPS_MAX = 60,
    REQUESTS_MAX = 160,
    CHARGES = 5,
    HOSTS = 20,
    NAME_BYTES = 64,
};

#define HOUR_US     (60 * MINUTE_US)
#define MONTH_US    (30 * 24 * HOUR_US)
#define RECOVERY_US (2 * US_PER_S)

/* A key of a limit: in Redis, or on each host. */
struct tally {
    const struct fleet_limit *limit;
    char name[NAME_BYTES];
    bool is_torn;      /* forgotten, or moved */
    int64_t forgotten; /* what it held then */
    bool was_eased;
    struct instant eased_at; /* when it last got less than it held */
    int64_t done;            /* charged by nodes, less given back */
    int64_t sent_back;       /* told to give back */
    int64_t kept;
    int64_t refused; /* charged for refused requests, as far as heard */
    int64_t on_host[HOSTS];
    int64_t by_policy[HOSTS];
};

struct request {
    struct fleet_request fleet;
    unsigned host;
    bool is_judged;
    unsigned n_calls; /* begun for it */
    unsigned counters[CHARGES];
    int64_t heard[CHARGES];
};

static struct {
    struct sim_witness witness;
    struct prng prng;
    struct fleet fleet;
    unsigned n_nodes;
    struct fleet_limit limits[LIMITS];
    struct tally counters[COUNTERS];
    unsigned n_requests;
    struct request requests[REQUESTS_MAX];
    struct { /* over all traces */
        uint64_t n_allowed;
        uint64_t n_refused;
        uint64_t n_refused_again;
        uint64_t n_by_policy;
        uint64_t n_late;
        uint64_t n_given_back;
        uint64_t n_unheard;
    } seen;
} t;

static uint64_t below(uint64_t limit)
{
    return prng_below(&t.prng, limit);
}

static bool one_in(uint64_t n)
{
    return below(n) == 0;
}

static void ease(struct tally *counter)
{
    counter->was_eased = true;
    counter->eased_at = sim_now(t.fleet.sim);
}

/* ---- the witness ---- */

static struct tally *find_counter(struct seam_bytes key, unsigned *idx)
{
    for (unsigned i = 0; i < COUNTERS; i++) {
        if (strlen(t.counters[i].name) == key.len
            && memcmp(t.counters[i].name, key.ptr, key.len) == 0) {
            *idx = i;
            return &t.counters[i];
        }
    }
    return NULL; /* of a probe */
}

static void hear(struct request *request, unsigned counter_idx, int64_t amount)
{
    for (unsigned i = 0; i < request->fleet.take.n_charges; i++) {
        if (request->counters[i] == counter_idx) {
            request->heard[i] += amount;
            t.seen.n_late += request->fleet.is_done;
            return;
        }
    }
    fail_msg("a charge that nobody asked for");
}

/* Calls have the keys of the take they are of. */
static uint64_t tag(struct sim_witness *witness, const struct seam_call *call)
{
    (void)witness;
    for (unsigned i = 0; call->script == REDIS_SCRIPT_TAKE && i < t.n_requests; i++) {
        struct request *request = &t.requests[i];
        for (unsigned c = 0; c < request->fleet.take.n_charges; c++) {
            if (!request->fleet.is_done
                && request->fleet.take.charges[c].key == call->keys[0].ptr) {
                request->n_calls++;
                return i + 1;
            }
        }
    }
    return 0; /* a probe, or a settlement */
}

static void see(struct sim_witness *witness, const struct sim_tale *tale)
{
    unsigned idx = 0;
    struct tally *counter = find_counter(tale->key, &idx);
    bool is_take = tale->act == CENTRE_CHARGE;
    (void)witness;
    if (counter == NULL) {
        return;
    }
    switch (tale->step) {
    case SIM_SENT:
        counter->sent_back += tale->amount;
        break;
    case SIM_DONE:
        counter->done += is_take ? tale->amount : -tale->amount;
        if (!is_take) {
            ease(counter);
            t.seen.n_given_back++;
        }
        break;
    case SIM_HEARD:
        if (is_take) {
            assert_in_range(tale->tag, 1, t.n_requests);
            hear(&t.requests[tale->tag - 1], idx, tale->amount);
        }
        break;
    }
}

/* ---- the world ---- */

static void make_limits(void)
{
    const enum store_policy policies[] = {STORE_POLICY_LOCAL, STORE_POLICY_OPEN,
                                          STORE_POLICY_CLOSED};
    static const char *const names[LIMITS] = {"fixed",  "bucket", "sliding",
                                              "closed", "log",    "local"};
    struct limit limits[LIMITS] = {
        fixed(20, MONTH_US),
        bucket(8, 12, MONTH_US),
        sliding(15, MONTH_US),
        fixed(5, MONTH_US),
        make(LIMIT_SLIDING_LOG, 10, 10, MONTH_US),
        fixed(30, MONTH_US),
    };
    for (unsigned i = 0; i < LIMITS; i++) {
        fleet_limit_init(&t.limits[i], &limits[i], names[i], i == LIMITS - 1);
        t.limits[i].home.policy = i == 3 ? STORE_POLICY_CLOSED : policies[below(3)];
        for (unsigned k = 0; k < KEYS; k++) {
            struct tally *counter = &t.counters[i * KEYS + k];
            *counter = (struct tally){.limit = &t.limits[i]};
            (void)snprintf(counter->name, sizeof(counter->name), "rl:api:{%c}:%s",
                           'a' + (int)k, names[i]);
        }
    }
}

static void make_world(void)
{
    unsigned n_hosts = one_in(4) ? 1 + (unsigned)below(HOSTS) : 1 + (unsigned)below(4);
    t.n_nodes = one_in(3) ? 1 + (unsigned)below(SIM_NODES_MAX) : 1;
    fleet_init(&t.fleet, prng_next(&t.prng), t.n_nodes, n_hosts);
    sim_set_witness(t.fleet.sim, &t.witness);
    for (unsigned i = 0; i < t.n_nodes; i++) { /* so that none is before its window */
        sim_set_node_skew(t.fleet.sim, i, HOUR_US + (int64_t)below(US_PER_S));
    }
    for (unsigned i = 0; i < n_hosts; i++) {
        sim_set_host_skew(t.fleet.sim, i, HOUR_US + (int64_t)below(US_PER_S));
    }
}

/* What its counters held is forgotten; or stays where nobody asks any more. */
static void tear(unsigned slot, bool is_whole_node, unsigned node)
{
    struct seam *seam = sim_seam(t.fleet.sim, 0);
    for (unsigned i = 0; i < COUNTERS; i++) {
        struct tally *counter = &t.counters[i];
        unsigned its = seam_slot(seam, (struct seam_bytes){counter->name,
                                                           strlen(counter->name)});
        if (is_whole_node ? seam_node(seam, its) == node : its == slot) {
            counter->is_torn = true;
            ease(counter);
            counter->forgotten += sim_used(t.fleet.sim, &counter->limit->limit,
                                           counter->name);
        }
    }
}

static void flush(unsigned node)
{
    tear(0, true, node);
    sim_flush(t.fleet.sim, node);
}

static void move_slot(void)
{
    const struct tally *counter = &t.counters[below(COUNTERS)];
    unsigned slot = seam_slot(sim_seam(t.fleet.sim, 0),
                              (struct seam_bytes){counter->name,
                                                  strlen(counter->name)});
    tear(slot, false, 0);
    sim_move_slot(t.fleet.sim, slot, (unsigned)below(t.n_nodes));
}

static void break_something(void)
{
    struct sim *sim = t.fleet.sim;
    unsigned node = (unsigned)below(t.n_nodes);
    unsigned host = (unsigned)below(t.fleet.n_hosts);
    switch (below(7)) {
    case 0:
    case 1:
        sim_set_health(sim, node, (enum sim_health)below(SIM_BABBLING + 1));
        break;
    case 2:
        sim_set_latency(sim, host, 10, 10 + (int64_t)below(6000));
        break;
    case 3:
        sim_set_loss(sim, host, (unsigned)below(300));
        break;
    case 4:
        sim_set_cut(sim, host, !one_in(3));
        break;
    case 5:
        if (one_in(3)) {
            flush(node);
        }
        break;
    case 6:
    default:
        if (t.n_nodes > 1) {
            move_slot();
        }
        break;
    }
}

/* ---- requests ---- */

static void judge(struct request *request)
{
    const struct store_take *take = &request->fleet.take;
    request->is_judged = true;
    *(take->is_allowed ? &t.seen.n_allowed : &t.seen.n_refused) += 1;
    for (unsigned i = 0; i < take->n_charges; i++) {
        const struct store_charge *charge = &take->charges[i];
        struct tally *counter = &t.counters[request->counters[i]];
        assert_true(take->is_allowed || !charge->is_charged);
        assert_true(!take->is_allowed || charge->is_lenient
                    || charge->answer.is_allowed);
        assert_true(charge->source <= STORE_UNASKED
                    || take->failure != STORE_NO_FAILURE);
        t.seen.n_by_policy += charge->source > STORE_UNASKED;
        if (charge->is_charged && charge->source == STORE_FALLBACK) {
            counter->by_policy[request->host] += charge->cost;
        } else if (charge->is_charged && charge->home == NULL) {
            counter->on_host[request->host] += charge->cost;
        }
    }
}

static void check_done(void)
{
    for (unsigned i = 0; i < t.n_requests; i++) {
        struct request *request = &t.requests[i];
        if (request->fleet.is_done && !request->is_judged) {
            judge(request);
        }
    }
}

static void add_charge(struct request *request, unsigned limit, unsigned key)
{
    struct fleet_request *fleet = &request->fleet;
    unsigned at = fleet->take.n_charges;
    const char text[] = {(char)('a' + (int)key), '\0'};
    int64_t cost = one_in(8) ? 0 : 1 + (int64_t)below(3);
    request->counters[at] = limit * KEYS + key;
    fleet_add(fleet, &t.limits[limit], text, cost);
    struct store_charge *charge = &fleet->take.charges[at];
    charge->is_shadow = one_in(10);
    charge->is_lenient = charge->is_shadow || one_in(10);
    charge->count_idx = limit;
}

/* Where it was refused without a call: by charges that Redis refuses, too. */
static void check_refused_again(struct fleet_request *fleet)
{
    const struct request *request = CONTAINER_OF(fleet, struct request, fleet);
    const struct store_take *take = &fleet->take;
    bool is_again = false;
    for (unsigned i = 0; request->n_calls == 0 && i < take->n_charges; i++) {
        const struct store_charge *charge = &take->charges[i];
        const struct tally *counter = &t.counters[request->counters[i]];
        const struct limit *limit = &counter->limit->limit;
        if (charge->home == NULL || charge->source != STORE_COUNTED) {
            continue;
        }
        assert_false(take->is_allowed || charge->answer.is_allowed
                     || charge->is_lenient);
        int64_t since_us = instant_diff_us(sim_now(t.fleet.sim), counter->eased_at);
        if (!counter->was_eased || since_us > REFUSALS_US_MAX + FLEET_DEADLINE_US) {
            assert_true(sim_used(t.fleet.sim, limit, counter->name) + charge->cost
                        > limit->size);
        }
        is_again = true;
    }
    t.seen.n_refused_again += is_again;
}

static void ask(void)
{
    struct request *request = &t.requests[t.n_requests++];
    unsigned n = 1 + (unsigned)below(3);
    memset(request, 0, sizeof(*request));
    request->host = (unsigned)below(t.fleet.n_hosts);
    unsigned first = (unsigned)below(LIMITS);
    for (unsigned i = 0; i < n; i++) { /* each another limit */
        add_charge(request, (first + i) % LIMITS, (unsigned)below(KEYS));
    }
    request->fleet.take.is_peek = one_in(20);
    if (one_in(20)) { /* too little time, mostly */
        struct instant now = seam_now(sim_seam(t.fleet.sim, request->host));
        request->fleet.take.deadline = instant_add_us(now, (int64_t)below(1200));
    }
    request->fleet.on_done = check_refused_again;
    fleet_ask(&t.fleet, request->host, &request->fleet);
}

/* ---- laws ---- */

static void check_deadlines(unsigned from)
{
    for (unsigned i = from; i < t.n_requests; i++) {
        const struct fleet_request *request = &t.requests[i].fleet;
        const struct store_take *take = &request->take;
        assert_true(request->is_done);
        assert_true(instant_diff_us(request->done_at, request->asked_at)
                    <= instant_diff_us(take->deadline, take->now));
    }
}

static void sum_up(void)
{
    for (unsigned i = 0; i < t.n_requests; i++) {
        const struct request *request = &t.requests[i];
        const struct store_take *take = &request->fleet.take;
        for (unsigned c = 0; c < take->n_charges; c++) {
            struct tally *counter = &t.counters[request->counters[c]];
            const struct store_charge *charge = &take->charges[c];
            *(take->is_allowed ? &counter->kept
                               : &counter->refused) += request->heard[c];
            if (charge->home != NULL && charge->is_charged
                && charge->source == STORE_COUNTED) {
                assert_int_equal(request->heard[c], charge->cost);
            }
        }
    }
}

static int64_t used_on_host(const struct tally *counter, unsigned host)
{
    struct store_take take = {
        .now = seam_now(sim_seam(t.fleet.sim, host)),
        .n_charges = 1,
        .is_peek = true,
        .counters = t.fleet.hosts[host].counters,
        .charges[0] =
            {
                .limit = &counter->limit->limit,
                .limit_id = counter->limit->id,
                .key = (const uint8_t *)counter->name,
                .key_bytes = strlen(counter->name),
            },
    };
    struct fleet_request request = {.take = take};
    fleet_ask(&t.fleet, host, &request);
    assert_true(request.is_done);
    return counter->limit->limit.size - request.take.held[0].remaining;
}

static void check_hosts(const struct tally *counter)
{
    struct limit share;
    fallback_limit(&counter->limit->home.fallback, t.fleet.n_hosts,
                   counter->limit->home.share, &share);
    for (unsigned i = 0; i < t.fleet.n_hosts; i++) {
        assert_true(counter->by_policy[i] <= share.size);
        if (counter->limit->is_local) {
            assert_int_equal(used_on_host(counter, i), counter->on_host[i]);
        }
    }
}

static void check_counters(void)
{
    sum_up();
    for (unsigned i = 0; i < COUNTERS; i++) {
        const struct tally *counter = &t.counters[i];
        const struct limit *limit = &counter->limit->limit;
        check_hosts(counter);
        if (counter->limit->is_local) {
            continue;
        }
        assert_int_equal(counter->sent_back, counter->refused);
        assert_true(counter->kept <= limit->size + counter->forgotten);
        if (!counter->is_torn) {
            assert_int_equal(sim_used(t.fleet.sim, limit, counter->name),
                             counter->done);
            assert_true(counter->done >= counter->kept);
            t.seen.n_unheard += counter->done > counter->kept;
        }
    }
}

/* Every host reaches every counter; cost 0 always passes. */
static void check_recovery(void)
{
    for (unsigned host = 0; host < t.fleet.n_hosts; host++) {
        struct fleet_request request = {0};
        for (unsigned k = 0; k < KEYS; k++) {
            const char text[] = {(char)('a' + (int)k), '\0'};
            fleet_add(&request, &t.limits[0], text, 0);
        }
        fleet_ask(&t.fleet, host, &request);
        assert_true(fleet_wait(&t.fleet, &request));
        for (unsigned k = 0; k < KEYS; k++) {
            assert_int_equal(request.take.charges[k].source, STORE_COUNTED);
        }
    }
}

static void step(bool has_faults)
{
    unsigned from = t.n_requests;
    if (has_faults && one_in(4)) {
        break_something();
    }
    for (uint64_t n = below(4); n > 0 && t.n_requests < REQUESTS_MAX; n--) {
        ask();
    }
    if (one_in(3)) { /* while they are under way */
        sim_run(t.fleet.sim, (int64_t)below(1000));
        if (has_faults && one_in(3)) {
            break_something();
        }
    }
    sim_run(t.fleet.sim, FLEET_DEADLINE_US);
    check_deadlines(from);
    check_done();
    sim_run(t.fleet.sim, (int64_t)below(one_in(8) ? 600 * US_PER_MS : 20 * US_PER_MS));
}

static void trace(uint64_t seed)
{
    prng_init(&t.prng, seed);
    t.n_requests = 0;
    make_limits();
    make_world();
    bool has_faults = !one_in(6);
    for (uint64_t n = 5 + below(STEPS_MAX); n > 0; n--) {
        step(has_faults);
    }
    sim_heal(t.fleet.sim);
    sim_run(t.fleet.sim, RECOVERY_US);
    check_recovery();
    check_counters();
    fleet_fini(&t.fleet);
}

static void laws_of_a_fleet(void **context)
{
    (void)context;
    seeds_try(20261130, TRACES, trace);
    print_message(
        "%llu allowed, %llu refused, %llu unasked; %llu charges by policy, %llu late, "
        "%llu given back; %llu counters hold what nobody heard of\n",
        (unsigned long long)t.seen.n_allowed, (unsigned long long)t.seen.n_refused,
        (unsigned long long)t.seen.n_refused_again,
        (unsigned long long)t.seen.n_by_policy, (unsigned long long)t.seen.n_late,
        (unsigned long long)t.seen.n_given_back, (unsigned long long)t.seen.n_unheard);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(laws_of_a_fleet)};
    t.witness.see = see;
    t.witness.tag = tag;
    log_start(LOG_LEVEL_ERROR); /* breakers have much to tell */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
