/* What check says of real redis-servers, of those that are none, and of users with fewer
 * rights than agent/README.md says they need. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <sodium.h>

#include "agent/command/check_code.h"
#include "agent/command/check_redis.h"
#include "agent/control/stores.h"
#include "agent/file.h"

#include "tests/support/fake_redis.h"
#include "tests/support/loop_thread.h"
#include "tests/support/redis_process.h"

enum {
    WORDS_MAX = 48,
    WORD_BYTES_MAX = 40,
    README_BYTES_MAX = 1024 * 1024,
};

static struct config_redis config;
static struct stores stores;
static struct redis_process server;
static struct rules_diags diags;
static struct check_redis found;
static bool is_seen[CHECK_CODES_COUNT];

static const char *const plain[] = {NULL};
static const char *const cluster[] = {"--cluster-enabled", "yes", NULL};

static int set_up(void **state)
{
    (void)state;
    config = (struct config_redis){.is_given = true, .n_endpoints = 1, .prefix = "rl"};
    server = (struct redis_process){.port = 0};
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    check_redis_fini(&found);
    found = (struct check_redis){0};
    stores_close(&stores);
    redis_process_stop(&server);
    return 0;
}

static void start(const char *const *options)
{
    assert_true(redis_process_start(&server, options));
    config.endpoints[0] = redis_process_endpoint(&server);
}

static void tell(const char *command, const char *want)
{
    char reply[512];
    assert_true(redis_process_tell(&server, command, reply, sizeof(reply)));
    if (strstr(reply, want) == NULL) {
        fail_msg("%s: %s", command, reply);
    }
}

static void note_codes(void)
{
    for (uint32_t i = 0; i < diags.n_kept; i++) {
        for (size_t k = 0; k < CHECK_CODES_COUNT; k++) {
            is_seen[k] |= diags.kept[i].code == check_codes[k];
        }
    }
}

static bool has_text(const char *want)
{
    for (uint32_t i = 0; i < diags.n_kept; i++) {
        if (strstr(diags.kept[i].text, want) != NULL) {
            return true;
        }
    }
    return false;
}

/* Ask once; what is found is a code and a blank each. */
static const char *ask_once(const char *user, const char *password)
{
    static char codes[1024];
    size_t n = 0;
    stores_close(&stores);
    stores = (struct stores){.config = NULL};
    check_redis_fini(&found);
    found = (struct check_redis){0};
    rules_diags_init(&diags, "agent.yaml");
    assert_true(stores_prepare(&stores, &config));
    stores.options.user = user;
    stores.options.password = password;
    assert_true(check_redis_find(&stores.options, config.prefix, &diags, &found));
    note_codes();
    codes[0] = '\0';
    for (uint32_t i = 0; i < diags.n_kept; i++) {
        bool is_warning = diags.kept[i].code == check_code_redis_evicts
                          || diags.kept[i].code == check_code_redis_unseen;
        assert_int_equal(diags.kept[i].severity == RULES_WARNING, is_warning);
        n += (size_t)snprintf(codes + n, sizeof(codes) - n, "%s ", diags.kept[i].code);
    }
    return codes;
}

/* The same, and again where this host was too busy to answer in time. */
static const char *ask_as(const char *user, const char *password)
{
    const char *codes = ask_once(user, password);
    for (unsigned i = 0; i < 20 && has_text("no answer"); i++) {
        codes = ask_once(user, password);
    }
    return codes;
}

static const char *ask(void)
{
    return ask_as(NULL, NULL);
}

static void expect_text(const char *want)
{
    if (!has_text(want)) {
        fail_msg("no \"%s\" in: %s", want, diags.n_kept > 0 ? diags.kept[0].text : "");
    }
}

static void test_a_good_one(void **state)
{
    (void)state;
    start(plain);
    assert_string_equal(ask(), "");
    assert_int_equal(found.n_nodes, 1);
    assert_int_equal(strncmp(found.nodes[0].name, "127.0.0.1:", 10), 0);
    assert_true(strtol(found.nodes[0].version, NULL, 10) >= 5);
    assert_string_equal(found.nodes[0].role, "primary");
    assert_string_equal(found.nodes[0].eviction, "noeviction");
    assert_int_equal(found.nodes[0].memory_bytes, 0);
    assert_true(found.nodes[0].round_trip_us > 0);
    tell("dbsize", ":0"); /* nothing is left behind */
}

static void test_eviction(void **state)
{
    static const char *const bad[] = {"allkeys-lru",    "allkeys-lfu",
                                      "allkeys-random", "volatile-lru",
                                      "volatile-lfu",   "volatile-random"};
    char command[96];
    (void)state;
    start(plain);
    tell("config set maxmemory 100mb", "+OK");
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        (void)snprintf(command, sizeof(command), "config set maxmemory-policy %s",
                       bad[i]);
        tell(command, "+OK");
        assert_string_equal(ask(), "redis-evicts ");
        expect_text(bad[i]);
    }
    tell("config set maxmemory-policy volatile-ttl", "+OK");
    assert_string_equal(ask(), "");
    assert_string_equal(found.nodes[0].eviction, "volatile-ttl");
    assert_int_equal(found.nodes[0].memory_bytes, 100 * 1024 * 1024);
}

