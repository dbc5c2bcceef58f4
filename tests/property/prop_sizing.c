/*
 * What check says at most of counters in Redis is not exceeded: of random rules no request
 * that has its keys meets more limits, or more slots; and hosts that count for themselves
 * let no more through than is told, however they are asked. The calls that it says hosts
 * make that count ahead are those of the real stores over a Redis that is not there
 * (tests/simulation), within a factor of 2. TRACES=n tries n files of rules, and outages and
 * fleets as their number goes with that.
 */
#include <stdio.h>
#include <stdlib.h>

#include "rules/file.h"
#include "rules/key_text.h"
#include "rules/units.h"

#include "agent/clock.h"
#include "agent/command/check_bound.h"
#include "agent/command/check_redis_size.h"
#include "agent/store/fallback.h"
#include "agent/store/redis.h"

#include "tests/simulation/fleet.h"
#include "tests/support/limit.h"
#include "tests/support/prng.h"
#include "tests/unit/rules/support.h"

enum {
    TRACES = 3000, /* files of rules; */
    BUCKETS = 6,   /* of hosts without Redis, for each; */
    FLEET_IN = 50, /* one fleet for so many */
    REQUESTS = 60,
    RULES_MOST = 8,
    ASKED = 300,
    HOSTS_MOST = 5,
    FLEET_RING = 64,    /* requests under way */
    FLEET_MEASURED = 6, /* seconds; */
    FLEET_WARM_UP = 3,  /* these go before */
    CALLS_FACTOR = 2,
    CALLS_SLACK = 10, /* a second */
};

static char text[8192];
static size_t text_len;

static void add(const char *piece)
{
    size_t n = strlen(piece);
    assert_true(n < sizeof(text) - text_len);
    memcpy(text + text_len, piece, n + 1);
    text_len += n;
}

static const char *pick(struct prng *prng, const char *const *list, size_t n)
{
    return list[prng_below(prng, n)];
}

#define PICK(prng, list) pick(prng, list, sizeof(list) / sizeof(list)[0])

static void add_rule(struct prng *prng, unsigned idx)
{
    static const char *const matches[] = {"",
                                          "a: x",
                                          "a: [x, y]",
                                          "a: {not: x}",
                                          "a: x*",
                                          "a: xx*",
                                          "a: absent",
                                          "a: present",
                                          "path: /a",
                                          "path: \"/a/**\"",
                                          "path: \"/*/b\"",
                                          "a: x, path: \"/b/**\"",
                                          "a: y, path: \"/a/*\""};
    static const char *const keys[] = {"[t]",
                                       "[u]",
                                       "[t, u]",
                                       "[u, t]",
                                       "[]",
                                       "[ip]",
                                       "[t, ip]",
                                       "[t | u]",
                                       "[t, u], tag: [t]",
                                       "[u, t], tag: [t]",
                                       "[u, t], tag: [u, t]",
                                       "[t, ip], tag: [ip]",
                                       "[ip], ip_prefix: {v4: 24}",
                                       "[t], key_text: hashed"};
    static const char *const stores[] = {"redis", "redis", "lease", "local", "sync"};
    static const char *const modes[] = {"enforce", "enforce", "shadow"};
    static const char *const limits[] = {
        "limit: {requests: 10, per: 1s}",
        "limits: [{name: x, requests: 10, per: 1s}, {name: y, requests: 99, per: 60s}]"};
    char piece[256];
    (void)snprintf(piece, sizeof(piece),
                   "- {name: r%u, store: %s, mode: %s, %s, key: %s", idx,
                   PICK(prng, stores), PICK(prng, modes), PICK(prng, limits),
                   PICK(prng, keys));
    add(piece);
    (void)snprintf(piece, sizeof(piece), ", match: {%s}", PICK(prng, matches));
    add(piece);
    if (idx > 0 && prng_below(prng, 6) == 0) {
        (void)snprintf(piece, sizeof(piece), ", overrides: r%u",
                       (unsigned)prng_below(prng, idx));
        add(piece);
    }
    add("}\n");
}

