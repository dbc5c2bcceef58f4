#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <sys/stat.h>
#include <sys/syscall.h>

#include <cmocka.h>

#include "agent/control/agents.h"
#include "agent/file.h"
#include "agent/log.h"

enum {
    WORKERS = 2
};

/* As long as a name may be. */
#define LONG_NAME "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

/* How far these are ahead: nobody waits here for seconds to pass. */
static _Atomic int64_t ahead_us;

/* In place of libc's, for libev too. */
int clock_gettime(clockid_t id, struct timespec *ts)
{
    const int64_t ns_per_s = 1000000000;
    long rc = syscall(SYS_clock_gettime, id, ts);
    int64_t ns = ts->tv_nsec + ahead_us * 1000;
    ts->tv_sec += ns / ns_per_s;
    ts->tv_nsec = ns % ns_per_s;
    return (int)rc;
}

static struct {
    char dir[32];
    char path[64];
    char log[64];
    int standard_error;
    struct config config;
    const char *name;
    struct counters *counters[WORKERS + 1];
    struct ev_loop *loop;
    struct health *health;
    struct agents agents;
} f;

static int set_up(void **context)
{
    (void)context;
    clock_start();
    memset(&f, 0, sizeof(f));
    (void)snprintf(f.dir, sizeof(f.dir), "/tmp/test_agents.XXXXXX");
    if (mkdtemp(f.dir) == NULL) {
        return 1;
    }
    (void)snprintf(f.path, sizeof(f.path), "%s/" AGENTS_FILE, f.dir);
    (void)snprintf(f.log, sizeof(f.log), "%s/log", f.dir);
    f.standard_error = dup(STDERR_FILENO);
    if (freopen(f.log, "w", stderr) == NULL) {
        return 1;
    }
    f.name = "0123456789abcdef";
    config_init(&f.config);
    f.config.n_workers = WORKERS;
    (void)snprintf(f.config.state_dir, sizeof(f.config.state_dir), "%s", f.dir);
    for (int i = 0; i <= WORKERS; i++) {
        f.counters[i] = counters_new(0);
    }
    f.loop = ev_loop_new(EVFLAG_AUTO);
    return f.loop == NULL;
}

static int tear_down(void **context)
{
    (void)context;
    agents_stop(&f.agents);
    health_free(f.health);
    for (int i = 0; i <= WORKERS; i++) {
        counters_free(f.counters[i]);
    }
    ev_loop_destroy(f.loop);
    (void)fflush(stderr);
    (void)dup2(f.standard_error, STDERR_FILENO);
    (void)close(f.standard_error);
    (void)unlink(f.path);
    (void)unlink(f.log);
    return rmdir(f.dir);
}

static void write_file(const char *text)
{
    const char *error = NULL;
    assert_true(file_replace(f.path, text, strlen(text), 0600, &error));
}

static void expect_file(const char *want)
{
    const char *error = NULL;
    size_t len = 0;
    char *text = file_read(f.path, 64, &len, &error);
    assert_non_null(text);
    assert_string_equal(text, want);
    free(text);
}

static unsigned n_lines_with(const char *part)
{
    char line[512];
    unsigned n = 0;
    (void)fflush(stderr);
    FILE *log = fopen(f.log, "r");
    assert_non_null(log);
    while (fgets(line, sizeof(line), log) != NULL) {
        n += strstr(line, part) != NULL;
    }
    (void)fclose(log);
    return n;
}

static void start(void)
{
    unsigned n = agents_recall(&f.agents, &f.config);
    f.health = health_new(0, n, clock_now());
    assert_non_null(f.health);
    assert_true(
        agents_start(&f.agents, &f.config, f.name, f.counters, f.health, f.loop));
}

static void stop(void)
{
    agents_stop(&f.agents);
    health_free(f.health);
    f.health = NULL;
    memset(&f.agents, 0, sizeof(f.agents));
}

/* Some seconds, each with its turn of the loop. */
static void pass(unsigned n_seconds)
{
    for (unsigned i = 0; i < n_seconds; i++) {
        ahead_us += US_PER_S;
        ev_run(f.loop, EVRUN_NOWAIT);
        ev_run(f.loop, EVRUN_NOWAIT); /* timers go by the time of the turn before */
    }
}

