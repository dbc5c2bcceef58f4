#include "tests/conformance/redis_fixture.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sys/stat.h>

#include <cmocka.h>

enum {
    OPTIONS_MAX = 36,
    OPTION_BYTES_MAX = 1024,
    TRIES_MAX = 5000,
    TRY_PAUSE_US = 2000,
    COUNTED_IN_ROW = 32,
};

struct redis_fixture r;

static char password_file[64];
static char config[512];
static char rules[4096];

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

/* The user that agent/README.md gives the agent, and no other; commands of the test's own
 * come from the user named default. */
static char option_text[OPTION_BYTES_MAX];
static const char *server_options[OPTIONS_MAX + 1];

void tell(const char *command, const char *wanted)
{
    char reply[512];
    assert_true(redis_process_tell(&r.server, command, reply, sizeof(reply)));
    if (strncmp(reply, wanted, strlen(wanted)) != 0) {
        fail_msg("%s: %s", command, reply);
    }
}

unsigned tell_number(const char *command)
{
    char reply[512];
    assert_true(redis_process_tell(&r.server, command, reply, sizeof(reply)));
    if (reply[0] != ':') {
        fail_msg("%s: %s", command, reply);
    }
    return (unsigned)strtoul(reply + 1, NULL, 10);
}

unsigned n_keys_where(const char *pattern, const char *expression)
{
    char command[512];
    (void)snprintf(command, sizeof(command),
                   "EVAL \"local n = 0 for _, k in ipairs(redis.call('keys', '%s')) do "
                   "if %s then n = n + 1 end end return n\" 0",
                   pattern, expression);
    return tell_number(command);
}

void put_question(const char *route, const char *key, uint64_t id)
{
    wire_notify_begin(&r.wire, id, 1, 2);
    wire_arg_text(&r.wire, "route", route);
    wire_arg_text(&r.wire, "key", key);
    wire_end(&r.wire);
}

void receive_ack(struct spop_client *c)
{
    assert_true(spop_client_receive(c));
    const char *fault = wire_read_ack(c->frame, c->frame_len, WIRE_SIZE, &r.ack);
    if (fault != NULL) {
        fail_msg("the agent sent %s", fault);
    }
}

void start_agent(void)
{
    assert_true(agent_process_start(&r.agent, &r.options));
    for (int i = 0; i < CLIENTS; i++) {
        assert_true(spop_client_open(&r.clients[i], r.agent.socket_path));
    }
}

void stop_agent(int signal)
{
    for (int i = 0; i < CLIENTS; i++) {
        spop_client_close(&r.clients[i]);
    }
    assert_int_equal(agent_process_stop(&r.agent, signal),
                     signal == SIGKILL ? 128 + SIGKILL : 0);
}

static void write_password(void)
{
    (void)snprintf(password_file, sizeof(password_file), "%s/password", r.server.dir);
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

static bool is_counted(struct spop_client *c)
{
    r.wire.len = 0;
    put_question("local", "start", 1);
    assert_true(spop_client_send(c, r.wire.bytes, r.wire.len));
    receive_ack(c);
    return !wire_ack_is_by_policy(&r.ack);
}

/* Each worker has a connection of its own to Redis; and a node that just came, or was late,
 * is asked about a part of the requests first, at most half of them. */
void wait_for_counting(void)
{
    unsigned n_tries = 0;
    for (int i = 0; i < CLIENTS; i++) {
        unsigned n_in_row = 0;
        while (n_in_row < COUNTED_IN_ROW) {
            if (is_counted(&r.clients[i])) {
                n_in_row++;
                continue;
            }
            n_in_row = 0;
            assert_in_range(++n_tries, 1, TRIES_MAX);
            (void)usleep(TRY_PAUSE_US);
        }
    }
}

void start_all(bool with_proxy, const char *more, unsigned deadline_ms)
{
    assert_true(redis_process_start(&r.server, server_options));
    r.has_proxy = with_proxy;
    assert_true(!with_proxy || redis_proxy_start(&r.proxy, r.server.port));
    write_password();
    write_rules();
    (void)snprintf(config, sizeof(config),
                   "workers: 2\nmemory: 4MiB\nheaders: [draft-8, x-ratelimit]\n"
                   "retry_jitter: 0\ndeadline_ms: %u\nredis: { addresses: "
                   "[\"127.0.0.1:%u\"], user: limiter, password_file: \"%s\"%s }\n",
                   deadline_ms, with_proxy ? r.proxy.port : r.server.port,
                   password_file, more);
    r.options = (struct agent_process_options){.program = AGENT_PROGRAM,
                                               .rules = rules,
                                               .config = config};
    assert_true(agent_process_init(&r.agent, &r.options));
    start_agent();
    wait_for_counting();
}

int stop_all(void)
{
    int code = r.agent.pid != 0 ? agent_process_stop(&r.agent, SIGTERM) : 0;
    for (int i = 0; i < CLIENTS; i++) {
        spop_client_close(&r.clients[i]);
    }
    bool is_clean = agent_process_fini(&r.agent);
    if (r.has_proxy) {
        redis_proxy_stop(&r.proxy);
    }
    (void)unlink(password_file);
    redis_process_stop(&r.server);
    return code != 0 || !is_clean;
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

unsigned n_rounds(void)
{
    const char *text = getenv("ROUNDS"); /* NOLINT(concurrency-mt-unsafe) */
    return text != NULL ? (unsigned)strtoul(text, NULL, 10) : 2;
}

bool redis_fixture_init(void)
{
    if (!read_options()) {
        (void)fprintf(stderr, "agent/README.md gives no user\n");
        return false;
    }
    split_options();
    return true;
}
