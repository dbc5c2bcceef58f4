/* The agent as a process while a real Redis fails in every way. In each row the policy of a
 * rule decides as long as Redis cannot, each NOTIFY has its ACK, and Redis counts again when
 * it is back, from what it then holds. Printed: answers while it failed, those of them by
 * policy, how long they took, and how long after its end Redis counted all again.
 *
 * ROUNDS=n goes round n times (2), to see what is kept; over 2 it also fails for longer. */
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "agent/observe/histogram.h"

#include "tests/conformance/redis_fixture.h"

enum {
    SHARE = 20, /* the limit of the rule "share" */
    DEADLINE_MS = 20,
    HOLD_MS = 300,
    SHORT_HOLD_MS = 50, /* from the second round on */
    TURNS_BEFORE = 10,
    TURN_PAUSE_US = 500,
    ANSWER_MS_MAX = 5000, /* a bound for any machine, as is the next: what is to be */
    RECOVERY_US_MAX = 10000000, /* expected is printed */
    RECOVERY_US = 2000000,      /* over it the log is, too */
    WAITS_MAX = 5000,           /* of 2 ms */
    RSS_SLACK_KIB = 4096,
};

/* What is asked about in each turn. */
enum ask {
    ASK_LOCAL = 0,
    ASK_OPEN,
    ASK_CLOSED,
    ASK_SHARE, /* policy local again, of a limit that ends: only while Redis fails */
    ASKS_N,
};

static const char *const routes[ASKS_N] = {"local", "open", "closed", "share"};

static unsigned n_fds;             /* of the agent, when all is well */
static struct histogram all_waits; /* of the rows of a group, in us */

/* Of one row. */
static struct {
    char key[32];
    unsigned n_asked[ASKS_N];
    unsigned n_counted[ASKS_N];
    unsigned
        n_late[ASKS_N];     /* by policy at the deadline: Redis may have charged them */
    int64_t n_left[ASKS_N]; /* the least that was told by Redis */
    unsigned n_by_policy;
    unsigned n_slow; /* of these, since Redis was slow */
    unsigned n_share;
    struct histogram waits;
} tally;

static int64_t now_us(void)
{
    struct timespec ts;
    (void)clock_gettime(CLOCK_MONOTONIC, &ts);
    return (int64_t)ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
}

/* --- asking --- */

static void check_policy(enum ask what)
{
    bool is_refused = wire_ack_number(&r.ack, "deny") != 0;
    assert_int_equal(wire_ack_number(&r.ack, "remaining"), INT64_MIN);
    tally.n_by_policy++;
    tally.n_slow += wire_ack_is(&r.ack, "reason", "store_slow");
    tally.n_late[what] += wire_ack_is(&r.ack, "reason", "deadline");
    if (what == ASK_SHARE) {
        tally.n_share += !is_refused;
    } else {
        assert_int_equal(is_refused, what == ASK_CLOSED);
    }
    if (is_refused) {
        assert_int_equal(wire_ack_number(&r.ack, "status"),
                         what == ASK_CLOSED ? 503 : 429);
        assert_in_range(wire_ack_number(&r.ack, "retry_after"), 1,
                        what == ASK_CLOSED ? 3 : INT64_MAX);
    }
}

static void check_count(enum ask what)
{
    int64_t n_left = wire_ack_number(&r.ack, "remaining");
    if (what != ASK_SHARE) {
        assert_int_equal(wire_ack_number(&r.ack, "deny"), 0);
        assert_in_range(n_left, 0, LIMIT - 1);
    }
    tally.n_counted[what]++;
    tally.n_left[what] = n_left < tally.n_left[what] ? n_left : tally.n_left[what];
}

static void take_answer(struct spop_client *c, int64_t from_us)
{
    receive_ack(c);
    assert_in_range(r.ack.stream_id, 1, ASKS_N);
    enum ask what = (enum ask)(r.ack.stream_id - 1);
    uint64_t us = (uint64_t)(now_us() - from_us);
    histogram_add(&tally.waits, us);
    assert_in_range(us, 0, ANSWER_MS_MAX * 1000);
    if (wire_ack_is_by_policy(&r.ack)) {
        check_policy(what);
    } else {
        check_count(what);
    }
}

