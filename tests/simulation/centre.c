#include "tests/simulation/centre.h"

#include <stdlib.h>
#include <string.h>

#include "agent/limit/sliding_log.h"
#include "agent/store/log_pool.h"
#include "agent/store/redis.h"

enum {
    CHAINS_AT_FIRST = 256,
    CHAIN_LENGTH = 4, /* on average; then there are twice as many */
};

/* What a host holds of a counter: a lease, or its last exchange by a limit (amount 0, the
 * numbers of the limit for its place). */
struct record {
    uint8_t host[SCRIPT_HOST_BYTES];
    uint32_t seq;
    int64_t amount;
    int64_t place;
    int64_t ends_us;
};

struct entry {
    struct entry *next;
    struct limit_state state;
    uint32_t hash;
    unsigned n_records;
    unsigned cap_records;
    struct record *records;
    size_t key_bytes;
    uint8_t key[];
};

struct centre {
    size_t n_chains;
    size_t n_entries;
    struct entry **chains;
    struct log_pool pool; /* of the events of logs */
    struct centre_deeds deeds;
    struct centre_deeds intents;
    const struct centre_call *call; /* the one that is carried out */
    int64_t *numbers;
    unsigned n_numbers;
};

/* A counter in a call, and its state as far as the call has come. */
struct view {
    struct entry *counter;
    unsigned key_idx;
    struct limit_state state;
};

/* --- the call --- */

static int64_t read_number(const uint8_t **at, unsigned n_bytes)
{
    int64_t number = 0;
    for (unsigned i = 0; i < n_bytes; i++) {
        number = number << 8 | *(*at)++;
    }
    return number;
}

/* Three starts, beyond the last of which the second window goes on. */
static void read_calendar(const uint8_t **at, struct calendar *calendar)
{
    int64_t numbers[CALENDAR_UPCOMING];
    struct calendar_start starts[CALENDAR_STARTS];
    for (int i = 0; i < CALENDAR_UPCOMING; i++) {
        numbers[i] = read_number(at, 8);
    }
    for (int i = 0; i < CALENDAR_STARTS; i++) {
        int64_t number = numbers[i == 0 ? 0 : i < CALENDAR_STARTS - 1 ? 1 : 2];
        starts[i] = (struct calendar_start){number, number * US_PER_S};
    }
    calendar_fill(calendar, starts);
}

/* Reads what script.h says, in its own words. */
static bool read_limit(const uint8_t **at, struct limit *limit,
                       struct calendar *calendar)
{
    limit->algorithm = (enum limit_algorithm)read_number(at, 1);
    unsigned flags = (unsigned)read_number(at, 1);
    limit->requests = read_number(at, 4);
    limit->size = read_number(at, 4);
    limit->per_ticks = read_number(at, 4);
    limit->tick_us = read_number(at, 4);
    limit->max_delay_ticks = read_number(at, 4);
    limit->calendar = NULL;
    if ((flags & 128) != 0) {
        read_calendar(at, calendar);
        limit->calendar = calendar;
    }
    return (flags & 1) != 0;
}

struct host {
    uint8_t name[SCRIPT_HOST_BYTES];
    int64_t kept_us;
};

static struct host read_host(const uint8_t **at)
{
    struct host host;
    memcpy(host.name, *at, sizeof(host.name));
    *at += sizeof(host.name);
    host.kept_us = read_number(at, 4) * US_PER_MS;
    return host;
}

static void check_read(const struct centre_call *call, const uint8_t *at)
{
    ENSURE(at == (const uint8_t *)call->arg.ptr + call->arg.len);
}

static void say(struct centre *centre, int64_t number)
{
    ENSURE(centre->n_numbers < CENTRE_NUMBERS_MAX);
    centre->numbers[centre->n_numbers++] = number == LIMIT_NEVER ? -1 : number;
}

