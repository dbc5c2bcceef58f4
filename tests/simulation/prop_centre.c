/* The law of the centre: all scripts, run by a real redis-server, and their twin in C give
 * the same numbers, over random traces of takes, peeks, settlements, leases, reports and
 * exchanges of several hosts on the same counters; calls that come again, late or out of
 * turn among them; limits that change meanwhile; by clocks that differ, are stepped back and
 * leap. And no decoder refuses what a script says.
 *
 * Then the laws of leases, by a ledger in whole numbers of a counter that drains nothing:
 *
 * - What is used is what was charged: takes, leases, and deltas that are new.
 * - A grant is what the least of want, cap, and share of what remains allows; no more than
 *   cap is out, ever.
 * - A report gives back what was not spent. What nobody reports is given back whole when
 *   it ends, whoever opens the counter first. A call that comes again changes nothing more.
 *
 * TRACES=n sets the number of traces of each. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "agent/store/redis.h"

#include "tests/simulation/centre.h"
#include "tests/support/amount.h"
#include "tests/support/limit.h"
#include "tests/support/prng.h"
#include "tests/support/twin.h"

enum {
    TRACES = 100,
    TRACE_STEPS = 150,
    BATCH = 40, /* under way at a time: fewer bytes than a socket holds */
    SUBJECTS = 6,
    LEASABLE = 4, /* of these; the others are a log and a leaky bucket */
    HOSTS = 3,
    KEPT = 8,  /* calls that may come again, places */
    GIVEN = 6, /* leases that may be reported */
    NUMBERS_MAX = 1 + SUBJECTS * SCRIPT_PEEK_NUMBERS,
    BYTES_MAX = 1024,
    KEY_BYTES = 24,
};

#define START_US (INT64_C(1800000000) * US_PER_S)
#define HOUR_US  (60 * MINUTE_US)
#define DAY_US   (24 * HOUR_US)

struct subject {
    struct limit limit;
    struct calendar calendar;
    char key[KEY_BYTES];
    struct limit_correction taken[KEPT];
    unsigned n_taken;
};

/* A call as it is sent, and what it should say. */
struct call {
    enum twin_script script;
    unsigned n_keys;
    unsigned subjects[SUBJECTS];
    struct limit limits[SUBJECTS]; /* as they were then */
    struct script_lease_order leases[SUBJECTS];
    struct script_sync_order exchanges[SUBJECTS];
    size_t len;
    uint8_t bytes[BYTES_MAX];
    struct instant now;
    unsigned n_numbers;
    int64_t numbers[NUMBERS_MAX];
};

struct given {
    uint32_t seq;
    int64_t want;
};

struct host {
    uint8_t name[SCRIPT_HOST_BYTES];
    uint32_t seq;
    struct given given[LEASABLE][GIVEN];
};

static struct {
    struct twin twin;
    struct centre *centre;
    struct prng prng;
    int64_t now_us;
    bool is_stepped; /* back, in this trace */
    bool is_calm;    /* no leaps in it */
    struct subject of[SUBJECTS];
    struct host hosts[HOSTS];
    unsigned n_traces;
    struct call calls[BATCH];
    unsigned n_calls;
    struct call before[KEPT];
    unsigned n_before;
    uint64_t n_acts[CENTRE_SYNC + 1];
} t;

static uint64_t below(uint64_t limit)
{
    return prng_below(&t.prng, limit);
}

static bool one_in(uint64_t n)
{
    return below(n) == 0;
}

/* ---- subjects ---- */

/* They may change while the counter counts. */
static void set_amounts(struct limit *limit)
{
    static const int64_t amounts[] = {1, 2, 7, 60, 1000, 1000000, LIMIT_AMOUNT_MAX};
    bool is_log = limit->algorithm == LIMIT_SLIDING_LOG;
    limit->requests = one_in(30) ? 0 : amounts[below(is_log ? 5 : 7)];
    limit->size = limit->requests;
    if (limit->algorithm == LIMIT_TOKEN_BUCKET) {
        limit->size = amounts[below(7)];
    } else if (limit->algorithm == LIMIT_LEAKY_BUCKET) {
        limit->max_delay_ticks = 1 + (int64_t)below((uint64_t)limit->per_ticks);
        limit->size = limit_leaky_size(limit);
    }
}

