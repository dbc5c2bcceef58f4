/* Checks 39 to 49 of README.md: typed data, arguments and messages. */
#include <string.h>

#include <sys/socket.h>

#include "tests/conformance/fixture.h"

/* A question of route `route` whose other argument is put by the caller, then sent. */
static void begin_route(const char *route, const char *name)
{
    wire_clear();
    wire_notify_begin(&wire, 1, 1, 2);
    wire_arg_text(&wire, "route", route);
    wire_name(&wire, name);
}

static void begin_key(void)
{
    begin_route("key", "key");
}

/* Send it; answers how often the counter it is about was asked before. */
static int64_t finish(void)
{
    wire_end(&wire);
    peer_send(&peers[0]);
    expect_allowed(&peers[0], 1, 1);
    assert_int_equal(wire_ack_number(&ack, "limit"), FIXTURE_LARGE);
    return FIXTURE_LARGE - wire_ack_number(&ack, "remaining") - 1;
}

/* Send it; no rule finds a key in it. */
static void finish_without_key(void)
{
    wire_end(&wire);
    peer_send(&peers[0]);
    expect_allowed(&peers[0], 1, 1);
    assert_true(wire_ack_is(&ack, "reason", "no_key"));
    assert_int_equal(ack.n_actions, 3);
}

/* How often the counter of a key sent as STRING was asked before. */
static int64_t ask_text(const char *key)
{
    begin_key();
    wire_text(&wire, key);
    return finish();
}

static void check_39_every_type_has_its_meaning(void **state)
{
    (void)state;
    peer_open(&peers[0]);
    begin_key();
    wire_null(&wire);
    finish_without_key();
    begin_key();
    wire_text(&wire, "");
    finish_without_key();
    begin_key();
    wire_data(&wire, WIRE_BINARY, "", 0);
    finish_without_key();
    for (unsigned type = WIRE_INT32; type <= WIRE_UINT64; type++) {
        begin_key();
        wire_int(&wire, (enum wire_data)type, 39);
        assert_int_equal(finish(), type - WIRE_INT32);
    }
    assert_int_equal(ask_text("39"), 4);
    begin_key();
    wire_address(&wire, "192.0.2.39");
    assert_int_equal(finish(), 0);
    begin_key();
    wire_address(&wire, "2001:db8::39");
    assert_int_equal(finish(), 0);
    begin_key();
    wire_data(&wire, WIRE_BINARY, "k39", 3);
    assert_int_equal(finish(), 0);
    assert_int_equal(ask_text("k39"), 1);
    begin_key();
    wire_bool(&wire, true);
    assert_int_equal(finish(), 0);
    assert_int_equal(ask_text("true"), 1);
}

/* True is 11 and nothing else, as in HAProxy. */
static void check_40_booleans(void **state)
{
    (void)state;
    static const unsigned falses[] = {0x01, 0x21, 0x31, 0xf1};
    peer_open(&peers[0]);
    int64_t n_true = ask_text("true");
    int64_t n_false = ask_text("false");
    begin_key();
    wire_u8(&wire, 0x11);
    assert_int_equal(finish(), n_true + 1);
    for (size_t i = 0; i < sizeof(falses); i += sizeof(falses[0])) {
        begin_key();
        wire_u8(&wire, falses[i / sizeof(falses[0])]);
        n_false++;
        assert_int_equal(finish(), n_false);
    }
}

static void check_41_integers(void **state)
{
    (void)state;
    static const struct {
        uint64_t number;
        const char *as_signed;
        const char *as_uint64;
    } cases[] = {
        {0, "0", "0"},
        {239, "239", "239"},
        {240, "240", "240"},
        {INT64_MAX, "9223372036854775807", "9223372036854775807"},
        {(uint64_t)INT64_MIN, "-9223372036854775808", "9223372036854775808"},
        {UINT64_MAX, "-1", "18446744073709551615"},
    };
    peer_open(&peers[0]);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        bool is_one = strcmp(cases[i].as_signed, cases[i].as_uint64) == 0;
        int64_t n_signed = ask_text(cases[i].as_signed);
        int64_t n_unsigned = is_one ? 0 : ask_text(cases[i].as_uint64);
        for (unsigned type = WIRE_INT32; type <= WIRE_UINT64; type++) {
            bool is_signed = is_one || type == WIRE_INT32 || type == WIRE_INT64;
            begin_key();
            wire_int(&wire, (enum wire_data)type, cases[i].number);
            int64_t *n = is_signed ? &n_signed : &n_unsigned;
            *n += 1;
            assert_int_equal(finish(), *n);
        }
    }
    begin_key();
    wire_hex(&wire, "04 fff0fefefefefefefe0e"); /* -1 takes ten bytes */
    int64_t before = finish();
    assert_int_equal(ask_text("-1"), before + 1);
}

