/* Whole runs against agents of all manners: what is counted is what happened. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <sys/time.h>
#include <sys/un.h>

#include <cmocka.h>

#include "agent/bench/bench.h"
#include "agent/bench/report.h"

#include "tests/support/fake_agent.h"

static struct fake_agent fake;
static struct bench_plan plan;
static struct bench_result result;

static void make_plan(const char *path)
{
    char error[SHAPE_ERROR_BYTES_MAX];
    struct sockaddr_un *un = (struct sockaddr_un *)&plan.sockaddr;
    memset(&plan, 0, sizeof(plan));
    plan.address = path;
    un->sun_family = AF_UNIX;
    (void)snprintf(un->sun_path, sizeof(un->sun_path), "%s", path);
    plan.sockaddr_len = sizeof(*un);
    plan.n_connections = 4;
    plan.depth = 5;
    plan.n_threads = 2;
    plan.duration_us = 60 * US_PER_S; /* a busy host takes what time it takes */
    plan.n_requests = 2000;
    plan.timeout_us = 10 * US_PER_S;
    plan.frame_bytes_max = 16380;
    plan.n_keys = 1000;
    assert_true(shape_init(&plan.shape, "ratelimit-check", error));
    assert_true(shape_add(&plan.shape, "ip:ip=10.0.0.0+{key}", error));
    assert_true(shape_add(&plan.shape, "path=/v1/items/{key}", error));
}

static void begin(enum fake_manners manners)
{
    assert_true(fake_agent_start(&fake, manners));
    make_plan(fake.path);
}

static uint64_t counted(enum tally_counter counter)
{
    return tally_get(&result.tally, counter);
}

/* Run, and check what is always true. */
static void run(void)
{
    bench_run(&plan, &result);
    fake_agent_stop(&fake);
    assert_true(counted(TALLY_NOTIFIES)
                == counted(TALLY_ACKS) + counted(TALLY_UNANSWERED)
                       + counted(TALLY_UNANSWERED_CLOSED));
    assert_true(counted(TALLY_ACKS)
                == counted(TALLY_ALLOWED) + counted(TALLY_DENIED)
                       + counted(TALLY_WITHOUT_VERDICT));
    assert_true(counted(TALLY_NOTIFIES) >= atomic_load(&fake.n_notifies));
}

static void expect_good(void)
{
    if (!bench_is_good(&result)) {
        report_print(&plan, &result, stderr);
        fail_msg("the run was not good: %s", result.error);
    }
    assert_true(counted(TALLY_NOTIFIES) == atomic_load(&fake.n_notifies));
    assert_string_equal(result.tally.first_error, "");
}

/* Nothing went wrong; on a host that gives no CPU perhaps nothing went at all. */
static void expect_unharmed(void)
{
    assert_string_equal(result.error, "");
    assert_string_equal(result.tally.first_error, "");
    assert_int_equal(tally_lost(&result.tally), 0);
    assert_int_equal(counted(TALLY_UNANSWERED), 0);
}

static void closed_loop(void **state)
{
    (void)state;
    begin(FAKE_GOOD);
    run();
    expect_good();
    assert_true(counted(TALLY_OPENED) <= 4 && counted(TALLY_REOPENED) == 0);
    assert_int_equal(counted(TALLY_NOTIFIES), 2000);
    assert_true(counted(TALLY_ALLOWED) == counted(TALLY_ACKS));
    assert_true(result.n_measured_acks > 0 && result.n_measured_acks <= 2000);
    assert_int_equal(histogram_count(&result.tally.latency_us), 2000);
    assert_true(result.measured_us < plan.duration_us);
}

/* Every request of the time is due once: sent, or told as never sent. */
static void open_loop(void **state)
{
    (void)state;
    begin(FAKE_GOOD);
    plan.rate = 2000;
    plan.n_requests = 0;
    plan.warmup_us = US_PER_S / 10;
    plan.duration_us = US_PER_S / 2;
    run();
    expect_unharmed();
    assert_int_equal(counted(TALLY_NOTIFIES) + counted(TALLY_UNSENT), 1200);
    assert_int_equal(histogram_count(&result.tally.latency_us) + counted(TALLY_UNSENT),
                     1000);
}

