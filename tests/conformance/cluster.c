/* The agent as a process over a real Redis Cluster of six nodes, and over what a Sentinel
 * watches, under load (load.h): slots that move, primaries that die or hand over. Answers
 * follow the policy as long as nobody counts; afterwards keys hold, on the node that has them
 * then, exactly what was answered as counted. Printed: answers meanwhile, those by policy and
 * how long they took; what the nodes were asked for it.
 *
 *   cluster [all]: without `all` a primary that dies, only. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "agent/redis/slots.h"

#include "tests/conformance/load.h"
#include "tests/support/agent_process.h"
#include "tests/support/redis_cluster.h"

enum {
    CALM_TURNS = 100,
    STEP_TURNS = 10,
    SLOTS_MOVED = 15,
    REPLY_BYTES_MAX = 16384,
    BACKGROUND_PER_S = 20, /* more than heartbeats and probes are */
    COUNT_OFF = 6,         /* of a fixed window in a reply: behind $13\r\nf */
};

/* Commands of scripts that nodes were sent. */
struct traffic {
    int64_t n_done;
    int64_t n_elsewhere; /* answered by the name of another node */
    struct instant at;
};

static struct redis_cluster cluster;
static struct redis_sentinel sentinel;
static struct agent_process agent;
static struct load load;

/* --- set-up --- */

static void start_agent(const char *redis)
{
    static char config[512];
    struct agent_process_options options = {.program = AGENT_PROGRAM,
                                            .rules = load_rules(),
                                            .config = config};
    (void)snprintf(config, sizeof(config),
                   "workers: 1\nmemory: 4MiB\nheaders: [x-ratelimit]\ndeadline_ms: 50\n"
                   "redis: { %s, slow_ms: 0 }\n",
                   redis);
    assert_true(agent_process_init(&agent, &options));
    assert_true(agent_process_start(&agent, &options));
    load_start(&load, agent.socket_path);
    load_resume(&load);
    (void)load_wait_counted(&load, CALM_TURNS);
    load_pause(&load);
    load_print(&load, "start");
    load_forget(&load);
}

static void start_with_cluster(void)
{
    char redis[128];
    redis_cluster_start(&cluster, true);
    (void)snprintf(redis, sizeof(redis),
                   "cluster: true, addresses: [\"127.0.0.1:%u\"], "
                   "node_networks: [127.0.0.0/8]",
                   cluster.nodes[0].port);
    start_agent(redis);
}

static void start_with_sentinel(void)
{
    char redis[128];
    redis_sentinel_start(&sentinel);
    (void)snprintf(redis, sizeof(redis),
                   "sentinel: mymaster, addresses: [\"127.0.0.1:%u\"], "
                   "node_networks: [127.0.0.0/8]",
                   sentinel.sentinel.port);
    start_agent(redis);
}

static int end(void **state)
{
    (void)state;
    load_stop(&load);
    int code = agent.pid != 0 ? agent_process_stop(&agent, SIGTERM) : 0;
    bool is_clean = agent.dir[0] == '\0' || agent_process_fini(&agent);
    agent = (struct agent_process){.pid = 0};
    redis_cluster_stop(&cluster);
    redis_sentinel_stop(&sentinel);
    sentinel = (struct redis_sentinel){.port = ""};
    return code != 0 || !is_clean;
}

/* --- what nodes say --- */

static int64_t read_stat(const char *stats, const char *name)
{
    const char *line = strstr(stats, "cmdstat_evalsha:");
    const char *at = line != NULL ? strstr(line, name) : NULL;
    return at != NULL ? strtoll(at + strlen(name), NULL, 10) : 0;
}

static struct traffic traffic_now(void)
{
    static char stats[REPLY_BYTES_MAX];
    struct traffic traffic = {.at = clock_now()};
    for (unsigned i = 0; i < cluster.n_nodes; i++) {
        const struct redis_process *node = &cluster.nodes[i];
        if (node->pid != 0) {
            assert_true(
                redis_process_tell(node, "info commandstats", stats, sizeof(stats)));
            traffic.n_done += read_stat(stats, "calls=");
            traffic.n_elsewhere += read_stat(stats, "rejected_calls=");
        }
    }
    return traffic;
}

