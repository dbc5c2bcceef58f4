/* What Redis holds of what the agent counts: exactly the limit, whoever races for it; keys of
 * their own for all values, bounded and readable; none without an end, whenever the agent is
 * killed. ROUNDS=n (2) kills it ten times as often. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/conformance/redis_fixture.h"

enum {
    RACERS = 64,
    RACES = 4, /* of each */
    RACE_LIMIT = 100,
    KILLS = 20,
    KILL_KEYS = 200,
    EACH_LIMITS = 4,      /* of the route "each" */
    NAME_BYTES_MAX = 512, /* of a key in Redis: far below what its value had */
    LONG_VALUE_BYTES = 15000,
};

static struct spop_client racers[RACERS];

static unsigned n_endless_keys(void)
{
    return n_keys_where("*", "redis.call('pttl', k) < 0");
}

/* Nobody is in a hurry: all is counted by Redis. */
static int begin_counting(void **state)
{
    (void)state;
    start_all(false, ", slow_ms: 0", 1000);
    return 0;
}

static int end_counting(void **state)
{
    (void)state;
    return stop_all();
}

static void racing_connections_admit_exactly_the_limit(void **state)
{
    unsigned n_admitted = 0;
    (void)state;
    for (int i = 0; i < RACERS; i++) {
        assert_true(spop_client_open(&racers[i], r.agent.socket_path));
    }
    r.wire.len = 0;
    for (int i = 0; i < RACES; i++) {
        put_question("race", "one", 1);
    }
    for (int i = 0; i < RACERS; i++) {
        assert_true(spop_client_send(&racers[i], r.wire.bytes, r.wire.len));
    }
    for (int i = 0; i < RACERS * RACES; i++) {
        receive_ack(&racers[i / RACES]);
        assert_false(wire_ack_is_by_policy(&r.ack));
        n_admitted += wire_ack_number(&r.ack, "deny") == 0;
    }
    for (int i = 0; i < RACERS; i++) {
        spop_client_close(&racers[i]);
    }
    assert_int_equal(n_admitted, RACE_LIMIT);
}

struct value {
    const char *bytes;
    size_t len;
};

#define VALUE(text)            \
    {                          \
        text, sizeof(text) - 1 \
    }

/* Those that are easily taken for one another stand together. */
static const struct value values[] = {
    VALUE("a"),           VALUE("A"),
    VALUE("a "),          VALUE(" a"),
    VALUE("{a}"),         VALUE("a}"),
    VALUE("}{"),          VALUE("{"),
    VALUE("a:b"),         VALUE("a|b"),
    VALUE("a,b"),         VALUE("a=b"),
    VALUE("a,key=b"),     VALUE("a%2Cb"),
    VALUE("a%2cb"),       VALUE("%"),
    VALUE("%25"),         VALUE("%00"),
    VALUE("\0"),          VALUE("\0\0"),
    VALUE("a\0"),         VALUE("a\0b"),
    VALUE("\r"),          VALUE("\n"),
    VALUE("\r\n"),        VALUE("a\r\nGET b"),
    VALUE("\xc3\xa9"),    VALUE("e\xcc\x81"),
    VALUE("\xff\xfe"),    VALUE("\xe6\x97\xa5"),
    VALUE("*"),           VALUE("*1\r\n$1\r\n"),
    VALUE("\x7f\x1b[2J"), VALUE("\"'\\"),
};

enum {
    VALUES_N = sizeof(values) / sizeof(values[0]),
    LONG_VALUES_N = 4,
};

static int64_t ask_left(void)
{
    assert_true(spop_client_send(&r.clients[0], r.wire.bytes, r.wire.len));
    receive_ack(&r.clients[0]);
    assert_false(wire_ack_is_by_policy(&r.ack));
    assert_true(wire_ack_is(&r.ack, "action", "allow"));
    return wire_ack_number(&r.ack, "remaining");
}

