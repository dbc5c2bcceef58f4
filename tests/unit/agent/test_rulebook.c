/* rulebook.c and keeper.c with real workers that nobody asks anything. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
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
#include <sodium.h>

#include "agent/control/rulebook.h"
#include "agent/file.h"
#include "agent/observe/metrics.h"
#include "agent/store/local.h"

enum {
    WORKERS = 2,
    TURN_US = 1000,        /* of the loop */
    TURN_SHOWN_US = 20000, /* by the clocks of this program */
};

/* How far these are ahead: nobody waits here for seconds to pass. */
static _Atomic int64_t ahead_us;

/* In place of libc's, for libev too. */
int clock_gettime(clockid_t id, struct timespec *ts)
{
    const int64_t ns_per_s = 1000000000;
    long rc = syscall(SYS_clock_gettime, id, ts);
    int64_t ns = ts->tv_nsec + atomic_load(&ahead_us) * 1000;
    ts->tv_sec += ns / ns_per_s;
    ts->tv_nsec = ns % ns_per_s;
    return (int)rc;
}

#define HEAD "version: 1\ndomain: d\nrules:\n"

static const char one[] = HEAD
    "- {name: a, key: [ip], limit: {requests: 1, per: 1s}}\n"
    "- {name: b, key: [ip], limit: {requests: 1, per: 1s}}\n";
static const char two[] = HEAD
    "- {name: b, key: [ip], limit: {requests: 5, per: 1s}}\n"
    "- {name: c, key: [ip], limit: {requests: 1, per: 1s}}\n"
    "- {name: d, key: [ip], limit: {requests: 1, per: 1s}}\n";
#define NAMES(file) \
    HEAD "- {name: a, key: [ip], limit: {requests: 1, per: 1s}}\nclients: " file "\n"
static const char bad[] = HEAD "- {name: a}\n";
static const char including[] = "version: 1\ndomain: d\ninclude: [part.yaml]\n";
/* As they are kept. */
static const char one_kept[] = HEAD "  - name: a\n"
                                    "    key: [ip]\n"
                                    "    limit: { requests: 1, per: 1s }\n"
                                    "  - name: b\n"
                                    "    key: [ip]\n"
                                    "    limit: { requests: 1, per: 1s }\n";

static struct {
    char dir[32];
    char path[64];
    char last_good[64];
    char target[64];
    char clients[64];
    char others[64];
    char last_good_clients[64];
    char part[64];
    struct ev_loop *loop;
    struct store *store;
    struct decide_options options;
    struct rulebook *book;
    struct server *server;
    unsigned n_changed;
} f;

static void write_text(const char *path, const char *text)
{
    const char *error = NULL;
    assert_true(file_replace(path, text, strlen(text), 0600, &error));
}

static void write_rules(const char *text)
{
    write_text(f.path, text);
}

static char *read_text(const char *path)
{
    size_t len = 0;
    const char *error = NULL;
    return file_read(path, 1 << 20, &len, &error);
}

static void on_changed(void *context)
{
    (void)context;
    f.n_changed++;
}

static int set_up(void **context)
{
    static const uint8_t secret[LOCAL_SECRET_BYTES] = {1};
    (void)context;
    memset(&f, 0, sizeof(f));
    clock_start();
    (void)snprintf(f.dir, sizeof(f.dir), "/tmp/test_rulebook.XXXXXX");
    if (sodium_init() < 0 || mkdtemp(f.dir) == NULL) {
        return 1;
    }
    (void)snprintf(f.path, sizeof(f.path), "%s/rules.yaml", f.dir);
    (void)snprintf(f.last_good, sizeof(f.last_good), "%s/" LAST_GOOD_FILE, f.dir);
    (void)snprintf(f.target, sizeof(f.target), "%s/target.yaml", f.dir);
    (void)snprintf(f.clients, sizeof(f.clients), "%s/clients.csv", f.dir);
    (void)snprintf(f.others, sizeof(f.others), "%s/others.csv", f.dir);
    (void)snprintf(f.last_good_clients, sizeof(f.last_good_clients),
                   "%s/" LAST_GOOD_CLIENTS, f.dir);
    (void)snprintf(f.part, sizeof(f.part), "%s/part.yaml", f.dir);
    f.loop = ev_loop_new(EVFLAG_NOENV);
    f.store = local_new(LOCAL_MEMORY_BYTES_MIN, LOCAL_LOG_BYTES_MIN, secret);
    decide_options_init(&f.options, variables_default());
    return f.loop == NULL || f.store == NULL;
}