/* Where the counters of a hit lie. */
static void write_tag(const struct rules_hit *hit, char *tag)
{
    static char whole[RULES_KEY_TEXT_BYTES_MAX];
    uint32_t parts = hit->rule->tag_parts;
    if (!hit->rule->is_keyed) {
        (void)snprintf(whole, sizeof(whole), "rule %s", hit->rule->name);
    } else if (parts != 0) {
        (void)rules_key_parts_text(hit->key, parts, whole);
    } else {
        (void)rules_key_text(hit->key, whole);
    }
    (void)snprintf(tag, 128, "%d %.120s", hit->rule->is_key_hashed, whole);
}

/* Of a lease those that are too small for a block of two of one host, in which is a 20th. */
static unsigned n_asked(const struct rules_hit *hit)
{
    unsigned n = hit->rule->store == RULES_STORE_REDIS ? hit->n_limits : 0;
    for (uint32_t i = 0; hit->rule->store == RULES_STORE_LEASE && i < hit->n_limits;
         i++) {
        n += hit->limits[i].requests < 40;
    }
    return n;
}

struct met {
    int64_t limits;
    int64_t slots;
    char tags[RULES_HITS_MAX][128];
};

static void meet(struct met *met, const struct rules_hit *hit)
{
    int64_t i = 0;
    if (n_asked(hit) == 0) {
        return;
    }
    met->limits += n_asked(hit);
    write_tag(hit, met->tags[met->slots]);
    while (strcmp(met->tags[i], met->tags[met->slots]) != 0) {
        i++;
    }
    met->slots += i == met->slots;
}

static void meet_all(struct met *met, const struct rules_result *result)
{
    for (uint32_t i = 0; i < result->n_hits; i++) {
        meet(met, &result->hits[i]);
    }
}

static void request_make(struct prng *prng, const struct rules_set *set,
                         struct rules_request *request)
{
    static const char *const words[] = {"x", "y", "xx", "z"};
    static const char *const paths[] = {"/a", "/a/b", "/b", "/b/b", "/a/c"};
    static const uint8_t ip[4] = {203, 0, 113, 7};
    memset(request, 0, sizeof(*request));
    request_set(set, request, "ip", RULES_ADDRESS, ip, sizeof(ip));
    request_text(set, request, "t", "tenant");
    request_text(set, request, "u", "user");
    request_text(set, request, "path", PICK(prng, paths));
    if (prng_below(prng, 4) > 0) {
        request_text(set, request, "a", PICK(prng, words));
    }
}

/* @return whether this request needs all that is told */
static bool request_check(const struct rules_set *set,
                          const struct rules_request *request,
                          const struct check_redis_size *size, uint64_t seed)
{
    static struct rules_result result;
    struct met met = {0};
    rules_eval(set, request, &result);
    meet_all(&met, &result);
    if (met.limits > size->limits || met.slots > size->slots) {
        fail_msg("SEED=%llu %lld limits of %lld, %lld slots of %lld:\n%s",
                 (unsigned long long)seed, (long long)met.limits,
                 (long long)size->limits, (long long)met.slots, (long long)size->slots,
                 text);
    }
    return met.limits == size->limits && met.slots == size->slots;
}

/* @return whether some request needed all that is told */
static bool file_check(struct prng *prng, const struct rules_file *file, uint64_t seed)
{
    static struct rules_diags diags;
    struct rules_request request;
    struct check_redis_place place = {.prefix = "rl",
                                      .is_cluster = true,
                                      .fleet = {.n_hosts = 1,
                                                .n_workers = 1,
                                                .lease_share = 500}};
    struct check_load load = {.n_keys = 1, .n_hosts = 1};
    struct check_redis_size size;
    struct rules_set *set = rules_file_compile(file, 0, &diags);
    bool is_tight = false;
    assert_non_null(set);
    assert_true(check_redis_size_find(rules_file_ast(file), &place, &load, &size));
    for (unsigned i = 0; i < REQUESTS; i++) {
        request_make(prng, set, &request);
        is_tight = request_check(set, &request, &size, seed) || is_tight;
    }
    rules_set_free(set);
    return is_tight;
}