/* Answers that have come. @return how many */
static unsigned take_ready(struct spop_client *c, int64_t from_us)
{
    unsigned n = 0;
    do {
        take_answer(c, from_us);
        n++;
    } while (spop_client_has_frame(c));
    return n;
}

/* Answers as they come, on whatever connection. */
static void take_answers(unsigned n_each, int64_t from_us)
{
    struct pollfd polled[CLIENTS];
    unsigned n_taken[CLIENTS] = {0};
    for (unsigned n = 0; n < CLIENTS * n_each;) {
        for (unsigned i = 0; i < CLIENTS; i++) {
            int fd = n_taken[i] < n_each ? r.clients[i].fd : -1;
            polled[i] = (struct pollfd){.fd = fd, .events = POLLIN};
        }
        assert_true(poll(polled, CLIENTS, ANSWER_MS_MAX) > 0);
        for (unsigned i = 0; i < CLIENTS; i++) {
            unsigned n_ready = polled[i].revents != 0
                                   ? take_ready(&r.clients[i], from_us)
                                   : 0;
            n_taken[i] += n_ready;
            n += n_ready;
        }
    }
}

/* Each connection asks the first `n_each` of enum ask in one write. @return whether Redis
 * has counted all */
static bool ask_all(unsigned n_each)
{
    unsigned n_before = tally.n_by_policy;
    r.wire.len = 0;
    for (unsigned what = 0; what < n_each; what++) {
        put_question(routes[what], tally.key, what + 1);
        tally.n_asked[what] += CLIENTS;
    }
    int64_t from_us = now_us();
    for (unsigned i = 0; i < CLIENTS; i++) {
        assert_true(spop_client_send(&r.clients[i], r.wire.bytes, r.wire.len));
    }
    take_answers(n_each, from_us);
    return tally.n_by_policy == n_before;
}

/* @return after how long */
static int64_t wait_until_counted(void)
{
    int64_t from_us = now_us();
    while (!ask_all(ASK_SHARE)) {
        assert_in_range(now_us() - from_us, 0, RECOVERY_US_MAX);
        (void)usleep(TURN_PAUSE_US);
    }
    return now_us() - from_us;
}

/* --- what happens to Redis, and its end --- */

static unsigned hold_ms; /* how long it is to last */

static void save_and_kill(void)
{
    tell("SAVE", "+OK");
    redis_process_kill(&r.server);
}

static void kill_server(void)
{
    redis_process_kill(&r.server);
}

static void restart(void)
{
    assert_true(redis_process_restart(&r.server));
}

static void restart_empty(void)
{
    char path[64];
    (void)snprintf(path, sizeof(path), "%s/dump.rdb", r.server.dir);
    (void)unlink(path);
    restart();
    assert_int_equal(n_keys_where("rl:conformance:*", "k"), 0);
}

static void stop_server(void)
{
    assert_int_equal(kill(r.server.pid, SIGSTOP), 0);
}

static void continue_server(void)
{
    assert_int_equal(kill(r.server.pid, SIGCONT), 0);
}

static void pause_clients(void)
{
    char command[32];
    (void)snprintf(command, sizeof(command), "CLIENT PAUSE %u", hold_ms);
    tell(command, "+OK");
}

static void wait_for_server(void)
{
    tell("PING", "+PONG");
}

static pthread_t sleeper;
static char slept[512]; /* the reply to DEBUG SLEEP */

static void *sleep_on_it(void *arg)
{
    char command[32];
    (void)arg;
    (void)snprintf(command, sizeof(command), "DEBUG SLEEP %u.%03u", hold_ms / 1000,
                   hold_ms % 1000);
    (void)redis_process_tell(&r.server, command, slept, sizeof(slept));
    return NULL;
}

static void sleep_server(void)
{
    slept[0] = '\0';
    assert_int_equal(pthread_create(&sleeper, NULL, sleep_on_it, NULL), 0);
}

static void wake_server(void)
{
    (void)pthread_join(sleeper, NULL);
    assert_string_equal(slept, "+OK\r\n");
}

static void change_password(void)
{
    tell("ACL SETUSER limiter resetpass >other", "+OK");
    assert_in_range(tell_number("CLIENT KILL USER limiter"), 1, 2);
}

static void restore_password(void)
{
    tell("ACL SETUSER limiter >secret", "+OK");
}

