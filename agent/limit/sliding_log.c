#include "agent/limit/sliding_log.h"

#include <string.h>

/* Where the events of a log are read. */
struct cursor {
    const struct log_block *blocks;
    uint32_t block; /* 0: at the end */
    unsigned at;
    uint32_t last;
    unsigned last_n;
};

static struct cursor begin(const struct log_block *blocks,
                           const struct limit_state *state)
{
    return (struct cursor){
        .blocks = blocks,
        .block = state->log.first,
        .at = state->log.first_at,
        .last = state->log.last,
        .last_n = state->log.last_n,
    };
}

static bool next(struct cursor *cursor, uint64_t *event)
{
    if (cursor->block == 0) {
        return false;
    }
    const struct log_block *block = &cursor->blocks[cursor->block];
    bool is_last = cursor->block == cursor->last;
    *event = block->events[cursor->at++];
    if (cursor->at == (is_last ? cursor->last_n : LOG_BLOCK_EVENTS)) {
        cursor->block = is_last ? 0 : block->next;
        cursor->at = 0;
    }
    return true;
}

unsigned sliding_log_read(const struct log_block *blocks,
                          const struct limit_state *state, uint64_t *events)
{
    struct cursor cursor = begin(blocks, state);
    unsigned n = 0;
    while (n < LOG_USED_MAX && next(&cursor, &events[n])) {
        n++;
    }
    return n;
}

int64_t sliding_log_place(const struct log_block *blocks,
                          const struct limit_state *state)
{
    if (state->log.last == 0) {
        return 0;
    }
    return log_event_us(blocks[state->log.last].events[state->log.last_n - 1]);
}

static int64_t per_us_of(const struct limit *limit)
{
    return limit->per_ticks * limit->tick_us;
}

/* Workers read the clock at different moments. */
static int64_t now_of(const struct log_block *blocks, const struct limit_state *state,
                      struct instant now)
{
    int64_t newest_us = sliding_log_place(blocks, state);
    return now.us > newest_us ? now.us : newest_us;
}

void sliding_log_align(struct log_block *blocks, const struct limit_state *state,
                       struct instant now)
{
    if (sliding_log_place(blocks, state) - now.us <= LIMIT_CLOCK_SLACK_US) {
        return;
    }
    struct cursor cursor = begin(blocks, state);
    struct cursor at = cursor;
    uint64_t event = 0;
    while (next(&cursor, &event)) {
        if (log_event_us(event) > now.us) {
            blocks[at.block].events[at.at] = log_event(now.us, log_event_cost(event));
        }
        at = cursor;
    }
}

bool sliding_log_look(const struct limit *limit, const struct log_block *blocks,
                      const struct limit_state *state, struct instant now, int64_t cost,
                      struct limit_answer *answer)
{
    int64_t per_us = per_us_of(limit);
    int64_t now_us = now_of(blocks, state, now);
    struct cursor cursor = begin(blocks, state);
    int64_t used = state->log.used;
    uint64_t event = 0;
    bool has_event = next(&cursor, &event);
    while (has_event && now_us - log_event_us(event) >= per_us) {
        used -= log_event_cost(event);
        has_event = next(&cursor, &event);
    }
    *answer = (struct limit_answer){
        .is_allowed = cost == 0 || used + cost <= limit->size,
    };
    int64_t oldest_us = has_event ? log_event_us(event) : now_us;
    int64_t newest_us = has_event ? sliding_log_place(blocks, state) : now_us;
    if (answer->is_allowed && cost > 0) {
        used += cost;
        newest_us = now_us;
    }
    answer->remaining = limit->size > used ? limit->size - used : 0;
    answer->reset_us = used > 0 ? newest_us + per_us - now.us : 0;
    answer->window_end_us = oldest_us + per_us - now.us;
    if (answer->is_allowed) {
        return true;
    }
    answer->retry_us = LIMIT_NEVER;
    if (cost <= limit->size) {
        int64_t excess = used + cost - limit->size - log_event_cost(event);
        while (excess > 0 && next(&cursor, &event)) {
            excess -= log_event_cost(event);
        }
        answer->retry_us = log_event_us(event) + per_us - now.us;
    }
    return false;
}

struct log_chain sliding_log_drop(const struct limit *limit, struct log_block *blocks,
                                  struct limit_state *state, struct instant now)
{
    int64_t per_us = per_us_of(limit);
    int64_t now_us = now_of(blocks, state, now);
    struct log_chain dropped = {0};
    struct cursor cursor = begin(blocks, state);
    uint64_t event = 0;
    while (next(&cursor, &event) && now_us - log_event_us(event) >= per_us) {
        state->log.used = (uint16_t)(state->log.used - log_event_cost(event));
        if (cursor.block != state->log.first) {
            dropped.first = dropped.first == 0 ? state->log.first : dropped.first;
            dropped.last = state->log.first;
        }
        state->log.first = cursor.block;
        state->log.first_at = (uint8_t)cursor.at;
    }
    if (state->log.first == 0) {
        *state = (struct limit_state){0};
    }
    return dropped;
}

