/* Pools of leased tokens, without a Redis: what it answers is made up here. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "agent/store/leases.h"

#include "tests/support/limit.h"

enum {
    BLOCK = 100, /* of hundred: the share of one host */
    WATCHER = 7,
    OTHER = 8,
    PLACE = 4711,
};

#define TTL_US     (2 * US_PER_S)
#define SPEND_US   (1600 * US_PER_MS) /* 80 % of it */
#define HORIZON_US (1 * US_PER_S)

static const struct table_key key = {.lo = 1, .hi = 1};
static struct leases *leases;
static struct instant now;
static struct limit hundred; /* of which a block of BLOCK is leased */

/* The last spending. */
static struct {
    struct table_key key;
    unsigned n_agents;
    const struct limit *limit;
    struct store_charge charge;
    uint32_t seq;
    struct lease_order order;
} s;

static int set_up(void **context)
{
    struct leases_options options = {
        .share = 500,
        .horizon_us = HORIZON_US,
        .ttl_us = TTL_US,
    };
    (void)context;
    now = (struct instant){MINUTE_START_US};
    hundred = sliding(20 * BLOCK, MINUTE_US);
    memset(&s, 0, sizeof(s));
    s.key = key;
    s.n_agents = 1;
    s.limit = &hundred;
    leases = leases_new(&options);
    return leases == NULL ? -1 : 0;
}

static int tear_down(void **context)
{
    (void)context;
    leases_free(leases);
    return 0;
}

static void pass_us(int64_t us)
{
    now = instant_add_us(now, us);
}

static bool spend(int64_t cost)
{
    s.charge = (struct store_charge){.limit = s.limit, .cost = cost};
    s.order.key = s.key;
    return leases_spend(leases, s.n_agents, now, &s.charge, &s.seq, &s.order);
}

static struct leases_totals totals(void)
{
    struct leases_totals read;
    leases_read(leases, &read);
    return read;
}

static struct lease_answer granted(int64_t amount)
{
    return (struct lease_answer){
        .amount = amount,
        .place = PLACE,
        .remaining = 1000,
        .reset_us = 30 * US_PER_S,
        .window_end_us = 20 * US_PER_S,
        .accepted = (1U << LEASES_REPORTS_MAX) - 1,
    };
}

static struct instant end_by(const struct lease_order *order,
                             struct lease_answer answer, struct instant sent_at,
                             uint32_t watcher)
{
    answer.sent_at = sent_at;
    return leases_end_order(leases, order, s.limit, &answer, now, watcher);
}

/* Answered at once. @return when the watcher is to look */
static struct instant answer(const struct lease_order *order, int64_t amount)
{
    return end_by(order, granted(amount), now, WATCHER);
}

static struct instant end(const struct lease_order *order, enum lease_end how)
{
    const struct lease_answer none = {.end = how};
    return leases_end_order(leases, order, s.limit, &none, now, WATCHER);
}

/* Not done, for want of room to note it. */
static struct instant drop(const struct lease_order *order)
{
    const struct lease_answer none = {.end = LEASE_NOT_DONE};
    return leases_end_order(leases, order, s.limit, &none, now, 0);
}

static struct instant retire(bool is_all, struct lease_order *order)
{
    return leases_retire(leases, &s.key, is_all, now, WATCHER, order);
}

/* A block of which nothing is spent, of seq s.order.seq. @return when to look after it */
static struct instant lease_block(void)
{
    assert_false(spend(2 * BLOCK));
    assert_int_equal(s.order.want, BLOCK);
    return answer(&s.order, BLOCK);
}

/* --- what is ordered --- */

static void a_block_is_what_was_asked_for_in_the_horizon(void **context)
{
    (void)context;
    assert_false(spend(1));
    assert_int_equal(s.order.want, 0); /* below LEASE_BLOCK_MIN */
    assert_false(spend(1));
    assert_int_equal(s.order.want, 2);
    assert_int_equal(s.order.cap, BLOCK);
    assert_int_equal(s.order.divisor, 2);
    assert_int_equal(s.order.n_reports, 0);
}