static int64_t ask_address(const char *binary)
{
    begin_route("address", "ip");
    wire_address(&wire, binary);
    return finish();
}

static int64_t ask_address_text(const char *text)
{
    begin_route("address", "ip");
    wire_text(&wire, text);
    return finish();
}

static void check_42_one_client_has_one_counter(void **state)
{
    (void)state;
    peer_open(&peers[0]);
    assert_int_equal(ask_address("1.2.3.4"), 0);
    assert_int_equal(ask_address("::ffff:1.2.3.4"), 1);
    assert_int_equal(ask_address_text("1.2.3.4"), 2);
    assert_int_equal(ask_address_text("::ffff:1.2.3.4"), 3);
    assert_int_equal(ask_address("::1"), 0);
    assert_int_equal(ask_address_text("::1"), 1);
    assert_int_equal(ask_address("1.2.3.5"), 0);
}

static int64_t ask_bytes(const void *bytes, size_t len)
{
    begin_key();
    wire_data(&wire, WIRE_STRING, bytes, len);
    return finish();
}

static void check_43_any_bytes_are_a_key(void **state)
{
    (void)state;
    static uint8_t large[16384];
    memset(large, '\n', sizeof(large));
    peer_connect(&peers[0]);
    wire_hello_with(&wire, "2.0", WIRE_SIZE_MAX, "");
    peer_send(&peers[0]);
    agreed_size = expect_hello(&peers[0]).size;
    size_t log_bytes = agent_process_log_bytes(&f.agent);
    assert_int_equal(ask_bytes("k43\0a", 5), 0);
    assert_int_equal(ask_bytes("k43\0b", 5), 0);
    assert_int_equal(ask_bytes("k43", 3), 0);
    assert_int_equal(ask_bytes("k43\0", 4), 0);
    assert_int_equal(ask_bytes("\xff\xff", 2), 0);
    assert_int_equal(ask_bytes("\xff", 1), 0);
    assert_int_equal(ask_bytes("k43\nerror: forged", 17), 0);
    assert_int_equal(ask_bytes(large, sizeof(large)), 0);
    assert_int_equal(ask_bytes(large, sizeof(large) - 1), 0);
    large[sizeof(large) - 1] = 'x';
    assert_int_equal(ask_bytes(large, sizeof(large)), 0);
    assert_int_equal(ask_bytes(large, sizeof(large)), 1);
    assert_int_equal(agent_process_log_bytes(&f.agent), log_bytes);
}

static void check_44_binary_is_text(void **state)
{
    (void)state;
    peer_open(&peers[0]);
    int64_t before = ask_text("k44");
    wire_clear();
    wire_notify_begin(&wire, 1, 1, 2);
    wire_name(&wire, "route"); /* matched by a rule */
    wire_data(&wire, WIRE_BINARY, "key", 3);
    wire_name(&wire, "key");
    wire_data(&wire, WIRE_BINARY, "k44", 3);
    assert_int_equal(finish(), before + 1);
}

static void check_45_unknown_types_are_refused(void **state)
{
    (void)state;
    for (unsigned type = 10; type <= 15; type++) {
        begin_key();
        wire_u8(&wire, type);
        wire_hex(&wire, "0401020304");
        wire_end(&wire);
        expect_refused_later(WIRE_INVALID);
    }
}

