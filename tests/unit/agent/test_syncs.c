/* Pools that are exchanged, without a Redis: what it answers is made up here. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "agent/limit/calendar.h"
#include "agent/store/syncs.h"

#include "tests/support/limit.h"

enum {
    WATCHER = 7,
    OTHER = 8,
};

#define INTERVAL_US (100 * US_PER_MS)
#define SERVER_US   (30 * US_PER_S) /* its clock is so much ahead */

static const struct table_key key = {.lo = 1, .hi = 1};
static struct syncs *syncs;
static struct instant now;
static struct limit hundred;
static const struct limit *limit;
static unsigned n_agents;
static bool can_watch;
static struct table_key pool;

/* The last charge. */
static struct store_charge charge;
static struct sync_errand errand;

static int set_up(void **context)
{
    (void)context;
    now = (struct instant){MINUTE_START_US};
    hundred = sliding(100, MINUTE_US);
    limit = &hundred;
    n_agents = 1;
    can_watch = true;
    pool = key;
    syncs = syncs_new(INTERVAL_US);
    return syncs == NULL ? -1 : 0;
}

static int tear_down(void **context)
{
    (void)context;
    syncs_free(syncs);
    return 0;
}

static void pass_us(int64_t us)
{
    now = instant_add_us(now, us);
}

static enum sync_verdict ask(int64_t cost)
{
    charge = (struct store_charge){.limit = limit, .cost = cost};
    const struct sync_caller caller = {now, n_agents, can_watch};
    return syncs_charge(syncs, &pool, &caller, &charge, &errand);
}

/* ... and watch it as its only worker would. */
static enum sync_verdict ask_and_watch(int64_t cost)
{
    enum sync_verdict verdict = ask(cost);
    assert_true(!errand.is_alone || syncs_watch(syncs, &pool, WATCHER, now));
    return verdict;
}

/* How many of cost 1 pass. */
static unsigned pass_ones(void)
{
    unsigned n = 0;
    while (ask_and_watch(1) == SYNC_ALLOWED) {
        n++;
    }
    return n;
}

static bool begin(struct sync_order *order)
{
    return syncs_begin(syncs, &pool, WATCHER, false, now, order);
}

/* What Redis has, where so much was charged in this window of its clock. */
static struct sync_news news_of(int64_t used)
{
    struct sync_news news = {.server = instant_add_us(now, SERVER_US)};
    struct limit_answer answer;
    (void)limit_take(limit, &news.state, news.server, used, &answer);
    return news;
}

static void answer(const struct sync_order *order, int64_t used)
{
    struct sync_news news = news_of(used);
    syncs_end(syncs, order, limit, &news, now);
}

/* An exchange that is answered at once. @return what it told */
static int64_t exchange(int64_t used)
{
    struct sync_order order;
    assert_true(begin(&order));
    answer(&order, used);
    return order.delta;
}

/* Hear that nothing was charged yet. */
static void meet(void)
{
    assert_int_equal(ask_and_watch(0), SYNC_ALLOWED);
    pass_us(1);
    (void)exchange(0);
}

static uint64_t need(void)
{
    int64_t age_us = 0;
    return syncs_need(syncs, &pool, WATCHER, now, &age_us);
}

/* --- deciding --- */

static void at_first_redis_is_asked(void **context)
{
    struct sync_order order;
    (void)context;
    assert_int_equal(ask(1), SYNC_UNHELD);
    assert_true(errand.is_alone);
    pass_us(1);
    assert_true(syncs_watch(syncs, &pool, WATCHER, now));
    assert_true(need() > 0);
    assert_int_equal(errand.exchanger, 0); /* it has only begun */
    assert_int_equal(ask(0), SYNC_ALLOWED);
    pass_us(INTERVAL_US / SYNC_EARLY_MAX);
    assert_int_equal(ask(1), SYNC_UNHELD);
    assert_int_equal(errand.exchanger, WATCHER);
    assert_true(begin(&order));
    assert_int_equal(order.delta, 0);
    assert_int_equal(ask(1), SYNC_UNHELD);
    assert_int_equal(errand.exchanger, 0); /* one is under way */
    answer(&order, 90);
    assert_int_equal(pass_ones(), 10);
}

