/*
 * 100 reloads a second at full load: other rules come into force again and again while clients
 * ask as fast as they are answered.
 *
 *   reload [SECONDS]   2 without it
 *
 * Two rules files take turns. Each blocks another side, has a rule of its own, its rules in
 * another order, and another number for the limit `shared`; the limit `kept` is the same.
 * Shown:     reloads, how many sets came into force, requests, memory.
 * Fails:     an answer that is right by neither file, or by parts of both; a kept limit that
 *            admits one more or one less than it should, or counts another outcome; a
 *            reload that failed, an error in the log, a connection lost; resident memory
 *            that grows by more than 1 MiB after the first fifth (not under sanitizers).
 */
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tests/conformance/wire.h"
#include "tests/support/agent_process.h"
#include "tests/support/spop_client.h"

enum {
    RELOADS_A_SECOND = 100,
    CLIENTS = 2, /* threads with a connection each */
    BATCH = 100, /* NOTIFYs under way on it, a quarter of each kind */
    KEPT_KEYS = 20,
    KEPT_LIMIT = 1000,
    SHARED_BY_ONE = 1000000000,
    SHARED_BY_TWO = 500000000,
    FILLERS = 40, /* rules that nothing matches: places change with the file */
    RULES_BYTES_MAX = 16384,
    RSS_GROWTH_KIB_MAX = 1024,
    BATCHES_MIN = 500, /* of a client: more than the kept limits admit */
    WAIT_US = 10000,
    WAITS_MAX = 3000,
};

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
static const bool is_sanitized = true;
#else
static const bool is_sanitized = false;
#endif

static const char config[] = "workers: 2\n"
                             "memory: 4MiB\n"
                             "retry_jitter: 0\n"
                             "headers: [draft-8, x-ratelimit]\n"
                             "log: { level: debug }\n"
                             "state_dir: %s\n"; /* where the agent's files are */

enum side {
    LEFT,  /* blocked by file one, let through by the rule only_two of file two */
    RIGHT, /* the other way round */
};

struct client {
    pthread_t thread;
    unsigned number;
    struct spop_client *peer;
    struct wire *batch;
    uint64_t n_batches;
    uint64_t n_by_one; /* answers by which file, where that shows */
    uint64_t n_by_two;
    uint64_t n_kept; /* asked of the kept limit */
    char fault[256]; /* "": none */
};

static struct {
    struct agent_process agent;
    struct agent_process_options options;
    struct client clients[CLIENTS];
    char files[2][RULES_BYTES_MAX];
    _Atomic bool is_over;
    _Atomic uint64_t n_allowed[KEPT_KEYS];
} r;

static void write_fillers(FILE *out)
{
    for (int i = 0; i < FILLERS; i++) {
        (void)fprintf(out,
                      "  - { name: filler_%d, match: { route: none-%d }, key: [key],"
                      " limit: { requests: %d, per: 60s } }\n",
                      i, i, i + 1);
    }
}

static void write_kept(FILE *out)
{
    (void)fprintf(out,
                  "  - { name: kept, match: { route: kept }, key: [key],"
                  " limit: { requests: %d, per: 1d, algorithm: sliding_log } }\n",
                  KEPT_LIMIT);
}

static void write_shared(FILE *out, int requests)
{
    (void)fprintf(out,
                  "  - { name: shared, match: { route: shared }, key: [key],"
                  " limit: { requests: %d, per: 31d } }\n",
                  requests);
}

static void write_own(FILE *out, const char *number)
{
    (void)fprintf(out,
                  "  - { name: only_%s, match: { side: present }, key: [side],"
                  " limit: { requests: 1000000000, per: 31d } }\n",
                  number);
}

static void make_file(char *text, bool is_two)
{
    FILE *out = fmemopen(text, RULES_BYTES_MAX, "w");
    if (out == NULL) {
        abort();
    }
    (void)fprintf(out, "version: 1\ndomain: soak\nlists: { block: { side: [%s] } }\n",
                  is_two ? "right" : "left");
    (void)fprintf(out, "rules:\n");
    if (is_two) {
        write_shared(out, SHARED_BY_TWO);
        write_fillers(out);
        write_kept(out);
        write_own(out, "two");
    } else {
        write_own(out, "one");
        write_kept(out);
        write_shared(out, SHARED_BY_ONE);
    }
    if (fclose(out) != 0) {
        abort();
    }
}

static void put_check(struct wire *w, uint64_t id, const char *arg, const char *value,
                      const char *key)
{
    wire_notify_begin(w, id, 1, key != NULL ? 2 : 1);
    wire_arg_text(w, arg, value);
    if (key != NULL) {
        wire_arg_text(w, "key", key);
    }
    wire_end(w);
}