static void check_46_number_of_arguments(void **state)
{
    (void)state;
    static const unsigned numbers[] = {0, 1, 127, 128, 255};
    peer_open(&peers[0]);
    for (size_t i = 0; i < 5; i++) {
        wire_clear();
        wire_notify_begin(&wire, i, 1, numbers[i]);
        for (unsigned arg = 2; arg < numbers[i]; arg++) {
            wire_arg_text(&wire, "other", "x");
        }
        if (numbers[i] > 1) {
            wire_arg_text(&wire, "route", "key");
        }
        if (numbers[i] > 0) { /* the last one, and it counts */
            wire_arg_text(&wire, "key", "k46");
        }
        wire_end(&wire);
        peer_send(&peers[0]);
        expect_allowed(&peers[0], i, 1);
        assert_int_equal(wire_ack_is(&ack, "rule", "per_key"), numbers[i] > 1);
    }
    assert_int_equal(ask_text("k46"), 3);
    wire_clear(); /* one fewer than there are: what is left reads as a message */
    wire_notify_begin(&wire, 1, 1, 1);
    wire_arg_text(&wire, "route", "key");
    wire_hex(&wire, "0f\"ratelimit-check\" 01 03\"key\" 08 03\"k46\"");
    assert_int_equal(finish(), 4);
    wire_clear(); /* one more than there are */
    wire_notify_begin(&wire, 1, 1, 3);
    wire_arg_text(&wire, "route", "key");
    wire_arg_text(&wire, "key", "k46");
    wire_end(&wire);
    expect_refused_later(WIRE_INVALID);
}

static void check_47_unusual_arguments(void **state)
{
    (void)state;
    peer_open(&peers[0]);
    wire_notify_begin(&wire, 1, 1, 6);
    wire_arg_text(&wire, "", "unnamed");
    wire_arg_text(&wire, "route", "other");
    wire_arg_text(&wire, "route", "key"); /* the last of two counts */
    wire_arg_text(&wire, "key", "k47");
    wire_name(&wire, "key"); /* absent: takes nothing away */
    wire_null(&wire);
    wire_arg_text(&wire, "extra", "x");
    assert_int_equal(finish(), 0);
    assert_int_equal(ask_text("k47"), 1);
    wire_clear(); /* the key is missing */
    wire_notify_begin(&wire, 1, 1, 1);
    wire_arg_text(&wire, "route", "key");
    finish_without_key();
}

static void put_message(const char *name, const char *key)
{
    wire_name(&wire, name);
    wire_u8(&wire, 2);
    wire_arg_text(&wire, "route", "key");
    wire_arg_text(&wire, "key", key);
}

static void begin_messages(void)
{
    wire_clear();
    wire_begin(&wire, WIRE_NOTIFY, WIRE_FIN, 1, 1);
}

/* However many messages there are: one request, one ACK, one charge. */
static void check_48_any_number_of_messages(void **state)
{
    (void)state;
    static const int numbers[] = {1, 2, 50};
    peer_open(&peers[0]);
    begin_messages();
    wire_end(&wire);
    peer_send(&peers[0]);
    expect_neutral(&peers[0], 1, 1);
    for (int i = 0; i < 3; i++) {
        begin_messages();
        for (int message = 0; message < numbers[i]; message++) {
            put_message("ratelimit-check", "k48");
        }
        assert_int_equal(finish(), i);
    }
    begin_messages();
    put_message("unknown", "k48");
    put_message("ratelimit-check", "k48");
    put_message("ratelimit-chec", "k48");
    assert_int_equal(finish(), 3);
    assert_int_equal(ask_text("k48"), 4);
    (void)ask(&peers[0], "k48"); /* no second ACK lies between */
}

static void check_49_names_of_messages(void **state)
{
    (void)state;
    static char name[2289];
    static const size_t lens[] = {0, 2287, 2288};
    peer_open(&peers[0]);
    for (size_t i = 0; i < 3; i++) {
        memset(name, 'n', lens[i]);
        name[lens[i]] = '\0';
        begin_messages();
        put_message(name, "k49");
        wire_end(&wire);
        peer_send(&peers[0]);
        expect_neutral(&peers[0], 1, 1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK(check_39_every_type_has_its_meaning),
        CHECK(check_40_booleans),
        CHECK(check_41_integers),
        CHECK(check_42_one_client_has_one_counter),
        CHECK(check_43_any_bytes_are_a_key),
        CHECK(check_44_binary_is_text),
        CHECK(check_45_unknown_types_are_refused),
        CHECK(check_46_number_of_arguments),
        CHECK(check_47_unusual_arguments),
        CHECK(check_48_any_number_of_messages),
        CHECK(check_49_names_of_messages),
    };
    return cmocka_run_group_tests(tests, group_set_up, group_tear_down);
}