static void fill_memory(void)
{
    tell("CONFIG SET maxmemory-policy noeviction", "+OK");
    tell("CONFIG SET maxmemory 1", "+OK");
}

static void free_memory(void)
{
    tell("CONFIG SET maxmemory 0", "+OK");
}

static pthread_t flusher;
static atomic_bool is_flushing;
static atomic_bool has_flushed;

static void *flush_scripts(void *arg)
{
    char reply[512];
    (void)arg;
    while (is_flushing) {
        has_flushed = redis_process_tell(&r.server, "SCRIPT FLUSH", reply,
                                         sizeof(reply))
                      && strcmp(reply, "+OK\r\n") == 0;
        (void)usleep(2000);
    }
    return NULL;
}

static void begin_flushing(void)
{
    is_flushing = true;
    assert_int_equal(pthread_create(&flusher, NULL, flush_scripts, NULL), 0);
}

static void end_flushing(void)
{
    char reply[4096];
    is_flushing = false;
    (void)pthread_join(flusher, NULL);
    assert_true(has_flushed);
    assert_true(redis_process_tell(&r.server, "INFO errorstats", reply, sizeof(reply)));
    assert_non_null(strstr(reply, "errorstat_NOSCRIPT"));
}

static void start_without(void)
{
    redis_proxy_set_manner(&r.proxy, REDIS_PROXY_REFUSES);
    stop_agent(SIGTERM);
    start_agent();
}

static void carry(void)
{
    redis_proxy_set_manner(&r.proxy, REDIS_PROXY_CARRIES);
}

/* --- rows --- */

enum answers {
    BY_POLICY = 0, /* all are, from its first moment */
    SOME_BY_POLICY,
    SOME_AS_SLOW, /* likewise, for that reason */
    SOME_COUNTED,
};

struct row {
    const char *name;
    void (*begin)(void); /* NULL: the manner of the proxy changes */
    void (*end)(void);
    enum redis_proxy_manner manner;
    enum answers answers;
    unsigned hold_ms;      /* 0: as all others */
    unsigned long_hold_ms; /* likewise, in a long run */
    bool is_forgotten;     /* what was counted before */
    bool is_once;          /* in the first round only */
};

static struct row direct_rows[] = {
    {"kill -9", save_and_kill, restart, .answers = BY_POLICY},
    {"restart empty", kill_server, restart_empty, .is_forgotten = true},
    {"SIGSTOP", stop_server, continue_server, .hold_ms = 3000, .long_hold_ms = 10000},
    {"CLIENT PAUSE", pause_clients, wait_for_server, .answers = SOME_BY_POLICY,
     .hold_ms = 600},
    {"DEBUG SLEEP", sleep_server, wake_server, .answers = SOME_BY_POLICY,
     .hold_ms = 600},
    {"wrong password", change_password, restore_password, .answers = BY_POLICY},
    {"maxmemory", fill_memory, free_memory, .answers = BY_POLICY},
    {"SCRIPT FLUSH", begin_flushing, end_flushing, .answers = SOME_COUNTED},
};

static struct row proxied_rows[] = {
    {"refused", .manner = REDIS_PROXY_REFUSES},
    {"never answers", .manner = REDIS_PROXY_SILENT, .hold_ms = 1700},
    {"reply cut", .manner = REDIS_PROXY_CUTS},
    {"unsolicited reply", .manner = REDIS_PROXY_ADDS, .answers = SOME_BY_POLICY},
    {"reply of wrong shape", .manner = REDIS_PROXY_WRONG_SHAPE},
    {"reply of wrong type", .manner = REDIS_PROXY_WRONG_TYPE},
    {"huge reply", .manner = REDIS_PROXY_HUGE},
    /* The last: for a moment there is more than one agent. */
    {"not there at the start", start_without, carry, .is_once = true},
};

static struct row slow_rows[] = {
    {"slow by 4 ms", .manner = REDIS_PROXY_DELAYS, .answers = SOME_AS_SLOW,
     .hold_ms = 1700},
};

/* Rows with one agent. */
struct set {
    const char *name;
    struct row *rows; /* cmocka hands them on as what may change */
    size_t n_rows;
    bool has_proxy;
    unsigned slow_ms; /* 2 is the default, and short for a busy test host */
};