static unsigned kept_key(uint64_t id)
{
    return (unsigned)(id / 4 % KEPT_KEYS);
}

/* Of four requests one is for each side, one of the kept limit, one of the shared. */
static void put_batch(struct client *client)
{
    char key[32];
    client->batch->len = 0;
    for (uint64_t id = 0; id < BATCH; id++) {
        switch (id % 4) {
        case LEFT:
            put_check(client->batch, id, "side", "left", NULL);
            break;
        case RIGHT:
            put_check(client->batch, id, "side", "right", NULL);
            break;
        case 2:
            (void)snprintf(key, sizeof(key), "kept-%u", kept_key(id));
            put_check(client->batch, id, "route", "kept", key);
            break;
        default: /* a key of its own, so that it knows what is left */
            (void)snprintf(key, sizeof(key), "client-%u", client->number);
            put_check(client->batch, id, "route", "shared", key);
            break;
        }
    }
}

static bool is_blocked(const struct wire_ack *ack)
{
    return wire_ack_number(ack, "deny") == 1 && wire_ack_is(ack, "action", "block")
           && wire_ack_is(ack, "rule", "list.block")
           && wire_ack_number(ack, "status") == 403;
}

static bool is_let_through(const struct wire_ack *ack, const char *rule)
{
    return wire_ack_number(ack, "deny") == 0 && wire_ack_is(ack, "action", "allow")
           && wire_ack_is(ack, "rule", rule);
}

static bool side_is_right(struct client *client, const struct wire_ack *ack,
                          enum side side)
{
    bool is_by_one = side == LEFT ? is_blocked(ack) : is_let_through(ack, "only_one");
    bool is_by_two = side == RIGHT ? is_blocked(ack) : is_let_through(ack, "only_two");
    client->n_by_one += is_by_one;
    client->n_by_two += is_by_two;
    return is_by_one || is_by_two;
}

/* What is allowed is added up; at the end it has to be the limit. */
static bool kept_is_right(struct client *client, const struct wire_ack *ack)
{
    client->n_kept++;
    if (wire_ack_number(ack, "limit") != KEPT_LIMIT
        || !wire_ack_is(ack, "rule", "kept")) {
        return false;
    }
    if (wire_ack_number(ack, "deny") == 0) {
        atomic_fetch_add(&r.n_allowed[kept_key(ack->stream_id)], 1);
    }
    return true;
}

/* All numbers of one answer are of one file. */
static bool shared_is_right(const struct client *client, const struct wire_ack *ack)
{
    char policy[64];
    uint64_t n_asked = client->n_batches * (BATCH / 4) + ack->stream_id / 4 + 1;
    int64_t limit = wire_ack_number(ack, "limit");
    (void)snprintf(policy, sizeof(policy), "\"shared\";q=%" PRId64 ";w=2678400", limit);
    return (limit == SHARED_BY_ONE || limit == SHARED_BY_TWO)
           && is_let_through(ack, "shared") && wire_ack_is(ack, "policy", policy)
           && wire_ack_number(ack, "remaining") == limit - (int64_t)n_asked;
}

static bool is_right(struct client *client, const struct wire_ack *ack)
{
    switch (ack->stream_id % 4) {
    case LEFT:
    case RIGHT:
        return side_is_right(client, ack, (enum side)(ack->stream_id % 4));
    case 2:
        return kept_is_right(client, ack);
    default:
        return shared_is_right(client, ack);
    }
}

static void describe(struct client *client, const struct wire_ack *ack)
{
    const struct wire_action *rule = NULL;
    for (unsigned i = 0; i < ack->n_actions; i++) {
        if (strcmp(ack->actions[i].name, "rule") == 0) {
            rule = &ack->actions[i];
        }
    }
    (void)snprintf(client->fault, sizeof(client->fault),
                   "wrong: request %" PRIu64 ": deny %" PRId64 ", rule %.*s, limit "
                   "%" PRId64 ", remaining %" PRId64,
                   ack->stream_id, wire_ack_number(ack, "deny"),
                   rule != NULL ? (int)rule->text_len : 1,
                   rule != NULL ? rule->text : "-", wire_ack_number(ack, "limit"),
                   wire_ack_number(ack, "remaining"));
}

static bool fault(struct client *client, const char *what)
{
    (void)snprintf(client->fault, sizeof(client->fault), "%s", what);
    return false;
}

static bool read_answer(struct client *client, uint64_t id)
{
    struct spop_client *peer = client->peer;
    struct wire_ack ack;
    errno = 0;
    if (!spop_client_receive(peer)) {
        return fault(client, errno == 0 ? "the connection ended" : strerror(errno));
    }
    const char *wrong = wire_read_ack(peer->frame, peer->frame_len, WIRE_SIZE, &ack);
    if (wrong != NULL) {
        return fault(client, wrong);
    }
    if (ack.stream_id != id) {
        return fault(client, "answers out of order");
    }
    if (!is_right(client, &ack)) {
        describe(client, &ack);
        return false;
    }
    return true;
}

