/* Items that go to Redis together. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "agent/store/courier.h"

#include "tests/support/fake_seam.h"
#include "tests/support/limit.h"

enum {
    ITEMS = 4096,
    SCRIPT = 3,
    ENCODED_BYTES = 4, /* of an item here */
};

#define CALL_LIMIT_US (70 * US_PER_MS)

/* What became of each item. */
struct fate {
    unsigned n_answered;
    unsigned n_not_done;
    unsigned n_unheard;
    int64_t number;
    struct instant sent_at;
};

static struct {
    struct fake_seam seam;
    struct health *health;
    struct courier *courier;
    char keys[ITEMS][16];
    struct fate fates[ITEMS];
} t;

static size_t encode(struct courier *courier, const uint32_t *items, unsigned n,
                     uint8_t *out)
{
    assert_ptr_equal(courier, t.courier);
    for (unsigned i = 0; i < n; i++) {
        memcpy(out + i * ENCODED_BYTES, &items[i], ENCODED_BYTES);
    }
    return n * (size_t)ENCODED_BYTES;
}

/* An answer is a number for each item. */
static bool answer(struct courier *courier, const uint32_t *items, unsigned n,
                   const int64_t *numbers, size_t n_numbers, struct instant sent_at)
{
    (void)courier;
    if (n_numbers != n) {
        return false;
    }
    for (unsigned i = 0; i < n; i++) {
        struct fate *fate = &t.fates[items[i]];
        fate->n_answered++;
        fate->number = numbers[i];
        fate->sent_at = sent_at;
    }
    return true;
}

static void end(struct courier *courier, uint32_t item, enum courier_end end)
{
    struct fate *fate = &t.fates[item];
    (void)courier;
    fate->n_not_done += end == COURIER_NOT_DONE;
    fate->n_unheard += end == COURIER_UNHEARD;
}

static int set_up(void **context)
{
    static const struct courier_ops ops = {SCRIPT, CALL_LIMIT_US, encode, answer, end};
    (void)context;
    memset(&t, 0, sizeof(t));
    fake_seam_init(&t.seam, (struct instant){MINUTE_START_US});
    t.health = health_new(2 * US_PER_MS, 1, t.seam.now);
    t.courier = calloc(1, sizeof(*t.courier));
    assert_non_null(t.health);
    assert_non_null(t.courier);
    courier_init(t.courier, &ops, &t.seam.seam, t.health);
    return 0;
}

static int tear_down(void **context)
{
    (void)context;
    assert_int_equal(t.courier->n_under_way, t.seam.n_open);
    health_free(t.health);
    free(t.courier);
    return 0;
}

static void add_as(uint32_t item, const char *key)
{
    (void)snprintf(t.keys[item], sizeof(t.keys[item]), "%s", key);
    courier_add(t.courier, item, (struct seam_bytes){t.keys[item], strlen(key)});
}

/* A counter of its own, in a slot. */
static void add(uint32_t item, unsigned slot)
{
    char key[16];
    (void)snprintf(key, sizeof(key), "%u:%u", slot, item);
    add_as(item, key);
}

static bool has_one_fate(const struct fate *fate)
{
    return fate->n_answered + fate->n_not_done + fate->n_unheard == 1;
}

/* The items of a call, by what was encoded. */
static uint32_t item_of(unsigned call, unsigned i)
{
    uint32_t item = 0;
    const struct seam_call *seam = fake_seam_call(&t.seam, call);
    assert_true((i + 1) * ENCODED_BYTES <= seam->args[0].len);
    memcpy(&item, (const uint8_t *)seam->args[0].ptr + i * ENCODED_BYTES,
           ENCODED_BYTES);
    return item;
}

static void items_wait_for_others_and_go_in_one_call(void **context)
{
    static const int64_t numbers[] = {70, 80, 90};
    (void)context;
    add(7, 0);
    fake_seam_pass(&t.seam, COURIER_WAIT_US - 1);
    add(8, 0);
    add(9, 0);
    assert_int_equal(t.seam.n_begun, 0);
    fake_seam_pass(&t.seam, 1);
    assert_int_equal(t.seam.n_begun, 1);
    const struct seam_call *call = fake_seam_call(&t.seam, 0);
    assert_int_equal(call->script, SCRIPT);
    assert_int_equal(call->n_keys, 3);
    assert_int_equal(call->n_args, 1);
    assert_int_equal(call->args[0].len, 3 * ENCODED_BYTES);
    assert_memory_equal(call->keys[1].ptr, "0:8", 3);
    assert_int_equal(instant_diff_us(call->deadline, t.seam.now), CALL_LIMIT_US);
    struct instant sent_at = t.seam.now;
    fake_seam_pass(&t.seam, 100);
    fake_seam_answer(&t.seam, 0, numbers, 3);
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(t.fates[7 + i].n_answered, 1);
        assert_int_equal(t.fates[7 + i].number, numbers[i]);
        assert_int_equal(t.fates[7 + i].sent_at.us, sent_at.us);
    }
    fake_seam_pass(&t.seam, US_PER_S);
    assert_int_equal(t.seam.n_begun, 1);
}

