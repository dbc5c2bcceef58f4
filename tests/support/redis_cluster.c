#include "tests/support/redis_cluster.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "agent/redis/slots.h"

static void pause_ms(unsigned ms)
{
    const struct timespec pause = {.tv_nsec = (long)ms * 1000000};
    (void)nanosleep(&pause, NULL);
}

static bool is_over(struct instant began)
{
    return instant_diff_us(clock_now(), began) > REDIS_CLUSTER_PATIENCE_US;
}

void redis_process_wait_for(const struct redis_process *process, const char *command,
                            const char *want)
{
    struct instant began = clock_now();
    char reply[8192];
    while (!redis_process_tell(process, command, reply, sizeof(reply))
           || strstr(reply, want) == NULL) {
        if (is_over(began)) {
            fail_msg("%s: %s", command, reply);
        }
        pause_ms(20);
    }
}

static void run_command(const char *command)
{
    /* NOLINTNEXTLINE(cert-env33-c,concurrency-mt-unsafe): a command of our own */
    int rc = system(command);
    if (rc != 0) {
        fail_msg("%s: %d", command, rc);
    }
}

/* What is started is ended, also where the rest fails. */
static void start_node(struct redis_cluster *cluster)
{
    static const char *const options[] = {"--cluster-enabled",
                                          "yes",
                                          "--cluster-node-timeout",
                                          "1000",
                                          "--repl-diskless-sync-delay",
                                          "0",
                                          "--cluster-require-full-coverage",
                                          "no",
                                          NULL};
    struct redis_process *node = &cluster->nodes[cluster->n_nodes++];
    *node = (struct redis_process){.port = 0};
    assert_true(redis_process_start(node, options));
}

void redis_cluster_start(struct redis_cluster *cluster, bool has_replicas)
{
    char command[512] = "redis-cli --cluster-yes --cluster create";
    unsigned n = has_replicas ? REDIS_CLUSTER_NODES_MAX : REDIS_CLUSTER_PRIMARIES;
    cluster->n_nodes = 0;
    for (unsigned i = 0; i < n; i++) {
        start_node(cluster);
        size_t len = strlen(command);
        (void)snprintf(command + len, sizeof(command) - len, " 127.0.0.1:%u",
                       cluster->nodes[i].port);
    }
    size_t len = strlen(command);
    (void)snprintf(command + len, sizeof(command) - len,
                   " --cluster-replicas %d >/dev/null", has_replicas ? 1 : 0);
    run_command(command);
    for (unsigned i = 0; i < n; i++) {
        redis_process_wait_for(&cluster->nodes[i], "cluster info", "cluster_state:ok");
    }
    for (unsigned i = REDIS_CLUSTER_PRIMARIES; i < n; i++) { /* else none takes over */
        redis_process_wait_for(&cluster->nodes[i], "info replication",
                               "master_link_status:up");
    }
}

void redis_cluster_stop(struct redis_cluster *cluster)
{
    for (unsigned i = 0; i < cluster->n_nodes; i++) {
        redis_process_stop(&cluster->nodes[i]);
    }
    cluster->n_nodes = 0;
}

unsigned redis_cluster_primary(const char *key)
{
    return slots_of_key(key, strlen(key)) * REDIS_CLUSTER_PRIMARIES / SEAM_SLOTS_MAX;
}

static void read_id(const struct redis_process *node, char id[41])
{
    char reply[128];
    assert_true(redis_process_tell(node, "cluster myid", reply, sizeof(reply)));
    assert_int_equal(strncmp(reply, "$40\r\n", 5), 0);
    (void)snprintf(id, 41, "%.40s", reply + 5);
}

static void set_slot(const struct redis_process *node, unsigned slot, const char *what,
                     const char *id)
{
    char command[128];
    (void)snprintf(command, sizeof(command), "cluster setslot %u %s %s", slot, what,
                   id);
    redis_process_wait_for(node, command, "+OK");
}

void redis_move_begin(struct redis_move *move, const struct redis_process *from,
                      const struct redis_process *to, unsigned slot)
{
    *move = (struct redis_move){.from = from, .to = to, .slot = slot};
    read_id(from, move->from_id);
    read_id(to, move->to_id);
    set_slot(to, slot, "importing", move->from_id);
    set_slot(from, slot, "migrating", move->to_id);
}