static void test_requests(void **state)
{
    static struct rules_diags diags;
    struct prng prng;
    uint64_t seed = prng_seed(11);
    int n_files = prng_traces(TRACES);
    int n_tight = 0;
    (void)state;
    prng_init(&prng, seed);
    for (int i = 0; i < n_files; i++) {
        unsigned n = 1 + (unsigned)prng_below(&prng, RULES_MOST);
        text_len = 0;
        add("version: 1\ndomain: d\nrules:\n");
        for (unsigned k = 0; k < n; k++) {
            add_rule(&prng, k);
        }
        rules_diags_init(&diags, "test.yaml");
        struct rules_file *file = rules_file_read(
            &(struct rules_source){.name = "test.yaml", .text = bytes_of(text)},
            &diags);
        if (file == NULL) {
            rules_diags_print(&diags, stderr);
        }
        assert_non_null(file);
        n_tight += file_check(&prng, file, seed);
        rules_file_free(file);
    }
    assert_true(n_tight > n_files / 2); /* it is no empty promise either */
}

/* ---- hosts without Redis ---- */

static const enum rules_algorithm algorithms[] = {RULES_SLIDING_WINDOW,
                                                  RULES_TOKEN_BUCKET,
                                                  RULES_FIXED_WINDOW,
                                                  RULES_LEAKY_BUCKET,
                                                  RULES_SLIDING_LOG};

struct outage {
    struct rules_ast_rule rule;
    struct check_numbers numbers;
    int64_t n_hosts;
    struct check_bound bound;
};

static void outage_make(struct prng *prng, struct outage *o)
{
    struct rules_ast_limit *limit = &o->rule.limits[0];
    *o = (struct outage){.n_hosts = 1 + (int64_t)prng_below(prng, HOSTS_MOST)};
    o->rule.n_limits = 1;
    o->rule.cost.min = 1;
    o->rule.cost.max = 1 + (int64_t)prng_below(prng, 30);
    o->rule.on_store_failure.share_permyriad = 1 + (int32_t)prng_below(prng, 10000);
    limit->algorithm = algorithms[prng_below(prng, ARRAY_LEN(algorithms))];
    limit->per_us = US_PER_S * (1 + (int64_t)prng_below(prng, 3));
    limit->max_delay_us = limit->per_us / 2;
    limit->requests = 1 + (int64_t)prng_below(prng, 200);
    limit->burst = 1 + (int64_t)prng_below(prng, 200);
    /* of a plan, perhaps */
    o->numbers = (struct check_numbers){1 + (int64_t)prng_below(prng, 400),
                                        limit->burst};
    assert_int_equal(check_failure_find(&o->rule, limit, &o->numbers, o->n_hosts,
                                        &o->bound),
                     CHECK_FAILURE_BOUND);
}

/* The bucket of each host, as a store makes it (decide/set.c), from the rules alone. */
static struct limit bucket_make(const struct outage *o)
{
    const struct rules_ast_limit *limit = &o->rule.limits[0];
    struct check_bound whole;
    struct fallback fallback;
    struct limit bucket;
    check_bound_find(limit, &o->numbers, rules_ast_largest_cost(&o->rule), &whole);
    struct limit own = {.requests = o->numbers.requests,
                        .size = whole.at_once,
                        .per_ticks = limit->per_us / rules_tick_us(limit->per_us),
                        .tick_us = rules_tick_us(limit->per_us)};
    fallback_init(&fallback, &own, limit->requests, o->rule.cost.max);
    fallback_limit(&fallback, (unsigned)o->n_hosts,
                   o->rule.on_store_failure.share_permyriad, &bucket);
    return bucket;
}

/* @return what a host lets through until it refuses, in requests of any cost */
static int64_t ask_host(struct prng *prng, const struct outage *o,
                        const struct limit *bucket, struct limit_state *state,
                        struct instant now)
{
    int64_t cost = 1 + (int64_t)prng_below(prng, (uint64_t)o->rule.cost.max);
    int64_t n = 0;
    struct limit_answer answer;
    while (limit_take(bucket, state, now, cost, &answer)) {
        n += cost;
    }
    return n;
}