/* ... since then, for so many requests of one counter each. */
static struct traffic check_traffic(const char *name, const struct traffic *before,
                                    unsigned n_asked)
{
    struct traffic now = traffic_now();
    int64_t seconds = instant_diff_us(now.at, before->at) / US_PER_S + 1;
    int64_t n_done = now.n_done - before->n_done;
    int64_t n_elsewhere = now.n_elsewhere - before->n_elsewhere;
    print_message("%-28s %6u requests, %lld calls done, %lld sent to the wrong node\n",
                  name, n_asked, (long long)n_done, (long long)n_elsewhere);
    assert_in_range(n_done, 0, n_asked + seconds * BACKGROUND_PER_S);
    /* Each once at most, and not for long: it is a tenth, where primaries hand over. */
    assert_in_range(n_elsewhere, 0, n_asked / 2);
    return (struct traffic){.n_done = n_done, .n_elsewhere = n_elsewhere};
}

/* What a node holds of a key, or -1 where another one has it. */
static int64_t held_by(const struct redis_process *node, const struct load_key *key)
{
    char command[128];
    char reply[256];
    (void)snprintf(command, sizeof(command), "get %s", key->redis_name);
    assert_true(redis_process_tell(node, command, reply, sizeof(reply)));
    if (strncmp(reply, "$13\r\nf", COUNT_OFF) != 0) {
        return -1;
    }
    int64_t count = 0;
    for (int i = 0; i < 4; i++) {
        count = count << 8 | (uint8_t)reply[COUNT_OFF + i];
    }
    return count;
}

static int64_t held_by_primary(const struct load_key *key)
{
    for (unsigned i = 0; i < cluster.n_nodes; i++) {
        const struct redis_process *node = &cluster.nodes[i];
        int64_t held = node->pid != 0 ? held_by(node, key) : -1;
        if (held >= 0) {
            return held; /* replicas answer by the name of their primary */
        }
    }
    return sentinel.replica.pid != 0 ? held_by(&sentinel.replica, key) : -1;
}

/* --- what has to be --- */

static void wait_until_nothing_is_under_way(void)
{
    while (agent_process_metric(&agent, "store_under_way") != 0) {
        (void)usleep(1000);
    }
}

/* At rest, what was said last is what the node holds that has the key now. Nothing that was
 * answered as counted is missing, and nothing else is there, but for charges of which the
 * agent heard nothing in time. */
static void check_counts(bool is_all)
{
    int64_t n_more = 0;
    int64_t n_less = 0;
    wait_until_nothing_is_under_way();
    for (unsigned i = 0; i < LOAD_KEYS; i++) {
        const struct load_key *key = &load.keys[i];
        int64_t held = held_by_primary(key);
        if (held != LOAD_LIMIT - key->left) {
            fail_msg("%s: %lld, but %lld was said", key->redis_name, (long long)held,
                     (long long)(LOAD_LIMIT - key->left));
        }
        int64_t more = held - key->n_counted;
        *(more > 0 ? &n_more : &n_less) += more;
    }
    print_message("%-28s %lld more than was answered as counted, %lld less\n", "counts",
                  (long long)n_more, (long long)-n_less);
    assert_in_range(n_more, 0,
                    load.n_late_ever
                        + agent_process_metric(&agent, "store_lost_total"));
    assert_true(!is_all || n_less == 0);
}

/* Once the map is known each request is one call, and none goes astray. */
static void check_calm(void)
{
    static const char name[] = "afterwards";
    struct traffic seen;
    unsigned n_tries = 0;
    do {
        struct traffic before = traffic_now();
        load_resume(&load);
        (void)load_wait_counted(&load, CALM_TURNS);
        load_pause(&load);
        seen = check_traffic(name, &before, load.n_asked);
        assert_true(++n_tries < 20);
    } while (seen.n_elsewhere != 0 || seen.n_done < load.n_asked);
}

/* --- tests --- */