static void what_was_asked_for_before_the_horizon_fades(void **context)
{
    (void)context;
    assert_false(spend(60));
    assert_int_equal(s.order.want, 60);
    (void)end(&s.order, LEASE_NOT_DONE);
    pass_us(HORIZON_US + HORIZON_US / 4);
    assert_false(spend(2));
    assert_int_equal(s.order.want, 2 + 60 * 3 / 4);
    (void)end(&s.order, LEASE_NOT_DONE);
    pass_us(2 * HORIZON_US);
    assert_false(spend(3));
    assert_int_equal(s.order.want, 3);
}

static void a_block_is_at_most_the_part_of_this_host(void **context)
{
    (void)context;
    s.n_agents = 7;
    assert_false(spend(2 * BLOCK));
    assert_int_equal(s.order.want, BLOCK / 7);
    assert_int_equal(s.order.cap, BLOCK); /* of the fleet */
    assert_int_equal(s.order.divisor, 8);
}

static void a_share_is_of_the_smaller_of_rate_and_size(void **context)
{
    struct limit small = bucket(20 * BLOCK, 10 * BLOCK, MINUTE_US);
    struct limit slow = bucket(10 * BLOCK, 20 * BLOCK, MINUTE_US);
    (void)context;
    s.limit = &small;
    assert_false(spend(2 * BLOCK));
    assert_int_equal(s.order.cap, BLOCK / 2);
    s.limit = &slow;
    s.key.hi = 2;
    assert_false(spend(2 * BLOCK));
    assert_int_equal(s.order.cap, BLOCK / 2);
}

static void what_is_too_small_is_not_covered(void **context)
{
    struct limit forty = sliding(40, MINUTE_US);
    struct limit less = sliding(39, MINUTE_US);
    (void)context;
    assert_true(leases_cover(leases, &forty, 1));
    assert_false(leases_cover(leases, &less, 1));
    assert_false(leases_cover(leases, &forty, 2));
    assert_true(leases_cover(leases, &hundred, BLOCK / LEASE_BLOCK_MIN));
    assert_false(leases_cover(leases, &hundred, BLOCK / LEASE_BLOCK_MIN + 1));
}

static void half_a_block_is_topped_up_to_one(void **context)
{
    (void)context;
    (void)lease_block();
    assert_true(spend(BLOCK / 2 - 1));
    assert_int_equal(s.order.want, 0);
    assert_true(spend(1));
    assert_int_equal(s.order.want, BLOCK / 2);
    (void)answer(&s.order, BLOCK / 2);
    assert_true(spend(1));
    assert_int_equal(s.order.want, 0);
    assert_int_equal(totals().n_out, BLOCK + BLOCK / 2);
}

static void one_order_at_a_time(void **context)
{
    (void)context;
    assert_false(spend(BLOCK));
    struct lease_order first = s.order;
    assert_int_equal(first.want, BLOCK);
    assert_false(spend(BLOCK));
    assert_int_equal(s.order.want, 0);
    (void)answer(&first, BLOCK / 2);
    assert_true(spend(1));
    assert_int_equal(s.order.want, BLOCK - BLOCK / 2 + 1);
    assert_int_not_equal(s.order.seq, first.seq);
}

static void after_an_order_that_brought_nothing_there_is_a_pause(void **context)
{
    static const enum lease_end ends[] = {LEASE_ANSWERED, LEASE_NOT_DONE,
                                          LEASE_UNHEARD};
    (void)context;
    for (unsigned i = 0; i < ARRAY_LEN(ends); i++) {
        s.key.hi = 100 + i;
        assert_false(spend(BLOCK));
        assert_int_equal(s.order.want, BLOCK);
        (void)(ends[i] == LEASE_ANSWERED ? answer(&s.order, 0)
                                         : end(&s.order, ends[i]));
        pass_us(LEASE_PAUSE_US - 1);
        assert_false(spend(BLOCK));
        assert_int_equal(s.order.want, 0);
        pass_us(1);
        assert_false(spend(BLOCK));
        assert_int_equal(s.order.want, BLOCK);
    }
}