enum {
    DIRECT_ROWS_N = sizeof(direct_rows) / sizeof(direct_rows[0]),
    PROXIED_ROWS_N = sizeof(proxied_rows) / sizeof(proxied_rows[0]),
    SLOW_ROWS_N = sizeof(slow_rows) / sizeof(slow_rows[0]),
    ROWS_MAX = 16,
};

static const struct set sets[] = {
    {"redis", direct_rows, DIRECT_ROWS_N, false, 10},
    {"proxy", proxied_rows, PROXIED_ROWS_N, true, 10},
    {"slow", slow_rows, SLOW_ROWS_N, true, 2},
};

static const struct set *set; /* the one that is gone through */

static void begin_tally(const char *key)
{
    memset(&tally, 0, sizeof(tally));
    (void)snprintf(tally.key, sizeof(tally.key), "%s", key);
    for (int i = 0; i < ASKS_N; i++) {
        tally.n_left[i] = LIMIT;
    }
}

static void forget_counts(void)
{
    for (int i = 0; i < ASKS_N; i++) {
        tally.n_asked[i] = 0;
        tally.n_counted[i] = 0;
        tally.n_late[i] = 0;
        tally.n_left[i] = LIMIT;
    }
}

static void expect_answers(enum answers answers)
{
    unsigned n = tally.n_asked[ASK_SHARE];
    assert_in_range(tally.n_share, 0, SHARE);
    switch (answers) {
    case BY_POLICY:
        assert_int_equal(tally.n_by_policy, ASKS_N * n);
        assert_int_equal(tally.n_share, n < SHARE ? n : SHARE);
        break;
    case SOME_BY_POLICY:
        assert_in_range(tally.n_by_policy, 1, ASKS_N * n);
        break;
    case SOME_AS_SLOW:
        assert_in_range(tally.n_slow, 1, ASKS_N * n);
        break;
    case SOME_COUNTED:
        assert_in_range(tally.n_by_policy, 0, ASKS_N * n - 1);
        break;
    }
}

/* Redis has what it counted, and no more than it was asked. */
static void expect_counts(const struct row *row)
{
    for (int i = 0; i < ASK_SHARE; i++) {
        unsigned n_most = row->is_forgotten ? tally.n_counted[i] + tally.n_late[i]
                                            : tally.n_asked[i];
        assert_in_range(LIMIT - tally.n_left[i], tally.n_counted[i], n_most);
    }
}

static void wait_for(uint64_t wanted, uint64_t (*figure)(void))
{
    for (int i = 0; i < WAITS_MAX && figure() != wanted; i++) {
        (void)usleep(2000);
    }
    assert_int_equal(figure(), wanted);
}

static uint64_t fds_of_agent(void)
{
    return agent_process_n_fds(&r.agent);
}

static uint64_t under_way(void)
{
    return agent_process_metric(&r.agent, "store_under_way");
}

static void expect_nothing_kept(void)
{
    wait_for(0, under_way);
    wait_for(n_fds, fds_of_agent);
}

/* Asks until it has lasted. */
static void hold(void)
{
    int64_t until_us = now_us() + (int64_t)hold_ms * 1000;
    do {
        (void)ask_all(ASKS_N);
        (void)usleep(TURN_PAUSE_US);
    } while (now_us() < until_us);
}

/* ... as far as it is known when Redis is back. */
static void print_answers(const struct row *row)
{
    print_message("%-22s %7u %8u %8.1f %8.1f", row->name,
                  ASKS_N * tally.n_asked[ASK_SHARE], tally.n_by_policy,
                  (double)histogram_quantile(&tally.waits, 999000) / 1000,
                  (double)atomic_load(&tally.waits.max) / 1000);
}

static unsigned hold_ms_of(const struct row *row, unsigned round)
{
    if (round > 0) {
        return SHORT_HOLD_MS;
    }
    if (n_rounds() > 2 && row->long_hold_ms > 0) {
        return row->long_hold_ms;
    }
    return row->hold_ms > 0 ? row->hold_ms : HOLD_MS;
}

static void go_wrong(const struct row *row)
{
    if (row->begin != NULL) {
        row->begin();
    } else {
        redis_proxy_set_manner(&r.proxy, row->manner);
    }
    hold();
    if (row->end != NULL) {
        row->end();
    } else {
        carry();
    }
}

