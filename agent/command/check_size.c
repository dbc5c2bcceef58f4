#include "agent/command/check_size.h"

#include "agent/clock.h"
#include "agent/command/check_bound.h"
#include "agent/control/daemon.h"
#include "agent/limit/sliding_log.h"
#include "agent/store/local.h"

/* Of a set of 16 slots: two thirds full, fewer than 1 in 100 counters are pushed out. */
static int64_t with_room(int64_t bytes)
{
    return bytes + bytes / 2;
}

/* Events of all keys that are in one window at the same time. */
static int64_t log_events(const struct rules_ast_limit *limit,
                          const struct check_load *load, int64_t n_keys)
{
    int64_t most = n_keys * limit->requests;
    if (load->rate == 0) {
        return most;
    }
    int64_t per_host = (load->rate + load->n_hosts - 1) / load->n_hosts;
    int64_t per_s = (limit->per_us + US_PER_S - 1) / US_PER_S;
    return least_of(most, per_host * per_s);
}

static void add_limit(const struct rules_ast_limit *limit,
                      const struct check_load *load, int64_t n_keys,
                      struct check_size *size)
{
    size->n_counters += n_keys;
    if (limit->algorithm == RULES_SLIDING_LOG) {
        int64_t n_events = log_events(limit, load, n_keys);
        /* Of each key one block is not full. */
        int64_t n_blocks = least_of(n_keys, n_events) + n_events / LOG_BLOCK_EVENTS;
        size->n_events += n_events;
        size->event_bytes += n_blocks * (int64_t)sizeof(struct log_block);
    }
}

static void add_rule(const struct rules_ast_rule *rule, const struct check_load *load,
                     struct check_size *size)
{
    int64_t n_keys = rule->n_key_parts > 0 ? load->n_keys : 1;
    if (check_has_policy(rule)
        && rule->on_store_failure.policy == RULES_FAILURE_LOCAL) {
        size->n_fallbacks += rule->n_limits * n_keys;
    }
    for (uint32_t i = 0; rule->store == RULES_STORE_LOCAL && i < rule->n_limits; i++) {
        add_limit(&rule->limits[i], load, n_keys, size);
    }
}

void check_size_find(const struct rules_ast *ast, const struct check_load *load,
                     struct check_size *size)
{
    *size = (struct check_size){0};
    for (uint32_t i = 0; i < ast->n_rules; i++) {
        add_rule(&ast->rules[i], load, size);
    }
    size->counter_bytes = (size->n_counters + size->n_fallbacks) * LOCAL_COUNTER_BYTES;
    int64_t table_bytes = with_room(size->counter_bytes);
    if (size->event_bytes == 0) {
        size->memory_bytes = table_bytes + table_bytes / (DAEMON_LOG_SHARE_UNUSED - 1);
    } else {
        size->memory_bytes = DAEMON_LOG_SHARE
                             * (table_bytes > size->event_bytes ? table_bytes
                                                                : size->event_bytes);
    }
}