static void open_book(void)
{
    f.book = rulebook_open(f.path, f.dir, WORKERS, NULL);
    assert_non_null(f.book);
    struct server_options options = {
        .n_workers = WORKERS,
        .connections_max = 1,
        .set = rulebook_set(f.book),
        .clients = rulebook_clients(f.book),
        .store = f.store,
        .decide_options = &f.options,
        .counters = rulebook_counters(f.book),
    };
    f.server = server_start(f.loop, &options);
    assert_non_null(f.server);
    rulebook_start(f.book, f.loop, f.server, on_changed, NULL);
}

static void close_book(void)
{
    if (f.book == NULL) {
        return;
    }
    rulebook_stop(f.book);
    if (f.server != NULL) {
        server_stop(f.server);
        server_free(f.server);
        f.server = NULL;
    }
    rulebook_free(f.book);
    f.book = NULL;
}

static int tear_down(void **context)
{
    (void)context;
    close_book();
    store_free(f.store);
    ev_loop_destroy(f.loop);
    (void)unlink(f.path);
    (void)unlink(f.last_good);
    (void)unlink(f.target);
    (void)unlink(f.clients);
    (void)unlink(f.others);
    (void)unlink(f.last_good_clients);
    (void)unlink(f.part);
    return rmdir(f.dir);
}

static void turn(void)
{
    (void)ev_run(f.loop, EVRUN_NOWAIT);
    (void)usleep(TURN_US);
    atomic_fetch_add(&ahead_us, TURN_SHOWN_US);
}

static void until_changed(unsigned n)
{
    while (f.n_changed < n) {
        turn();
    }
}

static void until_failures(uint64_t n)
{
    while (rulebook_read_report(f.book)->n_failures < n) {
        turn();
    }
}

static void first_rule_is(const char *name)
{
    assert_string_equal(rules_set_rule(rulebook_set(f.book)->rules, 0)->name, name);
}

static void file_that_changes_comes_into_force(void **context)
{
    (void)context;
    write_rules(one);
    open_book();
    first_rule_is("a");
    char version[VERSION_BYTES];
    memcpy(version, rulebook_read_report(f.book)->version, sizeof(version));
    assert_int_equal(strlen(version), VERSION_BYTES - 1);
    write_rules(two);
    until_changed(1);
    first_rule_is("b");
    assert_int_equal(rulebook_read_report(f.book)->n_changes, 1);
    assert_string_not_equal(rulebook_read_report(f.book)->version, version);
    write_rules(one);
    until_changed(2);
    first_rule_is("a");
    assert_string_equal(rulebook_read_report(f.book)->version, version);
}

/* What workers go by from now on is held; what they went by before is there until it is not. */
static void the_newest_rules_are_those_of_the_workers(void **context)
{
    (void)context;
    const struct decide_set *set = NULL;
    const struct rules_clients *clients = NULL;
    write_rules(one);
    open_book();
    rulebook_newest(f.book, &set, &clients);
    assert_ptr_equal(set, rulebook_set(f.book));
    unsigned hold = server_hold(f.server);
    write_rules(two);
    rulebook_reload(f.book);
    for (int i = 0; i < 20; i++) { /* of the loop: the workers are soon done */
        turn();
    }
    first_rule_is("a");
    rulebook_newest(f.book, &set, &clients);
    assert_string_equal(rules_set_rule(set->rules, 0)->name, "b");
    assert_int_equal(f.n_changed, 0);
    server_let_go(f.server, hold);
    until_changed(1);
    assert_ptr_equal(set, rulebook_set(f.book));
}

static void file_behind_a_link_comes_into_force(void **context)
{
    (void)context;
    write_text(f.target, one);
    assert_int_equal(symlink(f.target, f.path), 0);
    open_book();
    write_text(f.target, two);
    until_changed(1);
    first_rule_is("b");
    write_text(f.target, one);
    until_changed(2);
    first_rule_is("a");
}