/* As a text, then as bytes: another kind of value, the same key. */
static void ask_twice_about(const void *bytes, size_t len)
{
    for (int i = 0; i < 2; i++) {
        r.wire.len = 0;
        wire_notify_begin(&r.wire, 1, 1, 2);
        wire_arg_text(&r.wire, "route", "value");
        wire_name(&r.wire, "key");
        wire_data(&r.wire, i == 0 ? WIRE_STRING : WIRE_BINARY, bytes, len);
        wire_end(&r.wire);
        assert_int_equal(ask_left(), LIMIT - 1 - i);
    }
}

/* Each of its parts alone could be the same. */
static void ask_about_pairs(void)
{
    static const char *const pairs[][2] = {
        {"a", "b"},   {"a,b", "c"},       {"a", "b,c"},       {"a:b", "c"},
        {"a", "b:c"}, {"a,other=b", "c"}, {"a", "b,other=c"}, {"a,other=", "b"},
    };
    for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
        r.wire.len = 0;
        wire_notify_begin(&r.wire, 1, 1, 3);
        wire_arg_text(&r.wire, "route", "pair");
        wire_arg_text(&r.wire, "key", pairs[i][0]);
        wire_arg_text(&r.wire, "other", pairs[i][1]);
        wire_end(&r.wire);
        assert_int_equal(ask_left(), LIMIT - 1);
    }
}

static void any_value_has_a_key_of_its_own(void **state)
{
    static char text[LONG_VALUE_BYTES];
    char expression[64];
    (void)state;
    for (int i = 0; i < VALUES_N; i++) {
        ask_twice_about(values[i].bytes, values[i].len);
    }
    for (int i = 0; i < LONG_VALUES_N; i++) { /* the last byte is all that differs */
        memset(text, i < 2 ? 'x' : '\0', sizeof(text));
        text[sizeof(text) - 1] = (char)i;
        ask_twice_about(text, sizeof(text));
    }
    ask_about_pairs();
    (void)snprintf(expression, sizeof(expression), "#k <= %d and not k:find('[^!-~]')",
                   NAME_BYTES_MAX);
    assert_int_equal(n_keys_where("rl:conformance:*:value:*", expression),
                     VALUES_N + LONG_VALUES_N);
    assert_int_equal(n_endless_keys(), 0);
}

/* Each question is as many counters in one call, of as many algorithms. */
static void ask_for_keys(unsigned kill_idx)
{
    char key[32];
    r.wire.len = 0;
    for (unsigned i = 0; i < KILL_KEYS; i++) {
        (void)snprintf(key, sizeof(key), "k%u.%u", kill_idx, i);
        put_question("each", key, 1);
    }
    for (int i = 0; i < CLIENTS; i++) {
        assert_true(spop_client_send(&r.clients[i], r.wire.bytes, r.wire.len));
    }
}

/* It ends after one answer, or ten, ..., while the others are under way. */
static void killed_agent_leaves_no_key_without_an_end(void **state)
{
    unsigned n_kills = KILLS * n_rounds() / 2;
    unsigned n_keys = 0;
    (void)state;
    for (unsigned i = 0; i < n_kills; i++) {
        unsigned n_counted = 0;
        tell("FLUSHALL", "+OK");
        ask_for_keys(i);
        for (unsigned j = 0; j < 1 + i % KILLS * (KILL_KEYS / KILLS); j++) {
            receive_ack(&r.clients[0]);
            n_counted += !wire_ack_is_by_policy(&r.ack);
        }
        stop_agent(SIGKILL);
        unsigned n = tell_number("DBSIZE");
        assert_true(n >= EACH_LIMITS * n_counted);
        assert_int_equal(n_endless_keys(), 0);
        n_keys += n;
        start_agent();
        wait_for_counting();
    }
    print_message("%u kills: %u keys, each with an end\n", n_kills, n_keys);
    assert_true(n_keys > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(racing_connections_admit_exactly_the_limit),
        cmocka_unit_test(any_value_has_a_key_of_its_own),
        cmocka_unit_test(killed_agent_leaves_no_key_without_an_end),
    };
    return redis_fixture_init()
               ? cmocka_run_group_tests(tests, begin_counting, end_counting)
               : EXIT_FAILURE;
}
