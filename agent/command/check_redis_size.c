#include "agent/command/check_redis_size.h"

#include <stdlib.h>
#include <string.h>

#include "rules/imply.h"
#include "rules/slot.h"

#include "agent/clock.h"
#include "agent/decide/key.h"

/* A rule of which Redis is asked for each request. */
struct shared {
    const struct rules_ast_rule *rule;
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

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
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
    int64_t n_keys = (rule->n_key_parts > 0 ? s->load->n_keys : 1) * rule->n_shards;
    int64_t n_events = 0;
    if (limit->algorithm == RULES_SLIDING_LOG) {
        int64_t per_s = (limit->per_us + US_PER_S - 1) / US_PER_S;
        n_events = n_keys * limit->requests;
        n_events = s->load->rate > 0 ? least(n_events, s->load->rate * per_s)
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
        limits += met->rule->n_limits;
        slots += first->seen_for != idx + 1;
        first->seen_for = idx + 1;
    }
    limits = least(limits, RULES_HITS_MAX);
    slots = s->place->is_cluster ? least(slots, limits) : 1;
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
    if (rule->store == RULES_STORE_REDIS) {
        s->shared[s->n_shared++].rule = rule;
    }
}

static void add_rules(struct sizer *s)
{
    for (uint32_t i = 0; i < s->ast->n_rules; i++) {
        const struct rules_ast_rule *rule = &s->ast->rules[i];
        if (rule->store != RULES_STORE_LOCAL && rule->expires_s > s->place->now_s) {
            add_rule(s, rule);
        }
    }
    qsort(s->shared, s->n_shared, sizeof(s->shared[0]), compare);
    for (uint32_t i = 0; i < s->n_shared; i++) {
        group(s, i);
    }
    for (uint32_t i = 0; i < s->n_shared; i++) {
        add_met(s, i);
    }
}

static void add_load(struct check_redis_size *size, int64_t rate)
{
    int64_t us = size->slots * CHECK_REDIS_CALL_US
                 + size->limits * CHECK_REDIS_LIMIT_US;
    int64_t half = US_PER_S * CHECK_REDIS_BUSY_PERCENT / 100;
    size->n_calls = rate * size->slots;
    size->n_commands = size->n_calls * CHECK_REDIS_CALL_COMMANDS
                       + rate * size->limits * CHECK_REDIS_LIMIT_COMMANDS;
    size->n_primaries = (rate * us + half - 1) / half;
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
    *size = (struct check_redis_size){0};
    if (s.shared == NULL) {
        return false;
    }
    add_rules(&s);
    add_load(size, load->rate);
    free(s.shared);
    return true;
}