/* Under the names of the limits, and for all else in the sum. */
static void what_was_counted_goes_on(void **context)
{
    (void)context;
    write_rules(one);
    open_book();
    struct counters *own = rulebook_own_counters(f.book);
    counter_outcome(rulebook_counters(f.book)[0], 1, OUTCOME_REFUSED);
    counter_outcome(rulebook_counters(f.book)[1], 1, OUTCOME_REFUSED);
    counter_outcome(rulebook_counters(f.book)[1], 0, OUTCOME_CHARGED);
    counter_add(rulebook_counters(f.book)[0], COUNTER_NOTIFIES, 3);
    counter_add(own, COUNTER_NOTIFIES, 4);
    write_rules(two);
    rulebook_reload(f.book);
    until_changed(1);
    assert_ptr_equal(rulebook_own_counters(f.book), own);
    assert_int_equal(counter_get_outcome(own, 0, OUTCOME_REFUSED), 2);
    assert_int_equal(counter_get_outcome(own, 1, OUTCOME_CHARGED), 0);
    struct metrics_source source = {.counters = rulebook_counters(f.book),
                                    .n_counters = WORKERS + 1};
    assert_int_equal(metrics_sum(&source, COUNTER_NOTIFIES), 7);
    counter_outcome(rulebook_counters(f.book)[0], 2, OUTCOME_PASSED);
    counter_outcome(rulebook_counters(f.book)[0], 0, OUTCOME_REFUSED);
    write_rules(one);
    rulebook_reload(f.book);
    until_changed(2);
    assert_int_equal(counter_get_outcome(own, 1, OUTCOME_REFUSED), 3);
    assert_int_equal(metrics_sum(&source, COUNTER_NOTIFIES), 7);
}

static void bad_file_changes_nothing(void **context)
{
    (void)context;
    write_rules(one);
    open_book();
    write_rules(bad);
    until_failures(1);
    first_rule_is("a");
    const struct rulebook_report *report = rulebook_read_report(f.book);
    assert_non_null(strstr(report->error, "line 4, column 3: "));
    assert_non_null(strstr(report->error, "[missing-field]"));
    assert_int_equal(report->n_changes, 0);
    rulebook_reload(f.book); /* said again when asked */
    assert_int_equal(report->n_failures, 2);
    write_rules(one);
    until_changed(1);
    assert_string_equal(report->error, "");
}

/* Rules that come into force later do not make the file good. */
static void bad_file_stays_reported(void **context)
{
    (void)context;
    const struct rulebook_report *report = NULL;
    write_rules(one);
    open_book();
    report = rulebook_read_report(f.book);
    write_rules(two);
    rulebook_reload(f.book);
    write_rules(bad);
    rulebook_reload(f.book); /* the workers do not have the good ones yet */
    until_changed(1);
    first_rule_is("b");
    assert_string_not_equal(report->error, "");
    write_rules(one);
    rulebook_reload(f.book);
    until_changed(2);
    assert_string_equal(report->error, "");
}

/* Nobody reads standard error: the main loop turns on. */
static void nobody_waits_for_a_reader_of_errors(void **context)
{
    (void)context;
    int fds[2];
    int saved = dup(STDERR_FILENO);
    write_rules(one);
    open_book();
    write_rules(bad);
    assert_int_equal(pipe2(fds, O_NONBLOCK), 0);
    while (write(fds[1], "x", 1) == 1) {
    }
    assert_int_equal(fcntl(fds[1], F_SETFL, 0), 0);
    assert_int_equal(dup2(fds[1], STDERR_FILENO), STDERR_FILENO);
    rulebook_reload(f.book);
    assert_int_equal(dup2(saved, STDERR_FILENO), STDERR_FILENO);
    assert_int_equal(rulebook_read_report(f.book)->n_failures, 1);
    (void)close(saved);
    (void)close(fds[0]);
    (void)close(fds[1]);
}

static void file_that_is_gone_changes_nothing(void **context)
{
    (void)context;
    write_rules(one);
    open_book();
    assert_int_equal(unlink(f.path), 0);
    until_failures(1);
    first_rule_is("a");
    write_rules(two);
    until_changed(1);
    first_rule_is("b");
    assert_string_equal(rulebook_read_report(f.book)->error, "");
}