bool sliding_log_is_full(const struct limit_state *state)
{
    return state->log.last == 0 || state->log.last_n == LOG_BLOCK_EVENTS;
}

void sliding_log_add(struct log_block *blocks, struct limit_state *state,
                     uint32_t block, uint64_t event)
{
    if (block != 0) {
        if (state->log.last == 0) {
            state->log.first = block;
            state->log.first_at = 0;
        } else {
            blocks[state->log.last].next = block;
        }
        state->log.last = block;
        state->log.last_n = 0;
        blocks[block].next = 0;
    }
    blocks[state->log.last].events[state->log.last_n++] = event;
    state->log.used = (uint16_t)(state->log.used + log_event_cost(event));
}

/* Make a log of events anew, in blocks of a chain that are enough. Answers the others. */
static struct log_chain rebuild(struct log_block *blocks, struct limit_state *state,
                                struct log_chain chain, const uint64_t *events,
                                unsigned n)
{
    *state = (struct limit_state){0};
    for (unsigned i = 0; i < n; i++) {
        uint32_t block = 0;
        if (sliding_log_is_full(state)) {
            block = chain.first;
            chain.first = blocks[block].next;
        }
        sliding_log_add(blocks, state, block, events[i]);
    }
    return chain.first != 0 ? chain : (struct log_chain){0};
}

/* Change what the events of one moment cost together. Answers how many are left. */
static unsigned change_at(uint64_t *events, unsigned n, int64_t us, int64_t change)
{
    unsigned n_left = 0;
    for (unsigned i = 0; i < n; i++) {
        int64_t cost = log_event_cost(events[i]);
        if (log_event_us(events[i]) == us) {
            int64_t changed = cost + change > 0 ? cost + change : 0;
            change -= changed - cost;
            cost = changed;
        }
        if (cost > 0) {
            events[n_left++] = log_event(log_event_us(events[i]), cost);
        }
    }
    return n_left;
}

/* What the events cost that were charged from one moment on until another. */
static int64_t cost_between(const uint64_t *events, unsigned n, int64_t from_us,
                            int64_t to_us)
{
    int64_t sum = 0;
    for (unsigned i = 0; i < n; i++) {
        int64_t us = log_event_us(events[i]);
        sum += us >= from_us && us <= to_us ? log_event_cost(events[i]) : 0;
    }
    return sum;
}

bool sliding_log_settle(const struct limit *limit, struct log_block *blocks,
                        struct limit_state *state, struct instant now,
                        const struct limit_correction *correction,
                        struct log_chain *freed)
{
    uint64_t all[LOG_USED_MAX];
    int64_t place = correction->place;
    int64_t out_us = now_of(blocks, state, now) - per_us_of(limit);
    unsigned n = sliding_log_read(blocks, state, all);
    unsigned n_out = 0;
    while (n_out < n && log_event_us(all[n_out]) <= out_us) {
        n_out++;
    }
    uint64_t *events = all + n_out;
    n -= n_out;
    int64_t held = cost_between(events, n, place, place);
    int64_t used = cost_between(events, n, 0, INT64_MAX);
    int64_t change = limit_bound_change(held, correction->truth - correction->amount,
                                        2 * limit->size - used);
    *freed = (struct log_chain){0};
    if (held == 0 || change == 0) {
        return false;
    }
    struct log_chain chain = {state->log.first, state->log.last};
    n = change_at(events, n, place, change);
    *freed = rebuild(blocks, state, chain, events, n);
    return true;
}

/* Two sorted lists as one. */
static unsigned merge(const uint64_t *a, unsigned n_a, const uint64_t *b, unsigned n_b,
                      uint64_t *out)
{
    unsigned n = 0;
    unsigned j = 0;
    for (unsigned i = 0; i < n_a || j < n_b;) {
        bool is_a = j == n_b || (i < n_a && a[i] <= b[j]);
        out[n++] = is_a ? a[i++] : b[j++];
    }
    return n;
}

/* How many of the oldest are too much. */
static unsigned surplus(const uint64_t *events, unsigned n)
{
    int64_t used = 0;
    unsigned i = n;
    while (i > 0 && (used += log_event_cost(events[i - 1])) <= LOG_USED_MAX) {
        i--;
    }
    return i;
}

struct log_chain sliding_log_merge(struct log_block *blocks, struct limit_state *state,
                                   const struct limit_state *other)
{
    uint64_t own[LOG_USED_MAX];
    uint64_t others[LOG_USED_MAX];
    uint64_t all[2 * LOG_USED_MAX];
    unsigned n_own = sliding_log_read(blocks, state, own);
    unsigned n_others = sliding_log_read(blocks, other, others);
    if (n_others == 0) {
        return (struct log_chain){0};
    }
    struct log_chain chain = {other->log.first, other->log.last};
    blocks[chain.last].next = 0;
    if (n_own > 0) {
        blocks[chain.last].next = state->log.first;
        chain.last = state->log.last;
        blocks[chain.last].next = 0;
    }
    unsigned n = merge(own, n_own, others, n_others, all);
    unsigned n_over = surplus(all, n);
    return rebuild(blocks, state, chain, all + n_over, n - n_over);
}