static void note(struct centre_deeds *deeds, struct centre_deed deed)
{
    if (deeds->n == deeds->cap) {
        deeds->cap = 2 * deeds->cap + 64;
        deeds->list = realloc(deeds->list, deeds->cap * sizeof(deeds->list[0]));
        ENSURE(deeds->list != NULL);
    }
    deeds->list[deeds->n++] = deed;
}

/* --- one algorithm like the other --- */

static bool is_log(const struct limit *limit)
{
    return limit->algorithm == LIMIT_SLIDING_LOG;
}

static void align(struct centre *centre, const struct limit *limit,
                  struct limit_state *state)
{
    if (is_log(limit)) {
        sliding_log_align(centre->pool.blocks, state, centre->call->now);
    } else {
        limit_align(limit, state, centre->call->now);
    }
}

static struct limit_answer look(struct centre *centre, const struct limit *limit,
                                const struct view *view, int64_t cost)
{
    struct limit_answer answer;
    struct limit_state copy = view->state;
    if (is_log(limit)) {
        (void)sliding_log_look(limit, centre->pool.blocks, &copy, centre->call->now,
                               cost, &answer);
    } else {
        (void)limit_take(limit, &copy, centre->call->now, cost, &answer);
    }
    return answer;
}

static int64_t charge_log(struct centre *centre, const struct limit *limit,
                          struct limit_state *state, int64_t cost)
{
    struct log_block *blocks = centre->pool.blocks;
    uint32_t block = 0;
    log_pool_put(&centre->pool,
                 sliding_log_drop(limit, blocks, state, centre->call->now));
    if (sliding_log_is_full(state)) {
        block = log_pool_get(&centre->pool);
        ENSURE(block != 0);
    }
    int64_t at_us = sliding_log_place(blocks, state);
    at_us = centre->call->now.us > at_us ? centre->call->now.us : at_us;
    sliding_log_add(blocks, state, block, log_event(at_us, cost));
    return at_us;
}

/* What look found to pass. @return its place */
static int64_t charge(struct centre *centre, const struct limit *limit,
                      struct view *view, int64_t cost)
{
    struct limit_answer answer;
    int64_t place = 0;
    if (is_log(limit)) {
        place = charge_log(centre, limit, &view->state, cost);
    } else {
        ENSURE(limit_take(limit, &view->state, centre->call->now, cost, &answer));
        place = limit_place(limit, &view->state);
    }
    view->counter->state = view->state;
    return place;
}

static bool settle(struct centre *centre, const struct limit *limit, struct view *view,
                   const struct limit_correction *correction)
{
    struct log_chain freed = {0};
    bool is_changed = false;
    if (is_log(limit)) {
        is_changed = sliding_log_settle(limit, centre->pool.blocks, &view->state,
                                        centre->call->now, correction, &freed);
        log_pool_put(&centre->pool, freed);
    } else {
        is_changed = limit_settle(limit, &view->state, centre->call->now, correction);
    }
    return is_changed;
}

/* --- counters and what hosts hold of them --- */

static void make_chains(struct centre *centre, size_t n)
{
    centre->n_chains = n;
    centre->n_entries = 0;
    centre->chains = calloc(n, sizeof(struct entry *));
    ENSURE(centre->chains != NULL);
}

static void add_entry(struct centre *centre, struct entry *counter)
{
    struct entry **chain = &centre->chains[counter->hash % centre->n_chains];
    counter->next = *chain;
    *chain = counter;
    centre->n_entries++;
}

static void double_chains(struct centre *centre)
{
    size_t n = centre->n_chains;
    struct entry **chains = centre->chains;
    make_chains(centre, 2 * n);
    for (size_t i = 0; i < n; i++) {
        for (struct entry *next = NULL, *at = chains[i]; at != NULL; at = next) {
            next = at->next;
            add_entry(centre, at);
        }
    }
    free(chains);
}