static void redis_is_not_asked_in_vain_for_long(void **context)
{
    (void)context;
    assert_int_equal(ask_and_watch(1), SYNC_UNHELD);
    pass_us(SYNC_LOST_US);
    assert_int_equal(ask(1), SYNC_UNHELD);
    pass_us(1);
    assert_int_equal(ask(1), SYNC_UNKNOWN);
}

static void a_host_has_its_part_of_the_limit(void **context)
{
    (void)context;
    meet();
    n_agents = 3;
    assert_int_equal(pass_ones(), 100 / 3);
    assert_false(charge.answer.is_allowed);
    assert_int_equal(charge.answer.remaining, 0);
}

static void between_exchanges_it_spends_its_part_of_what_was_left(void **context)
{
    (void)context;
    meet();
    n_agents = 4;
    (void)ask_and_watch(1);
    (void)exchange(20);
    assert_int_equal(pass_ones(), 80 / 4);
    assert_int_equal(exchange(60), 20);
    assert_int_equal(pass_ones(), 40 / 4);
}

static void one_request_passes_where_anything_is_left(void **context)
{
    (void)context;
    meet();
    n_agents = 20;
    (void)ask_and_watch(1);
    (void)exchange(95);
    assert_int_equal(ask(6), SYNC_REFUSED); /* more than is left */
    assert_int_equal(ask(5), SYNC_ALLOWED); /* more than a part of it */
    assert_int_equal(ask(1), SYNC_REFUSED);
    (void)exchange(99);
    assert_int_equal(pass_ones(), 1);
}

static void nothing_passes_once_nothing_is_left(void **context)
{
    (void)context;
    n_agents = 2;
    (void)ask_and_watch(1);
    (void)exchange(100);
    assert_int_equal(ask(1), SYNC_REFUSED);
    assert_true(charge.answer.retry_us > INTERVAL_US); /* the window must move on */
    assert_false(charge.is_charged);
}

static void what_is_under_way_counts_as_spent(void **context)
{
    struct sync_order order;
    (void)context;
    meet();
    n_agents = 2;
    assert_int_equal(pass_ones(), 50);
    assert_true(begin(&order));
    assert_int_equal(order.delta, 50);
    assert_int_equal(ask(1), SYNC_REFUSED);
    answer(&order, 50);
    assert_int_equal(pass_ones(), 25);
}

static void who_has_spent_its_part_waits_for_the_next_exchange(void **context)
{
    (void)context;
    meet();
    n_agents = 2;
    assert_int_equal(pass_ones(), 50);
    pass_us(30 * US_PER_MS);
    assert_int_equal(ask(1), SYNC_REFUSED);
    assert_false(charge.answer.is_allowed);
    assert_int_equal(charge.answer.retry_us, INTERVAL_US - 30 * US_PER_MS);
    pass_us(INTERVAL_US);
    assert_int_equal(ask(1), SYNC_REFUSED);
    assert_int_equal(charge.answer.retry_us, US_PER_MS);
}

static void who_has_spent_its_part_is_to_exchange_it_early(void **context)
{
    (void)context;
    meet();
    n_agents = 2;
    assert_int_equal(pass_ones(), 50);
    assert_int_equal(errand.exchanger, 0); /* it is too early */
    pass_us(INTERVAL_US / SYNC_EARLY_MAX);
    assert_int_equal(ask(1), SYNC_REFUSED);
    assert_int_equal(errand.exchanger, WATCHER);
    assert_int_equal(exchange(50), 50);
    assert_int_equal(pass_ones(), 25);
    assert_int_equal(errand.exchanger, 0);
}

static void no_early_exchange_is_wanted_where_none_would_help(void **context)
{
    struct sync_order order;
    (void)context;
    meet();
    n_agents = 2;
    (void)ask_and_watch(1);
    pass_us(INTERVAL_US / 2);
    assert_int_equal(ask(1), SYNC_ALLOWED);
    assert_int_equal(errand.exchanger, 0); /* something of the part is left */
    (void)pass_ones();
    assert_int_equal(errand.exchanger, WATCHER);
    assert_true(begin(&order));
    assert_int_equal(ask(1), SYNC_REFUSED);
    assert_int_equal(errand.exchanger, 0); /* one is under way */
    answer(&order, 100);
    pass_us(INTERVAL_US / 2);
    assert_int_equal(ask(1), SYNC_REFUSED);
    assert_int_equal(errand.exchanger, 0); /* nothing is left */
}