static void a_pool_has_as_many_leases_as_it_has_room_for(void **context)
{
    (void)context;
    for (unsigned i = 0; i < LEASES_PER_POOL; i++) {
        assert_false(spend(2 * BLOCK));
        assert_int_equal(s.order.want, BLOCK);
        s.order.n_reports = 0; /* as if they were under way */
        (void)end(&s.order, LEASE_UNHEARD);
        pass_us(LEASE_PAUSE_US);
    }
    assert_false(spend(2 * BLOCK));
    assert_int_equal(s.order.want, 0);
}

/* --- what is spent --- */

static void nothing_is_spent_beyond_a_lease(void **context)
{
    (void)context;
    (void)lease_block();
    assert_false(spend(BLOCK + 1));
    int64_t n = 0;
    while (spend(3)) {
        assert_true(s.charge.is_charged);
        n += 3;
    }
    assert_int_equal(n, BLOCK / 3 * 3);
    assert_true(spend(BLOCK % 3));
    assert_false(spend(1));
    assert_false(s.charge.is_charged);
}

static void what_is_spent_has_the_place_of_its_lease(void **context)
{
    (void)context;
    (void)lease_block();
    uint32_t seq = s.order.seq;
    assert_true(spend(1));
    assert_int_equal(s.charge.place, PLACE);
    assert_int_equal(s.seq, seq);
}

static void an_answer_counts_on_from_the_last_grant(void **context)
{
    (void)context;
    (void)lease_block();
    pass_us(5 * US_PER_MS);
    assert_true(spend(10));
    assert_true(s.charge.answer.is_allowed);
    assert_int_equal(s.charge.answer.remaining, 1000 + BLOCK - 10);
    assert_int_equal(s.charge.answer.reset_us, 30 * US_PER_S - 5 * US_PER_MS);
    assert_int_equal(s.charge.answer.window_end_us, 20 * US_PER_S - 5 * US_PER_MS);
}

static void an_answer_never_tells_more_than_the_size(void **context)
{
    struct lease_answer grant = granted(BLOCK);
    (void)context;
    assert_false(spend(2 * BLOCK));
    grant.remaining = hundred.size - 5;
    grant.reset_us = LIMIT_NEVER;
    (void)end_by(&s.order, grant, now, WATCHER);
    assert_true(spend(1));
    assert_int_equal(s.charge.answer.remaining, hundred.size);
    assert_int_equal(s.charge.answer.reset_us, LIMIT_WAIT_US_MAX);
}

static void a_lease_is_spent_until_most_of_its_time_is_over(void **context)
{
    (void)context;
    assert_false(spend(2 * BLOCK));
    struct instant sent_at = now;
    pass_us(40 * US_PER_MS); /* the time of the call counts */
    struct instant look_at = end_by(&s.order, granted(BLOCK), sent_at, WATCHER);
    assert_int_equal(instant_diff_us(look_at, sent_at), SPEND_US);
    now = instant_add_us(sent_at, SPEND_US - 1);
    assert_true(spend(1));
    pass_us(1);
    assert_false(spend(1));
}

static void a_lease_of_a_fixed_window_is_not_spent_beyond_its_end(void **context)
{
    struct limit window = fixed(20 * BLOCK, MINUTE_US);
    struct lease_answer grant = granted(BLOCK);
    (void)context;
    s.limit = &window;
    grant.window_end_us = 300 * US_PER_MS;
    assert_false(spend(2 * BLOCK));
    struct instant look_at = end_by(&s.order, grant, now, WATCHER);
    assert_int_equal(instant_diff_us(look_at, now), 300 * US_PER_MS);
    pass_us(300 * US_PER_MS - 1);
    assert_true(spend(1));
    pass_us(1);
    assert_false(spend(1));
}

static void the_lease_that_ends_first_is_spent_first(void **context)
{
    (void)context;
    (void)lease_block();
    uint32_t first = s.order.seq;
    pass_us(100 * US_PER_MS);
    assert_true(spend(BLOCK - 10));
    (void)answer(&s.order, BLOCK - 10);
    uint32_t second = s.order.seq;
    assert_true(spend(10));
    assert_int_equal(s.seq, first);
    assert_true(spend(10));
    assert_int_equal(s.seq, second);
}