static struct entry *find(struct centre *centre, struct seam_bytes key)
{
    uint32_t hash = 2166136261u;
    for (size_t i = 0; i < key.len; i++) {
        hash = (hash ^ ((const uint8_t *)key.ptr)[i]) * 16777619u;
    }
    struct entry *at = centre->chains[hash % centre->n_chains];
    for (; at != NULL; at = at->next) {
        if (at->key_bytes == key.len && memcmp(at->key, key.ptr, key.len) == 0) {
            return at;
        }
    }
    struct entry *counter = calloc(1, sizeof(*counter) + key.len);
    ENSURE(counter != NULL);
    counter->key_bytes = key.len;
    memcpy(counter->key, key.ptr, key.len);
    counter->hash = hash;
    add_entry(centre, counter);
    if (centre->n_entries > CHAIN_LENGTH * centre->n_chains) {
        double_chains(centre);
    }
    return counter;
}

static void drop(struct entry *counter, struct record *record)
{
    *record = counter->records[--counter->n_records];
}

static void end_lease(struct centre *centre, const struct limit *limit,
                      struct view *view, struct record *record, int64_t spent,
                      enum centre_act act)
{
    struct centre_deed deed = {
        .act = act,
        .key_idx = view->key_idx,
        .amount = record->amount,
        .spent = spent,
        .seq = record->seq,
    };
    const struct limit_correction correction = {record->place, record->amount, spent};
    memcpy(deed.host, record->host, sizeof(deed.host));
    (void)settle(centre, limit, view, &correction);
    if (record->amount > 0) {
        note(&centre->deeds, deed);
    }
    drop(view->counter, record);
}

static bool is_due(const struct centre *centre, const struct entry *counter)
{
    for (unsigned i = 0; i < counter->n_records; i++) {
        if (counter->records[i].ends_us <= centre->call->now.us) {
            return true;
        }
    }
    return false;
}

static void end_due(struct centre *centre, const struct limit *limit, struct view *view)
{
    struct entry *counter = view->counter;
    int64_t now_us = centre->call->now.us;
    int64_t most_us = now_us + SCRIPT_KEPT_MS_MAX * US_PER_MS;
    for (unsigned i = counter->n_records; i-- > 0;) {
        struct record *record = &counter->records[i];
        if (record->ends_us <= now_us) {
            end_lease(centre, limit, view, record, 0, CENTRE_TAKE_BACK);
        } else if (record->ends_us > most_us) {
            record->ends_us = most_us;
        }
    }
}

/* A peek changes nothing, but for what it finds to have ended. */
static struct view open(struct centre *centre, unsigned key_idx,
                        const struct limit *limit, bool is_peek)
{
    struct entry *counter = find(centre, centre->call->keys[key_idx]);
    struct view view = {counter, key_idx, counter->state};
    align(centre, limit, &view.state);
    if (!is_peek || is_due(centre, counter)) {
        end_due(centre, limit, &view);
        counter->state = view.state;
    }
    return view;
}

static bool is_of(const struct record *record, const struct host *host)
{
    return memcmp(record->host, host->name, sizeof(host->name)) == 0;
}

/* The lease of that number, or NULL. */
static struct record *find_lease(struct entry *counter, const struct host *host,
                                 uint32_t seq)
{
    for (unsigned i = 0; i < counter->n_records; i++) {
        struct record *record = &counter->records[i];
        if (is_of(record, host) && record->amount > 0 && record->seq == seq) {
            return record;
        }
    }
    return NULL;
}

static int64_t place_of_exchanges(const struct limit *limit)
{
    return limit->requests << 32 | limit->size;
}

/* The host's last exchange by that limit, or NULL. */
static struct record *find_exchange(struct entry *counter, const struct host *host,
                                    const struct limit *limit)
{
    for (unsigned i = 0; i < counter->n_records; i++) {
        struct record *record = &counter->records[i];
        if (is_of(record, host) && record->amount == 0
            && record->place == place_of_exchanges(limit)) {
            return record;
        }
    }
    return NULL;
}