static void fill_calendar(struct subject *subject)
{
    struct calendar_start starts[CALENDAR_STARTS];
    int64_t per_s = subject->limit.per_ticks * subject->limit.tick_us / US_PER_S;
    int64_t first = t.now_us / US_PER_S / per_s;
    for (int i = 0; i < CALENDAR_STARTS; i++) {
        int64_t start_s = (first + i) * per_s;
        starts[i] = (struct calendar_start){start_s, start_s * US_PER_S};
    }
    calendar_fill(&subject->calendar, starts);
}

static void make_subject(unsigned number)
{
    static const enum limit_algorithm algorithms[SUBJECTS] = {
        LIMIT_SLIDING_WINDOW, LIMIT_TOKEN_BUCKET, LIMIT_FIXED_WINDOW,
        LIMIT_FIXED_WINDOW,   LIMIT_SLIDING_LOG,  LIMIT_LEAKY_BUCKET,
    };
    static const int64_t pers_us[] = {1000,          US_PER_S, 1500000, 7 * US_PER_S,
                                      60 * US_PER_S, HOUR_US,  DAY_US,  31 * DAY_US};
    struct subject *subject = &t.of[number];
    bool has_calendar = number == LEASABLE - 1;
    *subject = (struct subject){0};
    subject->limit = make(algorithms[number], 0, 0,
                          has_calendar ? DAY_US : pers_us[below(8)]);
    set_amounts(&subject->limit);
    if (has_calendar) {
        fill_calendar(subject);
        subject->limit.calendar = &subject->calendar;
    }
    (void)snprintf(subject->key, sizeof(subject->key), "%u:%u", t.n_traces, number);
}

/* On by what one request takes to drain, or towards the end of a lease, mostly. */
static void pause(void)
{
    const struct limit *limit = &t.of[below(LEASABLE)].limit;
    uint64_t per_us = (uint64_t)(limit->per_ticks * limit->tick_us);
    uint64_t one_us = per_us / (uint64_t)(limit->requests + 1);
    switch (t.is_calm ? 4 + below(20) : below(16)) {
    case 0:
        t.now_us += (int64_t)below(2 * per_us + 1);
        return;
    case 1:
        t.now_us += (int64_t)(per_us - (uint64_t)t.now_us % per_us - below(2));
        return;
    case 2:
        t.now_us += one_in(20) ? 40 * DAY_US : 0;
        return;
    case 3:
        if (one_in(15)) {
            t.now_us -= (int64_t)below((uint64_t)HOUR_US);
            t.is_stepped = true;
        }
        return;
    case 4:
    case 5:
        t.now_us += (int64_t)below((uint64_t)(2 * US_PER_S));
        return;
    case 6:
    case 7:
    case 8:
        return;
    default:
        one_us = t.is_calm && one_us > 10000 ? 10000 : one_us;
        t.now_us += (int64_t)below(2 * one_us + 2);
    }
}

/* Clocks differ by up to a second. */
static struct instant skewed_now(void)
{
    int64_t back_us = one_in(4) ? LIMIT_CLOCK_SLACK_US
                                : (int64_t)(below(2) * below(LIMIT_CLOCK_SLACK_US));
    return (struct instant){t.now_us - back_us};
}

/* ---- calls ---- */

static void print_numbers(const char *who, const int64_t *numbers, size_t n)
{
    print_error("%s:", who);
    for (size_t i = 0; i < n; i++) {
        print_error(" %lld", (long long)numbers[i]);
    }
    print_error("\n");
}

