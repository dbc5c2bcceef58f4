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

#include <sys/stat.h>

#include <cmocka.h>

#include "agent/observe/histogram.h"

#include "tests/conformance/wire.h"
#include "tests/support/agent_process.h"
#include "tests/support/redis_process.h"
#include "tests/support/redis_proxy.h"
#include "tests/support/spop_client.h"

enum {
    CLIENTS = 4,
    LIMIT = 1000000000,
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
    OPTIONS_MAX = 36,
    OPTION_BYTES_MAX = 1024,
    RACERS = 64,
    RACES = 4, /* of each */
    RACE_LIMIT = 100,
    KILLS = 20,
    KILL_KEYS = 200,
    EACH_LIMITS = 4,      /* of the route "each" */
    NAME_BYTES_MAX = 512, /* of a key in Redis: far below what its value had */
    LONG_VALUE_BYTES = 15000,
};

/* What is asked about in each turn. */
enum ask {
    ASK_LOCAL = 0,
    ASK_OPEN,
    ASK_CLOSED,
    ASK_SHARE, /* policy local again, of a limit that ends: only while Redis fails */
    ASKS_N,
};

static const char large[] = "requests: 1000000000";

static const struct {
    const char *name;
    const char *route;
    const char *key;
    const char *limit;
    const char *policy;
} rule_rows[] = {
    {"local", "local", "key", large, "local"},
    {"open", "open", "key", large, "open"},
    {"closed", "closed", "key", large, "closed"},
    {"share", "share", "key", "requests: 20", "local"},
    {"race", "race", "key", "requests: 100", "closed"},
    {"value", "value", "key", large, "closed"},
    {"pair", "pair", "key, other", large, "closed"},
    {"sliding", "each", "key", large, "open"},
    {"fixed", "each", "key", "algorithm: fixed_window, requests: 1000", "open"},
    {"bucket", "each", "key", "algorithm: token_bucket, requests: 1000", "open"},
    {"log", "each", "key", "algorithm: sliding_log, requests: 1000", "open"},
};

static const char *const routes[ASKS_N] = {"local", "open", "closed", "share"};

/* The user that agent/README.md gives the agent, and no other; commands of the test's own
 * come from the user named default. */
static char option_text[OPTION_BYTES_MAX];
static const char *server_options[OPTIONS_MAX + 1];

static struct redis_process server;
static struct redis_proxy proxy;
static bool has_proxy;
static char password_file[64];
static struct agent_process agent;
static struct agent_process_options options;
static char config[512];
static char rules[4096];
static unsigned n_fds; /* of the agent, when all is well */
static struct spop_client clients[CLIENTS];
static struct spop_client racers[RACERS];
static struct wire wire;
static struct wire_ack ack;
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

static unsigned n_rounds(void)
{
    const char *text = getenv("ROUNDS"); /* NOLINT(concurrency-mt-unsafe) */
    return text != NULL ? (unsigned)strtoul(text, NULL, 10) : 2;
}

/* --- Redis, as an operator sees it --- */

static void tell(const char *command, const char *wanted)
{
    char reply[512];
    assert_true(redis_process_tell(&server, command, reply, sizeof(reply)));
    if (strncmp(reply, wanted, strlen(wanted)) != 0) {
        fail_msg("%s: %s", command, reply);
    }
}

static unsigned tell_number(const char *command)
{
    char reply[512];
    assert_true(redis_process_tell(&server, command, reply, sizeof(reply)));
    if (reply[0] != ':') {
        fail_msg("%s: %s", command, reply);
    }
    return (unsigned)strtoul(reply + 1, NULL, 10);
}

/* How many keys of a pattern there are, for which an expression of Lua about k holds. */
static unsigned n_keys_where(const char *pattern, const char *expression)
{
    char command[512];
    (void)snprintf(command, sizeof(command),
                   "EVAL \"local n = 0 for _, k in ipairs(redis.call('keys', '%s')) do "
                   "if %s then n = n + 1 end end return n\" 0",
                   pattern, expression);
    return tell_number(command);
}

static unsigned n_endless_keys(void)
{
    return n_keys_where("*", "redis.call('pttl', k) < 0");
}

/* --- asking --- */

static void put_question(const char *route, const char *key, uint64_t id)
{
    wire_notify_begin(&wire, id, 1, 2);
    wire_arg_text(&wire, "route", route);
    wire_arg_text(&wire, "key", key);
    wire_end(&wire);
}