static void add_record(struct entry *counter, const struct host *host,
                       struct record record)
{
    ENSURE(counter->n_records < SCRIPT_RECORDS_MAX);
    if (counter->n_records == counter->cap_records) {
        counter->cap_records = 2 * counter->cap_records + 1;
        counter->records = realloc(counter->records,
                                   counter->cap_records * sizeof(counter->records[0]));
        ENSURE(counter->records != NULL);
    }
    memcpy(record.host, host->name, sizeof(record.host));
    counter->records[counter->n_records++] = record;
}

static int64_t sum_of_leases(const struct entry *counter)
{
    int64_t sum = 0;
    for (unsigned i = 0; i < counter->n_records; i++) {
        sum += counter->records[i].amount;
    }
    return sum;
}

/* --- take and settle --- */

struct charge {
    struct limit limit;
    struct calendar calendar;
    struct view view;
    struct limit_answer answer;
    int64_t cost;
    bool is_lenient;
    unsigned tie;
};

static void say_charge(struct centre *centre, struct charge *c, bool is_peek,
                       bool is_made)
{
    struct limit_answer held = look(centre, &c->limit, &c->view, 0);
    bool is_charged = is_made && c->answer.is_allowed && c->cost > 0 && !is_peek;
    int64_t place = 0;
    if (c->answer.is_allowed && !is_made) {
        c->answer = held;
    }
    if (is_charged) {
        place = charge(centre, &c->limit, &c->view, c->cost);
        note(&centre->deeds, (struct centre_deed){
                                 .act = CENTRE_CHARGE,
                                 .key_idx = c->view.key_idx,
                                 .amount = c->cost,
                             });
    }
    say(centre, (int64_t)c->answer.is_allowed + 2 * (int64_t)is_charged);
    say(centre, c->answer.remaining);
    say(centre, c->answer.reset_us);
    say(centre, c->answer.is_allowed ? 0 : c->answer.retry_us);
    say(centre, c->answer.window_end_us);
    say(centre, c->answer.delay_us);
    say(centre, place);
    if (is_peek) {
        say(centre, held.remaining);
        say(centre, held.reset_us);
        say(centre, held.window_end_us);
    }
}

static void run_take(struct centre *centre)
{
    static struct charge charges[STORE_CHARGES_MAX];
    const struct centre_call *call = centre->call;
    const uint8_t *at = call->arg.ptr;
    bool is_allowed = true;
    bool is_broken[256] = {false}; /* ties of which a charge is over its limit */
    bool is_peek = read_number(&at, 1) == 1;
    ENSURE(call->n_keys <= STORE_CHARGES_MAX);
    for (unsigned i = 0; i < call->n_keys; i++) {
        struct charge *c = &charges[i];
        c->is_lenient = read_limit(&at, &c->limit, &c->calendar);
        c->tie = (unsigned)read_number(&at, 1);
        c->cost = read_number(&at, 4);
        c->view = open(centre, i, &c->limit, is_peek);
        c->answer = look(centre, &c->limit, &c->view, c->cost);
        is_allowed = is_allowed && (c->answer.is_allowed || c->is_lenient);
        is_broken[c->tie] = is_broken[c->tie] || (c->tie > 0 && !c->answer.is_allowed);
    }
    check_read(call, at);
    say(centre, is_allowed);
    for (unsigned i = 0; i < call->n_keys; i++) {
        say_charge(centre, &charges[i], is_peek,
                   is_allowed && !is_broken[charges[i].tie]);
    }
}

static struct limit_correction read_settlement(const uint8_t **at, struct limit *limit,
                                               struct calendar *calendar)
{
    struct limit_correction correction;
    (void)read_limit(at, limit, calendar);
    correction.place = read_number(at, 8);
    correction.amount = read_number(at, 4);
    correction.truth = read_number(at, 4);
    return correction;
}

static struct centre_deed settled(unsigned key_idx,
                                  const struct limit_correction *correction)
{
    return (struct centre_deed){
        .act = CENTRE_SETTLE,
        .key_idx = key_idx,
        .amount = correction->amount - correction->truth,
    };
}