static void fail_and_recover(const struct row *row, unsigned round)
{
    char key[32];
    (void)snprintf(key, sizeof(key), "%u.%.20s", round, row->name);
    begin_tally(key);
    hold_ms = hold_ms_of(row, round);
    for (int i = 0; i < TURNS_BEFORE; i++) {
        (void)ask_all(ASK_SHARE);
    }
    (void)wait_until_counted();
    size_t log_off = agent_process_log_bytes(&r.agent);
    tally.n_by_policy = 0;
    tally.n_slow = 0;
    memset(&tally.waits, 0, sizeof(tally.waits));
    go_wrong(row);
    if (round == 0) {
        print_answers(row);
        expect_answers(row->answers);
        histogram_merge(&all_waits, &tally.waits);
    }
    if (row->is_forgotten) {
        forget_counts();
    }
    int64_t recovery_us = wait_until_counted();
    if (round == 0) {
        print_message(" %8.1f\n", (double)recovery_us / 1000);
    }
    if (recovery_us > RECOVERY_US) {
        print_message("%s: counted again after %lld ms\n", key,
                      (long long)recovery_us / 1000);
        agent_process_show_log(&r.agent, log_off);
    }
    expect_counts(row);
    expect_nothing_kept();
}

static void policies_decide_until_redis_is_back(void **state)
{
    fail_and_recover(*state, 0);
}

static void expect_memory_as_before(size_t rss_kib)
{
    size_t now_kib = agent_process_rss_kib(&r.agent);
    print_message("%u rounds: RSS %zu KiB before, %zu KiB after, %u descriptors\n",
                  n_rounds(), rss_kib, now_kib, n_fds);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    assert_in_range(now_kib, 0, rss_kib + RSS_SLACK_KIB);
#endif
}

static void go_round(unsigned round)
{
    for (size_t i = 0; i < set->n_rows; i++) {
        if (!set->rows[i].is_once) {
            fail_and_recover(&set->rows[i], round);
        }
    }
}

/* Rows are gone through once more, and in a long run many times. */
static void nothing_is_kept_of_a_failure(void **state)
{
    (void)state;
    size_t rss_kib = agent_process_rss_kib(&r.agent);
    for (unsigned round = 1; round < n_rounds(); round++) {
        go_round(round);
    }
    expect_memory_as_before(rss_kib);
    assert_int_equal(agent_process_metric(&r.agent, "notifies_total"),
                     agent_process_metric(&r.agent, "acks_total"));
    assert_int_equal(agent_process_log_lines(&r.agent, r.agent.log_off, "error"), 0);
}

static int begin_rows(void **state)
{
    char slow[32];
    (void)state;
    (void)snprintf(slow, sizeof(slow), ", slow_ms: %u", set->slow_ms);
    start_all(set->has_proxy, slow, DEADLINE_MS);
    n_fds = agent_process_n_fds(&r.agent);
    memset(&all_waits, 0, sizeof(all_waits));
    print_message("%s: deadline %d ms, slow over %u ms\n%-22s %7s %8s %8s %8s %8s\n",
                  set->name, DEADLINE_MS, set->slow_ms, "", "answers", "policy",
                  "p99.9 ms", "max ms", "back ms");
    return 0;
}

static int end_rows(void **state)
{
    (void)state;
    print_message("all: %llu answers, p99 %.1f ms, p99.9 %.1f ms\n",
                  (unsigned long long)histogram_count(&all_waits),
                  (double)histogram_quantile(&all_waits, 990000) / 1000,
                  (double)histogram_quantile(&all_waits, 999000) / 1000);
    return stop_all();
}

static int run_set(const struct set *to_run)
{
    struct CMUnitTest tests[ROWS_MAX + 1];
    size_t n = 0;
    set = to_run;
    for (; n < set->n_rows; n++) {
        tests[n] = (struct CMUnitTest){
            .name = set->rows[n].name,
            .test_func = policies_decide_until_redis_is_back,
            .initial_state = &set->rows[n],
        };
    }
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(nothing_is_kept_of_a_failure);
    return _cmocka_run_group_tests(set->name, tests, n, begin_rows, end_rows);
}

int main(void)
{
    int n_failed = 0;
    if (!redis_fixture_init()) {
        return EXIT_FAILURE;
    }
    for (size_t i = 0; i < sizeof(sets) / sizeof(sets[0]); i++) {
        n_failed += run_set(&sets[i]);
    }
    return n_failed;
}
