/* What the scripts do to the keys of a real redis-server. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/limit.h"
#include "tests/support/twin.h"

enum {
    KINDS = LIMIT_SLIDING_LOG + 1,
};

static struct twin twin;
static const struct twin_key keys[] = {{"a", 1}, {"b", 1}, {"c", 1}, {"d", 1}};

static struct redis_server *server(void)
{
    return &twin.server;
}

/* One of each algorithm, 10 a minute. */
static struct limit limit_of(enum limit_algorithm algorithm)
{
    return algorithm == LIMIT_LEAKY_BUCKET ? leaky(10, MINUTE_US, 54 * US_PER_S)
                                           : make(algorithm, 10, 10, MINUTE_US);
}

static struct store_take take_of(const struct limit *limits, unsigned n, int64_t cost)
{
    struct store_take take = {.now = {MINUTE_START_US}, .n_charges = n};
    for (unsigned i = 0; i < n; i++) {
        take.charges[i] = (struct store_charge){.limit = &limits[i], .cost = cost};
    }
    return take;
}

static void run(enum twin_clock clock, struct store_take *take)
{
    twin_send_take(&twin, clock, take, keys);
    twin_get_take(&twin, take);
}

static struct store_charge charge(enum twin_clock clock, const struct limit *limit,
                                  int64_t cost)
{
    struct store_take taken = take_of(limit, 1, cost);
    run(clock, &taken);
    return taken.charges[0];
}

static bool correct(const struct limit *limit, const struct store_charge *charged,
                    int64_t truth)
{
    const struct store_settlement settlement = {
        .limit = limit,
        .correction = {charged->place, charged->cost, truth},
    };
    twin_send_settlement(&twin, TWIN_SERVER, &settlement, &keys[0]);
    return twin_get_settled(&twin);
}

static void expect_repairs(unsigned n_values, unsigned n_ttls)
{
    assert_int_equal(twin.repairs.n_values, n_values);
    assert_int_equal(twin.repairs.n_ttls, n_ttls);
    twin.repairs = (struct script_repairs){0};
}

static int64_t server_us(void)
{
    redisReply *reply = redis_server_ask(server(), "TIME");
    int64_t us = strtoll(reply->element[0]->str, NULL, 10) * US_PER_S
                 + strtoll(reply->element[1]->str, NULL, 10);
    freeReplyObject(reply);
    return us;
}

static int64_t n_keys(void)
{
    return redis_server_ask_number(server(), "DBSIZE");
}

/* The key lives for a second longer than its counter needs, from some moment between. */
static void expect_expiry(int64_t before_us, int64_t reset_us)
{
    int64_t at_ms = redis_server_ask_number(server(), "PEXPIRETIME a");
    assert_true(at_ms >= (before_us + reset_us) / 1000 + 1000);
    assert_true(at_ms <= (server_us() + reset_us) / 1000 + 1002);
}

static void every_key_lives_until_it_is_full_again(void **context)
{
    (void)context;
    for (int i = 0; i < KINDS; i++) {
        struct limit limit = limit_of((enum limit_algorithm)i);
        for (int n = 0; n < 3; n++) {
            int64_t before_us = server_us();
            struct store_charge charged = charge(TWIN_SERVER, &limit, 3);
            assert_true(charged.is_charged);
            expect_expiry(before_us, charged.answer.reset_us);
        }
        freeReplyObject(redis_server_ask(server(), "DEL a"));
    }
    struct limit longest = bucket(1, LIMIT_AMOUNT_MAX, INT64_C(31) * 86400 * US_PER_S);
    struct store_charge charged = charge(TWIN_SERVER, &longest, LIMIT_AMOUNT_MAX);
    assert_true(charged.is_charged);
    assert_true(redis_server_ask_number(server(), "PTTL a")
                > LIMIT_WAIT_US_MAX / 1000 - 86400000);
}