static void run_settle(struct centre *centre)
{
    static struct calendar calendar;
    const uint8_t *at = centre->call->arg.ptr;
    for (unsigned i = 0; i < centre->call->n_keys; i++) {
        struct limit limit;
        struct limit_correction correction = read_settlement(&at, &limit, &calendar);
        struct view view = open(centre, i, &limit, false);
        bool is_changed = settle(centre, &limit, &view, &correction);
        view.counter->state = view.state;
        if (is_changed) {
            note(&centre->deeds, settled(i, &correction));
        }
        say(centre, is_changed ? 2 : 0);
    }
    check_read(centre->call, at);
}

/* --- leases --- */

struct order {
    struct limit limit;
    int64_t want;
    int64_t cap;
    int64_t divisor;
    uint32_t seq;
    unsigned n_reports;
    struct script_lease_report reports[UINT8_MAX];
};

static void read_order(const uint8_t **at, struct order *order,
                       struct calendar *calendar)
{
    (void)read_limit(at, &order->limit, calendar);
    order->want = read_number(at, 4);
    order->cap = read_number(at, 4);
    order->divisor = read_number(at, 2);
    order->seq = (uint32_t)read_number(at, 4);
    order->n_reports = (unsigned)read_number(at, 1);
    for (unsigned i = 0; i < order->n_reports; i++) {
        order->reports[i].seq = (uint32_t)read_number(at, 4);
        order->reports[i].spent = read_number(at, 4);
    }
}

/* @return what is granted, or was when this call came first; in `lease` */
static void grant(struct centre *centre, const struct host *host,
                  const struct order *order, struct view *view, struct record *lease)
{
    struct entry *counter = view->counter;
    const struct record *before = find_lease(counter, host, order->seq);
    *lease = (struct record){0};
    if (order->want == 0
        || (before == NULL && counter->n_records == SCRIPT_RECORDS_MAX)) {
        return;
    }
    if (before != NULL) {
        *lease = *before;
        return;
    }
    int64_t left = look(centre, &order->limit, view, 0).remaining;
    int64_t amount = least_of(order->want, order->cap - sum_of_leases(counter));
    amount = least_of(amount, left / order->divisor);
    if (amount < 2) {
        return;
    }
    lease->seq = order->seq;
    lease->amount = amount;
    lease->place = charge(centre, &order->limit, view, amount);
    lease->ends_us = centre->call->now.us + host->kept_us;
    add_record(counter, host, *lease);
    struct centre_deed deed = {
        .act = CENTRE_GRANT,
        .key_idx = view->key_idx,
        .amount = amount,
        .seq = order->seq,
    };
    memcpy(deed.host, host->name, sizeof(deed.host));
    note(&centre->deeds, deed);
}

static void carry_out_order(struct centre *centre, const struct host *host,
                            const struct order *order, unsigned key_idx)
{
    struct view view = open(centre, key_idx, &order->limit, false);
    struct record lease;
    int64_t accepted = 0;
    for (unsigned i = 0; i < order->n_reports; i++) {
        const struct script_lease_report *report = &order->reports[i];
        struct record *record = find_lease(view.counter, host, report->seq);
        if (record != NULL) {
            end_lease(centre, &order->limit, &view, record, report->spent,
                      CENTRE_REPORT);
            accepted |= INT64_C(1) << i;
        }
    }
    grant(centre, host, order, &view, &lease);
    view.counter->state = view.state;
    struct limit_answer answer = look(centre, &order->limit, &view, 0);
    say(centre, 0);
    say(centre, lease.amount);
    say(centre, lease.place);
    say(centre, answer.remaining);
    say(centre, answer.reset_us);
    say(centre, answer.window_end_us);
    say(centre, sum_of_leases(view.counter));
    say(centre, accepted);
}

static void run_lease(struct centre *centre)
{
    static struct calendar calendar;
    struct order order;
    const uint8_t *at = centre->call->arg.ptr;
    struct host host = read_host(&at);
    for (unsigned i = 0; i < centre->call->n_keys; i++) {
        read_order(&at, &order, &calendar);
        carry_out_order(centre, &host, &order, i);
    }
    check_read(centre->call, at);
}

