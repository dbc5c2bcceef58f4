#include "agent/command/check_redis_size.h"

#include <stdlib.h>
#include <string.h>

#include "rules/imply.h"
#include "rules/slot.h"

#include "agent/clock.h"
#include "agent/decide/key.h"
#include "agent/store/courier.h"
#include "agent/store/leases.h"
#include "agent/store/notebook.h"
#include "agent/store/sync_calls.h"

/* A rule of which Redis is asked for each request. */
struct shared {
    const struct rules_ast_rule *rule;
    uint32_t n_limits; /* of its limits */
    uint32_t group;    /* the first that is in a slot with it */
    uint32_t seen_for; /* of a first one: by whom, from 1, its group was counted last */
};

struct sizer {
    const struct rules_ast *ast;
    const struct check_redis_place *place;
    const struct check_load *load;
    struct check_redis_size *size;
    uint32_t n_shared;
    struct shared *shared;
    int64_t n_steps;
};

/* ---- counters ---- */

static int64_t keys_of(const struct sizer *s, const struct rules_ast_rule *rule)
{
    return rule->n_key_parts > 0 ? s->load->n_keys : 1;
}

/* What is shown of the values of these parts. */
static size_t text_bytes(const struct sizer *s, const struct rules_ast_rule *rule,
                         uint32_t parts)
{
    size_t n = 0;
    for (uint32_t i = 0; i < rule->n_key_parts; i++) {
        if ((parts >> i & 1) == 1) {
            n += s->ast->slots[rule->key[i].slots[0]].len + 1 + CHECK_REDIS_VALUE_BYTES;
            n += n > 0;
        }
    }
    if (rule->is_key_hashed) {
        return 1 + 2 * KEY_DIGEST_BYTES;
    }
    return n <= KEY_TEXT_BYTES ? n : KEY_SHOWN_BYTES + 1 + 2 * KEY_DIGEST_BYTES;
}

/* Of the name of a counter (decide/key.h). */
static size_t name_bytes(const struct sizer *s, const struct rules_ast_rule *rule,
                         const struct rules_ast_limit *limit)
{
    size_t fixed = sizeof("::{}:.:s1234567s") - 1 + strlen(s->place->prefix)
                   + strlen(s->ast->domain) + strlen(rule->name) + strlen(limit->name);
    uint32_t tag = rules_ast_tag_parts(s->ast, rule);
    if (rule->n_key_parts == 0) {
        return fixed + strlen(rule->name);
    }
    if (tag == 0) {
        return fixed + text_bytes(s, rule, UINT32_MAX);
    }
    return fixed + text_bytes(s, rule, tag) + 1 + text_bytes(s, rule, UINT32_MAX);
}

static void add_limit(struct sizer *s, const struct rules_ast_rule *rule,
                      const struct rules_ast_limit *limit)
{
    int64_t n_keys = keys_of(s, rule) * rule->n_shards;
    int64_t n_events = 0;
    if (limit->algorithm == RULES_SLIDING_LOG) {
        int64_t per_s = (limit->per_us + US_PER_S - 1) / US_PER_S;
        n_events = n_keys * limit->requests;
        n_events = s->load->rate > 0 ? least_of(n_events, s->load->rate * per_s)
                                     : n_events;
    }
    int64_t name = (int64_t)(name_bytes(s, rule, limit) + 15) / 16 * 16;
    int64_t hosts = rule->store != RULES_STORE_REDIS
                        ? s->load->n_hosts * CHECK_REDIS_HOST_BYTES
                        : 0;
    s->size->n_counters += n_keys;
    s->size->n_events += n_events;
    s->size->bytes += n_keys * (CHECK_REDIS_COUNTER_BYTES + name + hosts)
                      + n_events * CHECK_REDIS_EVENT_BYTES;
}

/* ---- what is counted ahead ---- */

/* The largest block of a host; 0: the limit is too small for any. */
static int64_t block_of(const struct sizer *s, const struct rules_ast_rule *rule,
                        const struct rules_ast_limit *limit)
{
    const struct check_numbers numbers = {limit->requests, limit->burst};
    struct check_ahead ahead;
    return check_ahead_find(rule, &numbers, &s->place->fleet, &ahead) ? ahead.of_host
                                                                      : 0;
}

/* On each host each key of a rule. */
static int64_t pairs_of(const struct sizer *s, const struct rules_ast_rule *rule)
{
    return keys_of(s, rule) * s->load->n_hosts;
}

static bool is_leased(const struct sizer *s, const struct rules_ast_rule *rule,
                      const struct rules_ast_limit *limit)
{
    int64_t in_horizon = s->load->rate * s->place->fleet.lease_horizon_us / US_PER_S;
    return rule->store == RULES_STORE_LEASE && block_of(s, rule, limit) > 0
           && (s->load->rate == 0 || in_horizon >= LEASE_BLOCK_MIN * pairs_of(s, rule));
}