static void as_many_as_fit_into_a_call_go_at_once(void **context)
{
    (void)context;
    for (uint32_t i = 0; i < COURIER_ITEMS_MAX; i++) {
        assert_int_equal(t.seam.n_begun, 0);
        add(i, 0);
    }
    assert_int_equal(t.seam.n_begun, 1);
    assert_int_equal(fake_seam_call(&t.seam, 0)->n_keys, COURIER_ITEMS_MAX);
    add(100, 0); /* waits anew */
    fake_seam_pass(&t.seam, COURIER_WAIT_US - 1);
    assert_int_equal(t.seam.n_begun, 1);
    fake_seam_pass(&t.seam, 1);
    assert_int_equal(t.seam.n_begun, 2);
}

static void what_waits_goes_when_it_is_told_to(void **context)
{
    (void)context;
    courier_go(t.courier);
    assert_int_equal(t.seam.n_begun, 0);
    add(1, 0);
    courier_go(t.courier);
    assert_int_equal(t.seam.n_begun, 1);
    fake_seam_pass(&t.seam, US_PER_S);
    assert_int_equal(t.seam.n_begun, 1);
}

static void there_is_a_call_for_each_slot(void **context)
{
    static const uint32_t want[3][2] = {{1, 3}, {2, 5}, {4, 6}};
    (void)context;
    add(1, 7);
    add(2, 1);
    add(3, 7);
    add(4, 9);
    add(5, 1);
    add(6, 9);
    courier_go(t.courier);
    assert_int_equal(t.seam.n_begun, 3);
    for (unsigned c = 0; c < 3; c++) {
        assert_int_equal(fake_seam_call(&t.seam, c)->n_keys, 2);
        assert_int_equal(item_of(c, 0), want[c][0]);
        assert_int_equal(item_of(c, 1), want[c][1]);
    }
}

static void a_counter_is_once_in_a_call(void **context)
{
    static const int64_t numbers[] = {1, 2};
    (void)context;
    add_as(1, "0:a");
    add_as(2, "0:a");
    add_as(3, "0:b");
    add_as(4, "0:a");
    courier_go(t.courier);
    assert_int_equal(t.seam.n_begun, 3);
    assert_int_equal(fake_seam_call(&t.seam, 0)->n_keys, 2);
    assert_int_equal(item_of(0, 0), 1);
    assert_int_equal(item_of(0, 1), 3);
    assert_int_equal(item_of(1, 0), 2);
    assert_int_equal(item_of(2, 0), 4);
    fake_seam_answer(&t.seam, 0, numbers, 2);
    fake_seam_answer(&t.seam, 1, numbers, 1);
    fake_seam_answer(&t.seam, 2, numbers, 1);
    for (uint32_t i = 1; i <= 4; i++) {
        assert_int_equal(t.fates[i].n_answered, 1);
    }
}

static void an_item_comes_back_without_an_answer(void **context)
{
    static const struct {
        enum seam_outcome outcome;
        bool is_unheard;
    } cases[] = {
        {SEAM_DOWN, false}, {SEAM_FULL, false},   {SEAM_LOST, true},
        {SEAM_ERROR, true}, {SEAM_TIMEOUT, true},
    };
    (void)context;
    for (unsigned i = 0; i < ARRAY_LEN(cases); i++) {
        add(i, i); /* of a node each: breakers open */
        courier_go(t.courier);
        fake_seam_end(&t.seam, i, cases[i].outcome);
        assert_true(has_one_fate(&t.fates[i]));
        assert_int_equal(t.fates[i].n_unheard, cases[i].is_unheard);
    }
    assert_int_equal(t.courier->n_under_way, 1); /* it may be answered yet */
    fake_seam_end(&t.seam, 4, SEAM_LOST);
    assert_int_equal(t.courier->n_under_way, 0);
    assert_true(has_one_fate(&t.fates[4]));
}

static void a_late_answer_is_none(void **context)
{
    static const int64_t number = 5;
    (void)context;
    add(1, 0);
    courier_go(t.courier);
    fake_seam_end(&t.seam, 0, SEAM_TIMEOUT);
    fake_seam_answer(&t.seam, 0, &number, 1);
    assert_int_equal(t.fates[1].n_answered, 0);
    assert_int_equal(t.fates[1].n_unheard, 1);
    assert_int_equal(t.seam.n_rejected, 0);
}

