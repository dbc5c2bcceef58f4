/* Checks 22 to 27 of README.md: HAProxy's health checks, and what only connects. */
#include <signal.h>
#include <unistd.h>

#include <sys/socket.h>

#include "tests/conformance/fixture.h"
#include "tests/conformance/flood.h"

enum {
    STOPPED_S = 7
};

static void check_22_one_frame_then_the_end(void **state)
{
    (void)state;
    static const char golden[] =
        "0000004e0100000001000012737570706f727465642d76657273696f6e730803322e300e6d6178"
        "2d6672616d652d73697a6503fcf0060c6361706162696c697469657308000b6865616c74686368"
        "65636b11";
    wire_hex(&wire, golden);
    assert_int_equal(wire.len, 82);
    peer_connect(&peers[0]);
    peer_send(&peers[0]);
    (void)expect_hello(&peers[0]);
    expect_end(&peers[0]);
}

static void check_23_answer_fits_every_buffer(void **state)
{
    (void)state;
    wire_hello_check(&wire);
    peer_connect(&peers[0]);
    peer_send(&peers[0]);
    struct wire_hello_answer answer = expect_hello(&peers[0]);
    assert_in_range(answer.size, 256, 4092);
    assert_int_equal(answer.size, 256);
    assert_false(answer.is_pipelining || answer.is_fragmentation);
}

static void check_24_false_is_no_health_check(void **state)
{
    (void)state;
    wire_begin(&wire, WIRE_HAPROXY_HELLO, WIRE_FIN, 0, 0);
    wire_arg_text(&wire, "supported-versions", "2.0");
    wire_name(&wire, "max-frame-size");
    wire_int(&wire, WIRE_UINT32, WIRE_SIZE);
    wire_arg_text(&wire, "capabilities", "");
    wire_name(&wire, "healthcheck");
    wire_bool(&wire, false);
    wire_end(&wire);
    peer_connect(&peers[0]);
    peer_send(&peers[0]);
    assert_int_equal(expect_hello(&peers[0]).size, WIRE_SIZE);
    (void)ask(&peers[0], "k");
}

static void check_25_reset_after_the_answer_is_everyday(void **state)
{
    (void)state;
    wire_hello_check(&wire);
    for (int i = 0; i < 100; i++) {
        peer_connect_tcp(&peers[0]);
        peer_send(&peers[0]);
        if (i % 2 == 0) {
            (void)expect_hello(&peers[0]);
        }
        peer_reset(&peers[0]);
    }
    wait_for_fds(f.n_fds);
    assert_int_equal(log_lines(), log_lines_at("debug: "));
}

/* Both workers have work without end; the health check is not kept waiting for it. */
static void check_26_busy_workers_answer(void **state)
{
    (void)state;
    enum {
        FLOODS = 4
    };
    static struct flood floods[FLOODS];
    for (int i = 0; i < FLOODS; i++) {
        assert_true(flood_start(&floods[i], f.agent.socket_path));
    }
    for (int i = 0; i < FLOODS; i++) {
        flood_wait(&floods[i], 1);
    }
    wire_hello_check(&wire);
    for (int i = 0; i < 10; i++) { /* on both workers */
        peer_connect(&peers[0]);
        peer_send(&peers[0]);
        (void)expect_hello(&peers[0]);
        expect_end(&peers[0]);
        peer_close(&peers[0]);
    }
    bool is_whole = true;
    for (int i = 0; i < FLOODS; i++) {
        is_whole = flood_stop(&floods[i]) && is_whole;
    }
    assert_true(is_whole);
}

static void check_27_connects_without_bytes_are_silent(void **state)
{
    enum {
        CONNECTS = 1000
    };
    uint64_t n_opened = agent_process_metric(&f.agent, "connections_opened_total");
    (void)state;
    allow_memory_of(CONNECTS);
    for (int i = 0; i < 10; i++) {
        for (int j = 0; j < CONNECTS; j++) {
            peer_connect(&peers[0]);
            peer_close(&peers[0]);
        }
        n_opened += CONNECTS;
        wait_for_metric("connections_opened_total", n_opened); /* none waits for it */
        wait_for_fds(f.n_fds);
    }
    expect_silence();
}

/* For longer than a HELLO may take, with connections whose peers end meanwhile. */
static void check_27_an_agent_that_stood_still_blames_nobody(void **state)
{
    uint64_t n_opened = agent_process_metric(&f.agent, "connections_opened_total");
    uint64_t n_timeouts = agent_process_metric(&f.agent, "timeouts_total");
    (void)state;
    for (int i = 0; i < PEERS; i++) {
        peer_connect(&peers[i]);
    }
    wait_for_metric("connections_opened_total", n_opened + PEERS);
    assert_int_equal(kill(f.agent.pid, SIGSTOP), 0);
    for (int i = 0; i < PEERS; i++) {
        peer_close(&peers[i]);
    }
    (void)sleep(STOPPED_S);
    assert_int_equal(kill(f.agent.pid, SIGCONT), 0);
    wait_for_fds(f.n_fds);
    assert_int_equal(agent_process_metric(&f.agent, "timeouts_total"), n_timeouts);
    expect_silence();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK(check_22_one_frame_then_the_end),
        CHECK(check_23_answer_fits_every_buffer),
        CHECK(check_24_false_is_no_health_check),
        CHECK(check_25_reset_after_the_answer_is_everyday),
        CHECK(check_26_busy_workers_answer),
        CHECK(check_27_connects_without_bytes_are_silent),
        CHECK(check_27_an_agent_that_stood_still_blames_nobody),
    };
    return cmocka_run_group_tests(tests, group_set_up, group_tear_down);
}