static bool ask_batch(struct client *client)
{
    if (!spop_client_send(client->peer, client->batch->bytes, client->batch->len)) {
        return fault(client, "the connection broke");
    }
    for (uint64_t id = 0; id < BATCH; id++) {
        if (!read_answer(client, id)) {
            return false;
        }
    }
    client->n_batches++;
    return true;
}

static void *run_client(void *arg)
{
    struct client *client = arg;
    bool ok = spop_client_open(client->peer, r.agent.socket_path)
              || fault(client, "no connection");
    put_batch(client);
    while (ok && (!atomic_load(&r.is_over) || client->n_batches < BATCHES_MIN)) {
        ok = ask_batch(client);
    }
    atomic_store(&r.is_over, true); /* a fault ends it all */
    spop_client_close(client->peer);
    return NULL;
}

static void start_clients(void)
{
    for (unsigned i = 0; i < CLIENTS; i++) {
        struct client *client = &r.clients[i];
        client->number = i;
        client->peer = calloc(1, sizeof(*client->peer));
        client->batch = calloc(1, sizeof(*client->batch));
        if (client->peer == NULL || client->batch == NULL
            || pthread_create(&client->thread, NULL, run_client, client) != 0) {
            abort();
        }
    }
}

static void end_clients(void)
{
    atomic_store(&r.is_over, true);
    for (unsigned i = 0; i < CLIENTS; i++) {
        (void)pthread_join(r.clients[i].thread, NULL);
        free(r.clients[i].peer);
        free(r.clients[i].batch);
    }
}

/* As an editor or a deployment does it: written aside, renamed. */
static bool replace_file(const char *name, const char *text)
{
    char path[AGENT_PROCESS_PATH_BYTES];
    char aside[AGENT_PROCESS_PATH_BYTES];
    (void)snprintf(path, sizeof(path), "%s/%s", r.agent.dir, name);
    (void)snprintf(aside, sizeof(aside), "%s/aside", r.agent.dir);
    FILE *file = fopen(aside, "we");
    bool ok = file != NULL && fputs(text, file) >= 0;
    ok = file != NULL && fclose(file) == 0 && ok && rename(aside, path) == 0;
    if (!ok) {
        perror(aside);
    }
    return ok;
}

static void sleep_until(struct timespec *at, long after_ns)
{
    const long ns_per_s = 1000000000;
    at->tv_nsec += after_ns;
    at->tv_sec += at->tv_nsec / ns_per_s;
    at->tv_nsec %= ns_per_s;
    (void)clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, at, NULL);
}

struct course {
    unsigned n_reloads;
    double seconds;  /* that they took */
    size_t base_kib; /* after the first fifth */
    size_t peak_kib; /* since then */
};

static int64_t clock_us(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000000) + now.tv_nsec / 1000;
}

/* Another file and SIGHUP, again and again. */
static void reload(unsigned n, struct course *course)
{
    struct timespec at;
    unsigned done = 0;
    int64_t began_us = clock_us();
    (void)clock_gettime(CLOCK_MONOTONIC, &at);
    for (; done < n && !atomic_load(&r.is_over); done++) {
        if (!replace_file("rules.yaml", r.files[(done + 1) % 2])
            || kill(r.agent.pid, SIGHUP) != 0) {
            break;
        }
        sleep_until(&at, 1000000000 / RELOADS_A_SECOND);
        size_t kib = agent_process_rss_kib(&r.agent);
        course->base_kib = done <= n / 5 ? kib : course->base_kib;
        course->peak_kib = done <= n / 5 || kib > course->peak_kib ? kib
                                                                   : course->peak_kib;
    }
    course->n_reloads = done;
    course->seconds = (double)(clock_us() - began_us) / 1e6;
}

static uint64_t outcome(const char *limit, const char *name)
{
    char metric[128];
    (void)snprintf(metric, sizeof(metric),
                   "decisions_total{limit=\"%s\",outcome=\"%s\"}", limit, name);
    return agent_process_metric(&r.agent, metric);
}

static bool expect(const char *what, uint64_t got, uint64_t want)
{
    if (got != want) {
        printf("    %s: %" PRIu64 ", not %" PRIu64 "\n", what, got, want);
    }
    return got == want;
}