static void a_debt_is_waited_out(void **context)
{
    (void)context;
    for (int i = 0; i < KINDS; i++) {
        struct limit limit = limit_of((enum limit_algorithm)i);
        struct store_charge charged = charge(TWIN_SERVER, &limit, 1);
        int64_t before_us = server_us();
        assert_true(correct(&limit, &charged, 1000));
        struct store_charge refused = charge(TWIN_SERVER, &limit, 1);
        assert_false(refused.answer.is_allowed);
        assert_int_equal(refused.answer.remaining, 0);
        int64_t gone_us = server_us() - before_us;
        int64_t at_ms = redis_server_ask_number(server(), "PEXPIRETIME a");
        assert_true(at_ms * 1000 >= before_us + refused.answer.reset_us - gone_us);
        freeReplyObject(redis_server_ask(server(), "DEL a"));
    }
    expect_repairs(0, 0);
}

/* Used ten at 10 a minute; then only one a minute drains. */
static void a_lowered_limit_keeps_its_key_longer(void **context)
{
    (void)context;
    struct limit limit = bucket(10, 10, MINUTE_US);
    assert_true(charge(TWIN_SERVER, &limit, 10).is_charged);
    limit = bucket(1, 1, MINUTE_US);
    int64_t before_us = server_us();
    struct store_charge refused = charge(TWIN_SERVER, &limit, 1);
    assert_false(refused.answer.is_allowed);
    assert_true(refused.answer.reset_us > 9 * MINUTE_US);
    expect_expiry(before_us, refused.answer.reset_us);
    expect_repairs(0, 0);
}

static void a_key_without_a_time_to_live_gets_one(void **context)
{
    (void)context;
    for (int i = 0; i < KINDS; i++) {
        struct limit limit = limit_of((enum limit_algorithm)i);
        assert_true(charge(TWIN_SERVER, &limit, 10).is_charged);
        assert_int_equal(redis_server_ask_number(server(), "PERSIST a"), 1);
        assert_false(charge(TWIN_SERVER, &limit, 10).answer.is_allowed);
        expect_repairs(0, 1);
        assert_true(redis_server_ask_number(server(), "PTTL a") > 1000);
        freeReplyObject(redis_server_ask(server(), "DEL a"));
        assert_true(charge(TWIN_SERVER, &limit, 1).is_charged);
        assert_int_equal(redis_server_ask_number(server(), "PERSIST a"), 1);
        assert_true(charge(TWIN_SERVER, &limit, 1).is_charged);
        assert_true(redis_server_ask_number(server(), "PTTL a") > 1000);
        freeReplyObject(redis_server_ask(server(), "DEL a"));
    }
}

static const struct twin_key garbage[] = {
    {"", 0},
    {"x", 1},
    {"17", 2},
    {"s\377\377\377\377\377\377\377\377\377\377\377\377\377\377\377\377", 17},
    {"b\377\377\377\377\377\377\377\377\377\377\377\377\377\377\377\377", 17},
    {"f\377\377\377\377\377\377\377\377\377\377\377\377", 13},
    {"l\377\377", 3},
    {"l\0\1\0\0\0\0\0\0\0", 10},
    {"l\0\0\0\0\0\0\0\0\0\1", 11},
    {"three words of text", 19},
};

static void what_is_no_state_counts_as_nothing_and_is_replaced(void **context)
{
    (void)context;
    for (int i = 0; i < KINDS; i++) {
        struct limit limit = limit_of((enum limit_algorithm)i);
        for (size_t j = 0; j < ARRAY_LEN(garbage); j++) {
            freeReplyObject(redis_server_ask(server(), "SET a %b", garbage[j].text,
                                             garbage[j].len));
            struct store_take peek = take_of(&limit, 1, 1);
            peek.is_peek = true;
            run(TWIN_SERVER, &peek);
            assert_int_equal(peek.held[0].remaining, 10);
            expect_repairs(0, 0);
            struct store_charge charged = charge(TWIN_SERVER, &limit, 1);
            assert_true(charged.is_charged);
            assert_int_equal(charged.answer.remaining, 9);
            expect_repairs(1, 0);
            assert_true(redis_server_ask_number(server(), "PTTL a") > 1000);
            freeReplyObject(redis_server_ask(server(), "SET a %b", garbage[j].text,
                                             garbage[j].len));
            assert_false(charge(TWIN_SERVER, &limit, 11).is_charged);
            expect_repairs(1, 0);
            assert_int_equal(n_keys(), 0);
            freeReplyObject(redis_server_ask(server(), "SET a %b", garbage[j].text,
                                             garbage[j].len));
            charged = (struct store_charge){.cost = 5, .place = 1};
            assert_false(correct(&limit, &charged, 0));
            expect_repairs(1, 0);
            assert_int_equal(n_keys(), 0);
        }
    }
}