/* --- what is reported --- */

static void a_lease_is_reported_once_when_its_time_is_over(void **context)
{
    struct lease_order report;
    (void)context;
    struct instant look_at = lease_block();
    uint32_t seq = s.order.seq;
    assert_true(spend(30));
    now = instant_add_us(look_at, -1);
    assert_int_equal(retire(false, &report).us, look_at.us);
    assert_int_equal(report.n_reports, 0);
    now = look_at;
    (void)retire(false, &report);
    assert_int_equal(report.n_reports, 1);
    assert_int_equal(report.want, 0);
    assert_int_equal(report.reports[0].seq, seq);
    assert_int_equal(report.reports[0].spent, 30);
    assert_int_equal(totals().n_out, BLOCK);
    struct lease_order again;
    assert_int_equal(retire(false, &again).us, 0);
    assert_int_equal(again.n_reports, 0);
    assert_int_equal(answer(&report, 0).us, 0);
    assert_int_equal(totals().n_out, 0);
    assert_int_equal(totals().n_spent, 30);
    assert_int_equal(totals().n_granted, BLOCK);
    assert_int_equal(totals().n_stranded, 0);
}

static void an_order_carries_what_is_to_be_reported(void **context)
{
    (void)context;
    (void)lease_block();
    uint32_t first = s.order.seq;
    assert_true(spend(BLOCK)); /* orders more, and is not closed yet */
    assert_int_equal(s.order.n_reports, 0);
    (void)answer(&s.order, 0);
    pass_us(LEASE_PAUSE_US);
    assert_false(spend(1));
    assert_int_equal(s.order.want, BLOCK);
    assert_int_equal(s.order.n_reports, 1);
    assert_int_equal(s.order.reports[0].seq, first);
    assert_int_equal(s.order.reports[0].spent, BLOCK);
    (void)answer(&s.order, BLOCK);
    assert_int_equal(totals().n_spent, BLOCK);
    assert_int_equal(totals().n_out, BLOCK);
}

/* Of which the report is under way, in `report`. */
static void lease_and_report(struct lease_order *report)
{
    now = lease_block();
    (void)retire(false, report);
    assert_int_equal(report->n_reports, 1);
}

static void a_report_that_was_not_done_is_made_again(void **context)
{
    struct lease_order report;
    (void)context;
    lease_and_report(&report);
    uint32_t seq = report.reports[0].seq;
    struct instant look_at = end(&report, LEASE_NOT_DONE);
    assert_int_equal(instant_diff_us(look_at, now), LEASE_PAUSE_US);
    now = look_at;
    (void)retire(false, &report);
    assert_int_equal(report.n_reports, 1);
    assert_int_equal(report.reports[0].seq, seq);
    struct lease_answer refused = granted(0);
    refused.accepted = 0; /* it came too late: Redis took all of it back */
    (void)end_by(&report, refused, now, WATCHER);
    assert_int_equal(totals().n_stranded, BLOCK);
    assert_int_equal(totals().n_spent, 0);
    assert_int_equal(totals().n_out, 0);
}

static void a_report_that_nobody_heard_of_may_have_been_accepted(void **context)
{
    struct lease_order report;
    struct lease_answer refused = granted(0);
    (void)context;
    assert_true((lease_block(), spend(30)));
    pass_us(SPEND_US);
    (void)retire(false, &report);
    now = end(&report, LEASE_UNHEARD);
    (void)retire(false, &report);
    assert_int_equal(report.n_reports, 1);
    assert_int_equal(report.reports[0].spent, 30);
    refused.accepted = 0;
    (void)end_by(&report, refused, now, WATCHER);
    assert_int_equal(totals().n_stranded, 0);
    assert_int_equal(totals().n_spent, 30);
    assert_int_equal(totals().n_out, 0);
}