static void what_was_heard_is_known_after_a_restart(void **context)
{
    (void)context;
    start();
    assert_int_equal(health_n_agents(f.health), 1);
    assert_string_equal(f.agents.ended, "");
    health_hear_agents(f.health, 3);
    stop();
    expect_file("3\n0123456789abcdef\n");
    f.name = "f00d";
    start();
    assert_int_equal(health_n_agents(f.health), 3);
    assert_false(health_has_heard_agents(f.health));
    assert_string_equal(f.agents.ended, "0123456789abcdef");
    stop();
    expect_file("3\n0123456789abcdef\n"); /* Redis has not heard of f00d, either */
    start();
    health_hear_agents(f.health, 3);
    stop();
    expect_file("3\nf00d\n");
}

static void a_change_is_kept_within_seconds(void **context)
{
    (void)context;
    start();
    health_hear_agents(f.health, 2);
    pass(2);
    for (int i = 0; access(f.path, F_OK) != 0; i++) { /* a thread writes it */
        assert_true(i < 10000);
        (void)usleep(1000);
    }
    expect_file("2\n0123456789abcdef\n");
}

static void the_file_goes_before_agent_yaml(void **context)
{
    (void)context;
    f.config.n_nodes = 5;
    assert_int_equal(agents_recall(&f.agents, &f.config), 5);
    write_file("10000\n");
    assert_int_equal(agents_recall(&f.agents, &f.config), 10000);
    assert_string_equal(f.agents.ended, "");
    f.config.state_dir[0] = '\0';
    assert_int_equal(agents_recall(&f.agents, &f.config), 5);
}

static void a_bad_file_is_told_of_and_not_used(void **context)
{
    static const char *const texts[] = {"",
                                        "0\n",
                                        "-1\n",
                                        "3",
                                        "3\n\n",
                                        "3x\n",
                                        "3\nabc",
                                        "3\nabc\n\n",
                                        "3\nABC\n",
                                        "3\nab c\n",
                                        "3\n" LONG_NAME "0\n",
                                        "\nabc\n",
                                        " 3\n",
                                        "10001\n",
                                        "9999999999\n",
                                        "18446744073709551617\n"};
    (void)context;
    f.config.n_nodes = 5;
    for (unsigned i = 0; i < ARRAY_LEN(texts); i++) {
        write_file(texts[i]);
        assert_int_equal(agents_recall(&f.agents, &f.config), 5);
        assert_int_equal(n_lines_with(AGENTS_FILE), i + 1);
        assert_string_equal(f.agents.ended, "");
    }
    write_file("3\n" LONG_NAME "\n");
    assert_int_equal(agents_recall(&f.agents, &f.config), 3);
    assert_string_equal(f.agents.ended, LONG_NAME);
}

static void nobody_knows_is_a_warning(void **context)
{
    (void)context;
    start();
    pass(AGENTS_WARNING_S + 5);
    assert_int_equal(n_lines_with("`nodes` in agent.yaml"), 1);
    stop();
    assert_int_equal(access(f.path, F_OK), -1);
    f.config.n_nodes = 2;
    start();
    pass(AGENTS_WARNING_S + 5);
    stop();
    f.config.n_nodes = 0;
    start();
    health_hear_agents(f.health, 1);
    pass(AGENTS_WARNING_S + 5);
    assert_int_equal(n_lines_with("`nodes` in agent.yaml"), 1);
}

static int64_t asked_ago_us(void)
{
    return instant_diff_us(clock_now(), health_asked_at(f.health));
}

static void who_is_asked_is_known_to_be(void **context)
{
    (void)context;
    start();
    pass(10);
    assert_true(asked_ago_us() >= 10 * US_PER_S);
    for (int i = 0; i < WORKERS; i++) {
        counter_add(f.counters[i], COUNTER_HEALTH_CHECKS, 1);
        pass(10);
        assert_true(asked_ago_us() >= 10 * US_PER_S);
        counter_add(f.counters[i], COUNTER_NOTIFIES, 1);
        pass(2);
        assert_true(asked_ago_us() < 2 * US_PER_S);
        pass(10);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_was_heard_is_known_after_a_restart, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_change_is_kept_within_seconds, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(the_file_goes_before_agent_yaml, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_bad_file_is_told_of_and_not_used, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(nobody_knows_is_a_warning, set_up, tear_down),
        cmocka_unit_test_setup_teardown(who_is_asked_is_known_to_be, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