static void check_decoded(const struct call *call, const int64_t *numbers, size_t n)
{
    struct script_lease_reply leases[SUBJECTS];
    struct script_sync_reply exchanges[SUBJECTS];
    if (call->script == TWIN_LEASE) {
        assert_int_equal(script_decode_lease(numbers, n, call->leases, call->n_keys,
                                             leases, &t.twin.repairs),
                         SCRIPT_OK);
    } else if (call->script == TWIN_SYNC) {
        assert_int_equal(script_decode_sync(numbers, n, call->exchanges, call->n_keys,
                                            exchanges, &t.twin.repairs),
                         SCRIPT_OK);
    }
}

static void hear_all(void)
{
    for (unsigned i = 0; i < t.n_calls; i++) {
        const struct call *call = &t.calls[i];
        int64_t numbers[TWIN_NUMBERS_MAX];
        size_t n = twin_get(&t.twin, numbers);
        if (n != call->n_numbers || memcmp(numbers, call->numbers, n * 8) != 0) {
            print_error("script %u, %u keys, now %lld\n", call->script, call->n_keys,
                        (long long)call->now.us);
            print_numbers("C  ", call->numbers, call->n_numbers);
            print_numbers("Lua", numbers, n);
            fail();
        }
        check_decoded(call, numbers, n);
    }
    t.n_calls = 0;
}

static void run(struct call *call)
{
    static const unsigned scripts[] = {REDIS_SCRIPT_TAKE, REDIS_SCRIPT_SETTLE,
                                       REDIS_SCRIPT_LEASE, REDIS_SCRIPT_SYNC};
    struct seam_bytes keys[SUBJECTS];
    struct twin_key same[SUBJECTS];
    for (unsigned i = 0; i < call->n_keys; i++) {
        const char *key = t.of[call->subjects[i]].key;
        keys[i] = (struct seam_bytes){key, strlen(key)};
        same[i] = (struct twin_key){key, strlen(key)};
    }
    const struct centre_call again = {
        .script = scripts[call->script],
        .keys = keys,
        .n_keys = call->n_keys,
        .arg = {call->bytes, call->len},
        .now = call->now,
    };
    int64_t numbers[CENTRE_NUMBERS_MAX];
    call->n_numbers = centre_run(t.centre, &again, numbers);
    assert_in_range(call->n_numbers, 1, NUMBERS_MAX);
    memcpy(call->numbers, numbers, call->n_numbers * sizeof(numbers[0]));
    const struct centre_deeds *deeds = centre_deeds(t.centre);
    for (unsigned i = 0; i < deeds->n; i++) {
        t.n_acts[deeds->list[i].act]++;
    }
    const struct twin_call sent = {call->script,
                                   same,
                                   call->n_keys,
                                   {(const char *)call->bytes, call->len},
                                   call->now};
    twin_send(&t.twin, TWIN_TEST, &sent);
}

/* The orders point at the call's own limits, wherever it stands. */
static void point(struct call *call)
{
    for (unsigned i = 0; i < call->n_keys; i++) {
        call->leases[i].limit = &call->limits[i];
        call->exchanges[i].limit = &call->limits[i];
    }
}

static struct call *new_call(enum twin_script script, unsigned n_of)
{
    if (t.n_calls == BATCH) {
        hear_all();
    }
    struct call *call = &t.calls[t.n_calls++];
    unsigned first = (unsigned)below(n_of);
    call->script = script;
    call->now = skewed_now();
    call->n_keys = one_in(2) ? 1 : 1 + (unsigned)below(n_of);
    for (unsigned i = 0; i < call->n_keys; i++) {
        call->subjects[i] = (first + i) % n_of;
        call->limits[i] = t.of[call->subjects[i]].limit;
    }
    point(call);
    return call;
}

static void keep(const struct call *call)
{
    t.before[t.n_before++ % KEPT] = *call;
}

/* An argument that came before, at another time; while it says how calendars go on. */
static void come_again(void)
{
    if (t.n_before == 0) {
        return;
    }
    const struct call *before = &t.before[below(t.n_before < KEPT ? t.n_before : KEPT)];
    if (t.now_us - before->now.us > DAY_US) {
        return;
    }
    struct call *call = new_call(before->script, 1);
    struct instant now = call->now;
    *call = *before;
    call->now = now;
    point(call);
    run(call);
}