static void an_answer_of_another_shape_is_rejected(void **context)
{
    static const int64_t numbers[] = {1, 2};
    (void)context;
    add(1, 0);
    courier_go(t.courier);
    fake_seam_answer(&t.seam, 0, numbers, 2);
    assert_int_equal(t.seam.n_rejected, 1);
    assert_int_equal(t.fates[1].n_answered, 0);
    assert_int_equal(t.fates[1].n_unheard, 1);
}

static void an_answer_of_too_many_numbers_is_rejected(void **context)
{
    static const int64_t numbers[COURIER_NUMBERS_MAX + 1];
    (void)context;
    add(1, 0);
    courier_go(t.courier);
    fake_seam_answer(&t.seam, 0, numbers, COURIER_NUMBERS_MAX + 1);
    assert_int_equal(t.seam.n_rejected, 1);
    assert_int_equal(t.fates[1].n_unheard, 1);
}

static void a_node_whose_breaker_is_open_is_not_asked(void **context)
{
    (void)context;
    add(1, 3);
    courier_go(t.courier);
    fake_seam_end(&t.seam, 0, SEAM_LOST); /* opens it at once */
    fake_seam_pass(&t.seam, US_PER_MS);
    add(2, 3);
    add(3, 4);
    add(4, 3);
    courier_go(t.courier);
    assert_int_equal(t.fates[2].n_not_done, 1);
    assert_int_equal(t.fates[4].n_not_done, 1);
    assert_int_equal(t.seam.n_begun, 2);
    assert_int_equal(item_of(1, 0), 3);
}

/* Takes pass little by little then; what is carried passes first. */
static void a_node_that_is_back_is_asked_at_once(void **context)
{
    static const int64_t number = 5;
    (void)context;
    add(1, 3);
    courier_go(t.courier);
    fake_seam_end(&t.seam, 0, SEAM_LOST);
    struct seam_call probe = {.node = 3, .outcome = SEAM_OK};
    for (unsigned i = 0; i < BREAKER_PROBES_GOOD; i++) {
        health_report_probe(t.health, &probe, t.seam.now);
    }
    assert_int_equal(health_status(t.health, probe.node, t.seam.now).state,
                     BREAKER_RAMPING);
    t.seam.random = UINT64_MAX; /* with which nothing else passes yet */
    for (unsigned i = 0; i < COURIER_ITEMS_MAX; i++) {
        add(2 + i, 3);
        courier_go(t.courier);
        fake_seam_answer(&t.seam, 1 + i, &number, 1);
        assert_int_equal(t.fates[2 + i].n_answered, 1);
    }
}

static void calls_that_end_at_once_are_fine(void **context)
{
    (void)context;
    t.seam.is_down = true;
    for (uint32_t i = 0; i < COURIER_ITEMS_MAX; i++) {
        add(i, i % 3);
    }
    for (uint32_t i = 0; i < COURIER_ITEMS_MAX; i++) {
        assert_int_equal(t.fates[i].n_not_done, 1);
        assert_true(has_one_fate(&t.fates[i]));
    }
    assert_int_equal(t.courier->n_under_way, 0);
}

static void what_is_under_way_is_bounded(void **context)
{
    static const int64_t number = 5;
    (void)context;
    for (uint32_t i = 0; i < COURIER_CALLS; i++) {
        add(i, 0);
        courier_go(t.courier);
    }
    assert_int_equal(t.courier->n_under_way, COURIER_CALLS);
    add(COURIER_CALLS, 0);
    courier_go(t.courier);
    assert_int_equal(t.fates[COURIER_CALLS].n_not_done, 1);
    fake_seam_answer(&t.seam, 3, &number, 1);
    add(COURIER_CALLS + 1, 0);
    courier_go(t.courier);
    assert_int_equal(item_of(COURIER_CALLS, 0), COURIER_CALLS + 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define X(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
        X(items_wait_for_others_and_go_in_one_call),
        X(as_many_as_fit_into_a_call_go_at_once),
        X(what_waits_goes_when_it_is_told_to),
        X(there_is_a_call_for_each_slot),
        X(a_counter_is_once_in_a_call),
        X(an_item_comes_back_without_an_answer),
        X(a_late_answer_is_none),
        X(an_answer_of_another_shape_is_rejected),
        X(an_answer_of_too_many_numbers_is_rejected),
        X(a_node_whose_breaker_is_open_is_not_asked),
        X(a_node_that_is_back_is_asked_at_once),
        X(calls_that_end_at_once_are_fine),
        X(what_is_under_way_is_bounded),
#undef X
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