static void each_report_has_its_own_answer(void **context)
{
    struct lease_order report;
    struct lease_answer one = granted(0);
    (void)context;
    (void)lease_block();
    assert_true(spend(BLOCK / 2));
    (void)answer(&s.order, BLOCK / 2);
    pass_us(SPEND_US);
    (void)retire(false, &report);
    assert_int_equal(report.n_reports, 2);
    one.accepted = 2;
    (void)end_by(&report, one, now, WATCHER);
    assert_int_equal(totals().n_stranded, BLOCK);
    assert_int_equal(totals().n_spent, 0);
    assert_int_equal(totals().n_out, 0);
}

static void what_ends_unreported_is_stranded(void **context)
{
    struct lease_order report;
    (void)context;
    lease_and_report(&report);
    (void)end(&report, LEASE_NOT_DONE);
    pass_us(TTL_US - SPEND_US - 1);
    (void)retire(false, &report);
    assert_int_equal(report.n_reports, 1);
    (void)end(&report, LEASE_NOT_DONE);
    pass_us(1);
    assert_int_equal(retire(false, &report).us, 0);
    assert_int_equal(report.n_reports, 0);
    assert_int_equal(totals().n_stranded, BLOCK);
    assert_int_equal(totals().n_out, 0);
}

static void an_order_that_nobody_heard_of_may_have_been_granted(void **context)
{
    struct lease_order report;
    (void)context;
    assert_false(spend(BLOCK));
    uint32_t seq = s.order.seq;
    struct instant look_at = end(&s.order, LEASE_UNHEARD);
    assert_int_equal(instant_diff_us(look_at, now), LEASE_PAUSE_US);
    assert_false(spend(1));
    now = look_at;
    (void)retire(false, &report);
    assert_int_equal(report.n_reports, 1);
    assert_int_equal(report.reports[0].seq, seq);
    assert_int_equal(report.reports[0].spent, 0);
    assert_int_equal(answer(&report, 0).us, 0);
    assert_int_equal(totals().n_granted, 0);
    assert_int_equal(totals().n_out, 0);
}

static void an_order_that_was_not_done_leaves_nothing(void **context)
{
    struct lease_order report;
    (void)context;
    assert_false(spend(BLOCK));
    assert_int_equal(end(&s.order, LEASE_NOT_DONE).us, 0);
    assert_int_equal(retire(true, &report).us, 0);
    assert_int_equal(report.n_reports, 0);
}

static void all_can_be_returned_at_once(void **context)
{
    struct lease_order report;
    (void)context;
    (void)lease_block();
    assert_true(spend(30));
    (void)retire(true, &report);
    assert_int_equal(report.n_reports, 1);
    assert_int_equal(report.reports[0].spent, 30);
    assert_false(spend(1));
}

/* --- who watches --- */

static void one_watches_a_pool(void **context)
{
    struct lease_order report;
    (void)context;
    (void)lease_block();
    assert_true(spend(BLOCK / 2));
    struct instant none = end_by(&s.order, granted(BLOCK / 2), now, OTHER);
    assert_int_equal(none.us, 0);
    pass_us(SPEND_US);
    none = leases_retire(leases, &key, false, now, OTHER, &report);
    assert_int_equal(none.us, 0);
    assert_int_equal(report.n_reports, 0); /* it is not the other's to report */
    (void)retire(false, &report);
    assert_int_equal(report.n_reports, 2);
}

static void a_pool_of_which_nothing_is_out_is_watched_anew(void **context)
{
    struct lease_order report;
    (void)context;
    lease_and_report(&report);
    assert_int_equal(answer(&report, 0).us, 0);
    assert_false(spend(2 * BLOCK));
    assert_int_not_equal(end_by(&s.order, granted(BLOCK), now, OTHER).us, 0);
}

static void from_one_who_leaves_the_next_takes_over(void **context)
{
    struct lease_order report;
    (void)context;
    (void)lease_block();
    (void)retire(true, &report); /* its report is under way */
    assert_false(spend(2 * BLOCK));
    assert_int_not_equal(end_by(&s.order, granted(BLOCK), now, OTHER).us, 0);
    assert_int_equal(answer(&report, 0).us, 0);
    struct lease_order none;
    assert_int_equal(retire(true, &none).us, 0); /* it returns nothing of the other's */
    assert_int_equal(none.n_reports, 0);
    assert_true(spend(1));
    pass_us(SPEND_US);
    (void)leases_retire(leases, &key, false, now, OTHER, &report);
    assert_int_equal(report.n_reports, 1);
}