/* The rights that agent/README.md gives: words behind the user's name. */
static size_t read_rights(char words[WORDS_MAX][WORD_BYTES_MAX])
{
    static const char head[] = "ACL SETUSER limiter ";
    const char *error = NULL;
    size_t len = 0;
    size_t n = 0;
    char *text = file_read("agent/README.md", README_BYTES_MAX, &len, &error);
    assert_non_null(text);
    const char *at = strstr(text, head);
    assert_non_null(at);
    at += strlen(head);
    while (*at != '\n' && *at != '\0') {
        size_t word = strcspn(at, " \n");
        assert_true(n < WORDS_MAX && word < WORD_BYTES_MAX);
        memcpy(words[n], at, word);
        words[n++][word] = '\0';
        at += word + (at[word] == ' ');
    }
    free(text);
    return n;
}

static void set_rights(char words[WORDS_MAX][WORD_BYTES_MAX], size_t n)
{
    char command[1024] = "acl setuser limiter";
    size_t len = strlen(command);
    for (size_t i = 0; i < n; i++) {
        len += (size_t)snprintf(command + len, sizeof(command) - len, " %s", words[i]);
    }
    tell(command, "+OK");
}

/* Without one of its rights: told by its name. */
static void expect_denied(const char *right)
{
    char command[128];
    (void)snprintf(command, sizeof(command), "acl setuser limiter -%s", right + 1);
    tell(command, "+OK");
    if (strstr(ask_as("limiter", "PASSWORD"), "redis-denied ") == NULL) {
        fail_msg("%s is not missed: %s", right,
                 diags.n_kept > 0 ? diags.kept[0].text : "");
    }
    expect_text(right + 1);
    (void)snprintf(command, sizeof(command), "acl setuser limiter %s", right);
    tell(command, "+OK");
}

/* Greetings of these may fail, or they are of a cluster. */
static bool is_tried_elsewhere(const char *right)
{
    return strcmp(right, "+auth") == 0 || strcmp(right, "+select") == 0
           || strcmp(right, "+client|setname") == 0 || strcmp(right, "+asking") == 0
           || strcmp(right, "+cluster|slots") == 0;
}

static void test_rights(void **state)
{
    static char words[WORDS_MAX][WORD_BYTES_MAX];
    size_t n = read_rights(words);
    unsigned n_tried = 0;
    (void)state;
    start(plain);
    set_rights(words, n);
    assert_string_equal(ask_as("limiter", "PASSWORD"), "redis-unseen ");
    assert_string_equal(found.nodes[0].version, "");
    assert_int_equal(found.nodes[0].memory_bytes, -1);
    for (size_t i = 0; i < n; i++) {
        if (words[i][0] == '+' && !is_tried_elsewhere(words[i])) {
            expect_denied(words[i]);
            n_tried++;
        }
    }
    assert_true(n_tried >= 10);
    tell("acl setuser limiter +info", "+OK");
    assert_string_equal(ask_as("limiter", "PASSWORD"), "");
    tell("acl setuser limiter -del -zadd", "+OK");
    assert_string_equal(ask_as("limiter", "PASSWORD"), "redis-denied ");
    expect_text("ACL SETUSER limiter +zadd +del");
    tell("acl setuser limiter +del +zadd resetkeys ~other:*", "+OK");
    assert_string_equal(ask_as("limiter", "PASSWORD"), "redis-denied ");
    expect_text("ACL SETUSER limiter ~rl:*");
    assert_string_equal(ask_as("limiter", "another"), "redis-denied ");
    assert_int_equal(found.n_nodes, 0);
    config.database = 1;
    tell("acl setuser limiter -select", "+OK");
    assert_string_equal(ask_as("limiter", "PASSWORD"), "redis-denied ");
    tell("config set requirepass word", "+OK");
    assert_string_equal(ask(), "redis-denied ");
    config.database = 0;
    assert_string_equal(ask(), "redis-denied ");
    expect_text("NOAUTH");
}

static void test_clusters(void **state)
{
    static char words[WORDS_MAX][WORD_BYTES_MAX];
    size_t n = read_rights(words);
    (void)state;
    start(cluster);
    config.mode = REDIS_CLUSTER;
    assert_string_equal(ask(), "redis-unreachable ");
    tell("cluster addslotsrange 0 8191", "+OK");
    tell("config set cluster-require-full-coverage no", "+OK");
    while (strcmp(ask(), "redis-unreachable redis-refuses ") == 0) { /* it is down */
        expect_text("CLUSTERDOWN");
        (void)usleep(10000);
    }
    assert_string_equal(ask(), "redis-unreachable ");
    expect_text("8192 slots of the cluster have no node");
    assert_int_equal(found.n_nodes, 1);
    tell("cluster addslotsrange 8192 16383", "+OK");
    assert_string_equal(ask(), "");
    tell("dbsize", ":0");
    set_rights(words, n);
    assert_string_equal(ask_as("limiter", "PASSWORD"), "redis-unseen ");
    expect_denied("+asking");
    tell("acl setuser limiter -cluster|slots", "+OK");
    assert_string_equal(ask_as("limiter", "PASSWORD"), "redis-denied ");
    config.mode = REDIS_SINGLE;
    assert_string_equal(ask(), "redis-mode ");
    assert_string_equal(ask_as("limiter", "PASSWORD"), "redis-unseen ");
}

