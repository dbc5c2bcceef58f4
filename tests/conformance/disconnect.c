/* Checks 68 to 77 of README.md: how conversations end. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include <sys/socket.h>

#include "tests/conformance/fixture.h"

static void check_68_codes_come_back(void **state)
{
    (void)state;
    static const struct {
        uint64_t code;
        uint64_t answer;
    } cases[] = {{0, 0}, {1, 1}, {2, 2}, {3, 3}, {99, 99}, {1000, 0}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        peer_open(&peers[0]);
        wire_disconnect(&wire, cases[i].code);
        peer_send(&peers[0]);
        expect_disconnect(&peers[0], cases[i].answer);
        peer_close(&peers[0]);
    }
    assert_int_equal(log_lines(), 6);
    assert_int_equal(log_lines_at("debug: "), 6);
}

static void check_69_answers_come_before_the_disconnect(void **state)
{
    (void)state;
    peer_open(&peers[0]);
    for (uint64_t i = 0; i < 100; i++) {
        wire_notify(&wire, i, 1, "k69");
    }
    wire_disconnect(&wire, WIRE_NORMAL);
    wire_disconnect(&wire, WIRE_NORMAL);
    peer_send(&peers[0]);
    for (uint64_t i = 0; i < 100; i++) {
        expect_allowed(&peers[0], i, 1);
    }
    expect_disconnect(&peers[0], WIRE_NORMAL); /* one, and the end */
}

static void check_70_odd_disconnects(void **state)
{
    (void)state;
    static const char *const frames[] = {
        "00000025 02 00000001 00 00 0b\"status-code\" 0302 07\"message\" 0806\"normal\"",
        "00000025 02 00000000 00 00 0b\"status-code\" 0302 07\"message\" 0806\"normal\"",
        "00000025 02 00000001 05 01 0b\"status-code\" 0302 07\"message\" 0806\"normal\"",
        "00000007 02 00000001 00 00",
        "0000000b 02 00000001 00 00 deadbeef",
        "00000014 02 00000001 00 00 0b\"status-code\" 08",
    };
    for (size_t i = 0; i < sizeof(frames) / sizeof(frames[0]); i++) {
        wire_hex(&wire, frames[i]);
        expect_refused(WIRE_NORMAL); /* as the first frame */
        wire_hex(&wire, frames[i]);
        expect_refused_later(i == 0 ? WIRE_TIMEOUT : WIRE_NORMAL);
    }
}

static void check_71_nothing_after_it_is_looked_at(void **state)
{
    (void)state;
    uint64_t before = agent_process_metric(&f.agent, "notifies_total");
    peer_open(&peers[0]);
    wire_disconnect(&wire, WIRE_NORMAL);
    wire_notify(&wire, 1, 1, "k71");
    wire_hex(&wire, "ffffffff deadbeef");
    peer_send(&peers[0]);
    expect_disconnect(&peers[0], WIRE_NORMAL);
    assert_int_equal(agent_process_metric(&f.agent, "notifies_total"), before);
}

static void check_72_agent_closes_when_the_peer_does_not(void **state)
{
    (void)state;
    peer_open(&peers[0]);
    wire_disconnect(&wire, WIRE_NORMAL);
    peer_send(&peers[0]);
    expect_disconnect(&peers[0], WIRE_NORMAL);
    wait_for_fds(f.n_fds); /* while we still have ours */
}

/* What the agent has not read when it closes would reset the connection, and with it what
 * the peer has not read. */
static void check_73_disconnect_is_readable_while_the_peer_sends(void **state)
{
    (void)state;
    static const uint8_t junk[8192] = {0xff};
    for (int i = 0; i < 20; i++) {
        peer_open_tcp(&peers[0]);
        for (int j = 0; j < 6; j++) {
            assert_true(spop_client_send(&peers[0], junk, sizeof(junk)));
        }
        expect_disconnect(&peers[0], WIRE_TOO_BIG);
        peer_close(&peers[0]);
    }
}

/* wire_read_disconnect takes registered codes only, here and everywhere. */
static void check_74_only_registered_codes(void **state)
{
    (void)state;
    static const uint64_t large[] = {1ULL << 31, 1ULL << 32, 1ULL << 63, UINT64_MAX};
    for (uint64_t code = 0; code < 300; code++) {
        wire_disconnect(&wire, code);
        expect_refused_later(code <= 13 || code == 99 ? code : WIRE_NORMAL);
    }
    for (size_t i = 0; i < sizeof(large) / sizeof(large[0]); i++) {
        wire_disconnect(&wire, large[i]);
        expect_refused_later(WIRE_NORMAL);
    }
}

static int64_t now_ms(void)
{
    struct timespec ts;
    (void)clock_gettime(CLOCK_MONOTONIC, &ts);
    return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

/* HAProxy 3.1.0 loses an ACK that a DISCONNECT follows at once. */
static void check_75_terminated_agent_answers_then_leaves(void **state)
{
    (void)state;
    peer_open(&peers[0]);
    peer_open(&peers[1]); /* idle */
    for (uint64_t i = 0; i < 200; i++) {
        wire_notify(&wire, i, 1, "k75");
    }
    int64_t asked_ms = now_ms();
    peer_send(&peers[0]);
    assert_int_equal(kill(f.agent.pid, SIGTERM), 0);
    for (uint64_t i = 0; i < 200; i++) {
        expect_allowed(&peers[0], i, 1);
    }
    expect_disconnect(&peers[0], WIRE_NORMAL);
    assert_true(now_ms() - asked_ms >= 50);
    expect_disconnect(&peers[1], WIRE_NORMAL);
    assert_false(spop_client_connect(&peers[2], f.agent.socket_path));
    assert_true(errno == ECONNREFUSED || errno == ENOENT);
    group_restart();
}

static void check_76_hangup_drops_nothing(void **state)
{
    (void)state;
    peer_open(&peers[0]);
    int64_t left = ask(&peers[0], "k76");
    assert_int_equal(kill(f.agent.pid, SIGHUP), 0);
    for (int i = 0; i < 2000 && log_lines() == 0; i++) {
        (void)usleep(5000);
    }
    assert_int_equal(log_lines_at("info: "), 1); /* the rules, in force once more */
    assert_int_equal(ask(&peers[0], "k76"), left - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK(check_68_codes_come_back),
        CHECK(check_69_answers_come_before_the_disconnect),
        CHECK(check_70_odd_disconnects),
        CHECK(check_71_nothing_after_it_is_looked_at),
        CHECK(check_72_agent_closes_when_the_peer_does_not),
        CHECK(check_73_disconnect_is_readable_while_the_peer_sends),
        CHECK(check_74_only_registered_codes),
        CHECK(check_75_terminated_agent_answers_then_leaves),
        CHECK(check_76_hangup_drops_nothing),
    };
    return cmocka_run_group_tests(tests, group_set_up, group_tear_down);
}