/* A rate that no agent keeps up with: the wait for room is part of the latency. */
static void what_waits_for_room_is_late(void **state)
{
    (void)state;
    begin(FAKE_GOOD);
    plan.rate = BENCH_RATE_MAX;
    plan.n_requests = 0;
    plan.duration_us = US_PER_S / 2;
    run();
    expect_unharmed();
    assert_int_equal(counted(TALLY_NOTIFIES) + counted(TALLY_UNSENT), 5000000);
    assert_true(counted(TALLY_UNSENT) > 0);
}

/* As many as are asked for, and no time lost after that. */
static void a_number_of_requests_ends_the_run(void **state)
{
    static const uint64_t rates[] = {0, 100000};
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rates); i++) {
        begin(FAKE_GOOD);
        plan.rate = rates[i];
        plan.n_requests = 1001;
        run();
        expect_good();
        assert_int_equal(counted(TALLY_NOTIFIES), 1001);
        assert_int_equal(counted(TALLY_UNSENT), 0);
        assert_true(result.measured_us < plan.duration_us);
    }
}

static void verdicts_are_counted(void **state)
{
    (void)state;
    begin(FAKE_DENYING);
    run();
    expect_good();
    assert_true(counted(TALLY_DENIED) > 0);
    assert_true(counted(TALLY_ALLOWED) >= 2 * counted(TALLY_DENIED));
    begin(FAKE_WITHOUT_VERDICT);
    run();
    expect_good();
    assert_true(counted(TALLY_WITHOUT_VERDICT) == counted(TALLY_ACKS));
}

static void an_agent_that_does_not_pipeline_gets_one_at_a_time(void **state)
{
    (void)state;
    begin(FAKE_NOT_PIPELINING);
    run();
    expect_good();
}

static void large_requests_go_in_fragments(void **state)
{
    static char pad[40000] = "pad=";
    char error[SHAPE_ERROR_BYTES_MAX];
    (void)state;
    memset(pad + 4, 'x', sizeof(pad) - 5);
    begin(FAKE_GOOD);
    assert_true(shape_add(&plan.shape, pad, error));
    run();
    expect_good();
}

static void closing_connections_on_purpose_is_no_error(void **state)
{
    (void)state;
    begin(FAKE_GOOD);
    plan.kill_rate = 200;
    plan.rate = 4000; /* for half a second */
    run();
    assert_true(bench_is_good(&result));
    assert_true(counted(TALLY_CLOSED) > 0);
    assert_true(counted(TALLY_REOPENED) > 0);
}

static void expect_text(const char *got, const char *want)
{
    if (strstr(got, want) == NULL) {
        fail_msg("got '%s', want '%s'", got, want);
    }
}

/* What an agent does wrong before any connection was open ends the run with a text. */
static const struct {
    enum fake_manners manners;
    enum tally_counter lost;
    const char *error;
} hopeless[] = {
    {FAKE_NO_SPOP, TALLY_LOST_PROTOCOL, "frame is too big"},
    {FAKE_OLD, TALLY_LOST_PROTOCOL, "unsupported version"},
    {FAKE_SILENT, TALLY_LOST_TIMEOUT, "silent"},
};

static void an_agent_that_cannot_be_talked_to_ends_the_run(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(hopeless); i++) {
        begin(hopeless[i].manners);
        plan.timeout_us = US_PER_S / 2;
        run();
        expect_text(result.error, hopeless[i].error);
        assert_true(counted(hopeless[i].lost) > 0);
        assert_false(bench_is_good(&result));
    }
}

static void a_request_that_does_not_fit_ends_the_run(void **state)
{
    char error[SHAPE_ERROR_BYTES_MAX];
    (void)state;
    begin(FAKE_SMALL);
    assert_true(shape_add(&plan.shape,
                          "pad=xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
                          "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
                          "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
                          error));
    run();
    assert_non_null(strstr(result.error, "no fragments"));
}

static void nobody_there_ends_the_run(void **state)
{
    (void)state;
    make_plan("/nonexistent/agent.sock");
    bench_run(&plan, &result);
    assert_string_equal(result.error, "connect: No such file or directory");
    assert_false(bench_is_good(&result));
}

