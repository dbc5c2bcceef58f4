/* set.c: where windows of calendars begin, by clocks of the test. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/support/decider.h"

#define NOON_US (INT64_C(1796040000) * US_PER_S) /* Monday, 2026-11-30 */
#define HOUR_US (3600 * US_PER_S)

static const char rules[] =
    "version: 1\n"
    "domain: api\n"
    "rules:\n"
    "- name: quota\n"
    "  key: [key]\n"
    "  limit: { requests: 2, per: day }\n"
    "- name: tokyo\n"
    "  key: [key]\n"
    "  limit: { requests: 100, per: month, timezone: Asia/Tokyo }\n"
    "- name: minutes\n"
    "  key: [key]\n"
    "  limit: { requests: 100, per: minute }\n";

static struct decide_set *set_of(const struct decider *d)
{
    return (struct decide_set *)(uintptr_t)d->decide.set; /* the test's own */
}

static int set_up(void **context)
{
    static struct decider d;
    *context = &d;
    return decider_init(&d, rules) ? 0 : 1;
}

static int tear_down(void **context)
{
    decider_fini(*context);
    return 0;
}

static void request(struct decider *d, int64_t now_us)
{
    decider_begin(d);
    decider_message(d, "ratelimit-check");
    decider_text(d, "key", "a");
    assert_true(decider_decide(d, now_us));
}

static void day_ends_at_midnight(void **context)
{
    struct decider *d = *context;
    (void)decide_set_keep_calendars(set_of(d), (struct instant){NOON_US}, NOON_US);
    request(d, NOON_US);
    assert_string_equal(
        decoded_ack_text(&d->ack, "policy"),
        "\"quota\";q=2;w=86400, \"tokyo\";q=100, \"minutes\";q=100;w=60");
    assert_string_equal(
        decoded_ack_text(&d->ack, "ratelimit"),
        "\"quota\";r=1;t=43200, \"tokyo\";r=99;t=10800, \"minutes\";r=99;t=60");
    request(d, NOON_US);
    request(d, NOON_US);
    assert_int_equal(decoded_ack_number(&d->ack, "deny"), 1);
    assert_int_equal(decoded_ack_number(&d->ack, "retry_after"), 43200);
    request(d, NOON_US + 12 * HOUR_US - 1);
    assert_int_equal(decoded_ack_number(&d->ack, "deny"), 1);
    assert_int_equal(decoded_ack_number(&d->ack, "retry_after"), 1);
    request(d, NOON_US + 12 * HOUR_US);
    assert_int_equal(decoded_ack_number(&d->ack, "deny"), 0);
}

static void agents_clock_may_differ_from_the_wall(void **context)
{
    struct decider *d = *context;
    int64_t now_us = NOON_US - 100 * HOUR_US;
    (void)decide_set_keep_calendars(set_of(d), (struct instant){now_us}, NOON_US);
    for (int i = 0; i < 3; i++) {
        request(d, now_us);
    }
    assert_int_equal(decoded_ack_number(&d->ack, "retry_after"), 43200);
}

static void looked_at_each_minute_and_when_the_wall_clock_steps(void **context)
{
    struct decide_set *set = set_of(*context);
    struct instant now = {.us = NOON_US};
    assert_true(decide_set_keep_calendars(set, now, NOON_US));
    now = instant_add_us(now, US_PER_S);
    assert_false(decide_set_keep_calendars(set, now, now.us));
    assert_false(decide_set_keep_calendars(set, now, now.us + CALENDARS_STEP_US));
    assert_false(decide_set_keep_calendars(set, now, now.us - CALENDARS_STEP_US));
    assert_true(decide_set_keep_calendars(set, now, now.us + CALENDARS_STEP_US + 1));
    assert_true(decide_set_keep_calendars(set, now, now.us));
    assert_true(decide_set_keep_calendars(set, now, now.us - CALENDARS_STEP_US - 1));
    assert_true(decide_set_keep_calendars(set, now, now.us));
    now = instant_add_us(now, CALENDARS_PERIOD_US - 1);
    assert_false(decide_set_keep_calendars(set, now, now.us));
    now = instant_add_us(now, 1);
    assert_true(decide_set_keep_calendars(set, now, now.us));
}

/* Set forward to an hour before midnight, then to midnight: the turn comes earlier. */
static void stepped_wall_clock_moves_the_turn(void **context)
{
    struct decider *d = *context;
    struct instant now = {.us = NOON_US};
    (void)decide_set_keep_calendars(set_of(d), now, NOON_US);
    request(d, now.us);
    (void)decide_set_keep_calendars(set_of(d), now, NOON_US + 11 * HOUR_US);
    request(d, now.us);
    request(d, now.us);
    assert_int_equal(decoded_ack_number(&d->ack, "retry_after"), 3600);
    (void)decide_set_keep_calendars(set_of(d), now, NOON_US + 12 * HOUR_US);
    request(d, now.us);
    assert_int_equal(decoded_ack_number(&d->ack, "deny"), 0);
}

static void without_calendars_there_is_nothing_to_keep(void **context)
{
    (void)context;
    struct decide_set none = {0};
    struct instant now = {.us = NOON_US};
    assert_true(decide_set_keep_calendars(&none, now, NOON_US));
    assert_false(decide_set_keep_calendars(&none, now, NOON_US));
}

static const char homes[] =
    "version: 1\n"
    "domain: api\n"
    "rules:\n"
    "- { name: here, key: [key], limit: { requests: 10, per: 60s } }\n"
    "- { name: asked, key: [key], limit: { requests: 10, per: 60s }, store: redis }\n"
    "- { name: leased, key: [key], limit: { requests: 10, per: 60s }, store: lease,\n"
    "    plans: { gold: 10x } }\n"
    "- { name: split, key: [key], limit: { requests: 400, per: 60s }, store: redis,\n"
    "    shards: 4 }\n"
    "- { name: exchanged, key: [key], limit: { requests: 10, per: 60s }, store: sync }\n";

static const struct decide_home *home_of(const struct decide_set *set, const char *name)
{
    uint32_t i = 0;
    while (strcmp(set->limits[i].name, name) != 0) {
        i++;
        assert_true(i < rules_set_n_limits(set->rules));
    }
    return set->limits[i].home;
}

static void each_store_has_its_kind(void **context)
{
    static struct decider d;
    (void)context;
    assert_true(decider_init(&d, homes));
    const struct decide_set *set = set_of(&d);
    assert_null(home_of(set, "here"));
    assert_int_equal(home_of(set, "asked")->home.kind, STORE_KIND_REDIS);
    assert_int_equal(home_of(set, "asked")->home.n_shards, 1);
    assert_int_equal(home_of(set, "split")->home.n_shards, 4);
    assert_int_equal(home_of(set, "leased")->home.kind, STORE_KIND_LEASE);
    assert_int_equal(home_of(set, "exchanged")->home.kind, STORE_KIND_SYNC);
    const struct decide_limit
        *gold = &set->limits[rules_set_n_variants(set->rules) - 1];
    assert_int_equal(gold->limit.requests, 100);
    assert_int_equal(gold->home->home.kind, STORE_KIND_LEASE);
    decider_fini(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(day_ends_at_midnight, set_up, tear_down),
        cmocka_unit_test_setup_teardown(agents_clock_may_differ_from_the_wall, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(
            looked_at_each_minute_and_when_the_wall_clock_steps, set_up, tear_down),
        cmocka_unit_test_setup_teardown(stepped_wall_clock_moves_the_turn, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(without_calendars_there_is_nothing_to_keep,
                                        set_up, tear_down),
        cmocka_unit_test(each_store_has_its_kind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