/* --- sync --- */

/* Where a charge of now stands. No limit refuses it here. */
static int64_t place_of_now(struct centre *centre, const struct limit *limit,
                            const struct limit_state *state)
{
    struct limit boundless = *limit;
    struct limit_state copy = *state;
    struct limit_answer answer;
    boundless.size = 5 * LIMIT_AMOUNT_MAX;
    ENSURE(limit_take(&boundless, &copy, centre->call->now, 1, &answer));
    return limit_place(limit, &copy);
}

static void settle_delta(struct centre *centre, const struct limit *limit,
                         struct view *view, const struct centre_deed *deed)
{
    const struct limit_correction correction = {
        .place = place_of_now(centre, limit, &view->state),
        .truth = deed->amount,
    };
    (void)settle(centre, limit, view, &correction);
    note(&centre->deeds, *deed);
}

/* @return whether it was not charged before */
static bool add_delta(struct centre *centre, const struct host *host,
                      const struct limit *limit, struct view *view,
                      const struct centre_deed *deed)
{
    struct entry *counter = view->counter;
    struct record *last = find_exchange(counter, host, limit);
    int32_t ahead = last != NULL ? (int32_t)(deed->seq - last->seq) : 1;
    if (ahead < 0) {
        return false;
    }
    if (last != NULL) {
        drop(counter, last);
    }
    if (ahead > 0) {
        settle_delta(centre, limit, view, deed);
    }
    if (counter->n_records < SCRIPT_RECORDS_MAX) {
        add_record(counter, host,
                   (struct record){
                       .seq = deed->seq,
                       .place = place_of_exchanges(limit),
                       .ends_us = centre->call->now.us + host->kept_us,
                   });
    }
    return ahead > 0;
}

static void say_state(struct centre *centre, const struct limit *limit,
                      const struct limit_state *state)
{
    if (limit->algorithm == LIMIT_SLIDING_WINDOW) {
        say(centre, state->sliding.prev);
        say(centre, state->sliding.curr);
        say(centre, state->sliding.window);
    } else if (limit->algorithm == LIMIT_FIXED_WINDOW) {
        say(centre, state->fixed.count);
        say(centre, state->fixed.window);
        say(centre, 0);
    } else {
        say(centre, state->bucket.level);
        say(centre, state->bucket.at_ticks);
        say(centre, 0);
    }
}

static struct centre_deed read_exchange(const uint8_t **at, const struct host *host,
                                        unsigned key_idx)
{
    struct centre_deed deed = {.act = CENTRE_SYNC, .key_idx = key_idx};
    memcpy(deed.host, host->name, sizeof(deed.host));
    deed.seq = (uint32_t)read_number(at, 4);
    deed.amount = read_number(at, 4);
    return deed;
}

static void run_sync(struct centre *centre)
{
    static struct calendar calendar;
    const uint8_t *at = centre->call->arg.ptr;
    struct host host = read_host(&at);
    say(centre, centre->call->now.us);
    for (unsigned i = 0; i < centre->call->n_keys; i++) {
        struct limit limit;
        (void)read_limit(&at, &limit, &calendar);
        struct centre_deed deed = read_exchange(&at, &host, i);
        struct view view = open(centre, i, &limit, false);
        bool is_charged = deed.amount > 0
                          && add_delta(centre, &host, &limit, &view, &deed);
        view.counter->state = view.state;
        say(centre, is_charged ? 2 : 0);
        say_state(centre, &limit, &view.state);
    }
    check_read(centre->call, at);
}

/* --- the server --- */

unsigned centre_run(struct centre *centre, const struct centre_call *call,
                    int64_t *numbers)
{
    centre->call = call;
    centre->numbers = numbers;
    centre->n_numbers = 0;
    centre->deeds.n = 0;
    switch (call->script) {
    case REDIS_SCRIPT_TAKE:
        run_take(centre);
        break;
    case REDIS_SCRIPT_SETTLE:
        run_settle(centre);
        break;
    case REDIS_SCRIPT_LEASE:
        run_lease(centre);
        break;
    case REDIS_SCRIPT_SYNC:
        run_sync(centre);
        break;
    default:
        NEVER("script");
    }
    return centre->n_numbers;
}