static void a_charge_stands_in_the_window_of_the_server(void **context)
{
    (void)context;
    meet();
    pass_us(MINUTE_US - SERVER_US);
    assert_int_equal(ask(1), SYNC_ALLOWED);
    assert_int_equal(charge.place, instant_add_us(now, SERVER_US).us / MINUTE_US);
    assert_int_not_equal(charge.place, now.us / MINUTE_US);
}

/* Hours, of a host whose clock is so far behind the wall's. */
static void fill_hours(struct calendar *calendar, int64_t behind_us)
{
    struct calendar_start starts[CALENDAR_STARTS];
    const int64_t hour_us = 60 * MINUTE_US;
    int64_t first_us = (now.us + behind_us) / hour_us * hour_us;
    for (int i = 0; i < CALENDAR_STARTS; i++) {
        int64_t us = first_us + i * hour_us;
        starts[i] = (struct calendar_start){us / US_PER_S, us - behind_us};
    }
    calendar_fill(calendar, starts);
}

/* Full, in the window that Redis takes of those that it is told of. */
static void answer_full_hour(const struct sync_order *order, int64_t ahead_us)
{
    int64_t starts[CALENDAR_UPCOMING];
    struct sync_news news = {.server = instant_add_us(now, ahead_us)};
    calendar_upcoming(limit->calendar, now, starts);
    news.state.fixed.count = 100;
    news.state.fixed.window = starts[news.server.us >= starts[1] * US_PER_S];
    syncs_end(syncs, order, limit, &news, now);
}

static void a_window_of_the_calendar_is_the_one_of_redis_whatever_clocks_show(
    void **context)
{
    static struct calendar calendar;
    static struct limit hourly;
    (void)context;
    hourly = fixed(100, 60 * MINUTE_US);
    hourly.calendar = &calendar;
    limit = &hourly;
    for (int64_t behind = -5; behind <= 5; behind++) {
        for (int64_t ahead = -5; ahead <= 5; ahead++) {
            struct sync_order order;
            pool.lo++; /* another one */
            fill_hours(&calendar, behind * 40 * MINUTE_US);
            assert_int_equal(ask_and_watch(0), SYNC_ALLOWED);
            assert_true(begin(&order));
            answer_full_hour(&order, (behind + ahead) * 40 * MINUTE_US);
            assert_int_equal(pass_ones(), 0);
        }
    }
}

static void a_cost_of_nothing_is_allowed_and_charges_nothing(void **context)
{
    (void)context;
    (void)ask_and_watch(1);
    (void)exchange(100);
    assert_int_equal(ask(0), SYNC_ALLOWED);
    assert_false(charge.is_charged);
    assert_int_equal(exchange(0), 0);
    (void)ask(60);
    n_agents = 10; /* it has spent more than its part is now */
    assert_int_equal(ask(0), SYNC_ALLOWED);
}

static void what_others_spent_is_known_after_an_exchange(void **context)
{
    (void)context;
    (void)ask_and_watch(10);
    (void)exchange(70);
    (void)ask(5);
    assert_int_equal(charge.answer.remaining, 25);
}

static void what_was_charged_meanwhile_is_not_forgotten(void **context)
{
    struct sync_order order;
    (void)context;
    meet();
    (void)ask_and_watch(10);
    assert_true(begin(&order));
    (void)ask(7);
    answer(&order, 30); /* without these */
    (void)ask(1);
    assert_int_equal(charge.answer.remaining, 100 - 30 - 7 - 1);
    assert_int_equal(exchange(38), 8);
}

/* --- exchanges --- */

static void an_exchange_tells_what_was_charged_since_the_last(void **context)
{
    struct sync_order first;
    struct sync_order second;
    (void)context;
    meet();
    (void)ask_and_watch(3);
    (void)ask(4);
    assert_true(begin(&first));
    assert_int_equal(first.delta, 7);
    answer(&first, 7);
    (void)ask(2);
    assert_true(begin(&second));
    assert_int_equal(second.delta, 2);
    assert_true(second.seq > first.seq);
}