/* Asked again before the workers have left the old rules: the newest comes last. */
static void newest_of_several_wins(void **context)
{
    (void)context;
    write_rules(one);
    open_book();
    for (int i = 0; i < 50; i++) {
        write_rules(i % 2 == 0 ? two : one);
        rulebook_reload(f.book);
    }
    write_rules(two);
    rulebook_reload(f.book);
    until_changed(2);
    first_rule_is("b");
}

static void last_good_rules_are_served_where_the_file_is_bad(void **context)
{
    (void)context;
    write_rules(one);
    open_book();
    close_book();
    char *kept = read_text(f.last_good);
    assert_string_equal(kept, one_kept);
    free(kept);
    write_rules(bad);
    open_book();
    first_rule_is("a");
    assert_true(rulebook_read_report(f.book)->is_last_good);
    assert_int_equal(rulebook_read_report(f.book)->n_failures, 1);
    assert_string_not_equal(rulebook_read_report(f.book)->error, "");
    write_rules(two);
    until_changed(1);
    first_rule_is("b");
    assert_false(rulebook_read_report(f.book)->is_last_good);
    close_book();
    kept = read_text(f.last_good);
    assert_non_null(strstr(kept, "requests: 5,"));
    free(kept);
}

static void included_file_that_changes_comes_into_force(void **context)
{
    (void)context;
    const struct rulebook_report *report = NULL;
    char version[VERSION_BYTES];
    write_rules(including);
    write_text(f.part, one);
    open_book();
    report = rulebook_read_report(f.book);
    memcpy(version, report->version, sizeof(version));
    first_rule_is("a");
    write_text(f.part, two);
    until_changed(1);
    first_rule_is("b");
    write_text(f.part, bad);
    until_failures(1);
    assert_non_null(strstr(report->error, "/part.yaml: line 4, column 3: "));
    write_text(f.part, two); /* what is in force already, but it was bad meanwhile */
    until_changed(2);
    assert_string_equal(report->error, "");
    write_rules(one); /* the same rules in one file have the same version */
    until_changed(3);
    assert_string_equal(report->version, version);
}

/* It is said once, and looked for. */
static void included_file_that_is_missing_changes_nothing(void **context)
{
    (void)context;
    const struct rulebook_report *report = NULL;
    write_rules(including);
    write_text(f.part, one);
    open_book();
    report = rulebook_read_report(f.book);
    assert_int_equal(unlink(f.part), 0);
    until_failures(1);
    assert_non_null(strstr(report->error, "[include-unreadable]"));
    write_rules(including); /* touched, and no other */
    ev_sleep(1.5);
    (void)ev_run(f.loop, EVRUN_ONCE);
    (void)ev_run(f.loop, EVRUN_ONCE);
    assert_int_equal(report->n_failures, 1);
    write_text(f.part, two);
    until_changed(1);
    first_rule_is("b");
}

static void last_good_rules_are_one_file(void **context)
{
    (void)context;
    write_rules(including);
    write_text(f.part, one);
    open_book();
    close_book();
    assert_int_equal(unlink(f.part), 0);
    char *kept = read_text(f.last_good);
    assert_string_equal(kept, one_kept);
    free(kept);
    open_book();
    first_rule_is("a");
    assert_true(rulebook_read_report(f.book)->is_last_good);
    write_text(f.part, two);
    until_changed(1);
    first_rule_is("b");
}

/* One rule that is not as the defaults say makes all others say it themselves. */
static const char *rules_that_are_large_when_printed(void)
{
    enum {
        N_RULES = 9000,
        RULE_BYTES_MAX = 64
    };
    static char text[N_RULES * RULE_BYTES_MAX + 512];
    size_t len = (size_t)snprintf(text, sizeof(text),
                                  "defaults: {soft: 5%%, mode: shadow, action: warn, "
                                  "advertise: false, no_key: skip}\n" HEAD
                                  "- {name: a, key: [], limit: {requests: 1, per: 1s}, "
                                  "soft: off, mode: enforce, action: reject, "
                                  "advertise: true, no_key: ip}\n");
    for (unsigned i = 0; i < N_RULES; i++) {
        len += (size_t)
            snprintf(text + len, RULE_BYTES_MAX,
                     "- {name: r%u, key: [], limit: {requests: 1, per: 1s}}\n", i);
    }
    return text;
}