/* All hosts are asked at once, then as fast as they let through, for one `per`. */
static void outage_check(struct prng *prng, const struct outage *o, uint64_t seed)
{
    struct limit bucket = bucket_make(o);
    struct limit_state states[HOSTS_MOST] = {0};
    int64_t at_once = 0;
    int64_t in_per = 0;
    for (int64_t step = 0; step < ASKED; step++) {
        struct instant now = {.us = 1 + step * o->rule.limits[0].per_us / ASKED};
        for (int64_t host = 0; host < o->n_hosts; host++) {
            in_per += ask_host(prng, o, &bucket, &states[host], now);
        }
        at_once = step == 0 ? in_per : at_once;
    }
    if (at_once > o->bound.at_once || in_per > o->bound.in_any_per) {
        fail_msg("SEED=%llu %lld at once of %lld, %lld in per of %lld",
                 (unsigned long long)seed, (long long)at_once,
                 (long long)o->bound.at_once, (long long)in_per,
                 (long long)o->bound.in_any_per);
    }
}

static void test_outages(void **state)
{
    struct prng prng;
    uint64_t seed = prng_seed(13);
    (void)state;
    prng_init(&prng, seed);
    for (int n = prng_traces(TRACES) * BUCKETS; n > 0; n--) {
        struct outage outage;
        outage_make(&prng, &outage);
        outage_check(&prng, &outage, seed);
    }
}

/* ---- hosts that count ahead ---- */

struct ahead {
    enum store_kind kind;
    unsigned n_nodes;
    struct check_load load;
    int64_t requests; /* a minute */
};

static void ahead_make(struct prng *prng, struct ahead *a)
{
    static const int64_t keys[] = {1, 5, 30, 200, 600, 1000};
    static const int64_t rates[] = {20, 200, 1000, 4000};
    *a = (struct ahead){
        .kind = prng_below(prng, 3) == 0 ? STORE_KIND_SYNC : STORE_KIND_LEASE,
        .n_nodes = prng_below(prng, 2) == 0 ? 1 : SIM_NODES_MAX,
        .load.n_keys = keys[prng_below(prng, ARRAY_LEN(keys))],
        .load.rate = rates[prng_below(prng, ARRAY_LEN(rates))],
        .load.n_hosts = 1 + (int64_t)prng_below(prng, HOSTS_MOST),
    };
    /* Half as much again as comes, or up to a hundred times that. */
    a->requests = a->load.rate * 60 / a->load.n_keys * 3 / 2
                  * (prng_below(prng, 2) == 0 ? 1 : 1 + (int64_t)prng_below(prng, 100));
    a->requests = a->requests < 60 ? 60 : a->requests;
}

static int64_t ahead_tell(const struct ahead *a)
{
    static struct rules_diags diags;
    struct check_redis_size size;
    struct check_redis_place place = {
        .prefix = "rl",
        .is_cluster = a->n_nodes > 1,
        .fleet = {.n_hosts = a->load.n_hosts,
                  .n_workers = 1,
                  .lease_share = FLEET_LEASE_SHARE,
                  .lease_horizon_us = US_PER_S,
                  .sync_interval_us = FLEET_SYNC_INTERVAL_US},
    };
    char rule[256];
    (void)snprintf(rule, sizeof(rule),
                   "version: 1\ndomain: d\nrules:\n- {name: r, key: [ip], store: %s, "
                   "limit: {requests: %lld, per: 60s}}\n",
                   a->kind == STORE_KIND_SYNC ? "sync" : "lease",
                   (long long)a->requests);
    rules_diags_init(&diags, "test.yaml");
    struct rules_file *file = rules_file_read(
        &(struct rules_source){.name = "test.yaml", .text = bytes_of(rule)}, &diags);
    assert_non_null(file);
    assert_true(check_redis_size_find(rules_file_ast(file), &place, &a->load, &size));
    rules_file_free(file);
    return size.n_calls + size.n_misses + size.n_batches;
}