static void receive_ack(struct spop_client *c)
{
    assert_true(spop_client_receive(c));
    const char *fault = wire_read_ack(c->frame, c->frame_len, WIRE_SIZE, &ack);
    if (fault != NULL) {
        fail_msg("the agent sent %s", fault);
    }
}

static bool is_by_policy(void)
{
    return wire_ack_is(&ack, "reason", "store_down")
           || wire_ack_is(&ack, "reason", "store_slow")
           || wire_ack_is(&ack, "reason", "deadline");
}

static void check_policy(enum ask what)
{
    bool is_refused = wire_ack_number(&ack, "deny") != 0;
    assert_int_equal(wire_ack_number(&ack, "remaining"), INT64_MIN);
    tally.n_by_policy++;
    tally.n_slow += wire_ack_is(&ack, "reason", "store_slow");
    tally.n_late[what] += wire_ack_is(&ack, "reason", "deadline");
    if (what == ASK_SHARE) {
        tally.n_share += !is_refused;
    } else {
        assert_int_equal(is_refused, what == ASK_CLOSED);
    }
    if (is_refused) {
        assert_int_equal(wire_ack_number(&ack, "status"),
                         what == ASK_CLOSED ? 503 : 429);
        assert_in_range(wire_ack_number(&ack, "retry_after"), 1,
                        what == ASK_CLOSED ? 3 : INT64_MAX);
    }
}

static void check_count(enum ask what)
{
    int64_t n_left = wire_ack_number(&ack, "remaining");
    if (what != ASK_SHARE) {
        assert_int_equal(wire_ack_number(&ack, "deny"), 0);
        assert_in_range(n_left, 0, LIMIT - 1);
    }
    tally.n_counted[what]++;
    tally.n_left[what] = n_left < tally.n_left[what] ? n_left : tally.n_left[what];
}