static void one_who_leaves_watches_until_another_does(void **context)
{
    struct lease_order report;
    (void)context;
    (void)lease_block();
    assert_true(spend(BLOCK / 2)); /* an order is under way */
    (void)retire(true, &report);
    assert_int_equal(answer(&report, 0).us, 0);
    assert_int_not_equal(answer(&s.order, BLOCK / 2).us, 0);
    (void)retire(true, &report);
    assert_int_equal(report.n_reports, 1);
    assert_int_equal(answer(&report, 0).us, 0);
    assert_int_equal(totals().n_out, 0);
}

static void one_who_has_no_room_to_watch_changes_nothing(void **context)
{
    (void)context;
    struct instant look_at = lease_block();
    struct lease_order report;
    assert_true(spend(BLOCK / 2));
    struct instant none = drop(&s.order);
    assert_int_equal(none.us, 0);
    assert_int_equal(retire(false, &report).us, look_at.us);
}

static void nor_does_it_take_over_from_one_who_leaves(void **context)
{
    struct lease_order report;
    (void)context;
    (void)lease_block();
    assert_true(spend(BLOCK / 2)); /* an order is under way */
    (void)retire(true, &report);
    (void)end(&report, LEASE_NOT_DONE);
    (void)drop(&s.order);
    (void)retire(true, &report);
    assert_int_equal(report.n_reports, 1);
}

/* --- giving back --- */

static void what_is_given_back_can_be_spent_again(void **context)
{
    (void)context;
    (void)lease_block();
    assert_true(spend(BLOCK));
    assert_true(leases_give_back(leases, &key, s.seq, 40));
    assert_false(spend(41));
    assert_true(spend(40));
}

static void what_is_given_back_to_a_closed_lease_is_not_reported_as_spent(
    void **context)
{
    struct lease_order report;
    (void)context;
    (void)lease_block();
    assert_true(spend(40));
    pass_us(SPEND_US);
    uint32_t seq = s.seq;
    assert_false(spend(1)); /* closes it, and takes its report along */
    (void)end(&s.order, LEASE_NOT_DONE);
    assert_true(leases_give_back(leases, &key, seq, 30));
    (void)retire(false, &report);
    assert_int_equal(report.reports[0].spent, 10);
}

static void what_was_reported_is_given_back_elsewhere(void **context)
{
    struct lease_order report;
    (void)context;
    (void)lease_block();
    assert_true(spend(40));
    (void)retire(true, &report);
    assert_false(leases_give_back(leases, &key, s.seq, 40));
    (void)answer(&report, 0);
    assert_false(leases_give_back(leases, &key, s.seq, 40));
    s.key.hi = 99; /* no such pool */
    assert_false(leases_give_back(leases, &s.key, s.seq, 40));
}

/* --- the table --- */

static void a_pool_that_holds_tokens_is_not_pushed_out(void **context)
{
    (void)context;
    for (uint64_t i = 0; i < TABLE_WAYS; i++) {
        s.key.hi = 1 + i;
        (void)lease_block();
    }
    s.key.hi = 50;
    assert_false(spend(2 * BLOCK)); /* nor is there room for another */
    assert_int_equal(s.order.want, 0);
    for (uint64_t i = 0; i < TABLE_WAYS; i++) {
        s.key.hi = 1 + i;
        assert_true(spend(1));
    }
    s.key.hi = 3;
    struct lease_order report;
    (void)retire(true, &report);
    s.key.hi = 50;
    assert_false(spend(2 * BLOCK));
    assert_int_equal(s.order.want, 0); /* its report is under way */
    s.key.hi = 3;
    (void)answer(&report, 0);
    s.key.hi = 50;
    (void)lease_block();
    assert_true(spend(1));
}

