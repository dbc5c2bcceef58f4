#include "agent/control/show.h"

#include <inttypes.h>
#include <unistd.h>

#include "agent/store/local.h"

const char *show_limit_name(const void *context, uint32_t idx)
{
    const struct decide_set *set = context;
    return set->limits[idx].name;
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

static void show_info(const void *context, FILE *out)
{
    const struct show_source *source = context;
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
                  "\nWorkers: %u\nStore: %s\nRules_file: %s\nDomain: %s\n"
                  "Rules: %" PRIu32 "\nLimits: %" PRIu32 "\nConnections: %u\n"
                  "Local_capacity: %zu\n",
                  (int)getpid(), uptime_s(source), source->n_workers,
                  source->store->ops->name, rules_set_name(source->set->rules),
                  source->set->domain, rules_set_n_rules(source->set->rules),
                  source->set->n_limits, server_n_open(source->server),
                  local_capacity(source->store));
    for (size_t i = 0; i < ARRAY_LEN(lines); i++) {
        (void)fprintf(out, "%s: %" PRIu64 "\n", lines[i].name,
                      metrics_sum(&source->metrics, lines[i].counter));
    }
    show_state(source, out);
}

static void show_metrics(const void *context, FILE *out)
{
    const struct show_source *source = context;
    metrics_print(&source->metrics, out);
    metrics_print_one(out, "connections", "gauge", "Open connections",
                      server_n_open(source->server));
    metrics_print_one(out, "local_slots", "gauge", "Slots of the local table",
                      (int64_t)local_capacity(source->store));
    metrics_print_one(out, "uptime_seconds", "gauge", "Time since start",
                      uptime_s(source));
    show_state_metrics(source, out);
}

const struct runtime_command show_commands[] = {
    {"show info", "what runs, and what it did so far", show_info},
    {"show metrics", "all counters in Prometheus' text format", show_metrics},
    {NULL, NULL, NULL},
};