static void an_exchange_that_nobody_heard_of_is_made_again_as_it_was(void **context)
{
    struct sync_order first;
    struct sync_order again;
    (void)context;
    meet();
    (void)ask_and_watch(3);
    assert_true(begin(&first));
    (void)ask(4);
    assert_true(begin(&again));
    assert_int_equal(again.seq, first.seq);
    assert_int_equal(again.delta, 3);
    answer(&again, 3);
    assert_int_equal(exchange(7), 4);
}

static void an_answer_to_an_earlier_exchange_is_none(void **context)
{
    struct sync_order first;
    struct sync_order second;
    (void)context;
    meet();
    (void)ask_and_watch(3);
    assert_true(begin(&first));
    answer(&first, 3);
    (void)ask(4);
    assert_true(begin(&second));
    answer(&first, 90);
    (void)ask(1);
    assert_int_equal(charge.answer.remaining, 100 - 3 - 4 - 1);
    answer(&second, 7);
    answer(&second, 90);
    (void)ask(1);
    assert_int_equal(charge.answer.remaining, 100 - 7 - 1 - 1);
}

static void totals_tell_of_exchanges_and_drift(void **context)
{
    struct sync_totals totals;
    (void)context;
    meet();
    (void)ask(10);
    (void)exchange(10);
    syncs_read(syncs, &totals);
    assert_int_equal(totals.n_exchanges, 2);
    assert_int_equal(totals.drift, 0);
    (void)ask(5);
    (void)exchange(45); /* others charged 30 */
    syncs_read(syncs, &totals);
    assert_int_equal(totals.n_exchanges, 3);
    assert_int_equal(totals.drift, 30);
}

static void the_oldest_exchange_of_all_workers_is_told(void **context)
{
    struct sync_totals totals;
    (void)context;
    syncs_set_age(syncs, 0, 50);
    syncs_set_age(syncs, 3, 90);
    syncs_set_age(syncs, 5, 70);
    syncs_read(syncs, &totals);
    assert_int_equal(totals.age_us, 90);
    syncs_set_age(syncs, 3, 0);
    syncs_read(syncs, &totals);
    assert_int_equal(totals.age_us, 70);
}

/* --- cut off --- */

static void a_pool_that_wants_an_exchange_in_vain_is_cut_off(void **context)
{
    struct sync_order order;
    (void)context;
    meet();
    (void)ask_and_watch(1);
    assert_true(begin(&order));
    pass_us(SYNC_LOST_US);
    assert_int_equal(ask(1), SYNC_ALLOWED);
    pass_us(1);
    assert_int_equal(ask(1), SYNC_UNKNOWN);
    assert_int_equal(ask(0), SYNC_UNKNOWN);
    answer(&order, 1);
    assert_int_equal(ask(1), SYNC_ALLOWED);
    assert_int_equal(exchange(3), 2); /* nothing was counted meanwhile */
}

static void with_long_intervals_it_takes_ten_of_them(void **context)
{
    (void)context;
    syncs_free(syncs);
    syncs = syncs_new(3 * US_PER_S);
    meet();
    (void)ask_and_watch(1);
    pass_us(30 * US_PER_S);
    assert_int_equal(ask(1), SYNC_ALLOWED);
    pass_us(1);
    assert_int_equal(ask(1), SYNC_UNKNOWN);
}

static void a_pool_that_was_not_used_is_not_cut_off(void **context)
{
    (void)context;
    (void)ask_and_watch(1);
    pass_us(US_PER_MS);
    (void)exchange(1);
    pass_us(SYNC_LOST_US + 1); /* nobody has looked yet whether it is idle */
    assert_int_equal(ask(1), SYNC_ALLOWED);
    assert_false(errand.is_alone);
}