/* A sound text of one algorithm is none to the others, but for the two buckets. */
static void states_of_other_algorithms_are_none(void **context)
{
    (void)context;
    for (int i = 0; i < KINDS; i++) {
        struct limit one = limit_of((enum limit_algorithm)i);
        for (int j = 0; j < KINDS; j++) {
            bool are_buckets = (i == LIMIT_TOKEN_BUCKET || i == LIMIT_LEAKY_BUCKET)
                               && (j == LIMIT_TOKEN_BUCKET || j == LIMIT_LEAKY_BUCKET);
            struct limit other = limit_of((enum limit_algorithm)j);
            assert_true(charge(TWIN_SERVER, &one, 2).is_charged);
            assert_true(charge(TWIN_SERVER, &other, 2).is_charged);
            expect_repairs(i != j && !are_buckets, 0);
            freeReplyObject(redis_server_ask(server(), "DEL a"));
        }
    }
}

static void another_type_is_replaced(void **context)
{
    (void)context;
    for (int i = 0; i < KINDS; i++) {
        struct limit limit = limit_of((enum limit_algorithm)i);
        freeReplyObject(redis_server_ask(server(), "RPUSH a 1 2 3"));
        struct store_charge charged = charge(TWIN_SERVER, &limit, 1);
        assert_true(charged.is_charged);
        assert_int_equal(charged.answer.remaining, 9);
        expect_repairs(1, 0);
        assert_int_equal(charge(TWIN_SERVER, &limit, 1).answer.remaining, 8);
        expect_repairs(0, 0);
        freeReplyObject(redis_server_ask(server(), "DEL a"));
    }
}

static void what_charges_nothing_touches_nothing(void **context)
{
    (void)context;
    for (int i = 0; i < KINDS; i++) {
        struct limit limit = limit_of((enum limit_algorithm)i);
        struct limit nothing = limit;
        nothing.requests = 0;
        nothing.size = 0;
        assert_true(charge(TWIN_SERVER, &limit, 0).answer.is_allowed);
        assert_false(charge(TWIN_SERVER, &limit, 11).answer.is_allowed);
        struct store_charge refused = charge(TWIN_SERVER, &nothing, 1);
        assert_false(refused.answer.is_allowed);
        assert_true(refused.answer.retry_us == LIMIT_NEVER);
        struct store_take peek = take_of(&limit, 1, 1);
        peek.is_peek = true;
        run(TWIN_SERVER, &peek);
        assert_true(peek.is_allowed);
        assert_int_equal(n_keys(), 0);
    }
}

/* Nothing that the caller says moves the clock of what is shipped. */
static void the_clock_is_the_servers(void **context)
{
    (void)context;
    struct limit limit = sliding(10, US_PER_S);
    struct store_take taken = take_of(&limit, 1, 1);
    taken.now.us = 1;
    int64_t before_us = server_us();
    run(TWIN_SERVER, &taken);
    assert_in_range(taken.charges[0].place, before_us / US_PER_S,
                    server_us() / US_PER_S);
    uint8_t argument[SCRIPT_TAKE_BYTES_MAX];
    size_t len = script_encode_take(&taken, argument);
    redisReply *reply = redis_server_ask(server(), "EVALSHA %s 1 a %b 1",
                                         script_take.sha1, argument, len);
    assert_int_equal(reply->elements, 1 + SCRIPT_CHARGE_NUMBERS);
    assert_in_range(reply->element[7]->integer, before_us / US_PER_S,
                    server_us() / US_PER_S);
    freeReplyObject(reply);
}

/* One request under ip, user, endpoint and everybody: the 21st is refused by the endpoint,
 * and nothing else is charged. */
