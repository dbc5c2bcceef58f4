/* Checks 50 to 55 of README.md: what an ACK says. What wire_read_ack demands of each is
 * demanded of every ACK in all programs; here are the kinds there are. */
#include <stdio.h>
#include <string.h>

#include <sys/socket.h>

#include "tests/conformance/fixture.h"
#include "tests/conformance/mixed.h"

/* Ask about `key` of the route "small"; the answer is in `ack`. */
static void ask_small(const char *key)
{
    wire_clear();
    wire_notify_begin(&wire, 1, 1, 2);
    wire_arg_text(&wire, "route", "small");
    wire_arg_text(&wire, "key", key);
    wire_end(&wire);
    peer_send(&peers[0]);
    expect_ack(&peers[0], 1, 1);
}

static void ask_until_refused(const char *key)
{
    for (int i = 0; i < FIXTURE_SMALL; i++) {
        ask_small(key);
        assert_int_equal(wire_ack_number(&ack, "deny"), 0);
    }
    ask_small(key);
    assert_int_equal(wire_ack_number(&ack, "deny"), 1);
}

/* Also with the least size that can be agreed to: what has no room is left out whole. */
static void check_50_acks_are_whole_and_small_enough(void **state)
{
    (void)state;
    static const size_t sizes[] = {WIRE_SIZE, WIRE_SIZE_MIN};
    static const char *const keys[] = {"k50", "k50 small"};
    unsigned n_actions[2] = {0};
    for (int i = 0; i < 2; i++) {
        wire_clear();
        wire_hello_with(&wire, "2.0", sizes[i], "");
        peer_connect(&peers[0]);
        peer_send(&peers[0]);
        agreed_size = expect_hello(&peers[0]).size;
        ask_until_refused(keys[i]);
        n_actions[i] = ack.n_actions;
        peer_close(&peers[0]);
    }
    assert_in_range(n_actions[1], 3, n_actions[0] - 1);
}

static void check_51_every_variable_is_as_documented(void **state)
{
    (void)state;
    static const char *const refused[] = {"action", "deny",        "status",
                                          "rule",   "limit",       "remaining",
                                          "reset",  "retry_after", "ratelimit",
                                          "policy", "problem",     "reason"};
    peer_open(&peers[0]);
    ask_until_refused("k51");
    assert_int_equal(ack.n_actions, 12);
    for (unsigned i = 0; i < 12; i++) {
        assert_string_equal(ack.actions[i].name, refused[i]);
    }
    assert_true(wire_ack_is(&ack, "action", "reject"));
    assert_true(wire_ack_is(&ack, "rule", "small"));
    assert_true(wire_ack_is(&ack, "reason", "limit"));
    assert_int_equal(wire_ack_number(&ack, "status"), 429);
    assert_int_equal(wire_ack_number(&ack, "limit"), FIXTURE_SMALL);
    assert_int_equal(wire_ack_number(&ack, "remaining"), 0);
}

/* No variable is ever negative; that such a number takes ten bytes is shown by
 * tests/unit/spop/test_value.c. */
static void check_52_values_have_one_spelling(void **state)
{
    (void)state;
    peer_open(&peers[0]);
    ask_until_refused("k52");
    for (unsigned i = 0; i < ack.n_actions; i++) {
        assert_true(ack.actions[i].number >= 0);
    }
    static const char yes[] = "\x01\x03\x02\x04"
                              "deny\x11";
    assert_non_null(memmem(peers[0].frame, peers[0].frame_len, yes, sizeof(yes) - 1));
    (void)ask(&peers[0], "k52");
    static const char no[] = "\x01\x03\x02\x04"
                             "deny\x01";
    assert_non_null(memmem(peers[0].frame, peers[0].frame_len, no, sizeof(no) - 1));
}

/* Also where nothing else has room. */
static void check_53_decision_comes_first(void **state)
{
    (void)state;
    peer_open(&peers[0]);
    (void)ask(&peers[0], "k53");
    assert_string_equal(ack.actions[0].name, "action");
    assert_string_equal(ack.actions[1].name, "deny");
    ask_until_refused("k53");
    assert_string_equal(ack.actions[0].name, "action");
    assert_string_equal(ack.actions[1].name, "deny");
}

static void check_54_nothing_to_say_is_one_unset(void **state)
{
    (void)state;
    static const char unset[] = "\x00\x00\x00\x0c\x67\x00\x00\x00\x01\x01\x01"
                                "\x02\x02\x02\x01_";
    static const char *const payloads[] = {
        "",
        "07\"unknown\" 00",
        "0f\"ratelimit-check\" 01 06\"domain\" 08 05\"other\"",
    };
    peer_open(&peers[0]);
    for (size_t i = 0; i < 3; i++) {
        wire_clear();
        wire_begin(&wire, WIRE_NOTIFY, WIRE_FIN, 1, 1);
        wire_hex(&wire, payloads[i]);
        wire_end(&wire);
        peer_send(&peers[0]);
        expect_neutral(&peers[0], 1, 1);
        assert_int_equal(peers[0].frame_len, sizeof(unset) - 1);
        assert_memory_equal(peers[0].frame, unset, sizeof(unset) - 1);
    }
}

/* slow.c asks a million. */
static void check_55_one_ack_for_each_notify(void **state)
{
    (void)state;
    struct prng prng;
    uint64_t seed = prng_seed(55);
    prng_init(&prng, seed);
    (void)printf("SEED=%ju\n", (uintmax_t)seed);
    uint64_t before = agent_process_metric(&f.agent, "notifies_total");
    peer_open(&peers[0]);
    mixed_ask(&peers[0], &prng, 20000);
    wait_for_metric("notifies_total", before + 20000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK(check_50_acks_are_whole_and_small_enough),
        CHECK(check_51_every_variable_is_as_documented),
        CHECK(check_52_values_have_one_spelling),
        CHECK(check_53_decision_comes_first),
        CHECK(check_54_nothing_to_say_is_one_unset),
        CHECK(check_55_one_ack_for_each_notify),
    };
    return cmocka_run_group_tests(tests, group_set_up, group_tear_down);
}