static void a_pool_that_waits_for_an_order_is_not_pushed_out(void **context)
{
    struct lease_order orders[TABLE_WAYS];
    (void)context;
    for (uint64_t i = 0; i < TABLE_WAYS; i++) {
        s.key.hi = 1 + i;
        assert_false(spend(BLOCK));
        orders[i] = s.order;
    }
    s.key.hi = 50;
    assert_false(spend(BLOCK));
    assert_int_equal(s.order.want, 0);
    for (uint64_t i = 0; i < TABLE_WAYS; i++) {
        s.key.hi = 1 + i;
        (void)answer(&orders[i], BLOCK);
        assert_true(spend(1));
    }
}

static void what_redis_took_back_makes_room(void **context)
{
    (void)context;
    for (uint64_t i = 0; i < TABLE_WAYS; i++) {
        s.key.hi = 1 + i;
        (void)lease_block();
    }
    pass_us(TTL_US);
    s.key.hi = 50;
    (void)lease_block();
    assert_true(spend(1));
}

static void a_look_tells_what_is_to_spend_and_spends_nothing(void **context)
{
    (void)context;
    struct lease_held held = leases_look(leases, &s.key, now);
    assert_int_equal(held.left, 0);
    assert_int_equal(held.spend_us, 0);
    (void)lease_block();
    pass_us(100 * US_PER_MS);
    assert_true(spend(BLOCK - 10));
    (void)answer(&s.order, BLOCK - 10); /* a second one, which ends later */
    for (int i = 0; i < 2; i++) {
        held = leases_look(leases, &s.key, now);
        assert_int_equal(held.left, BLOCK);
        assert_int_equal(held.most, BLOCK - 10);
        assert_int_equal(held.spend_us, SPEND_US);
    }
    pass_us(SPEND_US - 100 * US_PER_MS);
    held = leases_look(leases, &s.key, now); /* the first is over */
    assert_int_equal(held.left, BLOCK - 10);
    assert_int_equal(held.spend_us, 100 * US_PER_MS);
    pass_us(100 * US_PER_MS);
    assert_int_equal(leases_look(leases, &s.key, now).left, 0);
}

static void another_limit_is_another_pool(void **context)
{
    struct limit more = sliding(40 * BLOCK, MINUTE_US);
    struct store_charge charge = {.key = (const uint8_t *)"a", .key_bytes = 1};
    (void)context;
    charge.limit = &hundred;
    s.key = leases_key(leases, &charge);
    (void)lease_block();
    charge.limit = &more;
    s.key = leases_key(leases, &charge);
    assert_false(spend(1));
}

static void the_time_of_a_lease_is_told_in_ms(void **context)
{
    (void)context;
    assert_int_equal(leases_ttl_ms(leases), 2000);
}

/* --- many threads --- */

enum {
    SPENDERS = 4,
    ROUNDS = 20000,
    SHARED_KEYS = 3,
};

static struct {
    _Atomic int64_t n_spent;
    _Atomic int64_t n_granted;
    _Atomic int64_t n_reported;
} race;

/* One who is Redis, too: what it is asked for it grants, and what it is told it believes. */
static void carry_out(struct lease_order *order, struct instant at, uint32_t watcher)
{
    for (bool is_due = order->want > 0 || order->n_reports > 0; is_due;) {
        struct lease_order next;
        for (unsigned i = 0; i < order->n_reports; i++) {
            (void)atomic_fetch_add(&race.n_reported, order->reports[i].spent);
        }
        (void)atomic_fetch_add(&race.n_granted, order->want);
        struct lease_answer grant = granted(order->want);
        grant.sent_at = at;
        (void)leases_end_order(leases, order, &hundred, &grant, at, watcher);
        (void)leases_retire(leases, &order->key, false, at, watcher, &next);
        *order = next;
        is_due = order->n_reports > 0;
    }
}

static void *spender(void *number)
{
    uint32_t self = (uint32_t)(uintptr_t)number;
    for (int64_t i = 0; i < ROUNDS; i++) {
        struct table_key shared = {.lo = 1, .hi = (uint64_t)i % SHARED_KEYS};
        struct store_charge charge = {.limit = &hundred, .cost = 1 + i % 3};
        struct instant at = instant_add_us(now, i * 500);
        struct lease_order order = {.key = shared};
        uint32_t seq = 0;
        if (leases_spend(leases, 1, at, &charge, &seq, &order)) {
            (void)atomic_fetch_add(&race.n_spent, charge.cost);
            if (i % 5 == 0 && leases_give_back(leases, &shared, seq, charge.cost)) {
                (void)atomic_fetch_sub(&race.n_spent, charge.cost);
            }
        }
        carry_out(&order, at, self + 1);
    }
    return NULL;
}