static void a_look_tells_what_is_known_and_changes_nothing(void **context)
{
    struct sync_order order;
    (void)context;
    assert_false(syncs_look(syncs, &pool, limit, now).is_there);
    (void)ask_and_watch(10);
    (void)exchange(40);
    pass_us(US_PER_MS);
    (void)ask(5);
    assert_true(begin(&order)); /* not answered yet */
    (void)ask(2);
    pass_us(SYNC_LOST_US - US_PER_MS);
    for (int i = 0; i < 2; i++) {
        struct sync_held held = syncs_look(syncs, &pool, limit, now);
        assert_true(held.is_there);
        assert_false(held.is_cut_off);
        assert_int_equal(held.remaining, 53);
        assert_int_equal(held.unsent, 7);
        assert_int_equal(held.age_us, SYNC_LOST_US);
    }
    pass_us(1);
    assert_true(syncs_look(syncs, &pool, limit, now).is_cut_off);
    answer(&order, 45);
    assert_int_equal(exchange(47), 2);
    pass_us(SYNC_LOST_US + 1); /* it wants no exchange */
    assert_false(syncs_look(syncs, &pool, limit, now).is_cut_off);
    assert_false(begin(&order)); /* watched no more */
    assert_false(syncs_look(syncs, &pool, limit, now).is_there);
}

static void a_pool_that_nobody_can_watch_has_no_room(void **context)
{
    (void)context;
    can_watch = false;
    assert_int_equal(ask(1), SYNC_UNHELD);
    assert_false(errand.is_alone);
    can_watch = true;
    meet();
    assert_int_equal(ask_and_watch(1), SYNC_ALLOWED);
    can_watch = false; /* another watches it */
    assert_int_equal(ask(1), SYNC_ALLOWED);
    assert_int_equal(exchange(2), 2);
}

static void a_full_set_has_no_room(void **context)
{
    (void)context;
    for (uint64_t i = 0; i < TABLE_WAYS; i++) {
        pool.hi = 1 + i;
        meet();
        assert_int_equal(ask(1), SYNC_ALLOWED);
    }
    pool.hi = 50;
    assert_int_equal(ask(0), SYNC_UNHELD);
    assert_false(errand.is_alone);
    pool.hi = 3;
    (void)exchange(1);
    pass_us(SYNC_IDLE_US + 1);
    struct sync_order order;
    assert_false(begin(&order)); /* watched no more */
    pool.hi = 50;
    assert_int_equal(ask_and_watch(0), SYNC_ALLOWED);
    pool.hi = 3;
    assert_int_equal(ask(0), SYNC_UNHELD); /* pushed out */
}

/* --- watching --- */

static void one_watches_a_pool(void **context)
{
    struct sync_order order;
    (void)context;
    (void)ask(1);
    assert_true(errand.is_alone);
    assert_true(syncs_watch(syncs, &pool, WATCHER, now));
    assert_false(syncs_watch(syncs, &pool, OTHER, now));
    (void)ask(1);
    assert_false(errand.is_alone);
    assert_false(syncs_begin(syncs, &pool, OTHER, false, now, &order));
    assert_true(begin(&order));
}

static void a_pool_that_is_gone_is_not_watched(void **context)
{
    struct sync_order order;
    (void)context;
    assert_false(syncs_watch(syncs, &pool, WATCHER, now));
    assert_false(begin(&order));
}

static void an_idle_pool_is_watched_no_more(void **context)
{
    struct sync_order order;
    (void)context;
    (void)ask_and_watch(1);
    pass_us(1);
    (void)exchange(1);
    assert_int_equal(need(), 0);
    pass_us(SYNC_IDLE_US - 1);
    assert_int_equal(need(), 0);
    pass_us(1);
    assert_int_equal(need(), UINT64_MAX);
    assert_false(begin(&order));
    (void)ask(1);
    assert_true(errand.is_alone);
    assert_int_equal(charge.answer.remaining, 98); /* what is known is not forgotten */
}

static void what_was_used_up_before_it_was_idle_is_there_again(void **context)
{
    struct sync_order order;
    (void)context;
    meet();
    (void)ask_and_watch(1);
    pass_us(1);
    (void)exchange(100);
    pass_us(SYNC_IDLE_US + 1);
    assert_int_equal(ask(1), SYNC_REFUSED);
    (void)exchange(100);
    pass_us(2 * MINUTE_US);
    assert_false(begin(&order));
    assert_int_equal(ask_and_watch(1), SYNC_ALLOWED); /* nobody has to be asked */
    assert_int_equal(pass_ones(), 99);
}