static void take_some(void)
{
    struct call *call = new_call(TWIN_TAKE, SUBJECTS);
    struct store_take what = {
        .now = call->now,
        .n_charges = call->n_keys,
        .is_peek = one_in(6) && !t.is_stepped, /* local.h says why, of logs */
    };
    for (unsigned i = 0; i < call->n_keys; i++) {
        bool is_lenient = one_in(3);
        what.charges[i] = (struct store_charge){
            .limit = &call->limits[i],
            .cost = amount_draw(&t.prng, &call->limits[i]),
            .is_lenient = is_lenient,
            .tie = (uint8_t)(is_lenient ? below(3) : 0),
        };
    }
    call->len = script_encode_take(&what, call->bytes);
    run(call);
    unsigned stride = what.is_peek ? SCRIPT_PEEK_NUMBERS : SCRIPT_CHARGE_NUMBERS;
    for (unsigned i = 0; i < call->n_keys; i++) {
        struct subject *subject = &t.of[call->subjects[i]];
        const int64_t *numbers = call->numbers + 1 + (size_t)i * stride;
        if ((numbers[0] & 2) != 0) {
            subject->taken[subject->n_taken++ % KEPT] = (struct limit_correction){
                .place = numbers[6], .amount = what.charges[i].cost};
        }
    }
    if (!what.is_peek) {
        keep(call);
    }
}

static void settle_one(void)
{
    struct call *call = new_call(TWIN_SETTLE, SUBJECTS);
    call->n_keys = 1;
    struct subject *subject = &t.of[call->subjects[0]];
    struct store_settlement settlement = {.limit = &call->limits[0], .now = call->now};
    if (subject->n_taken > 0) {
        unsigned n = subject->n_taken < KEPT ? subject->n_taken : KEPT;
        settlement.correction = subject->taken[below(n)];
    }
    settlement.correction.truth = one_in(2) ? 0
                                            : amount_draw(&t.prng, &call->limits[0]);
    call->len = script_encode_settlement(&settlement, call->bytes);
    run(call);
}

static int64_t random_kept_ms(void)
{
    return one_in(2) ? 1 + (int64_t)below(SCRIPT_KEPT_MS_MAX)
                     : 1 + (int64_t)below(2000);
}

static void add_reports(struct script_lease_order *order, const struct host *host,
                        unsigned subject)
{
    for (unsigned i = 0; i < GIVEN && order->n_reports < SCRIPT_LEASE_REPORTS_MAX;
         i++) {
        const struct given *given = &host->given[subject][i];
        if (given->want > 0 && one_in(3)) {
            order->reports[order->n_reports++] = (struct script_lease_report){
                .seq = given->seq,
                .spent = (int64_t)below((uint64_t)given->want + 1),
            };
        }
    }
}

static void lease_some(void)
{
    struct call *call = new_call(TWIN_LEASE, LEASABLE);
    struct host *host = &t.hosts[below(HOSTS)];
    for (unsigned i = 0; i < call->n_keys; i++) {
        struct script_lease_order *order = &call->leases[i];
        *order = (struct script_lease_order){
            .limit = &call->limits[i],
            .want = amount_draw(&t.prng, &call->limits[i]),
            .cap = one_in(4) ? amount_draw(&t.prng, &call->limits[i])
                             : LIMIT_AMOUNT_MAX,
            .divisor = one_in(3) ? 1 + (unsigned)below(20) : 1,
            .new_seq = host->seq++,
        };
        add_reports(order, host, call->subjects[i]);
        host->given[call->subjects[i]][below(GIVEN)] = (struct given){order->new_seq,
                                                                      order->want};
    }
    call->len = script_encode_lease(host->name, random_kept_ms(), call->now,
                                    call->leases, call->n_keys, call->bytes);
    run(call);
    keep(call);
}