static void report_all(void)
{
    for (uint64_t i = 0; i < SHARED_KEYS; i++) {
        s.key = (struct table_key){.lo = 1, .hi = i};
        for (uint32_t watcher = 1; watcher <= SPENDERS; watcher++) {
            struct lease_order order;
            (void)leases_retire(leases, &s.key, true, now, watcher, &order);
            carry_out(&order, now, watcher);
        }
    }
}

static void many_threads_never_spend_more_than_was_granted(void **context)
{
    pthread_t threads[SPENDERS];
    (void)context;
    for (uintptr_t i = 0; i < SPENDERS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, spender, (void *)i), 0);
    }
    for (unsigned i = 0; i < SPENDERS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    now = instant_add_us(now, ROUNDS * INT64_C(500));
    report_all();
    assert_true(race.n_spent > 0);
    assert_true(race.n_spent <= race.n_granted);
    assert_int_equal(totals().n_granted, race.n_granted);
    assert_int_equal(totals().n_spent, race.n_reported);
    assert_int_equal(totals().n_out, 0);
    /* Nothing was lost between them: all that was spent was told, or its lease had ended. */
    assert_true(race.n_reported <= race.n_spent);
    assert_true(race.n_reported + (int64_t)totals().n_stranded >= race.n_spent);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define X(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
        X(a_block_is_what_was_asked_for_in_the_horizon),
        X(what_was_asked_for_before_the_horizon_fades),
        X(a_block_is_at_most_the_part_of_this_host),
        X(a_share_is_of_the_smaller_of_rate_and_size),
        X(what_is_too_small_is_not_covered),
        X(half_a_block_is_topped_up_to_one),
        X(one_order_at_a_time),
        X(after_an_order_that_brought_nothing_there_is_a_pause),
        X(a_pool_has_as_many_leases_as_it_has_room_for),
        X(nothing_is_spent_beyond_a_lease),
        X(what_is_spent_has_the_place_of_its_lease),
        X(an_answer_counts_on_from_the_last_grant),
        X(an_answer_never_tells_more_than_the_size),
        X(a_lease_is_spent_until_most_of_its_time_is_over),
        X(a_lease_of_a_fixed_window_is_not_spent_beyond_its_end),
        X(the_lease_that_ends_first_is_spent_first),
        X(a_lease_is_reported_once_when_its_time_is_over),
        X(an_order_carries_what_is_to_be_reported),
        X(a_report_that_was_not_done_is_made_again),
        X(a_report_that_nobody_heard_of_may_have_been_accepted),
        X(each_report_has_its_own_answer),
        X(what_ends_unreported_is_stranded),
        X(an_order_that_nobody_heard_of_may_have_been_granted),
        X(an_order_that_was_not_done_leaves_nothing),
        X(all_can_be_returned_at_once),
        X(one_watches_a_pool),
        X(a_pool_of_which_nothing_is_out_is_watched_anew),
        X(from_one_who_leaves_the_next_takes_over),
        X(one_who_leaves_watches_until_another_does),
        X(one_who_has_no_room_to_watch_changes_nothing),
        X(nor_does_it_take_over_from_one_who_leaves),
        X(what_is_given_back_can_be_spent_again),
        X(what_is_given_back_to_a_closed_lease_is_not_reported_as_spent),
        X(what_was_reported_is_given_back_elsewhere),
        X(a_pool_that_holds_tokens_is_not_pushed_out),
        X(a_pool_that_waits_for_an_order_is_not_pushed_out),
        X(what_redis_took_back_makes_room),
        X(a_look_tells_what_is_to_spend_and_spends_nothing),
        X(another_limit_is_another_pool),
        X(the_time_of_a_lease_is_told_in_ms),
        X(many_threads_never_spend_more_than_was_granted),
#undef X
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
