#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "agent/config.h"

static char errors[4096];

/* Read `text` as agent.yaml; what is said about it is left in `errors`. */
static bool read_text(struct config *config, const char *text)
{
    char path[] = "/tmp/test_config.XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    (void)close(fd);
    FILE *out = fmemopen(errors, sizeof(errors), "w");
    assert_non_null(out);
    config_init(config);
    bool ok = config_read(config, path, out);
    (void)fclose(out);
    (void)unlink(path);
    return ok;
}

static void every_field(void **context)
{
    (void)context;
    struct config config;
    bool ok = read_text(&config, "listen: [127.0.0.1:9000, 'unix@/run/x.sock']\n"
                                 "workers: 4\n"
                                 "nodes: 3\n"
                                 "rules: /etc/rules.yaml\n"
                                 "memory: 1GiB\n"
                                 "state_dir: /var/lib/agent\n"
                                 "headers: [draft-8, x-ratelimit]\n"
                                 "problem: false\n"
                                 "retry_jitter: 0.25\n"
                                 "variables: [deny, rule]\n"
                                 "runtime:\n"
                                 "  - /run/user.sock\n"
                                 "  - { path: /run/admin.sock, mode: '0600' }\n"
                                 "log: { level: debug }\n");
    assert_string_equal(errors, "");
    assert_true(ok);
    assert_int_equal(config.n_listen, 2);
    assert_string_equal(config.listen[1].text, "unix@/run/x.sock");
    assert_int_equal(config.n_workers, 4);
    assert_int_equal(config.n_nodes, 3);
    assert_string_equal(config.rules_path, "/etc/rules.yaml");
    assert_int_equal(config.memory_bytes, (size_t)1 << 30);
    assert_string_equal(config.state_dir, "/var/lib/agent");
    assert_false(config.has_problem);
    assert_int_equal(config.retry_jitter_permille, 250);
    assert_int_equal(config.n_runtimes, 2);
    assert_int_equal(config.runtimes[0].unix_mode, 0660);
    assert_int_equal(config.runtimes[1].unix_mode, 0600);
    assert_int_equal(config.log_level, LOG_LEVEL_DEBUG);
    variable_set want = VARIABLE_BIT(VARIABLE_DENY) | VARIABLE_BIT(VARIABLE_RULE)
                        | VARIABLE_BIT(VARIABLE_RATELIMIT)
                        | VARIABLE_BIT(VARIABLE_POLICY) | VARIABLE_BIT(VARIABLE_LIMIT)
                        | VARIABLE_BIT(VARIABLE_REMAINING)
                        | VARIABLE_BIT(VARIABLE_RESET);
    assert_int_equal(config_variables(&config), want);
}

static void defaults(void **context)
{
    (void)context;
    struct config config;
    assert_true(read_text(&config, "workers: 2\n"));
    assert_int_equal(config.memory_bytes, 64 << 20);
    assert_int_equal(config.retry_jitter_permille, 100);
    assert_int_equal(config.n_listen, 0);
    assert_int_equal(config.n_nodes, 0);
    assert_string_equal(config.state_dir, "");
    variable_set want = variables_default() | VARIABLE_BIT(VARIABLE_RATELIMIT)
                        | VARIABLE_BIT(VARIABLE_POLICY)
                        | VARIABLE_BIT(VARIABLE_PROBLEM);
    assert_int_equal(config_variables(&config), want);
}

static void jitter_in_all_its_spellings(void **context)
{
    (void)context;
    static const struct {
        const char *text;
        int permille;
    } cases[] = {{"0", 0},        {"1", 1000},  {"0.1", 100},  {"0.005", 5},
                 {"1.000", 1000}, {"0.", 0},    {"1.001", -1}, {"0.0001", -1},
                 {"2", -1},       {"-0.1", -1}, {"x", -1},     {".5", -1}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct config config;
        char text[64];
        (void)snprintf(text, sizeof(text), "retry_jitter: '%s'\n", cases[i].text);
        assert_int_equal(read_text(&config, text), cases[i].permille >= 0);
        if (cases[i].permille >= 0) {
            assert_int_equal(config.retry_jitter_permille, cases[i].permille);
        }
    }
}