static void exchange_some(void)
{
    struct call *call = new_call(TWIN_SYNC, LEASABLE);
    struct host *host = &t.hosts[below(HOSTS)];
    for (unsigned i = 0; i < call->n_keys; i++) {
        int64_t delta = amount_draw(&t.prng, &call->limits[i]);
        call->exchanges[i] = (struct script_sync_order){
            .limit = &call->limits[i],
            .seq = one_in(10) ? (uint32_t)prng_next(&t.prng) : host->seq++,
            .delta = delta < LIMIT_AMOUNT_MAX ? delta : LIMIT_AMOUNT_MAX,
        };
    }
    call->len = script_encode_sync(host->name, random_kept_ms(), call->now,
                                   call->exchanges, call->n_keys, call->bytes);
    run(call);
    keep(call);
}

static void step(void)
{
    if (one_in(40)) {
        set_amounts(&t.of[below(SUBJECTS)].limit);
    }
    fill_calendar(&t.of[LEASABLE - 1]);
    switch (below(8)) {
    case 0:
    case 1:
        take_some();
        break;
    case 2:
        settle_one();
        break;
    case 3:
    case 4:
    case 5:
        lease_some();
        break;
    case 6:
        exchange_some();
        break;
    default:
        come_again();
    }
    pause();
}

static void begin_trace(void)
{
    hear_all();
    t.n_traces++;
    t.is_stepped = false;
    t.is_calm = one_in(2);
    t.n_before = 0;
    t.now_us = START_US + (int64_t)below((uint64_t)DAY_US);
    centre_flush(t.centre);
    freeReplyObject(redis_server_ask(&t.twin.server, "FLUSHALL"));
    for (unsigned i = 0; i < SUBJECTS; i++) {
        make_subject(i);
    }
    for (unsigned i = 0; i < HOSTS; i++) {
        t.hosts[i] = (struct host){.seq = (uint32_t)prng_next(&t.prng)};
        prng_fill(&t.prng, t.hosts[i].name, SCRIPT_HOST_BYTES);
    }
}

static void scripts_and_their_twin(void **context)
{
    uint64_t seed = prng_seed(20261130);
    (void)context;
    print_message("SEED=%llu\n", (unsigned long long)seed);
    prng_init(&t.prng, seed);
    t.n_calls = 0;
    for (int n = prng_traces(TRACES); n > 0; n--) {
        begin_trace();
        for (unsigned i = 0; i < TRACE_STEPS; i++) {
            step();
        }
    }
    hear_all();
    assert_int_equal(t.twin.repairs.n_values, 0);
    static const char *const names[] = {"charges", "settlements", "grants",
                                        "reports", "take-backs",  "deltas"};
    for (unsigned i = 0; i <= CENTRE_SYNC; i++) {
        print_message("%llu %s\n", (unsigned long long)t.n_acts[i], names[i]);
        assert_true(t.n_acts[i] > 100);
    }
}

/* ---- the ledger ---- */

enum {
    LEASES_MAX = 512,
};

struct lease {
    unsigned host;
    uint32_t seq;
    int64_t amount;
    int64_t ends_us;
};

static struct {
    struct limit limit;
    int64_t cap;
    int64_t used;
    int64_t
        charged; /* by takes and deltas, for good, and what reports say to be spent */
    unsigned n_leases;
    struct lease leases[LEASES_MAX];
    bool has_exchanged[HOSTS];
    uint32_t last_seq[HOSTS];
    struct script_lease_order last_order[HOSTS];
    uint64_t n_granted;
    uint64_t n_reported;
    uint64_t n_ended;
    uint64_t n_again;
} l;

static const struct twin_key ledger_key = {"ledger", 6};

static int64_t out(void)
{
    int64_t sum = 0;
    for (unsigned i = 0; i < l.n_leases; i++) {
        sum += l.leases[i].amount;
    }
    return sum;
}

static void end_leases(void)
{
    for (unsigned i = l.n_leases; i-- > 0;) {
        if (l.leases[i].ends_us <= t.now_us) {
            l.used -= l.leases[i].amount;
            l.leases[i] = l.leases[--l.n_leases];
            l.n_ended++;
        }
    }
}