/* Sync has pools of what was used of late. */
static void add_pools(struct sizer *s, const struct rules_ast_rule *rule)
{
    int64_t used = s->load->rate > 0
                       ? s->load->rate / s->load->n_hosts * SYNC_IDLE_US / US_PER_S + 1
                       : INT64_MAX;
    for (uint32_t i = 0; i < rule->n_limits; i++) {
        if (rule->store == RULES_STORE_SYNC) {
            s->size->n_synced += least_of(keys_of(s, rule), used);
        } else if (is_leased(s, rule, &rule->limits[i])) {
            s->size->n_leased += keys_of(s, rule);
        }
    }
}

/* Two halves of a block a horizon, and what is reported beside at the end of leases. Of
 * requests one in the square of what a client asks for in a horizon finds a block spent
 * (prop_sizing). */
static void add_orders(struct sizer *s, const struct rules_ast_rule *rule,
                       const struct rules_ast_limit *limit)
{
    int64_t horizon_us = s->place->fleet.lease_horizon_us;
    int64_t n_pairs = pairs_of(s, rule);
    if (s->load->rate == 0) {
        return;
    }
    int64_t n_blocks = n_pairs * US_PER_S / horizon_us;
    int64_t tenths = 10 * (s->load->rate * horizon_us / US_PER_S) / n_pairs;
    s->size->n_orders += most_of(n_blocks * 5 / 2,
                                 2 * s->load->rate / block_of(s, rule, limit));
    s->size->n_misses += 10 * n_blocks / tenths;
}

static void add_exchanges(struct sizer *s, const struct rules_ast_rule *rule)
{
    int64_t interval_us = s->place->fleet.sync_interval_us;
    int64_t in_interval = s->load->rate * interval_us / US_PER_S;
    int64_t n_pairs = pairs_of(s, rule);
    s->size->n_exchanges += in_interval < n_pairs ? s->load->rate
                                                  : n_pairs * US_PER_S / interval_us;
}

/* Orders wait for others that come by chance; exchanges of a round go together. */
static void add_batches(struct sizer *s)
{
    struct check_redis_size *size = s->size;
    const struct check_fleet *fleet = &s->place->fleet;
    int64_t n_workers = fleet->n_hosts * fleet->n_workers;
    int64_t n_rounds = n_workers * US_PER_S / fleet->sync_interval_us;
    int64_t waiting_permille = size->n_orders * (COURIER_WAIT_US * 1000 / US_PER_S)
                               / n_workers;
    int64_t in_round = least_of(SYNC_CALLS_ROUND, SYNC_CALLS_STEP
                                                      * fleet->sync_interval_us
                                                      / SYNC_CALLS_STEP_US);
    size->n_exchanges = least_of(size->n_exchanges, n_rounds * in_round);
    if (s->place->is_cluster) {
        size->n_batches = size->n_orders + size->n_exchanges;
        return;
    }
    size->n_batches = size->n_orders * 1000
                          / least_of(1000 + waiting_permille,
                                     COURIER_ITEMS_MAX * INT64_C(1000))
                      + least_of(size->n_exchanges,
                                 size->n_exchanges / COURIER_ITEMS_MAX + n_rounds);
}

/* ---- what requests ask ---- */

/* Whether one takes the other out of each request that both match. */
static bool is_overridden(const struct sizer *s, const struct rules_ast_rule *rule,
                          const struct rules_ast_rule *over)
{
    bool is_sure = over->mode == RULES_ENFORCE
                   && (over->n_key_parts == 0 || over->no_key == RULES_NO_KEY_IP);
    for (uint32_t i = 0; is_sure && i < over->n_overrides; i++) {
        if (&s->ast->rules[over->overrides[i].rule] == rule) {
            return true;
        }
    }
    return false;
}

static bool may_meet(struct sizer *s, const struct rules_ast_rule *a,
                     const struct rules_ast_rule *b)
{
    return a == b
           || (!is_overridden(s, a, b) && !is_overridden(s, b, a)
               && (--s->n_steps < 0
                   || !rules_match_excludes(&a->match, &b->match, &s->n_steps)));
}

/* All that a request can meet which meets this rule, and none before it. */
static void add_met(struct sizer *s, uint32_t idx)
{
    int64_t slots = 0;
    int64_t limits = 0;
    for (uint32_t i = idx; i < s->n_shared; i++) {
        const struct shared *met = &s->shared[i];
        struct shared *first = &s->shared[met->group];
        if (!may_meet(s, s->shared[idx].rule, met->rule)) {
            continue;
        }
        limits += met->n_limits;
        slots += first->seen_for != idx + 1;
        first->seen_for = idx + 1;
    }
    limits = least_of(limits, RULES_HITS_MAX);
    slots = s->place->is_cluster ? least_of(slots, limits) : 1;
    s->size->limits = limits > s->size->limits ? limits : s->size->limits;
    s->size->slots = slots > s->size->slots ? slots : s->size->slots;
}