static void refused_by_one_limit_none_is_charged(void **context)
{
    (void)context;
    const struct limit limits[] = {sliding(1000, MINUTE_US), sliding(100, MINUTE_US),
                                   sliding(20, MINUTE_US), sliding(1000000, US_PER_S)};
    struct store_take taken = take_of(limits, 4, 1);
    for (int i = 0; i < 20; i++) {
        run(TWIN_TEST, &taken);
        assert_true(taken.is_allowed);
    }
    run(TWIN_TEST, &taken);
    assert_false(taken.is_allowed);
    static const int64_t remaining[] = {980, 80, 0, 999980};
    for (int i = 0; i < 4; i++) {
        assert_int_equal(taken.charges[i].answer.is_allowed, i != 2);
        assert_int_equal(taken.charges[i].answer.remaining, remaining[i]);
        assert_false(taken.charges[i].is_charged);
    }
}

static void at_9_of_10_one_of_two_passes(void **context)
{
    (void)context;
    for (int i = 0; i < KINDS; i++) {
        struct limit limit = limit_of((enum limit_algorithm)i);
        assert_true(charge(TWIN_TEST, &limit, 9).is_charged);
        struct store_take taken = take_of(&limit, 1, 1);
        twin_send_take(&twin, TWIN_TEST, &taken, keys);
        twin_send_take(&twin, TWIN_TEST, &taken, keys);
        twin_get_take(&twin, &taken);
        assert_true(taken.is_allowed);
        twin_get_take(&twin, &taken);
        assert_false(taken.is_allowed);
        freeReplyObject(redis_server_ask(server(), "DEL a"));
    }
}

static void log_of_ten_before_and_ten_after_the_edge(void **context)
{
    (void)context;
    struct limit limit = make(LIMIT_SLIDING_LOG, 10, 10, US_PER_S);
    struct store_take taken = take_of(&limit, 1, 1);
    int n = 0;
    for (int i = 0; i < 20; i++) {
        taken.now.us = MINUTE_START_US + (i < 10 ? 990000 : 1010000);
        run(TWIN_TEST, &taken);
        n += taken.is_allowed;
    }
    assert_int_equal(n, 10);
    assert_int_equal(taken.charges[0].answer.retry_us, 980000);
    assert_int_equal(redis_server_ask_number(server(), "STRLEN a"), 3 + 10 * 8);
    taken.now.us = MINUTE_START_US + 1990000;
    run(TWIN_TEST, &taken);
    assert_true(taken.is_allowed);
    assert_int_equal(redis_server_ask_number(server(), "STRLEN a"), 3 + 8);
}

/* Full memory: an error, and of several counters none is charged. */
static void without_memory_nothing_is_charged(void **context)
{
    (void)context;
    const struct limit limits[] = {sliding(10, MINUTE_US), bucket(10, 10, MINUTE_US)};
    struct store_take taken = take_of(limits, 2, 1);
    run(TWIN_TEST, &taken);
    freeReplyObject(redis_server_ask(server(), "CONFIG SET maxmemory 1"));
    twin_send_take(&twin, TWIN_TEST, &taken, keys);
    redisReply *reply = redis_server_next_reply(server());
    assert_int_equal(reply->type, REDIS_REPLY_ERROR);
    assert_non_null(strstr(reply->str, "OOM"));
    freeReplyObject(reply);
    freeReplyObject(redis_server_ask(server(), "CONFIG SET maxmemory 0"));
    run(TWIN_TEST, &taken);
    assert_int_equal(taken.charges[0].answer.remaining, 8);
    assert_int_equal(taken.charges[1].answer.remaining, 8);
}

/* The commands that script.h lists are enough. */
static void commands_are_those_that_are_listed(void **context)
{
    (void)context;
    freeReplyObject(redis_server_ask(
        server(), "ACL SETUSER agent on >secret ~a resetchannels -@all +evalsha +time "
                  "+mget +set +pttl +pexpire +del"));
    redisReply *reply = redis_server_ask(server(), "AUTH agent secret");
    assert_string_equal(reply->str, "OK");
    freeReplyObject(reply);
    for (int i = 0; i < KINDS; i++) {
        struct limit limit = limit_of((enum limit_algorithm)i);
        struct store_charge charged = charge(TWIN_SERVER, &limit, 10);
        assert_true(charged.is_charged);
        assert_false(charge(TWIN_SERVER, &limit, 1).is_charged);
        assert_true(correct(&limit, &charged, 9));
    }
    twin.repairs = (struct script_repairs){0};
    reply = redis_server_ask(server(), "GET a");
    assert_int_equal(reply->type, REDIS_REPLY_ERROR);
    freeReplyObject(reply);
    redisFree(server()->context);
    server()->context = redisConnectUnix(server()->socket);
    assert_int_equal(server()->context->err, 0);
}