static struct lease *find_lease(unsigned host, uint32_t seq)
{
    for (unsigned i = 0; i < l.n_leases; i++) {
        if (l.leases[i].host == host && l.leases[i].seq == seq) {
            return &l.leases[i];
        }
    }
    return NULL;
}

static int64_t remaining(void)
{
    return l.used < l.limit.size ? l.limit.size - l.used : 0;
}

static void ledger_take(void)
{
    struct store_take what = {
        .now = {t.now_us},
        .n_charges = 1,
        .is_peek = one_in(4),
    };
    int64_t cost = (int64_t)below(40);
    what.charges[0] = (struct store_charge){.limit = &l.limit, .cost = cost};
    twin_send_take(&t.twin, TWIN_TEST, &what, &ledger_key);
    twin_get_take(&t.twin, &what);
    assert_int_equal(what.is_allowed, cost == 0 || cost <= remaining());
    if (what.charges[0].is_charged) {
        l.used += cost;
        l.charged += cost;
    }
    assert_int_equal(what.is_peek ? what.held[0].remaining
                                  : what.charges[0].answer.remaining,
                     remaining());
}

static void send_order(unsigned host, const struct script_lease_order *order,
                       int64_t ttl_ms)
{
    struct script_lease_reply reply;
    struct twin_from from = {t.hosts[host].name, ttl_ms, {t.now_us}};
    unsigned accepted = 0;
    twin_send_lease(&t.twin, TWIN_TEST, from, order, 1, &ledger_key);
    twin_get_lease(&t.twin, order, 1, &reply);
    for (unsigned i = 0; i < order->n_reports; i++) {
        struct lease *lease = find_lease(host, order->reports[i].seq);
        if (lease != NULL) {
            accepted |= 1U << i;
            l.used -= lease->amount - order->reports[i].spent;
            l.charged += order->reports[i].spent;
            *lease = l.leases[--l.n_leases];
            l.n_reported++;
        }
    }
    const struct lease *before = find_lease(host, order->new_seq);
    int64_t want = order->want < l.cap - out() ? order->want : l.cap - out();
    want = want < remaining() / order->divisor ? want : remaining() / order->divisor;
    want = want < 2 || l.n_leases == SCRIPT_RECORDS_MAX ? 0 : want;
    if (before != NULL && order->want > 0) {
        want = before->amount;
        l.n_again++;
    } else if (want > 0) {
        l.used += want;
        l.leases[l.n_leases++] = (struct lease){host, order->new_seq, want,
                                                t.now_us + ttl_ms * US_PER_MS};
        l.n_granted++;
    }
    assert_int_equal(reply.grant, want);
    assert_int_equal(reply.accepted, accepted);
    assert_int_equal(reply.remaining, remaining());
    assert_int_equal(reply.out, out());
    assert_true(reply.out <= l.cap);
}

static void ledger_lease(void)
{
    unsigned host = (unsigned)below(HOSTS);
    struct script_lease_order order = {
        .limit = &l.limit,
        .want = (int64_t)below(80),
        .cap = l.cap,
        .divisor = 1 + (unsigned)below(4),
        .new_seq = t.hosts[host].seq++,
    };
    for (unsigned i = 0; i < l.n_leases && order.n_reports < 4; i++) {
        const struct lease *lease = &l.leases[i];
        if (lease->host == host && one_in(3)) {
            order.reports[order.n_reports++] = (struct script_lease_report){
                lease->seq, (int64_t)below((uint64_t)lease->amount + 1)};
        }
    }
    send_order(host, &order, 1 + (int64_t)below(3000));
    l.last_order[host] = order;
}

static void ledger_again(void)
{
    unsigned host = (unsigned)below(HOSTS);
    if (l.last_order[host].limit != NULL) {
        send_order(host, &l.last_order[host], 1 + (int64_t)below(3000));
    }
}