static void a_pool_with_something_to_tell_is_not_idle(void **context)
{
    struct sync_order order;
    (void)context;
    meet();
    (void)ask(1);
    pass_us(SYNC_IDLE_US + 1);
    assert_true(begin(&order));
    pass_us(SYNC_IDLE_US + 1);
    assert_true(begin(&order)); /* that one is unheard */
}

static void who_is_busier_or_waits_longer_needs_it_more(void **context)
{
    (void)context;
    meet();
    (void)ask_and_watch(3);
    uint64_t little = need();
    (void)ask(20);
    uint64_t more = need();
    pass_us(3 * INTERVAL_US);
    uint64_t longer = need();
    assert_true(little > 0);
    assert_true(more > little);
    assert_int_equal(longer, more << 3);
    int64_t age_us = 0;
    (void)syncs_need(syncs, &pool, WATCHER, now, &age_us);
    assert_int_equal(age_us, 3 * INTERVAL_US);
    pass_us(3600 * US_PER_S);
    assert_int_equal(need(), more << 10);
}

static void who_was_only_refused_needs_an_exchange_too(void **context)
{
    (void)context;
    (void)ask_and_watch(1);
    pass_us(1);
    (void)exchange(100);
    pass_us(1);
    assert_int_equal(need(), 0);
    assert_int_equal(ask(1), SYNC_REFUSED);
    assert_true(need() > 0);
}

static bool leave(struct sync_order *order)
{
    return syncs_begin(syncs, &pool, WATCHER, true, now, order);
}

static void one_who_leaves_exchanges_what_is_left_first(void **context)
{
    struct sync_order order;
    (void)context;
    meet();
    (void)ask(5);
    assert_true(leave(&order));
    assert_int_equal(order.delta, 5);
    answer(&order, 5);
    assert_int_equal(need(), UINT64_MAX); /* to be looked at again */
    assert_false(leave(&order));
    (void)ask(1);
    assert_true(errand.is_alone);
}

static void from_one_who_leaves_the_next_takes_over(void **context)
{
    struct sync_order order;
    (void)context;
    meet();
    (void)ask_and_watch(5);
    assert_true(leave(&order));
    (void)ask(3);
    assert_true(errand.is_alone);
    assert_true(syncs_watch(syncs, &pool, OTHER, now));
    (void)ask(1);
    assert_false(errand.is_alone);
    answer(&order, 5);
    assert_int_equal(need(), UINT64_MAX);
    assert_false(leave(&order));
    assert_true(syncs_begin(syncs, &pool, OTHER, false, now, &order));
    assert_int_equal(order.delta, 4);
}

static void one_who_leaves_tells_what_came_meanwhile(void **context)
{
    struct sync_order order;
    (void)context;
    meet();
    (void)ask_and_watch(5);
    assert_true(leave(&order));
    can_watch = false;
    assert_int_equal(ask(3), SYNC_ALLOWED); /* nobody can take over */
    assert_false(errand.is_alone);
    answer(&order, 5);
    assert_true(leave(&order));
    assert_int_equal(order.delta, 3);
    answer(&order, 8);
    assert_false(leave(&order));
}

/* --- giving back --- */

static void what_is_given_back_is_not_told(void **context)
{
    (void)context;
    meet();
    (void)ask_and_watch(5);
    assert_int_equal(ask(30), SYNC_ALLOWED);
    syncs_give_back(syncs, &pool, &charge, now);
    (void)ask(1);
    assert_int_equal(charge.answer.remaining, 94);
    assert_int_equal(exchange(6), 6);
}

static void what_was_told_already_stays_charged(void **context)
{
    struct sync_order order;
    (void)context;
    (void)ask_and_watch(30);
    struct store_charge first = charge;
    assert_true(begin(&order));
    syncs_give_back(syncs, &pool, &first, now);
    answer(&order, 30);
    (void)ask(1);
    assert_int_equal(charge.answer.remaining, 69);
    assert_int_equal(exchange(31), 1);
}

/* --- many threads --- */

enum {
    CHARGERS = 4,
    ROUNDS = 20000,
};

static struct {
    struct limit limit;
    _Atomic int64_t n_charged;
    _Atomic int64_t n_told;
    _Atomic unsigned n_watchers;
} race;