static bool is_first_of(struct sizer *s, uint32_t first, uint32_t idx)
{
    return s->shared[first].group == first && --s->n_steps >= 0
           && rules_slot_is_same(s->ast, s->shared[first].rule, s->shared[idx].rule);
}

static void group(struct sizer *s, uint32_t idx)
{
    uint32_t i = 0;
    while (i < idx && !is_first_of(s, i, idx)) {
        i++;
    }
    s->shared[idx].group = i;
}

/* Those that match the least first: whoever meets one of the last, meets few others. */
static int compare(const void *a, const void *b)
{
    const struct rules_ast_rule *first = ((const struct shared *)a)->rule;
    const struct rules_ast_rule *second = ((const struct shared *)b)->rule;
    uint32_t n_first = first->match.n_conditions;
    uint32_t n_second = second->match.n_conditions;
    return n_first == n_second ? (first > second) - (first < second)
                               : (n_first < n_second) - (n_first > n_second);
}

static void add_rule(struct sizer *s, const struct rules_ast_rule *rule)
{
    s->size->is_used = true;
    for (uint32_t i = 0; i < rule->n_limits; i++) {
        add_limit(s, rule, &rule->limits[i]);
    }
    add_pools(s, rule);
}

/* Who asks Redis about its limits, a request or a host ahead of them. */
static void add_asking(struct sizer *s, const struct rules_ast_rule *rule)
{
    uint32_t n_asked = 0;
    bool are_leases_held = s->size->n_leased <= s->size->n_pools_max;
    bool is_sync_held = rule->store == RULES_STORE_SYNC
                        && s->size->n_synced <= s->size->n_pools_max;
    for (uint32_t i = 0; i < rule->n_limits; i++) {
        if (is_sync_held) {
            add_exchanges(s, rule);
        } else if (are_leases_held && is_leased(s, rule, &rule->limits[i])) {
            add_orders(s, rule, &rule->limits[i]);
        } else {
            n_asked++;
        }
    }
    if (n_asked > 0) {
        s->shared[s->n_shared++] = (struct shared){.rule = rule, .n_limits = n_asked};
    }
}

static void add_rules(struct sizer *s,
                      void (*add)(struct sizer *s, const struct rules_ast_rule *rule))
{
    for (uint32_t i = 0; i < s->ast->n_rules; i++) {
        const struct rules_ast_rule *rule = &s->ast->rules[i];
        if (rule->store != RULES_STORE_LOCAL && rule->expires_s > s->place->now_s) {
            add(s, rule);
        }
    }
}

static void add_requests(struct sizer *s)
{
    qsort(s->shared, s->n_shared, sizeof(s->shared[0]), compare);
    for (uint32_t i = 0; i < s->n_shared; i++) {
        group(s, i);
    }
    for (uint32_t i = 0; i < s->n_shared; i++) {
        add_met(s, i);
    }
}

static void add_load(struct sizer *s)
{
    struct check_redis_size *size = s->size;
    add_batches(s);
    int64_t n_limits = s->load->rate * size->limits + size->n_misses;
    int64_t n_items = size->n_orders + size->n_exchanges;
    int64_t half = US_PER_S * CHECK_REDIS_BUSY_PERCENT / 100;
    size->n_calls = s->load->rate * size->slots;
    int64_t n_calls = size->n_calls + size->n_misses + size->n_batches;
    int64_t us = n_calls * CHECK_REDIS_CALL_US + n_limits * CHECK_REDIS_LIMIT_US
                 + n_items * CHECK_REDIS_ITEM_US;
    size->n_commands = n_calls * CHECK_REDIS_CALL_COMMANDS
                       + (n_limits + n_items) * CHECK_REDIS_LIMIT_COMMANDS;
    size->n_primaries = (us + half - 1) / half;
}

bool check_redis_size_find(const struct rules_ast *ast,
                           const struct check_redis_place *place,
                           const struct check_load *load, struct check_redis_size *size)
{
    struct sizer s = {
        .ast = ast,
        .place = place,
        .load = load,
        .size = size,
        .shared = calloc(ast->n_rules, sizeof(*s.shared)),
        .n_steps = CHECK_REDIS_STEPS_MAX,
    };
    *size = (struct check_redis_size){
        .n_pools_max = least_of(TABLE_ENTRIES,
                                place->fleet.n_workers * NOTEBOOK_NOTES)};
    if (s.shared == NULL) {
        return false;
    }
    add_rules(&s, add_rule);
    add_rules(&s, add_asking);
    add_requests(&s);
    if (load->rate > 0) {
        add_load(&s);
    }
    free(s.shared);
    return true;
}