/* Kept for longer than a trace. */
static void ledger_exchange(void)
{
    unsigned host = (unsigned)below(HOSTS);
    uint32_t seq = l.last_seq[host] + (uint32_t)below(5) - 1;
    struct script_sync_order order = {&l.limit, seq, (int64_t)below(20)};
    struct script_sync_reply reply;
    struct twin_from from = {t.hosts[host].name, SCRIPT_KEPT_MS_MAX, {t.now_us}};
    bool is_new = !l.has_exchanged[host] || (int32_t)(seq - l.last_seq[host]) > 0;
    twin_send_sync(&t.twin, TWIN_TEST, from, &order, 1, &ledger_key);
    twin_get_sync(&t.twin, &order, 1, &reply);
    assert_int_equal(reply.is_charged, is_new && order.delta > 0);
    if (reply.is_charged) {
        int64_t room = 2 * l.limit.size - l.used;
        int64_t added = order.delta < room ? order.delta : room;
        l.used += added;
        l.charged += added;
        l.has_exchanged[host] = true;
        l.last_seq[host] = seq;
    }
    l.n_again += !is_new;
}

static void begin_ledger(void)
{
    static const enum limit_algorithm algorithms[] = {LIMIT_SLIDING_WINDOW,
                                                      LIMIT_TOKEN_BUCKET,
                                                      LIMIT_FIXED_WINDOW};
    int64_t size = 50 + (int64_t)below(3000);
    memset(&l, 0, offsetof(__typeof__(l), n_granted));
    l.limit = make(algorithms[below(3)], size, size, 31 * DAY_US);
    if (l.limit.algorithm == LIMIT_TOKEN_BUCKET) {
        l.limit.requests = 0; /* nothing drains */
    }
    l.cap = (int64_t)below((uint64_t)size + 1);
    t.now_us = START_US;
    for (unsigned i = 0; i < HOSTS; i++) {
        prng_fill(&t.prng, t.hosts[i].name, SCRIPT_HOST_BYTES);
        t.hosts[i].seq = (uint32_t)prng_next(&t.prng);
        l.last_seq[i] = (uint32_t)prng_next(&t.prng);
    }
    freeReplyObject(redis_server_ask(&t.twin.server, "FLUSHALL"));
}

static void ledger_step(void)
{
    t.now_us += one_in(4) ? (int64_t)below(300 * US_PER_MS) : 0;
    end_leases();
    switch (below(8)) {
    case 0:
    case 1:
        ledger_take();
        break;
    case 2:
        ledger_exchange();
        break;
    case 3:
        ledger_again();
        break;
    default:
        ledger_lease();
    }
}

/* All leases have ended: what stays is what was used. */
static void close_ledger(void)
{
    t.now_us += 3 * US_PER_S;
    end_leases();
    assert_int_equal(out(), 0);
    assert_int_equal(l.used, l.charged);
    ledger_take();
}

static void tokens_are_conserved(void **context)
{
    uint64_t seed = prng_seed(20261130);
    (void)context;
    print_message("SEED=%llu\n", (unsigned long long)seed);
    prng_init(&t.prng, seed);
    memset(&l, 0, sizeof(l));
    for (int n = prng_traces(TRACES); n > 0; n--) {
        begin_ledger();
        for (unsigned i = 0; i < TRACE_STEPS; i++) {
            ledger_step();
        }
        close_ledger();
    }
    assert_int_equal(t.twin.repairs.n_values, 0);
    print_message("%llu granted, %llu reported, %llu taken back, %llu came again\n",
                  (unsigned long long)l.n_granted, (unsigned long long)l.n_reported,
                  (unsigned long long)l.n_ended, (unsigned long long)l.n_again);
    assert_true(l.n_granted > 100 && l.n_reported > 100 && l.n_ended > 100
                && l.n_again > 100);
}

static int start(void **context)
{
    (void)context;
    twin_start(&t.twin);
    t.centre = centre_new();
    return 0;
}

static int stop(void **context)
{
    (void)context;
    centre_free(t.centre);
    twin_stop(&t.twin);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scripts_and_their_twin),
        cmocka_unit_test(tokens_are_conserved),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