static void exchange_race(uint32_t watcher, struct instant at)
{
    struct sync_order order;
    if (syncs_begin(syncs, &key, watcher, false, at, &order)) {
        struct sync_news news = {.server = at};
        (void)atomic_fetch_add(&race.n_told, order.delta);
        syncs_end(syncs, &order, &race.limit, &news, at);
    }
}

static void *charger(void *number)
{
    uint32_t self = (uint32_t)(uintptr_t)number + 1;
    for (int64_t i = 0; i < ROUNDS; i++) {
        struct store_charge one = {.limit = &race.limit, .cost = 1 + i % 3};
        struct instant at = instant_add_us(now, i * 10);
        const struct sync_caller caller = {at, 2, true};
        struct sync_errand errand_here;
        if (syncs_charge(syncs, &key, &caller, &one, &errand_here) == SYNC_ALLOWED) {
            (void)atomic_fetch_add(&race.n_charged, one.cost);
        }
        if (errand_here.is_alone && syncs_watch(syncs, &key, self, at)) {
            (void)atomic_fetch_add(&race.n_watchers, 1);
        }
        if (i % 50 == 0) {
            exchange_race(self, at);
        }
    }
    return NULL;
}

static void many_threads_tell_all_that_they_charged_once(void **context)
{
    pthread_t threads[CHARGERS];
    (void)context;
    race.limit = sliding(1000000, MINUTE_US);
    for (uintptr_t i = 0; i < CHARGERS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, charger, (void *)i), 0);
    }
    for (unsigned i = 0; i < CHARGERS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    for (uint32_t watcher = 1; watcher <= CHARGERS; watcher++) {
        exchange_race(watcher, instant_add_us(now, ROUNDS * INT64_C(10)));
    }
    assert_true(race.n_charged > 0);
    assert_int_equal(race.n_watchers, 1);
    assert_int_equal(race.n_told, race.n_charged);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define X(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
        X(at_first_redis_is_asked),
        X(redis_is_not_asked_in_vain_for_long),
        X(a_host_has_its_part_of_the_limit),
        X(between_exchanges_it_spends_its_part_of_what_was_left),
        X(one_request_passes_where_anything_is_left),
        X(nothing_passes_once_nothing_is_left),
        X(what_is_under_way_counts_as_spent),
        X(who_has_spent_its_part_waits_for_the_next_exchange),
        X(who_has_spent_its_part_is_to_exchange_it_early),
        X(no_early_exchange_is_wanted_where_none_would_help),
        X(a_charge_stands_in_the_window_of_the_server),
        X(a_window_of_the_calendar_is_the_one_of_redis_whatever_clocks_show),
        X(a_cost_of_nothing_is_allowed_and_charges_nothing),
        X(what_others_spent_is_known_after_an_exchange),
        X(what_was_charged_meanwhile_is_not_forgotten),
        X(an_exchange_tells_what_was_charged_since_the_last),
        X(an_exchange_that_nobody_heard_of_is_made_again_as_it_was),
        X(an_answer_to_an_earlier_exchange_is_none),
        X(totals_tell_of_exchanges_and_drift),
        X(the_oldest_exchange_of_all_workers_is_told),
        X(a_pool_that_wants_an_exchange_in_vain_is_cut_off),
        X(with_long_intervals_it_takes_ten_of_them),
        X(a_pool_that_was_not_used_is_not_cut_off),
        X(a_look_tells_what_is_known_and_changes_nothing),
        X(a_pool_that_nobody_can_watch_has_no_room),
        X(a_full_set_has_no_room),
        X(one_watches_a_pool),
        X(a_pool_that_is_gone_is_not_watched),
        X(an_idle_pool_is_watched_no_more),
        X(what_was_used_up_before_it_was_idle_is_there_again),
        X(a_pool_with_something_to_tell_is_not_idle),
        X(who_is_busier_or_waits_longer_needs_it_more),
        X(who_was_only_refused_needs_an_exchange_too),
        X(one_who_leaves_exchanges_what_is_left_first),
        X(from_one_who_leaves_the_next_takes_over),
        X(one_who_leaves_tells_what_came_meanwhile),
        X(what_is_given_back_is_not_told),
        X(what_was_told_already_stays_charged),
        X(many_threads_tell_all_that_they_charged_once),
#undef X
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