static void rules_that_are_large_when_printed_are_kept_as_they_are(void **context)
{
    (void)context;
    const char *text = rules_that_are_large_when_printed();
    write_rules(text);
    open_book();
    close_book();
    char *kept = read_text(f.last_good);
    assert_string_equal(kept, text);
    free(kept);
}

static void rules_in_several_files_that_would_be_too_large_are_not_kept(void **context)
{
    (void)context;
    write_rules(one);
    open_book();
    write_text(f.part, rules_that_are_large_when_printed());
    write_rules(including);
    until_changed(1);
    close_book();
    char *kept = read_text(f.last_good);
    assert_string_equal(kept, one_kept);
    free(kept);
}

/* A rule ends while the agent runs: the set is another one, the file the same. */
static void rules_end_while_they_are_in_force(void **context)
{
    (void)context;
    char text[512];
    char ends[32];
    time_t at = (time_t)(clock_wall_us() / US_PER_S) + 2;
    struct tm tm;
    (void)strftime(ends, sizeof(ends), "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&at, &tm));
    (void)snprintf(
        text, sizeof(text),
        HEAD "- {name: a, key: [ip], limit: {requests: 1, per: 1s}, expires: '%s'}\n"
             "- {name: b, key: [ip], limit: {requests: 1, per: 1s}}\n",
        ends);
    write_rules(text);
    open_book();
    assert_int_equal(rules_set_n_expired(rulebook_set(f.book)->rules), 0);
    until_changed(1);
    assert_int_equal(rules_set_n_expired(rulebook_set(f.book)->rules), 1);
    assert_true(clock_wall_us() / US_PER_S >= at);
    assert_int_equal(rules_set_changes_at_s(rulebook_set(f.book)->rules), INT64_MAX);
}

static const struct clients_report *clients_report(void)
{
    return &rulebook_read_report(f.book)->clients;
}

static void until_clients_changed(uint64_t n)
{
    while (clients_report()->n_changes < n) {
        turn();
    }
}

static void until_clients_failures(uint64_t n)
{
    while (clients_report()->n_failures < n) {
        turn();
    }
}

static void plan_is(const char *client, const char *want)
{
    struct rules_value value = {
        .type = RULES_TEXT,
        .bytes = {.ptr = (const uint8_t *)client, .len = strlen(client)},
    };
    struct rules_bytes plan = rules_clients_find(rulebook_clients(f.book), value);
    assert_int_equal(plan.len, strlen(want));
    assert_true(plan.len == 0 || memcmp(plan.ptr, want, plan.len) == 0);
}

static void kept_clients_are(const char *want)
{
    char *kept = read_text(f.last_good_clients);
    assert_non_null(kept);
    assert_string_equal(kept, want);
    free(kept);
}

/* The rules are not compiled for it, and what is counted stays where it is. */
static void clients_that_change_come_into_force_alone(void **context)
{
    (void)context;
    write_text(f.clients, "alice,gold\n");
    write_rules(NAMES("clients.csv"));
    open_book();
    const struct decide_set *set = rulebook_set(f.book);
    struct counters *counters = rulebook_counters(f.book)[0];
    assert_string_equal(clients_report()->path, f.clients);
    plan_is("alice", "gold");
    write_text(f.clients, "alice,free\nbob,gold\n");
    until_clients_changed(1);
    plan_is("alice", "free");
    plan_is("bob", "gold");
    assert_ptr_equal(rulebook_set(f.book), set);
    assert_ptr_equal(rulebook_counters(f.book)[0], counters);
    assert_int_equal(rulebook_read_report(f.book)->n_changes, 0);
    write_text(f.clients, "bob,free\n");
    rulebook_reload(f.book); /* told to */
    until_clients_changed(2);
    plan_is("alice", "");
    close_book();
    kept_clients_are("bob,free\n");
}

static void bad_clients_change_nothing(void **context)
{
    (void)context;
    write_text(f.clients, "alice,gold\n");
    write_rules(NAMES("{file: clients.csv, by: user}"));
    open_book();
    write_text(f.clients, "alice,free\nbob\n");
    until_clients_failures(1);
    plan_is("alice", "gold");
    assert_non_null(strstr(clients_report()->error, "line 2, column 4: "));
    assert_string_equal(rulebook_read_report(f.book)->error, "");
    assert_int_equal(unlink(f.clients), 0);
    until_clients_failures(2);
    assert_string_equal(clients_report()->error, "No such file or directory");
    write_text(f.clients, "alice,free\n");
    until_clients_changed(1);
    plan_is("alice", "free");
    assert_string_equal(clients_report()->error, "");
    assert_int_equal(clients_report()->n_failures, 2);
}

/* Other rules with the same file take the table that is there, good or not as it is now. */
static void rules_change_beside_their_clients(void **context)
{
    (void)context;
    write_text(f.clients, "alice,gold\n");
    write_rules(NAMES("clients.csv"));
    open_book();
    const struct rules_clients *clients = rulebook_clients(f.book);
    write_text(f.clients, "bad\n");
    write_rules(NAMES("{file: clients.csv, by: user}"));
    rulebook_reload(f.book);
    until_changed(1);
    until_clients_failures(1);
    assert_ptr_equal(rulebook_clients(f.book), clients);
    write_rules(one);
    until_changed(2);
    assert_null(rulebook_clients(f.book));
    assert_null(clients_report()->path);
    assert_string_equal(clients_report()->error, "");
}

static void rules_wait_for_their_clients(void **context)
{
    (void)context;
    const struct rulebook_report *report = NULL;
    write_rules(one);
    open_book();
    report = rulebook_read_report(f.book);
    write_rules(NAMES("others.csv"));
    until_failures(1);
    assert_null(rulebook_clients(f.book));
    assert_non_null(strstr(report->error, "others.csv: No such file or directory"));
    write_rules(NAMES("others.csv\nrequire: []")); /* and so do these */
    until_failures(2);
    assert_string_not_equal(report->error, "");
    write_text(f.others, "alice,gold\nalice,free\n");
    until_failures(3);
    assert_non_null(strstr(report->error, "[duplicate-client]"));
    assert_int_equal(report->n_changes, 0);
    write_text(f.others, "alice,gold\n");
    until_changed(1);
    plan_is("alice", "gold");
    assert_string_equal(report->error, "");
    write_text(f.clients, "10.0.0.1,gold\n");
    write_rules(NAMES("{file: clients.csv, by: ip}"));
    until_changed(2);
    plan_is("alice", "");
    plan_is("10.0.0.1", "gold");
}

/* Rules that are given up while their clients are read. */
static void rules_in_quick_succession_end_with_the_newest(void **context)
{
    (void)context;
    write_text(f.clients, "alice,gold\n");
    write_text(f.others, "alice,free\n");
    write_rules(one);
    open_book();
    for (int i = 0; i < 20; i++) {
        write_rules(i % 3 == 0   ? NAMES("clients.csv")
                    : i % 3 == 1 ? NAMES("others.csv")
                                 : one);
        rulebook_reload(f.book);
        (void)ev_run(f.loop, EVRUN_NOWAIT);
    }
    write_rules(NAMES("others.csv"));
    rulebook_reload(f.book);
    while (clients_report()->path == NULL
           || strcmp(clients_report()->path, f.others) != 0) {
        turn();
    }
    plan_is("alice", "free");
    write_text(f.others, "alice,new\n");
    rulebook_reload(f.book);
    rulebook_stop(f.book); /* nobody hears of what the loader makes */
}

static void bad_clients_at_start_are_bad_rules(void **context)
{
    (void)context;
    write_rules(NAMES("clients.csv"));
    assert_null(rulebook_open(f.path, f.dir, WORKERS, NULL));
    write_text(f.clients, "alice,gold\n");
    open_book();
    close_book();
    kept_clients_are("alice,gold\n");
    write_text(f.clients, "alice\n");
    open_book();
    assert_true(rulebook_read_report(f.book)->is_last_good);
    assert_non_null(strstr(rulebook_read_report(f.book)->error, "[bad-client]"));
    plan_is("alice", "gold");
    write_text(f.clients, "alice,free\n");
    until_changed(1);
    plan_is("alice", "free");
    assert_false(rulebook_read_report(f.book)->is_last_good);
    assert_string_equal(rulebook_read_report(f.book)->error, "");
    close_book();
    kept_clients_are("alice,free\n");
    assert_int_equal(unlink(f.clients), 0);
    assert_int_equal(unlink(f.last_good_clients), 0);
    assert_null(rulebook_open(f.path, f.dir, WORKERS, NULL));
}

/* The rules are the last good ones, the clients those of today. */
static void clients_change_beside_bad_rules(void **context)
{
    (void)context;
    write_text(f.clients, "alice,gold\n");
    write_rules(NAMES("clients.csv"));
    open_book();
    close_book();
    write_rules(bad);
    write_text(f.clients, "alice,free\n");
    open_book();
    plan_is("alice", "gold");
    until_clients_changed(1);
    plan_is("alice", "free");
    assert_true(rulebook_read_report(f.book)->is_last_good);
    assert_string_not_equal(rulebook_read_report(f.book)->error, "");
}

static void nothing_is_served_without_good_rules(void **context)
{
    (void)context;
    assert_null(rulebook_open(f.path, f.dir, WORKERS, NULL));
    write_rules(bad);
    assert_null(rulebook_open(f.path, f.dir, WORKERS, NULL));
    assert_null(rulebook_open(f.path, NULL, WORKERS, NULL));
}

static void counters_in_redis_need_one(void **context)
{
    (void)context;
    static const char *const stores[] = {"sync", "lease", "redis"};
    char text[256];
    for (size_t i = 0; i < ARRAY_LEN(stores); i++) {
        (void)snprintf(text, sizeof(text),
                       "version: 1\ndomain: api\nrules:\n"
                       "  - {name: a, key: [k], limit: {requests: 5, per: 60s}, "
                       "store: %s}\n",
                       stores[i]);
        write_rules(text);
        assert_null(rulebook_open(f.path, f.dir, WORKERS, NULL));
    }
    f.book = rulebook_open(f.path, f.dir, WORKERS, "rl");
    assert_non_null(f.book);
}

/* Why the last good rules are not served either is said. */
static void last_good_rules_that_are_bad_are_told_of(void **context)
{
    (void)context;
    static char said[4096];
    int fds[2];
    int saved = dup(STDERR_FILENO);
    write_rules(bad);
    assert_int_equal(mkdir(f.last_good, 0700), 0);
    assert_int_equal(pipe(fds), 0);
    assert_int_equal(dup2(fds[1], STDERR_FILENO), STDERR_FILENO);
    f.book = rulebook_open(f.path, f.dir, WORKERS, NULL);
    assert_int_equal(dup2(saved, STDERR_FILENO), STDERR_FILENO);
    assert_null(f.book);
    assert_true(read(fds[0], said, sizeof(said) - 1) > 0);
    assert_non_null(strstr(said, LAST_GOOD_FILE ": not a regular file"));
    assert_int_equal(rmdir(f.last_good), 0);
    (void)close(saved);
    (void)close(fds[0]);
    (void)close(fds[1]);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(file_that_changes_comes_into_force),
        TEST(the_newest_rules_are_those_of_the_workers),
        TEST(file_behind_a_link_comes_into_force),
        TEST(what_was_counted_goes_on),
        TEST(bad_file_changes_nothing),
        TEST(bad_file_stays_reported),
        TEST(nobody_waits_for_a_reader_of_errors),
        TEST(file_that_is_gone_changes_nothing),
        TEST(newest_of_several_wins),
        TEST(last_good_rules_are_served_where_the_file_is_bad),
        TEST(included_file_that_changes_comes_into_force),
        TEST(included_file_that_is_missing_changes_nothing),
        TEST(last_good_rules_are_one_file),
        TEST(rules_that_are_large_when_printed_are_kept_as_they_are),
        TEST(rules_in_several_files_that_would_be_too_large_are_not_kept),
        TEST(rules_end_while_they_are_in_force),
        TEST(clients_that_change_come_into_force_alone),
        TEST(bad_clients_change_nothing),
        TEST(rules_change_beside_their_clients),
        TEST(rules_wait_for_their_clients),
        TEST(rules_in_quick_succession_end_with_the_newest),
        TEST(bad_clients_at_start_are_bad_rules),
        TEST(clients_change_beside_bad_rules),
        TEST(nothing_is_served_without_good_rules),
        TEST(counters_in_redis_need_one),
        TEST(last_good_rules_that_are_bad_are_told_of),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