static void a_slot_moves_under_load(void **state)
{
    (void)state;
    start_with_cluster();
    struct traffic before = traffic_now();
    load_resume(&load);
    for (unsigned i = 0; i < SLOTS_MOVED; i++) {
        struct redis_move move;
        const char *key = load.keys[i].redis_name;
        unsigned from = redis_cluster_primary(key);
        const struct redis_process *to = &cluster.nodes[(from + 1) % 3];
        load_wait(&load, STEP_TURNS);
        redis_move_begin(&move, &cluster.nodes[from], to,
                         slots_of_key(key, strlen(key)));
        load_wait(&load, STEP_TURNS);
        redis_move_keys(&move);
        load_wait(&load, STEP_TURNS); /* asked for where it goes */
        redis_move_end(&move);
    }
    (void)load_wait_counted(&load, CALM_TURNS);
    load_pause(&load);
    (void)check_traffic("while slots move", &before, load.n_asked);
    load_print(&load, "while slots move");
    check_counts(true);
    check_calm();
}

static void primaries_hand_over_under_load(void **state)
{
    (void)state;
    start_with_cluster();
    struct traffic before = traffic_now();
    load_resume(&load);
    for (unsigned i = REDIS_CLUSTER_PRIMARIES; i < REDIS_CLUSTER_NODES_MAX; i++) {
        redis_cluster_promote(&cluster.nodes[i]);
    }
    (void)load_wait_counted(&load, CALM_TURNS);
    load_pause(&load);
    (void)check_traffic("CLUSTER FAILOVER of three", &before, load.n_asked);
    load_print(&load, "CLUSTER FAILOVER of three");
    check_counts(true);
    check_calm();
}

/* All that was counted is with the replica. */
static void a_primary_dies(void **state)
{
    (void)state;
    start_with_cluster();
    redis_cluster_wait_for_replicas(&cluster);
    redis_process_kill(&cluster.nodes[0]);
    load_resume(&load);
    int64_t took_us = load_wait_counted(&load, CALM_TURNS);
    load_pause(&load);
    print_message("%-28s %lld ms until all is counted\n", "a primary dies",
                  (long long)(took_us / US_PER_MS));
    load_print(&load, "a primary dies");
    check_counts(true);
    check_calm();
}

/* What it had counted, and not told its replica, is lost; nothing else. */
static void a_primary_dies_under_load(void **state)
{
    (void)state;
    start_with_cluster();
    load.may_forget = true;
    load_resume(&load);
    load_wait(&load, STEP_TURNS);
    redis_process_kill(&cluster.nodes[1]);
    int64_t took_us = load_wait_counted(&load, CALM_TURNS);
    load_pause(&load);
    print_message("%-28s %lld ms until all is counted\n", "a primary dies under load",
                  (long long)(took_us / US_PER_MS));
    load_print(&load, "a primary dies under load");
    check_counts(false);
    check_calm();
}

static void a_sentinel_names_another(void **state)
{
    (void)state;
    start_with_sentinel();
    redis_process_wait_for_replica(&sentinel.primary);
    redis_process_kill(&sentinel.primary);
    load_resume(&load);
    int64_t took_us = load_wait_counted(&load, CALM_TURNS);
    load_pause(&load);
    print_message("%-28s %lld ms until all is counted\n", "Sentinel, primary dies",
                  (long long)(took_us / US_PER_MS));
    load_print(&load, "Sentinel, primary dies");
    check_counts(true);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(a_primary_dies, end),
        cmocka_unit_test_teardown(a_primary_dies_under_load, end),
        cmocka_unit_test_teardown(a_slot_moves_under_load, end),
        cmocka_unit_test_teardown(primaries_hand_over_under_load, end),
        cmocka_unit_test_teardown(a_sentinel_names_another, end),
    };
    bool is_all = argc == 2 && strcmp(argv[1], "all") == 0;
    (void)signal(SIGPIPE, SIG_IGN);
    return _cmocka_run_group_tests("cluster", tests,
                                   is_all ? sizeof(tests) / sizeof(tests[0]) : 1, NULL,
                                   NULL);
}