/* Each is refused, at its line and column, with its code. */
static void every_error_has_a_place(void **context)
{
    (void)context;
    static const struct {
        const char *text;
        const char *place;
        const char *code;
    } cases[] = {
        {"listen: nonsense\n", ":1:9:", "bad-value"},
        {"listen: [127.0.0.1:0]\n", ":1:10:", "bad-value"},
        {"listen: {a: b}\n", ":1:9:", "bad-value"},
        {"workers: 0\n", ":1:10:", "bad-value"},
        {"workers: 65\n", ":1:10:", "bad-value"},
        {"workers: 2x\n", ":1:10:", "bad-value"},
        {"workers: [2]\n", ":1:10:", "bad-value"},
        {"nodes: 0\n", ":1:8:", "bad-value"},
        {"nodes: 10001\n", ":1:8:", "bad-value"},
        {"rules: ''\n", ":1:8:", "bad-value"},
        {"memory: 64\n", ":1:9:", "bad-value"},
        {"memory: 1KiB\n", ":1:9:", "bad-value"},
        {"memory: 99999999999999999999MiB\n", ":1:9:", "bad-value"},
        {"state_dir: relative\n", ":1:12:", "bad-value"},
        {"state_dir: [/a]\n", ":1:12:", "bad-value"},
        {"headers: draft-7\n", ":1:10:", "bad-value"},
        {"problem: yes\n", ":1:10:", "bad-value"},
        {"variables: [deny, nonsense]\n", ":1:19:", "bad-value"},
        {"variables: []\n", ":1:12:", "bad-value"},
        {"retry_jitter: 9223372036854775807\n", ":1:15:", "bad-value"},
        {"runtime: relative/path\n", ":1:10:", "bad-value"},
        {"runtime: [{mode: '0600'}]\n", ":1:11:", "bad-value"},
        {"runtime: [{path: /x, mode: '9'}]\n", ":1:28:", "bad-value"},
        {"runtime: [{path: /x, level: admin}]\n", ":1:22:", "not-yet"},
        {"runtime: [{path: /x, nonsense: 1}]\n", ":1:22:", "unknown-field"},
        {"log: debug\n", ":1:6:", "bad-value"},
        {"log: {level: loud}\n", ":1:14:", "bad-value"},
        {"http: 127.0.0.1:80\n", ":1:1:", "not-yet"},
        {"lease: 5%\n", ":1:8:", "bad-value"},
        {"lease: {shares: 5%}\n", ":1:9:", "unknown-field"},
        {"lease: {share: 5}\n", ":1:16:", "bad-value"},
        {"lease: {share: [5%]}\n", ":1:16:", "bad-value"},
        {"lease: {share: 0%}\n", ":1:16:", "bad-value"},
        {"lease: {share: 50.01%}\n", ":1:16:", "bad-value"},
        {"lease: {horizon: 9ms}\n", ":1:18:", "bad-value"},
        {"lease: {horizon: 61s, ttl: 60s}\n", ":1:18:", "bad-value"},
        {"lease: {horizon: 2001ms}\n", ":1:8:", "not longer than ttl"},
        {"lease: {ttl: 2}\n", ":1:14:", "bad-value"},
        {"lease: {ttl: 499ms}\n", ":1:14:", "bad-value"},
        {"lease: {ttl: 61s}\n", ":1:14:", "bad-value"},
        {"sync: {interval: 9ms}\n", ":1:18:", "bad-value"},
        {"sync: {interval: 11s}\n", ":1:18:", "bad-value"},
        {"sync: {interval: [1s]}\n", ":1:18:", "bad-value"},
        {"sync: {intervall: 1s}\n", ":1:8:", "unknown-field"},
        {"deadline_ms: 1\n", ":1:14:", "bad-value"},
        {"deadline_ms: 1001\n", ":1:14:", "bad-value"},
        {"secret_file: ''\n", ":1:14:", "bad-value"},
        {"redis: {}\n", ":1:8:", "bad-value"},
        {"redis: a:6379\n", ":1:8:", "bad-value"},
        {"redis: {addresses: [nonsense]}\n", ":1:21:", "bad-value"},
        {"redis: {addresses: [a:1], addreses: [b:1]}\n", ":1:27:", "unknown-field"},
        {"redis: {addresses: a:1, cluster: maybe}\n", ":1:34:", "bad-value"},
        {"redis: {addresses: a:1, cluster: true, sentinel: m}\n", ":1:8:", "bad-value"},
        {"redis: {addresses: a:1, cluster: true, database: 1}\n", ":1:8:", "bad-value"},
        {"redis: {addresses: a:1, database: 65536}\n", ":1:35:", "bad-value"},
        {"redis: {addresses: a:1, prefix: 'a:b'}\n", ":1:33:", "bad-value"},
        {"redis: {addresses: a:1, prefix: ''}\n", ":1:33:", "bad-value"},
        {"redis: {addresses: a:1, node_networks: 10.0.0.1/8}\n", ":1:40:", "bad-value"},
        {"redis: {addresses: a:1, slow_ms: -1}\n", ":1:34:", "bad-value"},
        {"redis: {addresses: a:1, user: u}\n", ":1:31:", "bad-value"},
        {"redis: {addresses: a:1, sentinel: {}}\n", ":1:35:", "bad-value"},
        {"redis: {addresses: a:1, sentinel: {name: m, user: u}}\n",
         ":1:51:", "bad-value"},
        {"redis: {addresses: []}\n", ":1:8:", "bad-value"},
        {"redis: {addresses: a:1, tls: {cert_file: /a}}\n", ":1:30:", "bad-value"},
        {"redis: {addresses: a:1, tls: {ca: /a}}\n", ":1:31:", "unknown-field"},
        {"redis: {addresses: a:1, sentinel: {user: u, nme: m}}\n",
         ":1:45:", "unknown-field"},
        {"wrkers: 2\n", ":1:1:", "unknown-field"},
        {"- a\n", ":1:1:", "bad-value"},
        {"a: [\n", ":2:", ""},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct config config;
        assert_false(read_text(&config, cases[i].text));
        if (strstr(errors, cases[i].place) == NULL
            || strstr(errors, cases[i].code) == NULL) {
            print_error("%s%s", cases[i].text, errors);
            fail();
        }
    }
}