/* Told by MOVED, where INFO is not allowed. */
static void test_a_node_without_slots(void **state)
{
    static char words[WORDS_MAX][WORD_BYTES_MAX];
    size_t n = read_rights(words);
    (void)state;
    start(cluster);
    set_rights(words, n);
    assert_string_equal(ask_as("limiter", "PASSWORD"), "redis-unseen redis-refuses ");
    expect_text("CLUSTERDOWN");
}

static void test_no_cluster(void **state)
{
    (void)state;
    start(plain);
    config.mode = REDIS_CLUSTER;
    assert_string_equal(ask(), "redis-mode ");
    expect_text("leave `cluster` out");
    config.mode = REDIS_SENTINEL;
    (void)strcpy(config.primary_name, "main");
    assert_string_equal(ask(), "redis-mode ");
    expect_text("leave `sentinel` out");
}

static void test_a_replica(void **state)
{
    (void)state;
    start(plain);
    tell("replicaof 127.0.0.1 1", "+OK");
    assert_string_equal(ask(), "redis-replica ");
    assert_string_equal(found.nodes[0].role, "replica");
    tell("acl setuser default -role", "+OK");
    assert_string_equal(ask(), "redis-replica redis-denied "); /* it refuses to write */
}

static void test_one_that_refuses(void **state)
{
    (void)state;
    start(plain);
    tell("config set maxmemory 1", "+OK");
    assert_string_equal(ask(), "redis-refuses ");
    expect_text("OOM");
}

static void test_nobody(void **state)
{
    (void)state;
    config.endpoints[0] = (struct endpoint){
        .host = "127.0.0.1", .port = (uint16_t)redis_process_free_port()};
    assert_string_equal(ask(), "redis-unreachable ");
    expect_text("refused");
    assert_int_equal(found.n_nodes, 0);
}

/* What the fake says to INFO, or to SCRIPT LOAD where it is an error; without it nothing to
 * anything. */
static const char *fake_info;

static void answer(struct fake_redis *fake, struct fake_peer *peer,
                   const struct fake_command *command)
{
    char reply[256];
    (void)fake;
    if (fake_info != NULL
        && fake_info[0] == '-') { /* a Sentinel, which has no scripts */
        fake_redis_say(peer,
                       fake_command_is(command, "SCRIPT LOAD") ? fake_info : "+OK\r\n");
        return;
    }
    if (fake_info == NULL || fake_redis_greet(peer, command)) {
        return;
    }
    if (fake_command_is(command, "info")) {
        (void)snprintf(reply, sizeof(reply), "$%zu\r\n%s\r\n", strlen(fake_info),
                       fake_info);
        fake_redis_say(peer, reply);
    } else if (!fake_command_is(command, "evalsha")) {
        fake_redis_say(peer, ":0\r\n");
    }
}

/* Ask a fake for as long as it takes. */
static const char *ask_fake(const char *says)
{
    struct loop_thread thread = {.loop = NULL};
    fake_info = says;
    assert_true(loop_thread_init(&thread));
    struct fake_redis *fake = fake_redis_start(thread.loop, answer, NULL);
    assert_non_null(fake);
    config.endpoints[0] = fake->endpoint;
    assert_true(loop_thread_start(&thread));
    const char *codes = ask_once(NULL, NULL);
    loop_thread_stop(&thread);
    fake_redis_stop(fake);
    loop_thread_fini(&thread);
    return codes;
}

static void test_others(void **state)
{
    (void)state;
    assert_string_equal(ask_fake(
                            "# Server\r\nredis_version:4.0.14\r\nredis_mode:x\r\n"),
                        "redis-old redis-unreachable "); /* no answer to the script */
    expect_text("4.0.14");
    assert_string_equal(ask_fake(NULL), "redis-unreachable ");
    assert_string_equal(ask_fake("-ERR unknown command 'SCRIPT', with args\r\n"),
                        "redis-mode ");
    expect_text("if it is a Sentinel");
}

static void expect_seen(size_t code)
{
    if (strncmp(check_codes[code], "redis-", 6) == 0 && !is_seen[code]) {
        fail_msg("%s: never provoked", check_codes[code]);
    }
}

/* Each code of a Redis has been seen. */
static void test_codes(void **state)
{
    (void)state;
    for (size_t i = 0; i < CHECK_CODES_COUNT; i++) {
        expect_seen(i);
    }
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_a_good_one),
        TEST(test_eviction),
        TEST(test_rights),
        TEST(test_clusters),
        TEST(test_a_node_without_slots),
        TEST(test_no_cluster),
        TEST(test_a_replica),
        TEST(test_one_that_refuses),
        TEST(test_nobody),
        TEST(test_others),
        TEST(test_codes),
    };
    return sodium_init() < 0 ? 1 : cmocka_run_group_tests(tests, NULL, NULL);
}