const struct centre_deeds *centre_deeds(const struct centre *centre)
{
    return &centre->deeds;
}

static void intend_settlements(struct centre *centre, const struct centre_call *call)
{
    static struct calendar calendar;
    const uint8_t *at = call->arg.ptr;
    for (unsigned i = 0; i < call->n_keys; i++) {
        struct limit limit;
        struct limit_correction correction = read_settlement(&at, &limit, &calendar);
        note(&centre->intents, settled(i, &correction));
    }
}

static void intend_reports(struct centre *centre, const struct centre_call *call)
{
    static struct calendar calendar;
    struct order order;
    const uint8_t *at = call->arg.ptr;
    struct host host = read_host(&at);
    for (unsigned i = 0; i < call->n_keys; i++) {
        read_order(&at, &order, &calendar);
        for (unsigned j = 0; j < order.n_reports; j++) {
            struct centre_deed deed = {
                .act = CENTRE_REPORT,
                .key_idx = i,
                .spent = order.reports[j].spent,
                .seq = order.reports[j].seq,
            };
            memcpy(deed.host, host.name, sizeof(deed.host));
            note(&centre->intents, deed);
        }
    }
}

static void intend_exchanges(struct centre *centre, const struct centre_call *call)
{
    static struct calendar calendar;
    const uint8_t *at = call->arg.ptr;
    struct host host = read_host(&at);
    for (unsigned i = 0; i < call->n_keys; i++) {
        struct limit limit;
        (void)read_limit(&at, &limit, &calendar);
        struct centre_deed deed = read_exchange(&at, &host, i);
        if (deed.amount > 0) {
            note(&centre->intents, deed);
        }
    }
}

const struct centre_deeds *centre_intents(struct centre *centre,
                                          const struct centre_call *call)
{
    centre->intents.n = 0;
    if (call->script == REDIS_SCRIPT_SETTLE) {
        intend_settlements(centre, call);
    } else if (call->script == REDIS_SCRIPT_LEASE) {
        intend_reports(centre, call);
    } else if (call->script == REDIS_SCRIPT_SYNC) {
        intend_exchanges(centre, call);
    }
    return &centre->intents;
}

int64_t centre_used(struct centre *centre, const struct limit *limit,
                    struct seam_bytes key, struct instant now)
{
    const struct centre_call look_only = {.now = now};
    struct entry copy = *find(centre, key);
    struct view view = {&copy, 0, copy.state};
    unsigned n_deeds = centre->deeds.n;
    centre->call = &look_only;
    align(centre, limit, &view.state);
    end_due(centre, limit, &view);
    centre->deeds.n = n_deeds; /* it was not done */
    return limit->size - look(centre, limit, &view, 0).remaining;
}

static void init_pool(struct centre *centre)
{
    ENSURE(log_pool_init(&centre->pool, (size_t)1 << 20));
}

struct centre *centre_new(void)
{
    struct centre *centre = calloc(1, sizeof(*centre));
    ENSURE(centre != NULL);
    make_chains(centre, CHAINS_AT_FIRST);
    init_pool(centre);
    return centre;
}

static void forget(struct centre *centre)
{
    for (size_t i = 0; i < centre->n_chains; i++) {
        while (centre->chains[i] != NULL) {
            struct entry *counter = centre->chains[i];
            centre->chains[i] = counter->next;
            free(counter->records);
            free(counter);
        }
    }
    free(centre->chains);
    log_pool_fini(&centre->pool);
}

void centre_flush(struct centre *centre)
{
    forget(centre);
    make_chains(centre, CHAINS_AT_FIRST);
    init_pool(centre);
}

void centre_free(struct centre *centre)
{
    forget(centre);
    free(centre->deeds.list);
    free(centre->intents.list);
    free(centre);
}