static void take_answer(struct spop_client *c, int64_t from_us)
{
    receive_ack(c);
    assert_in_range(ack.stream_id, 1, ASKS_N);
    enum ask what = (enum ask)(ack.stream_id - 1);
    uint64_t us = (uint64_t)(now_us() - from_us);
    histogram_add(&tally.waits, us);
    assert_in_range(us, 0, ANSWER_MS_MAX * 1000);
    if (is_by_policy()) {
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
            int fd = n_taken[i] < n_each ? clients[i].fd : -1;
            polled[i] = (struct pollfd){.fd = fd, .events = POLLIN};
        }
        assert_true(poll(polled, CLIENTS, ANSWER_MS_MAX) > 0);
        for (unsigned i = 0; i < CLIENTS; i++) {
            unsigned n_ready = polled[i].revents != 0 ? take_ready(&clients[i], from_us)
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
    wire.len = 0;
    for (unsigned what = 0; what < n_each; what++) {
        put_question(routes[what], tally.key, what + 1);
        tally.n_asked[what] += CLIENTS;
    }
    int64_t from_us = now_us();
    for (unsigned i = 0; i < CLIENTS; i++) {
        assert_true(spop_client_send(&clients[i], wire.bytes, wire.len));
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
    redis_process_kill(&server);
}

static void kill_server(void)
{
    redis_process_kill(&server);
}

static void restart(void)
{
    assert_true(redis_process_restart(&server));
}

static void restart_empty(void)
{
    char path[64];
    (void)snprintf(path, sizeof(path), "%s/dump.rdb", server.dir);
    (void)unlink(path);
    restart();
    assert_int_equal(n_keys_where("rl:conformance:*", "k"), 0);
}

static void stop_server(void)
{
    assert_int_equal(kill(server.pid, SIGSTOP), 0);
}

static void continue_server(void)
{
    assert_int_equal(kill(server.pid, SIGCONT), 0);
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
    (void)redis_process_tell(&server, command, slept, sizeof(slept));
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
        has_flushed = redis_process_tell(&server, "SCRIPT FLUSH", reply, sizeof(reply))
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
    assert_true(redis_process_tell(&server, "INFO errorstats", reply, sizeof(reply)));
    assert_non_null(strstr(reply, "errorstat_NOSCRIPT"));
}

static void start_agent(void)
{
    assert_true(agent_process_start(&agent, &options));
    for (int i = 0; i < CLIENTS; i++) {
        assert_true(spop_client_open(&clients[i], agent.socket_path));
    }
}

static void stop_agent(int signal)
{
    for (int i = 0; i < CLIENTS; i++) {
        spop_client_close(&clients[i]);
    }
    assert_int_equal(agent_process_stop(&agent, signal),
                     signal == SIGKILL ? 128 + SIGKILL : 0);
}

static void start_without(void)
{
    redis_proxy_set_manner(&proxy, REDIS_PROXY_REFUSES);
    stop_agent(SIGTERM);
    start_agent();
}

static void carry(void)
{
    redis_proxy_set_manner(&proxy, REDIS_PROXY_CARRIES);
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
    return agent_process_n_fds(&agent);
}

static uint64_t under_way(void)
{
    return agent_process_metric(&agent, "store_under_way");
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
        redis_proxy_set_manner(&proxy, row->manner);
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
    size_t log_off = agent_process_log_bytes(&agent);
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
        agent_process_show_log(&agent, log_off);
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
    size_t now_kib = agent_process_rss_kib(&agent);
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
    size_t rss_kib = agent_process_rss_kib(&agent);
    for (unsigned round = 1; round < n_rounds(); round++) {
        go_round(round);
    }
    expect_memory_as_before(rss_kib);
    assert_int_equal(agent_process_metric(&agent, "notifies_total"),
                     agent_process_metric(&agent, "acks_total"));
    assert_int_equal(agent_process_log_lines(&agent, agent.log_off, "error"), 0);
}

/* --- the agent and a Redis --- */

static void write_password(void)
{
    (void)snprintf(password_file, sizeof(password_file), "%s/password", server.dir);
    FILE *file = fopen(password_file, "we");
    assert_non_null(file);
    assert_true(fputs("secret\n", file) >= 0);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(chmod(password_file, 0600), 0);
}

static void write_rules(void)
{
    int n = snprintf(rules, sizeof(rules), "version: 1\ndomain: conformance\nrules:\n");
    for (size_t i = 0; i < sizeof(rule_rows) / sizeof(rule_rows[0]); i++) {
        n += snprintf(rules + n, sizeof(rules) - (size_t)n,
                      "  - name: %s\n    match: { route: %s }\n    key: [%s]\n"
                      "    limit: { %s, per: 31d }\n    store: redis\n"
                      "    on_store_failure: %s\n",
                      rule_rows[i].name, rule_rows[i].route, rule_rows[i].key,
                      rule_rows[i].limit, rule_rows[i].policy);
    }
}

static void start_all(bool with_proxy, const char *more, unsigned deadline_ms)
{
    assert_true(redis_process_start(&server, server_options));
    has_proxy = with_proxy;
    assert_true(!with_proxy || redis_proxy_start(&proxy, server.port));
    write_password();
    write_rules();
    (void)snprintf(config, sizeof(config),
                   "workers: 2\nmemory: 4MiB\nheaders: [draft-8, x-ratelimit]\n"
                   "retry_jitter: 0\ndeadline_ms: %u\nredis: { addresses: "
                   "[\"127.0.0.1:%u\"], user: limiter, password_file: \"%s\"%s }\n",
                   deadline_ms, with_proxy ? proxy.port : server.port, password_file,
                   more);
    options = (struct agent_process_options){.program = AGENT_PROGRAM,
                                             .rules = rules,
                                             .config = config};
    assert_true(agent_process_init(&agent, &options));
    start_agent();
    begin_tally("start");
    (void)wait_until_counted();
}

static int stop_all(void)
{
    int code = agent.pid != 0 ? agent_process_stop(&agent, SIGTERM) : 0;
    for (int i = 0; i < CLIENTS; i++) {
        spop_client_close(&clients[i]);
    }
    bool is_clean = agent_process_fini(&agent);
    if (has_proxy) {
        redis_proxy_stop(&proxy);
    }
    (void)unlink(password_file);
    redis_process_stop(&server);
    return code != 0 || !is_clean;
}

static int begin_rows(void **state)
{
    char slow[32];
    (void)state;
    (void)snprintf(slow, sizeof(slow), ", slow_ms: %u", set->slow_ms);
    start_all(set->has_proxy, slow, DEADLINE_MS);
    n_fds = agent_process_n_fds(&agent);
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

/* --- exact, bounded, with an end --- */

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
        assert_true(spop_client_open(&racers[i], agent.socket_path));
    }
    wire.len = 0;
    for (int i = 0; i < RACES; i++) {
        put_question("race", "one", 1);
    }
    for (int i = 0; i < RACERS; i++) {
        assert_true(spop_client_send(&racers[i], wire.bytes, wire.len));
    }
    for (int i = 0; i < RACERS * RACES; i++) {
        receive_ack(&racers[i / RACES]);
        assert_false(is_by_policy());
        n_admitted += wire_ack_number(&ack, "deny") == 0;
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
    assert_true(spop_client_send(&clients[0], wire.bytes, wire.len));
    receive_ack(&clients[0]);
    assert_false(is_by_policy());
    assert_true(wire_ack_is(&ack, "action", "allow"));
    return wire_ack_number(&ack, "remaining");
}

/* As a text, then as bytes: another kind of value, the same key. */
static void ask_twice_about(const void *bytes, size_t len)
{
    for (int i = 0; i < 2; i++) {
        wire.len = 0;
        wire_notify_begin(&wire, 1, 1, 2);
        wire_arg_text(&wire, "route", "value");
        wire_name(&wire, "key");
        wire_data(&wire, i == 0 ? WIRE_STRING : WIRE_BINARY, bytes, len);
        wire_end(&wire);
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
        wire.len = 0;
        wire_notify_begin(&wire, 1, 1, 3);
        wire_arg_text(&wire, "route", "pair");
        wire_arg_text(&wire, "key", pairs[i][0]);
        wire_arg_text(&wire, "other", pairs[i][1]);
        wire_end(&wire);
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
    wire.len = 0;
    for (unsigned i = 0; i < KILL_KEYS; i++) {
        (void)snprintf(key, sizeof(key), "k%u.%u", kill_idx, i);
        put_question("each", key, 1);
    }
    for (int i = 0; i < CLIENTS; i++) {
        assert_true(spop_client_send(&clients[i], wire.bytes, wire.len));
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
            receive_ack(&clients[0]);
            n_counted += !is_by_policy();
        }
        stop_agent(SIGKILL);
        unsigned n = tell_number("DBSIZE");
        assert_true(n >= EACH_LIMITS * n_counted);
        assert_int_equal(n_endless_keys(), 0);
        n_keys += n;
        start_agent();
        begin_tally("killed");
        (void)wait_until_counted();
    }
    print_message("%u kills: %u keys, each with an end\n", n_kills, n_keys);
    assert_true(n_keys > 0);
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

static bool read_options(void)
{
    static const char wanted[] = "    ACL SETUSER limiter on >PASSWORD ";
    static char line[OPTION_BYTES_MAX / 2];
    FILE *file = fopen("agent/README.md", "re");
    bool is_found = false;
    while (file != NULL && !is_found && fgets(line, sizeof(line), file) != NULL) {
        is_found = strncmp(line, wanted, sizeof(wanted) - 1) == 0;
    }
    if (file != NULL) {
        (void)fclose(file);
    }
    (void)snprintf(option_text, sizeof(option_text),
                   "--enable-debug-command yes --user limiter on >secret %s",
                   is_found ? line + sizeof(wanted) - 1 : "");
    return is_found;
}

static void split_options(void)
{
    char *rest = NULL;
    const char *word = strtok_r(option_text, " \n", &rest);
    for (int i = 0; word != NULL && i < OPTIONS_MAX; i++) {
        server_options[i] = word;
        word = strtok_r(NULL, " \n", &rest);
    }
}

int main(void)
{
    const struct CMUnitTest counting[] = {
        cmocka_unit_test(racing_connections_admit_exactly_the_limit),
        cmocka_unit_test(any_value_has_a_key_of_its_own),
        cmocka_unit_test(killed_agent_leaves_no_key_without_an_end),
    };
    int n_failed = 0;
    if (!read_options()) {
        (void)fprintf(stderr, "agent/README.md gives no user\n");
        return 1;
    }
    split_options();
    for (size_t i = 0; i < sizeof(sets) / sizeof(sets[0]); i++) {
        n_failed += run_set(&sets[i]);
    }
    n_failed += cmocka_run_group_tests(counting, begin_counting, end_counting);
    return n_failed;
}