static int64_t n_calls(const struct fleet *fleet)
{
    return (int64_t)(sim_n_scripts(fleet->sim, REDIS_SCRIPT_TAKE)
                     + sim_n_scripts(fleet->sim, REDIS_SCRIPT_LEASE)
                     + sim_n_scripts(fleet->sim, REDIS_SCRIPT_SYNC));
}

/* Of any key on any host, evenly over time. */
static void offer(struct prng *prng, const struct ahead *a, struct fleet *fleet,
                  const struct fleet_limit *limit, int64_t seconds)
{
    static struct fleet_request ring[FLEET_RING];
    for (int64_t i = 0; i < seconds * a->load.rate; i++) {
        char key[16];
        struct fleet_request *request = &ring[i % FLEET_RING];
        memset(request, 0, sizeof(*request));
        (void)snprintf(key, sizeof(key), "%u",
                       (unsigned)prng_below(prng, (uint64_t)a->load.n_keys));
        fleet_add(request, limit, key, 1);
        fleet_ask(fleet, (unsigned)prng_below(prng, fleet->n_hosts), request);
        sim_run(fleet->sim, US_PER_S / a->load.rate);
    }
    sim_run(fleet->sim, FLEET_DEADLINE_US);
}

/* As it is after a while: an exchange has told each host of each key. */
static void hear_of_all(const struct ahead *a, struct fleet *fleet,
                        const struct fleet_limit *limit)
{
    for (unsigned host = 0; host < fleet->n_hosts; host++) {
        for (int64_t i = 0; i < a->load.n_keys; i++) {
            char key[16];
            struct fleet_request request = {0};
            (void)snprintf(key, sizeof(key), "%u", (unsigned)i);
            fleet_add(&request, limit, key, 0);
            fleet_ask(fleet, host, &request);
            assert_true(request.is_done);
        }
    }
    sim_run(fleet->sim, US_PER_S);
}

static int64_t ahead_do(struct prng *prng, const struct ahead *a)
{
    static struct fleet fleet;
    struct fleet_limit limit;
    struct limit what = sliding(a->requests, 60 * US_PER_S);
    fleet_init_ahead(&fleet, prng_next(prng), a->n_nodes, (unsigned)a->load.n_hosts);
    fleet_limit_init(&limit, &what, "r", false);
    limit.home.kind = a->kind;
    if (a->kind == STORE_KIND_SYNC) {
        hear_of_all(a, &fleet, &limit);
    }
    offer(prng, a, &fleet, &limit, FLEET_WARM_UP);
    int64_t before = n_calls(&fleet);
    offer(prng, a, &fleet, &limit, FLEET_MEASURED);
    int64_t made = (n_calls(&fleet) - before) / FLEET_MEASURED;
    fleet_fini(&fleet);
    return made;
}

static void ahead_check(const struct ahead *a, int64_t told, int64_t made,
                        uint64_t seed)
{
    if (told > made * CALLS_FACTOR + CALLS_SLACK
        || made > told * CALLS_FACTOR + CALLS_SLACK) {
        fail_msg("SEED=%llu store %u, %u nodes, %lld keys, %lld hosts, %lld a second "
                 "of %lld a minute: %lld calls a second are told, %lld made",
                 (unsigned long long)seed, a->kind, a->n_nodes,
                 (long long)a->load.n_keys, (long long)a->load.n_hosts,
                 (long long)a->load.rate, (long long)a->requests, (long long)told,
                 (long long)made);
    }
}

static void test_ahead(void **state)
{
    struct prng prng;
    uint64_t seed = prng_seed(17);
    (void)state;
    prng_init(&prng, seed);
    for (int n = prng_traces(TRACES) / FLEET_IN; n > 0; n--) {
        struct ahead a;
        ahead_make(&prng, &a);
        ahead_check(&a, ahead_tell(&a), ahead_do(&prng, &a), seed);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_requests),
        cmocka_unit_test(test_outages),
        cmocka_unit_test(test_ahead),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