/* What goes wrong later is counted; connections come back. */
static const struct {
    enum fake_manners manners;
    enum tally_counter lost;
    const char *error;
} faulty[] = {
    {FAKE_TWICE, TALLY_LOST_PROTOCOL, "an ACK that no NOTIFY waits for"},
    {FAKE_BAD_ACTIONS, TALLY_LOST_PROTOCOL, "an ACK whose actions cannot be read"},
    {FAKE_CLOSING, TALLY_LOST_CLOSED, ""},
    {FAKE_DISCONNECTING, TALLY_LOST_DISCONNECT,
     "DISCONNECT 13: resource allocation error"},
};

static void faults_are_counted_and_survived(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(faulty); i++) {
        begin(faulty[i].manners);
        run();
        assert_string_equal(result.error, "");
        assert_false(bench_is_good(&result));
        expect_text(result.tally.first_error, faulty[i].error);
        assert_true(counted(faulty[i].lost) > 0);
        assert_true(counted(TALLY_REOPENED) > 0);
        assert_true(counted(TALLY_ACKS) > 0);
    }
}

static void a_notify_without_an_ack_is_told(void **state)
{
    (void)state;
    begin(FAKE_DROPPING);
    plan.n_connections = 1;
    plan.n_threads = 1;
    plan.timeout_us = 2 * US_PER_S;
    run();
    assert_int_equal(counted(TALLY_UNANSWERED), 1);
    assert_false(bench_is_good(&result));
    assert_int_equal(tally_lost(&result.tally), 0);
}

static void on_alarm(int number)
{
    (void)number;
    bench_interrupt(); /* NOLINT(bugprone-signal-handler): an atomic store */
}

static void an_interrupt_ends_the_measured_time(void **state)
{
    static const struct itimerval each_second = {{1, 0}, {1, 0}};
    static const struct itimerval never = {{0, 0}, {0, 0}};
    (void)state;
    begin(FAKE_GOOD);
    plan.n_requests = 0;
    (void)signal(SIGALRM, on_alarm);
    (void)setitimer(ITIMER_REAL, &each_second, NULL);
    run();
    (void)setitimer(ITIMER_REAL, &never, NULL);
    expect_unharmed();
    assert_true(result.measured_us < plan.duration_us);
}

/* Both renderings, with all of their parts. */
static void the_result_is_printed(void **state)
{
    char text[8192];
    (void)state;
    begin(FAKE_DENYING);
    plan.pid = (long)getpid();
    plan.address = "a\"b\\c\n";
    run();
    FILE *out = fmemopen(text, sizeof(text), "w");
    report_print_json(&plan, &result, out);
    assert_int_equal(fclose(out), 0);
    assert_non_null(
        strstr(text, "{\"address\": \"a\\\"b\\\\c\\u000a\", \"connections\": 4"));
    assert_non_null(strstr(text, "\"unanswered\": 0, "));
    assert_non_null(strstr(text, "\"agent_rss_after_bytes\": "));
    assert_non_null(strstr(text, "\"good\": true}\n"));
    out = fmemopen(text, sizeof(text), "w");
    report_print(&plan, &result, out);
    assert_int_equal(fclose(out), 0);
    assert_non_null(strstr(text, "p99.99 "));
    assert_non_null(strstr(text, "us of CPU a request"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(closed_loop),
        cmocka_unit_test(open_loop),
        cmocka_unit_test(what_waits_for_room_is_late),
        cmocka_unit_test(a_number_of_requests_ends_the_run),
        cmocka_unit_test(verdicts_are_counted),
        cmocka_unit_test(an_agent_that_does_not_pipeline_gets_one_at_a_time),
        cmocka_unit_test(large_requests_go_in_fragments),
        cmocka_unit_test(closing_connections_on_purpose_is_no_error),
        cmocka_unit_test(an_agent_that_cannot_be_talked_to_ends_the_run),
        cmocka_unit_test(a_request_that_does_not_fit_ends_the_run),
        cmocka_unit_test(nobody_there_ends_the_run),
        cmocka_unit_test(faults_are_counted_and_survived),
        cmocka_unit_test(a_notify_without_an_ack_is_told),
        cmocka_unit_test(an_interrupt_ends_the_measured_time),
        cmocka_unit_test(the_result_is_printed),
    };
    clock_start();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
