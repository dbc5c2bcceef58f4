#include "agent/control/show.h"

#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>

#include "rules/units.h"
#include "rules/words.h"

#include "agent/control/counter.h"
#include "agent/control/explain.h"
#include "agent/control/show_redis.h"
#include "agent/store/local.h"

static const char *limit_name(const void *context, uint32_t idx)
{
    const struct decide_set *set = context;
    return set->limits[idx].name;
}

static struct metrics_source metrics_of(const struct show_source *source)
{
    return (struct metrics_source){
        .counters = rulebook_counters(source->rulebook),
        .n_counters = source->n_workers + 1,
        .limit_name = limit_name,
        .limit_context = rulebook_set(source->rulebook),
    };
}

static void show_rules(const struct show_source *source, FILE *out)
{
    const struct decide_set *set = rulebook_set(source->rulebook);
    const struct rulebook_report *report = rulebook_read_report(source->rulebook);
    (void)fprintf(out,
                  "Rules_file: %s\nRules_version: %s\nRules_source: %s\n"
                  "Rules_age_sec: %" PRId64 "\nRules_changes: %" PRIu64
                  "\nRules_failures: %" PRIu64 "\nRules_error: %s\nDomain: %s\n"
                  "Rules: %" PRIu32 "\nRules_expired: %" PRIu32 "\nLimits: %" PRIu32
                  "\n",
                  rules_set_name(set->rules), report->version,
                  report->is_last_good ? "last_good" : "file",
                  instant_diff_us(clock_now(), report->changed_at) / US_PER_S,
                  report->n_changes, report->n_failures,
                  report->error[0] != '\0' ? report->error : "-", set->domain,
                  rules_set_n_rules(set->rules), rules_set_n_expired(set->rules),
                  set->n_limits);
}

static void show_rules_metrics(const struct show_source *source, FILE *out)
{
    const struct rulebook_report *report = rulebook_read_report(source->rulebook);
    metrics_print_one(out, "rules_changes_total", "counter",
                      "Times that other rules came into force",
                      (int64_t)report->n_changes);
    metrics_print_one(out, "rules_failures_total", "counter",
                      "Rules files that changed nothing, being bad or unreadable",
                      (int64_t)report->n_failures);
    metrics_print_one(out, "rules_expired", "gauge",
                      "Rules of the file that have ended",
                      rules_set_n_expired(rulebook_set(source->rulebook)->rules));
    metrics_print_one(out, "rules_bad", "gauge",
                      "1 while the rules file is not what is in force",
                      report->error[0] != '\0');
}

static int64_t age_s(struct instant at)
{
    return instant_diff_us(clock_now(), at) / US_PER_S;
}

static void show_clients(const struct show_source *source, FILE *out)
{
    const struct rules_clients *clients = rulebook_clients(source->rulebook);
    const struct clients_report *report = &rulebook_read_report(source->rulebook)
                                               ->clients;
    if (clients == NULL) {
        (void)fputs("Clients_file: -\n", out);
        return;
    }
    (void)fprintf(out,
                  "Clients_file: %s\nClients_version: %s\nClients: %" PRIu32
                  "\nClients_age_sec: %" PRId64 "\nClients_changes: %" PRIu64
                  "\nClients_failures: %" PRIu64 "\nClients_error: %s\n",
                  report->path, report->version, rules_clients_count(clients),
                  age_s(report->changed_at), report->n_changes, report->n_failures,
                  report->error[0] != '\0' ? report->error : "-");
}

static void show_clients_metrics(const struct show_source *source, FILE *out)
{
    const struct rules_clients *clients = rulebook_clients(source->rulebook);
    const struct clients_report *report = &rulebook_read_report(source->rulebook)
                                               ->clients;
    if (clients == NULL) {
        return;
    }
    metrics_print_one(out, "clients", "gauge", "Clients that have a plan by their file",
                      rules_clients_count(clients));
    metrics_print_one(out, "clients_age_seconds", "gauge",
                      "Time since the clients in force were read",
                      age_s(report->changed_at));
    metrics_print_one(out, "clients_changes_total", "counter",
                      "Times that other clients came into force",
                      (int64_t)report->n_changes);
    metrics_print_one(out, "clients_failures_total", "counter",
                      "Files of clients that changed nothing, being bad or unreadable",
                      (int64_t)report->n_failures);
    metrics_print_one(out, "clients_bad", "gauge",
                      "1 while the file of clients is not what is in force",
                      report->error[0] != '\0');
}

static int64_t uptime_s(const struct show_source *source)
{
    return instant_diff_us(clock_now(), source->started_at) / US_PER_S;
}

/* Seconds since this process wrote a snapshot; -1 when it has not. */
static int64_t snapshot_age_s(const struct state_report *report)
{
    return report->n_written > 0
               ? instant_diff_us(clock_now(), report->written_at) / US_PER_S
               : -1;
}

