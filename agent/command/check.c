#include "agent/command/check.h"

#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include <sodium.h>

#include "agent/clock.h"
#include "agent/command/command.h"
#include "agent/config.h"
#include "agent/control/stores.h"

static void print_usage(FILE *out)
{
    (void)fputs(
        "usage: spoa-ratelimit check FILE [OPTION]...\n\n"
        "Says what is wrong with a rules file, what may not be meant so, and what each\n"
        "rule lets through at most.\n\n"
        "  -c, --config FILE    agent.yaml: how many hosts there are\n"
        "      --spoe FILE      HAProxy's SPOE file: whether it sends what the rules need\n"
        "      --against OLD    a rules file: what changes for whom when FILE takes its\n"
        "                       place, and which counters begin anew\n"
        "      --keys K         clients at a time: the memory that a host, and Redis,\n"
        "                       need for them\n"
        "      --rate R         requests a second, of all hosts: what Redis is asked, and\n"
        "                       how many primaries carry that\n"
        "      --nodes N        hosts (default: as agent.yaml says, else 1)\n"
        "      --redis          ask the Redis of agent.yaml whether it does what rules need\n"
        "      --strict         a warning is an error\n"
        "      --json           all of it as one JSON object\n"
        "      --help\n\n"
        "Exit code: 0 the file is good, 1 it is refused, or cannot be read, 2 usage.\n",
        out);
}

enum option_id {
    OPTION_CONFIG = 'c',
    OPTION_SPOE = 256,
    OPTION_AGAINST,
    OPTION_JSON,
    OPTION_KEYS,
    OPTION_RATE,
    OPTION_NODES,
    OPTION_REDIS,
    OPTION_STRICT,
    OPTION_HELP,
};

static const struct option long_options[] = {
    {"config", required_argument, NULL, OPTION_CONFIG},
    {"spoe", required_argument, NULL, OPTION_SPOE},
    {"against", required_argument, NULL, OPTION_AGAINST},
    {"json", no_argument, NULL, OPTION_JSON},
    {"keys", required_argument, NULL, OPTION_KEYS},
    {"rate", required_argument, NULL, OPTION_RATE},
    {"nodes", required_argument, NULL, OPTION_NODES},
    {"redis", no_argument, NULL, OPTION_REDIS},
    {"strict", no_argument, NULL, OPTION_STRICT},
    {"help", no_argument, NULL, OPTION_HELP},
    {NULL, 0, NULL, 0},
};

static bool usage_error(const char *what, const char *why)
{
    (void)fprintf(stderr, "check: %s: %s\n", what, why);
    return false;
}

/* A whole number of 1 to `max`. */
static bool read_number(const char *option, const char *text, int64_t max,
                        int64_t *number)
{
    char *end = NULL;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (*text < '0' || *text > '9' || *end != '\0' || errno != 0 || value < 1
        || value > max) {
        (void)fprintf(stderr, "check: %s %s: want a number from 1 to %lld\n", option,
                      text, (long long)max);
        return false;
    }
    *number = value;
    return true;
}

static bool set_option(struct check_options *options, int id, const char *text)
{
    switch (id) {
    case OPTION_CONFIG:
        options->config_path = text;
        return true;
    case OPTION_SPOE:
        options->spoe_path = text;
        return true;
    case OPTION_AGAINST:
        options->old_path = text;
        return true;
    case OPTION_JSON:
        options->wants_json = true;
        return true;
    case OPTION_KEYS:
        return read_number("--keys", text, CHECK_KEYS_MAX, &options->load.n_keys);
    case OPTION_RATE:
        return read_number("--rate", text, CHECK_RATE_MAX, &options->load.rate);
    case OPTION_NODES:
        return read_number("--nodes", text, CONFIG_NODES_MAX, &options->load.n_hosts);
    case OPTION_REDIS:
        options->asks_redis = true;
        return true;
    case OPTION_STRICT:
        options->is_strict = true;
        return true;
    case OPTION_HELP:
        options->wants_help = true;
        return true;
    default:
        return false; /* getopt has said what is wrong */
    }
}

static bool read_command_line(struct check_options *options, int argc, char **argv)
{
    int id = 0;
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): there are no threads yet */
    while ((id = getopt_long(argc, argv, "c:", long_options, NULL)) != -1) {
        if (!set_option(options, id, optarg)) {
            return false;
        }
    }
    if (options->wants_help) {
        return true;
    }
    if (argc - optind != 1) {
        return usage_error("FILE", "want one rules file; see check --help");
    }
    if (options->load.rate > 0 && options->load.n_keys == 0) {
        return usage_error("--rate", "want --keys too: memory is for keys");
    }
    if (options->asks_redis && options->config_path == NULL) {
        return usage_error("--redis", "want -c agent.yaml, which says where it is");
    }
    options->path = argv[optind];
    return true;
}

/* What agent.yaml says that the command line does not. */
static bool read_config(struct check_options *options, struct stores *stores)
{
    static struct config config; /* large */
    config_init(&config);
    if (options->config_path != NULL
        && !config_read(&config, options->config_path, stderr)) {
        return false;
    }
    options->deadline_us = config.deadline_us;
    options->is_redis_missing = options->config_path != NULL && !config.redis.is_given;
    options->is_cluster = config.redis.mode == REDIS_CLUSTER;
    options->prefix = config.redis.prefix;
    options->n_workers = config.n_workers;
    options->lease_share = config.lease_share;
    options->lease_horizon_us = config.lease_horizon_us;
    options->sync_interval_us = config.sync_interval_us;
    if (options->load.n_hosts == 0) {
        options->load.n_hosts = config.n_nodes > 0 ? config.n_nodes : 1;
    }
    if (!options->asks_redis) {
        return true;
    }
    if (!config.redis.is_given) {
        return usage_error(options->config_path, "--redis: there is no `redis` in it");
    }
    options->redis = &stores->options;
    return stores_prepare(stores, &config.redis);
}

static bool print(const struct check *check)
{
    if (check->options.wants_json && !check_print_json(check, stdout)) {
        (void)fputs("check: the JSON could not be written, or memory ran out\n",
                    stderr);
        return false;
    }
    if (!check->options.wants_json) {
        check_print(check, stdout);
    }
    if (fflush(stdout) != 0) {
        (void)fputs("check: standard output cannot be written\n", stderr);
        return false;
    }
    return check_verdict_find(check).n_errors == 0;
}

static int run(const struct check_options *options)
{
    struct check check;
    bool is_ok = false;
    if (check_init(&check, options, clock_wall_us() / US_PER_S) && check_find(&check)) {
        is_ok = print(&check);
    } else {
        (void)fputs("check: out of memory\n", stderr);
    }
    check_fini(&check);
    return is_ok ? EXIT_CODE_OK : EXIT_CODE_FAILED;
}

int command_check(int argc, char **argv)
{
    static struct stores stores; /* large */
    struct check_options options = {0};
    if (!read_command_line(&options, argc, argv)) {
        return EXIT_CODE_USAGE;
    }
    if (options.wants_help) {
        print_usage(stdout);
        return EXIT_CODE_OK;
    }
    if (sodium_init() < 0) {
        (void)fputs("check: libsodium cannot be initialised\n", stderr);
        return EXIT_CODE_FAILED;
    }
    int code = read_config(&options, &stores) ? run(&options) : EXIT_CODE_FAILED;
    stores_close(&stores);
    return code;
}