static int start(void **context)
{
    (void)context;
    twin_start(&twin);
    return 0;
}

static int flush(void **context)
{
    (void)context;
    freeReplyObject(redis_server_ask(server(), "FLUSHALL"));
    return 0;
}

static int stop(void **context)
{
    (void)context;
    twin_stop(&twin);
    return 0;
}

static const char agents_key[] = "rl:nodes:{all}";

static redisReply *beat(const char *word)
{
    return redis_server_ask(server(), "EVAL %b 1 %s %s", script_beat.text,
                            script_beat.text_bytes, agents_key, word);
}

static void expect_agents(const char *word, int64_t want)
{
    redisReply *reply = beat(word);
    assert_int_equal(reply->type, REDIS_REPLY_INTEGER);
    assert_int_equal(reply->integer, want);
    freeReplyObject(reply);
}

/* Another agent that was heard of so long ago. */
static void hear_of(const char *name, int64_t ago_us)
{
    freeReplyObject(redis_server_ask(server(), "ZADD %s %lld %s", agents_key,
                                     (long long)(server_us() - ago_us), name));
}

static void agents_count_while_they_are_heard_of(void **context)
{
    (void)context;
    expect_agents("?", 0);
    expect_agents("+a", 1);
    expect_agents("+a", 1);
    expect_agents("+b", 2);
    expect_agents("?", 2);
    expect_agents("", 2);
    expect_agents("-c", 2);
    expect_agents("-b", 1);
    hear_of("b", 3 * US_PER_S);
    expect_agents("+a", 1);
    hear_of("b", -US_PER_S); /* clocks of servers differ */
    expect_agents("+a", 2);
    hear_of("b", -60 * US_PER_S);
    expect_agents("+a", 1);
    hear_of("a", -60 * US_PER_S);
    expect_agents("+a", 1); /* which lives */
    assert_true(redis_server_ask_number(server(), "PTTL %s", agents_key) > 86000000);
    expect_agents("-a", 0);
    assert_int_equal(n_keys(), 0);
}

static void a_foreign_key_of_agents_is_told_of(void **context)
{
    (void)context;
    freeReplyObject(redis_server_ask(server(), "SET %s x", agents_key));
    redisReply *reply = beat("+a");
    assert_int_equal(reply->type, REDIS_REPLY_ERROR);
    assert_ptr_equal(strstr(reply->str, "WRONGTYPE"), reply->str);
    freeReplyObject(reply);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(every_key_lives_until_it_is_full_again, flush),
        cmocka_unit_test_setup(a_debt_is_waited_out, flush),
        cmocka_unit_test_setup(a_lowered_limit_keeps_its_key_longer, flush),
        cmocka_unit_test_setup(a_key_without_a_time_to_live_gets_one, flush),
        cmocka_unit_test_setup(what_is_no_state_counts_as_nothing_and_is_replaced,
                               flush),
        cmocka_unit_test_setup(states_of_other_algorithms_are_none, flush),
        cmocka_unit_test_setup(another_type_is_replaced, flush),
        cmocka_unit_test_setup(what_charges_nothing_touches_nothing, flush),
        cmocka_unit_test_setup(the_clock_is_the_servers, flush),
        cmocka_unit_test_setup(refused_by_one_limit_none_is_charged, flush),
        cmocka_unit_test_setup(at_9_of_10_one_of_two_passes, flush),
        cmocka_unit_test_setup(log_of_ten_before_and_ten_after_the_edge, flush),
        cmocka_unit_test_setup(without_memory_nothing_is_charged, flush),
        cmocka_unit_test_setup(commands_are_those_that_are_listed, flush),
        cmocka_unit_test_setup(agents_count_while_they_are_heard_of, flush),
        cmocka_unit_test_setup(a_foreign_key_of_agents_is_told_of, flush),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