static void redis_is_read(void **context)
{
    (void)context;
    struct config config;
    assert_true(read_text(&config,
                          "deadline_ms: 8\n"
                          "redis:\n"
                          "  addresses: [redis1:6379, '[2001:db8::1]:7000']\n"
                          "  sentinel: {name: main, user: s, password_file: sp}\n"
                          "  user: limiter\n"
                          "  password_file: /run/p\n"
                          "  database: 3\n"
                          "  tls: {ca_file: /ca, server_name: redis.example}\n"
                          "  prefix: edge\n"
                          "  node_networks: [10.0.0.0/8, 2001:db8::/32]\n"
                          "  slow_ms: 0\n"));
    const struct config_redis *redis = &config.redis;
    assert_true(redis->is_given);
    assert_int_equal(config.deadline_us, 8000);
    assert_int_equal(redis->mode, REDIS_SENTINEL);
    assert_int_equal(redis->n_endpoints, 2);
    assert_string_equal(redis->endpoints[0].host, "redis1");
    assert_int_equal(redis->endpoints[1].port, 7000);
    assert_string_equal(redis->primary_name, "main");
    assert_string_equal(redis->sentinel_user, "s");
    assert_string_equal(redis->sentinel_password_file, "sp");
    assert_string_equal(redis->user, "limiter");
    assert_string_equal(redis->password_file, "/run/p");
    assert_int_equal(redis->database, 3);
    assert_true(redis->has_tls);
    assert_string_equal(redis->ca_file, "/ca");
    assert_string_equal(redis->server_name, "redis.example");
    assert_string_equal(redis->prefix, "edge");
    assert_int_equal(redis->n_networks, 2);
    assert_int_equal(redis->networks[0].bits, 8);
    assert_int_equal(redis->networks[1].n_bytes, 16);
    assert_int_equal(redis->slow_us, 0);

    assert_true(read_text(&config, "redis: {addresses: unix@/run/redis.sock}\n"));
    assert_int_equal(redis->mode, REDIS_SINGLE);
    assert_string_equal(redis->prefix, "rl");
    assert_int_equal(redis->slow_us, 2000);
    assert_int_equal(config.deadline_us, 5000);
    assert_true(read_text(&config, "workers: 1\n"));
    assert_false(redis->is_given);
}

static void lease_and_sync_are_read(void **context)
{
    (void)context;
    struct config config;
    assert_true(read_text(&config, "lease: {share: 0.01%, horizon: 10ms, ttl: 500ms}\n"
                                   "sync: {interval: 10ms}\n"));
    assert_int_equal(config.lease_share, 1);
    assert_int_equal(config.lease_horizon_us, 10000);
    assert_int_equal(config.lease_ttl_us, 500000);
    assert_int_equal(config.sync_interval_us, 10000);
    assert_true(read_text(&config, "lease: {share: 50%, horizon: 1m, ttl: 60s}\n"
                                   "sync: {interval: 10s}\n"));
    assert_int_equal(config.lease_share, 5000);
    assert_int_equal(config.lease_horizon_us, 60000000);
    assert_int_equal(config.lease_ttl_us, 60000000);
    assert_int_equal(config.sync_interval_us, 10000000);
    assert_true(read_text(&config, "lease: {ttl: 3s}\n"));
    assert_int_equal(config.lease_share, 500);
    assert_int_equal(config.lease_horizon_us, 1000000);
    assert_int_equal(config.lease_ttl_us, 3000000);
    assert_int_equal(config.sync_interval_us, 100000);
}

static void all_errors_in_one_run_and_a_hint(void **context)
{
    (void)context;
    struct config config;
    assert_false(read_text(&config, "wrkers: 2\nmemory: none\n"));
    assert_non_null(strstr(errors, "did you mean workers?"));
    assert_non_null(strstr(errors, ":2:9:"));
}

static void missing_file(void **context)
{
    (void)context;
    struct config config;
    FILE *out = fmemopen(errors, sizeof(errors), "w");
    config_init(&config);
    assert_false(config_read(&config, "/nonexistent/agent.yaml", out));
    (void)fclose(out);
    assert_string_equal(errors, "/nonexistent/agent.yaml: No such file or directory\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_field),
        cmocka_unit_test(defaults),
        cmocka_unit_test(jitter_in_all_its_spellings),
        cmocka_unit_test(every_error_has_a_place),
        cmocka_unit_test(redis_is_read),
        cmocka_unit_test(lease_and_sync_are_read),
        cmocka_unit_test(all_errors_in_one_run_and_a_hint),
        cmocka_unit_test(missing_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