static bool counts_are_right(uint64_t n_batches, uint64_t n_kept)
{
    uint64_t n_allowed = 0;
    bool ok = true;
    for (unsigned i = 0; i < KEPT_KEYS; i++) {
        uint64_t n = atomic_load(&r.n_allowed[i]);
        ok = expect("allowed of a kept limit", n, KEPT_LIMIT) && ok;
        n_allowed += n;
    }
    ok = expect("charged to kept limits", outcome("kept", "charged"), n_allowed) && ok;
    ok = expect("refused by kept limits", outcome("kept", "refused"),
                n_kept - n_allowed)
         && ok;
    ok = expect("charged to shared limits", outcome("shared", "charged"),
                n_batches * BATCH / 4)
         && ok;
    ok = expect("ACKs", agent_process_metric(&r.agent, "acks_total"), n_batches * BATCH)
         && ok;
    ok = expect("reloads that failed",
                agent_process_metric(&r.agent, "rules_failures_total"), 0)
         && ok;
    return ok;
}

/* Beside the lines that say which rules are in force. */
static bool log_is_silent(void)
{
    static const char *const levels[] = {"error: ", "warning: ", "debug: "};
    bool ok = true;
    for (size_t i = 0; i < sizeof(levels) / sizeof(levels[0]); i++) {
        unsigned n = agent_process_log_lines(&r.agent, 0, levels[i]);
        ok = expect(levels[i], n, 0) && ok;
    }
    if (!ok) {
        agent_process_show_log(&r.agent, 0);
    }
    return ok;
}

static bool report(unsigned n_wanted, const struct course *course)
{
    uint64_t n_batches = 0;
    uint64_t n_kept = 0;
    uint64_t n_by_one = 0;
    uint64_t n_by_two = 0;
    bool ok = true;
    for (unsigned i = 0; i < CLIENTS; i++) {
        const struct client *client = &r.clients[i];
        n_batches += client->n_batches;
        n_kept += client->n_kept;
        n_by_one += client->n_by_one;
        n_by_two += client->n_by_two;
        if (client->fault[0] != '\0') {
            printf("    client %u: %s\n", i, client->fault);
            ok = false;
        }
    }
    uint64_t n_changes = agent_process_metric(&r.agent, "rules_changes_total");
    printf("%u reloads in %.1f s, %" PRIu64 " sets in force; %" PRIu64 " requests, "
           "%" PRIu64 " and %" PRIu64
           " answers by either file; resident %zu KiB after a fifth, then %zu at "
           "most\n",
           course->n_reloads, course->seconds, n_changes, n_batches * BATCH, n_by_one,
           n_by_two, course->base_kib, course->peak_kib);
    ok = log_is_silent() && ok;
    ok = ok && counts_are_right(n_batches, n_kept);
    ok = expect("reloads", course->n_reloads, n_wanted) && ok;
    if (!is_sanitized && course->peak_kib > course->base_kib + RSS_GROWTH_KIB_MAX) {
        printf("    it grows\n");
        ok = false;
    }
    return ok && n_by_one > 0 && n_by_two > 0;
}

/* The workers have what was read last. */
static void settle(void)
{
    for (int i = 0; i < WAITS_MAX; i++) {
        uint64_t n_changes = agent_process_metric(&r.agent, "rules_changes_total");
        (void)usleep(WAIT_US);
        if (agent_process_metric(&r.agent, "rules_changes_total") == n_changes) {
            return;
        }
    }
}

static bool start_agent(void)
{
    char text[256];
    r.options = (struct agent_process_options){
        .program = AGENT_PROGRAM,
        .rules = r.files[0],
        .config = "",
    };
    if (!agent_process_init(&r.agent, &r.options)) {
        return false;
    }
    (void)snprintf(text, sizeof(text), config, r.agent.dir);
    return replace_file("agent.yaml", text)
           && agent_process_start(&r.agent, &r.options);
}

/* With the files that it made in its state_dir. */
static bool end_agent(void)
{
    static const char *const names[] = {"counters.snapshot", "last-good.yaml"};
    bool ok = agent_process_stop(&r.agent, SIGTERM) == 0;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        char path[AGENT_PROCESS_PATH_BYTES];
        (void)snprintf(path, sizeof(path), "%s/%s", r.agent.dir, names[i]);
        if (unlink(path) != 0) {
            perror(path);
            ok = false;
        }
    }
    return agent_process_fini(&r.agent) && ok;
}

int main(int argc, char **argv)
{
    unsigned seconds = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : 2;
    struct course course = {0};
    make_file(r.files[0], false);
    make_file(r.files[1], true);
    if (!start_agent()) {
        return EXIT_FAILURE;
    }
    start_clients();
    reload(seconds * RELOADS_A_SECOND, &course);
    end_clients();
    settle();
    bool ok = report(seconds * RELOADS_A_SECOND, &course);
    return end_agent() && ok ? EXIT_SUCCESS : EXIT_FAILURE;
}