void redis_move_keys(const struct redis_move *move)
{
    char command[256];
    char keys[1024];
    for (;;) {
        (void)snprintf(command, sizeof(command), "cluster getkeysinslot %u 1",
                       move->slot);
        assert_true(redis_process_tell(move->from, command, keys, sizeof(keys)));
        if (strcmp(keys, "*0\r\n") == 0) {
            return;
        }
        const char *key = strstr(keys + 4, "\r\n"); /* behind *1 and its length */
        assert_non_null(key);
        (void)snprintf(command, sizeof(command), "migrate 127.0.0.1 %u %.*s 0 5000",
                       move->to->port, (int)strcspn(key + 2, "\r"), key + 2);
        redis_process_wait_for(move->from, command, "+");
    }
}

void redis_move_end(const struct redis_move *move)
{
    set_slot(move->to, move->slot, "node", move->to_id);
    set_slot(move->from, move->slot, "node", move->to_id);
}

static unsigned long long offset_in(const char *info, const char *name)
{
    const char *at = strstr(info, name);
    return at != NULL ? strtoull(at + strlen(name), NULL, 10) : 0;
}

void redis_process_wait_for_replica(const struct redis_process *primary)
{
    struct instant began = clock_now();
    char info[8192];
    unsigned long long here = 1;
    unsigned long long there = 0;
    while (here != there) {
        assert_false(is_over(began));
        pause_ms(20);
        assert_true(
            redis_process_tell(primary, "info replication", info, sizeof(info)));
        here = offset_in(info, "master_repl_offset:");
        there = offset_in(info, ",offset="); /* of the only one */
    }
}

void redis_cluster_wait_for_replicas(const struct redis_cluster *cluster)
{
    for (unsigned i = 0; i < REDIS_CLUSTER_PRIMARIES; i++) {
        redis_process_wait_for_replica(&cluster->nodes[i]);
    }
}

/* Asked for again and again: votes may collide, and a try that failed is given up. */
void redis_cluster_promote(const struct redis_process *node)
{
    struct instant began = clock_now();
    char reply[256] = "";
    for (unsigned i = 0; strstr(reply, "\r\nmaster\r\n") == NULL; i++) {
        assert_false(is_over(began));
        (void)redis_process_tell(node, i % 50 == 0 ? "cluster failover" : "role", reply,
                                 sizeof(reply));
        pause_ms(100);
    }
}

static void write_sentinel_conf(struct redis_sentinel *sentinel)
{
    memcpy(sentinel->dir, "/tmp/sentinel.XXXXXX", sizeof("/tmp/sentinel.XXXXXX"));
    assert_non_null(mkdtemp(sentinel->dir));
    (void)snprintf(sentinel->path, sizeof(sentinel->path), "%s/sentinel.conf",
                   sentinel->dir);
    FILE *file = fopen(sentinel->path, "we");
    assert_non_null(file);
    (void)fprintf(file,
                  "port %u\nbind 127.0.0.1\ndir %s\n"
                  "sentinel monitor mymaster 127.0.0.1 %u 1\n"
                  "sentinel down-after-milliseconds mymaster 500\n"
                  "sentinel failover-timeout mymaster 3000\n",
                  sentinel->sentinel.port, sentinel->dir, sentinel->primary.port);
    assert_int_equal(fclose(file), 0);
}

void redis_sentinel_start(struct redis_sentinel *sentinel)
{
    static const char *const primary_options[] = {NULL};
    *sentinel = (struct redis_sentinel){
        .replica_options = {"--replicaof", "127.0.0.1", sentinel->port,
                            "--repl-diskless-sync-delay", "0"},
        .sentinel_options = {sentinel->path, "--sentinel"},
    };
    assert_true(redis_process_start(&sentinel->primary, primary_options));
    (void)snprintf(sentinel->port, sizeof(sentinel->port), "%u",
                   sentinel->primary.port);
    assert_true(redis_process_start(&sentinel->replica, sentinel->replica_options));
    redis_process_wait_for(&sentinel->replica, "info replication",
                           "master_link_status:up");
    sentinel->sentinel.port = redis_process_free_port();
    write_sentinel_conf(sentinel);
    assert_true(redis_process_start(&sentinel->sentinel, sentinel->sentinel_options));
    redis_process_wait_for(&sentinel->sentinel, "sentinel replicas mymaster",
                           "slave-repl-offset");
}

void redis_sentinel_stop(struct redis_sentinel *sentinel)
{
    redis_process_stop(&sentinel->sentinel);
    redis_process_stop(&sentinel->replica);
    redis_process_stop(&sentinel->primary);
    (void)remove(sentinel->path);
    (void)remove(sentinel->dir);
}
