#include "agent/control/agents.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/file.h"
#include "agent/log.h"
#include "agent/observe/metrics.h"

enum {
    FILE_BYTES_MAX = 16 + BEAT_NAME_BYTES_MAX,
    PATH_BYTES_MAX = CONFIG_PATH_BYTES_MAX + sizeof(AGENTS_FILE),
};

/* @return false: nothing is kept */
static bool set_path(const struct config *config, char path[PATH_BYTES_MAX])
{
    (void)snprintf(path, PATH_BYTES_MAX, "%s/" AGENTS_FILE, config->state_dir);
    return config->state_dir[0] != '\0';
}

/* A count, and a name where there is one. @return 0: it is something else */
static unsigned read_kept(const char *text, char name[BEAT_NAME_BYTES_MAX + 1])
{
    char *end = NULL;
    unsigned long n = strtoul(text, &end, 10);
    if (text[0] < '1' || text[0] > '9' || n > CONFIG_NODES_MAX || *end != '\n') {
        return 0;
    }
    const char *second = end + 1;
    size_t name_bytes = strspn(second, "0123456789abcdef");
    const char *rest = name_bytes > 0 ? "\n" : "";
    if (name_bytes > BEAT_NAME_BYTES_MAX || strcmp(second + name_bytes, rest) != 0) {
        return 0;
    }
    memcpy(name, second, name_bytes);
    name[name_bytes] = '\0';
    return (unsigned)n;
}

/* @return 0: nothing is kept, or not as it should be */
static unsigned recall_kept(struct agents *agents, const struct config *config)
{
    char path[PATH_BYTES_MAX];
    const char *error = NULL;
    size_t len = 0;
    if (!set_path(config, path) || access(path, F_OK) != 0) {
        return 0;
    }
    char *text = file_read(path, FILE_BYTES_MAX, &len, &error);
    unsigned n = text != NULL ? read_kept(text, agents->ended) : 0;
    if (n == 0) {
        log_warning("%s: %s: how many agents there were is not known", path,
                    text == NULL ? error : "it has no number of agents");
    }
    free(text);
    return n;
}

unsigned agents_recall(struct agents *agents, const struct config *config)
{
    unsigned n = recall_kept(agents, config);
    n = n > 0 ? n : config->n_nodes;
    agents->is_unknown = n == 0;
    return n;
}

static void note_asked(struct agents *agents)
{
    struct metrics_source source = {
        .counters = agents->counters,
        .n_counters = agents->config->n_workers + 1,
    };
    uint64_t n_notifies = metrics_sum(&source, COUNTER_NOTIFIES);
    if (n_notifies != agents->n_notifies) {
        health_note_asked(agents->health, clock_now());
    }
    agents->n_notifies = n_notifies;
}

static void keep(struct agents *agents)
{
    unsigned n = health_n_agents(agents->health);
    char *text = NULL;
    if (agents->keeper == NULL || !health_has_heard_agents(agents->health)
        || n == agents->n_kept) {
        return;
    }
    int len = asprintf(&text, "%u\n%s\n", n, agents->name);
    if (len > 0) { /* else in a second */
        keeper_keep(agents->keeper, text, (size_t)len);
        agents->n_kept = n;
    }
}

static void warn_if_unknown(struct agents *agents)
{
    agents->is_unknown = agents->is_unknown && !health_has_heard_agents(agents->health);
    if (agents->is_unknown && agents->n_periods == AGENTS_WARNING_S / AGENTS_PERIOD_S) {
        log_warning(
            "redis has not said yet how many agents share the traffic: this one "
            "goes by 1; `nodes` in agent.yaml says how many until then");
    }
}

static void on_timer(struct ev_loop *loop, struct ev_timer *timer, int events)
{
    struct agents *agents = CONTAINER_OF(timer, struct agents, timer);
    (void)loop;
    (void)events;
    agents->n_periods++;
    note_asked(agents);
    keep(agents);
    warn_if_unknown(agents);
}

/* NOLINTNEXTLINE(readability-function-size): the macros of ev.h nest */
bool agents_start(struct agents *agents, const struct config *config, const char *name,
                  struct counters *const *counters, struct health *health,
                  struct ev_loop *loop)
{
    char path[PATH_BYTES_MAX];
    if (set_path(config, path)) {
        agents->keeper = keeper_start(path);
        if (agents->keeper == NULL) {
            return false;
        }
    }
    agents->config = config;
    agents->name = name;
    agents->counters = counters;
    agents->health = health;
    agents->loop = loop;
    ev_timer_init(&agents->timer, on_timer, AGENTS_PERIOD_S, AGENTS_PERIOD_S);
    ev_timer_start(loop, &agents->timer);
    return true;
}

void agents_stop(struct agents *agents)
{
    if (agents->loop == NULL) {
        return;
    }
    ev_timer_stop(agents->loop, &agents->timer);
    keep(agents);
    keeper_stop(agents->keeper);
}