static void show_state(const struct show_source *source, FILE *out)
{
    struct state_report report;
    if (source->state == NULL) {
        (void)fputs("State_dir: -\n", out);
        return;
    }
    state_read_report(source->state, &report);
    (void)fprintf(out,
                  "State_dir: %s\nSnapshot_age_sec: %" PRId64
                  "\nSnapshot_counters: %" PRIu64 "\nSnapshot_error: %s\n",
                  state_dir(source->state), snapshot_age_s(&report), report.n_records,
                  report.error[0] != '\0' ? report.error : "-");
}

static void show_state_metrics(const struct show_source *source, FILE *out)
{
    struct state_report report;
    if (source->state == NULL) {
        return;
    }
    state_read_report(source->state, &report);
    metrics_print_one(out, "snapshots_written_total", "counter",
                      "Snapshots of the counters written", (int64_t)report.n_written);
    metrics_print_one(out, "snapshots_failed_total", "counter",
                      "Snapshots of the counters not written",
                      (int64_t)report.n_failed);
    if (report.n_written > 0) {
        metrics_print_one(out, "snapshot_age_seconds", "gauge",
                          "Time since the last snapshot", snapshot_age_s(&report));
    }
}

static void show_info(const void *context, const struct runtime_args *args, FILE *out)
{
    const struct show_source *source = context;
    (void)args;
    static const struct {
        const char *name;
        enum counter counter;
    } lines[] = {
        {"Notifies", COUNTER_NOTIFIES},
        {"Notifies_malformed", COUNTER_NOTIFIES_MALFORMED},
        {"Acks", COUNTER_ACKS},
        {"Requests_allowed", COUNTER_REQUESTS_ALLOWED},
        {"Requests_refused", COUNTER_REQUESTS_REFUSED},
        {"Requests_unmatched", COUNTER_REQUESTS_UNMATCHED},
        {"Protocol_errors", COUNTER_PROTOCOL_ERRORS},
        {"Local_filled", COUNTER_LOCAL_FILLED},
        {"Local_evicted", COUNTER_LOCAL_EVICTED},
        {"Local_restored", COUNTER_LOCAL_RESTORED},
    };
    (void)fprintf(out,
                  "Name: spoa-ratelimit\nVersion: " AGENT_VERSION "\nPid: %d\n"
                  "Uptime_sec: %" PRId64
                  "\nWorkers: %u\nStore: %s\nConnections: %u\nLocal_capacity: %zu\n",
                  (int)getpid(), uptime_s(source), source->n_workers,
                  source->store->ops->name, server_n_open(source->server),
                  local_capacity(source->store));
    show_rules(source, out);
    show_clients(source, out);
    struct metrics_source metrics = metrics_of(source);
    for (size_t i = 0; i < ARRAY_LEN(lines); i++) {
        (void)fprintf(out, "%s: %" PRIu64 "\n", lines[i].name,
                      metrics_sum(&metrics, lines[i].counter));
    }
    show_state(source, out);
}

static void show_metrics(const void *context, const struct runtime_args *args,
                         FILE *out)
{
    const struct show_source *source = context;
    (void)args;
    struct metrics_source metrics = metrics_of(source);
    metrics_print(&metrics, out);
    metrics_print_one(out, "connections", "gauge", "Open connections",
                      server_n_open(source->server));
    metrics_print_one(out, "local_slots", "gauge", "Slots of the local table",
                      (int64_t)local_capacity(source->store));
    metrics_print_one(out, "uptime_seconds", "gauge", "Time since start",
                      uptime_s(source));
    show_rules_metrics(source, out);
    show_clients_metrics(source, out);
    show_state_metrics(source, out);
    if (source->stores->health != NULL) {
        show_redis_metrics(source->stores, out);
    }
}

static void show_redis(const void *context, const struct runtime_args *args, FILE *out)
{
    const struct show_source *source = context;
    (void)args;
    if (source->stores->health == NULL) {
        (void)fputs("agent.yaml has no redis\n", out);
        return;
    }
    show_redis_nodes(source->stores->health, out);
}

static void show_hot(const void *context, const struct runtime_args *args, FILE *out)
{
    const struct show_source *source = context;
    (void)args;
    if (source->stores->hot == NULL) {
        (void)fputs("agent.yaml has no redis\n", out);
        return;
    }
    show_redis_hot(source->stores->hot, out);
}

/* What became of a rule's limits so far. */
static void print_outcomes(const struct metrics_source *metrics,
                           const struct rules_rule *rule, FILE *out)
{
    uint64_t n_all = 0;
    for (int outcome = 0; outcome < OUTCOMES_N; outcome++) {
        uint64_t n = 0;
        for (uint32_t i = 0; i < rule->n_limits; i++) {
            n += metrics_sum_outcome(metrics, rule->limits[i].idx,
                                     (enum outcome)outcome);
        }
        (void)fprintf(out, " %s=%" PRIu64, metrics_outcome_label((enum outcome)outcome),
                      n);
        n_all += n;
    }
    (void)fputs(n_all == 0 ? " applied=never" : " applied=yes", out);
}

