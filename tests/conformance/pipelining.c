/* Checks 56 to 61 of README.md: many questions at once. The write timer of check 59 is in
 * slow.c. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <sys/resource.h>
#include <sys/socket.h>

#include "tests/conformance/fixture.h"
#include "tests/conformance/flood.h"

static struct wire questions;

static void *send_questions(void *arg)
{
    struct spop_client *c = arg;
    return spop_client_send(c, questions.bytes, questions.len) ? c : NULL;
}

/* Send `n` questions without reading, then read the answers. */
static void ask_without_reading(uint64_t n)
{
    pthread_t sender;
    void *sent = NULL;
    peer_open(&peers[0]);
    questions.len = 0;
    for (uint64_t i = 0; i < n; i++) {
        wire_notify(&questions, i, 1, "k56");
    }
    assert_int_equal(pthread_create(&sender, NULL, send_questions, &peers[0]), 0);
    for (int i = 0; i < 20; i++) { /* nobody else waits meanwhile */
        (void)usleep(1000);
        bystander_ask();
    }
    expect_memory_as_before();
    for (uint64_t i = 0; i < n; i++) {
        expect_allowed(&peers[0], i, 1);
    }
    assert_int_equal(pthread_join(sender, &sent), 0);
    assert_non_null(sent);
    expect_nothing(&peers[0]);
    peer_close(&peers[0]);
}

static void check_56_outstanding_questions_are_all_answered(void **state)
{
    (void)state;
    ask_without_reading(20);
    ask_without_reading(100);
    ask_without_reading(10000);
}

/* The same ids over and over, in any order, on several connections: an answer goes to who
 * asked. Each asks about a counter of its own, so that its answers are known. */
static void check_57_answers_go_where_they_belong(void **state)
{
    (void)state;
    static const uint64_t ids[] = {7, 3, UINT64_MAX, 3, 0, 1000000, 7, 7};
    enum {
        N = 4
    };
    static const char *const keys[N] = {"k57a", "k57b", "k57c", "k57d"};
    for (int i = 0; i < N; i++) {
        peer_open(&peers[i]);
    }
    for (int i = 0; i < N; i++) {
        wire_clear();
        for (size_t j = 0; j < 8; j++) {
            wire_notify(&wire, ids[j], ids[7 - j], keys[i]);
        }
        peer_send(&peers[i]);
    }
    for (int i = N - 1; i >= 0; i--) {
        for (size_t j = 0; j < 8; j++) {
            expect_allowed(&peers[i], ids[j], ids[7 - j]);
            assert_int_equal(wire_ack_number(&ack, "remaining"),
                             FIXTURE_LARGE - 1 - (int64_t)j);
        }
    }
}

static void check_57_thousand_connections_with_equal_ids(void **state)
{
    (void)state;
    enum {
        N = 1000
    };
    static int fds[N];
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = limit.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    allow_memory_of(N);
    for (int i = 0; i < N; i++) {
        char key[32];
        peer_open(&peers[0]);
        fds[i] = peers[0].fd;
        (void)snprintf(key, sizeof(key), "k57-%d", i / 2);
        wire_notify(&wire, 1, 1, key);
        peer_send(&peers[0]);
        wire_clear();
        peers[0].fd = -1;
    }
    for (int i = 0; i < N; i++) {
        peers[0].fd = fds[i];
        expect_allowed(&peers[0], 1, 1);
        /* two of them share a counter, in either order */
        assert_in_range(wire_ack_number(&ack, "remaining"), FIXTURE_LARGE - 2,
                        FIXTURE_LARGE - 1);
        expect_nothing(&peers[0]);
    }
    for (int i = 0; i < N; i++) {
        (void)close(fds[i]);
    }
    peers[0].fd = -1;
}

static void check_58_pipelining_without_asking(void **state)
{
    (void)state;
    wire_hello_with(&wire, "2.0", WIRE_SIZE, "");
    peer_connect(&peers[0]);
    peer_send(&peers[0]);
    assert_false(expect_hello(&peers[0]).is_pipelining);
    wire_clear();
    wire_notify(&wire, 1, 1, "k");
    wire_notify(&wire, 2, 1, "k");
    peer_send(&peers[0]);
    expect_allowed(&peers[0], 1, 1);
    expect_allowed(&peers[0], 2, 1);
}

/* Send until the agent takes no more. Its answers are not read. */
static void fill(struct spop_client *c)
{
    ssize_t n = 0;
    wire_clear();
    for (uint64_t i = 0; i < 1000; i++) {
        wire_notify(&wire, i, 1, "k59");
    }
    for (int quiet = 0; quiet < 20;) {
        n = send(c->fd, wire.bytes, wire.len, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n <= 0 || (size_t)n < wire.len) {
            (void)usleep(5000);
            quiet++;
        } else {
            quiet = 0;
        }
    }
}

static void check_59_slow_readers_cost_nothing(void **state)
{
    (void)state;
    static struct flood floods[2];
    peer_open(&peers[0]); /* one on each worker */
    peer_open(&peers[1]);
    fill(&peers[0]);
    fill(&peers[1]);
    unsigned long before = agent_process_ticks(&f.agent);
    (void)usleep(1000000);
    assert_in_range(agent_process_ticks(&f.agent) - before, 0, 10);
    for (int i = 0; i < 2; i++) { /* nor do others wait for them */
        assert_true(flood_start(&floods[i], f.agent.socket_path));
    }
    for (int i = 0; i < 2; i++) {
        flood_wait(&floods[i], 2000);
        assert_true(flood_stop(&floods[i]));
    }
}

/* Of some of these numbers the last answers have no room in the socket when the end of
 * the questions is seen. */
static void check_60_half_closed_gets_its_answers(void **state)
{
    (void)state;
    for (uint64_t n = 1; n <= 1500; n += 50) {
        peer_open(&peers[0]);
        for (uint64_t i = 0; i < n; i++) {
            wire_notify(&wire, i, 1, "k60");
        }
        peer_send(&peers[0]);
        assert_int_equal(shutdown(peers[0].fd, SHUT_WR), 0);
        (void)usleep(5000);
        for (uint64_t i = 0; i < n; i++) {
            expect_allowed(&peers[0], i, 1);
        }
        expect_end(&peers[0]);
        peer_close(&peers[0]);
        wire_clear();
    }
}

static void check_61_reset_in_flight(void **state)
{
    (void)state;
    for (int round = 0; round < 100; round++) {
        peer_open_tcp(&peers[0]);
        for (uint64_t i = 0; i < 100; i++) {
            wire_notify(&wire, i, 1, "k61");
        }
        peer_send(&peers[0]);
        for (int i = 0; i < round; i++) { /* at various moments */
            expect_allowed(&peers[0], (uint64_t)i, 1);
        }
        peer_reset(&peers[0]);
        wire_clear();
    }
    wait_for_fds(f.n_fds);
    assert_int_equal(log_lines(), log_lines_at("debug: "));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CHECK(check_56_outstanding_questions_are_all_answered),
        CHECK(check_57_answers_go_where_they_belong),
        CHECK(check_57_thousand_connections_with_equal_ids),
        CHECK(check_58_pipelining_without_asking),
        CHECK(check_59_slow_readers_cost_nothing),
        CHECK(check_60_half_closed_gets_its_answers),
        CHECK(check_61_reset_in_flight),
    };
    return cmocka_run_group_tests(tests, group_set_up, group_tear_down);
}