static void print_mode(const struct rules_rule *rule, FILE *out)
{
    char share[RULES_SPAN_TEXT_BYTES_MAX];
    switch (rule->mode) {
    case RULES_ENFORCE:
        (void)fputs(" mode=enforce", out);
        return;
    case RULES_SHADOW:
        (void)fputs(" mode=shadow", out);
        return;
    case RULES_PERCENT:
        rules_share_print(rule->enforced_permyriad, share);
        (void)fprintf(out, " mode=%s", share);
        return;
    }
}

static void print_store(const struct rules_rule *rule, FILE *out)
{
    (void)fprintf(out, " store=%s", rules_store_name(rule->store));
    if (rule->n_shards > 1) {
        (void)fprintf(out, " shards=%" PRIu32, rule->n_shards);
    }
}

static void show_rule_lines(const void *context, const struct runtime_args *args,
                            FILE *out)
{
    const struct show_source *source = context;
    const struct rules_set *rules = rulebook_set(source->rulebook)->rules;
    struct metrics_source metrics = metrics_of(source);
    (void)args;
    for (uint32_t i = 0; i < rules_set_n_rules(rules); i++) {
        const struct rules_rule *rule = rules_set_rule(rules, i);
        (void)fprintf(out, "rule=%s limits=%" PRIu32 " expired=%s", rule->name,
                      rule->n_limits, rule->is_expired ? "yes" : "no");
        print_mode(rule, out);
        print_store(rule, out);
        print_outcomes(&metrics, rule, out);
        (void)fprintf(out, " owner=%s\n", rule->owner != NULL ? rule->owner : "-");
    }
}

/* An answer that is waited for. */
struct waiting {
    struct server *server;
    unsigned hold; /* of the rules */
    struct runtime_answer *answer;
};

static void end_waiting(void *context)
{
    struct waiting *waiting = context;
    runtime_answer_end(waiting->answer);
    server_let_go(waiting->server, waiting->hold);
    free(waiting);
}

static void on_explained(void *context, enum explain_status status)
{
    (void)status;
    end_waiting(context);
}

/* @return NULL where memory is short, which is said */
static struct waiting *wait_for(const struct show_source *source,
                                struct runtime_answer *answer, const char *command)
{
    struct waiting *waiting = malloc(sizeof(*waiting));
    if (waiting == NULL) {
        (void)fprintf(answer->out, "%s: out of memory\n", command);
        runtime_answer_end(answer);
        return NULL;
    }
    *waiting = (struct waiting){
        .server = source->server,
        .hold = server_hold(source->server),
        .answer = answer,
    };
    return waiting;
}

/* With Redis workers are asked, who ask it. */
static struct peek_source peek_of(const struct show_source *source)
{
    bool has_redis = source->stores->health != NULL;
    struct peek_source peek = {
        .now = clock_now(),
        .store = has_redis ? server_store(source->server) : source->store,
        .options = source->options,
        .stores = has_redis ? source->stores : NULL,
    };
    rulebook_newest(source->rulebook, &peek.set, &peek.clients);
    return peek;
}

static void show_counter(const void *context, const struct runtime_args *args,
                         struct runtime_answer *answer)
{
    const struct show_source *source = context;
    struct peek_source peek = peek_of(source);
    struct waiting *waiting = wait_for(source, answer, "show counter");
    if (waiting != NULL) {
        counter_begin(&peek, args->n, args->words, answer->out, end_waiting, waiting);
    }
}

static void show_explain(const void *context, const struct runtime_args *args,
                         struct runtime_answer *answer)
{
    const struct show_source *source = context;
    struct peek_source peek = peek_of(source);
    struct waiting *waiting = wait_for(source, answer, "explain");
    if (waiting != NULL) {
        explain_begin(&peek, args->n, args->words, answer->out, on_explained, waiting);
    }
}

const struct runtime_command show_commands[] = {
    {"show info", NULL, "what runs, and what it did so far", show_info, NULL},
    {"show metrics", NULL, "all counters in Prometheus' text format", show_metrics,
     NULL},
    {"show rules", NULL, "the rules, and what became of them so far", show_rule_lines,
     NULL},
    {"show redis", NULL, "whether the nodes of Redis are asked", show_redis, NULL},
    {"show hot", NULL, "counters that Redis is asked about most", show_hot, NULL},
    {"show counter", COUNTER_WORDS, "what the counters of a key hold", NULL,
     show_counter},
    {"explain", EXPLAIN_WORDS, "what would be decided now, and why", NULL,
     show_explain},
    {NULL, NULL, NULL, NULL, NULL},
};
