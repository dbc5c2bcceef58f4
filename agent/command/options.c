#include "agent/command/options.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void print_usage(FILE *out)
{
    (void)fprintf(
        out,
        "usage: spoa-ratelimit serve [OPTION]...\n\n"
        "  -c, --config FILE    agent.yaml\n"
        "      --rules FILE     rules file\n"
        "      --listen ADDR    IP:PORT, [v6]:PORT, unix@/path or fd@N; may be repeated\n"
        "                       (default " CONFIG_DEFAULT_ADDRESS ")\n"
        "      --workers N      threads (default 2)\n"
        "      --runtime PATH   runtime socket; may be repeated\n"
        "      --help\n\n"
        "Options win over the file. SIGTERM and SIGINT drain and stop; SIGUSR2\n"
        "starts a successor that takes over without a gap.\n\n"
        "Fields of agent.yaml:\n");
    config_print_help(out);
}

enum option_id {
    OPTION_CONFIG = 'c',
    OPTION_RULES = 256,
    OPTION_LISTEN,
    OPTION_WORKERS,
    OPTION_RUNTIME,
    OPTION_HELP,
};

static const struct option long_options[] = {
    {"config", required_argument, NULL, OPTION_CONFIG},
    {"rules", required_argument, NULL, OPTION_RULES},
    {"listen", required_argument, NULL, OPTION_LISTEN},
    {"workers", required_argument, NULL, OPTION_WORKERS},
    {"runtime", required_argument, NULL, OPTION_RUNTIME},
    {"help", no_argument, NULL, OPTION_HELP},
    {NULL, 0, NULL, 0},
};

/* What the first of two passes finds: the file is read before the options that win over
 * it, wherever -c stands. */
struct scan {
    const char *file;
    bool has_listen;
    bool has_runtime;
    bool wants_help;
    bool is_wrong; /* getopt has said what */
};

static bool usage_error(const char *option, const char *what)
{
    (void)fprintf(stderr, "%s: %s\n", option, what);
    return false;
}

static bool add_address(struct address *addresses, unsigned *n, unsigned n_max,
                        const char *text)
{
    char error[ADDRESS_ERROR_BYTES_MAX];
    if (*n == n_max) {
        return usage_error(text, "too many addresses");
    }
    if (!address_parse(&addresses[*n], text, error)) {
        (void)fprintf(stderr, "%s\n", error);
        return false;
    }
    (*n)++;
    return true;
}

static bool set_workers(struct config *config, const char *text)
{
    char *end = NULL;
    unsigned long number = strtoul(text, &end, 10);
    if (*text < '0' || *text > '9' || *end != '\0' || number < 1
        || number > SERVER_WORKERS_MAX) {
        return usage_error("--workers", "want a number from 1 to 64");
    }
    config->n_workers = (unsigned)number;
    return true;
}

static bool set_option(struct config *config, int id, const char *value)
{
    char path[CONFIG_PATH_BYTES_MAX];
    switch (id) {
    case OPTION_CONFIG:
        return true; /* read before the others */
    case OPTION_RULES:
        if (strlen(value) == 0 || strlen(value) >= sizeof(config->rules_path)) {
            return usage_error("--rules", "want the path of a file");
        }
        (void)snprintf(config->rules_path, sizeof(config->rules_path), "%s", value);
        return true;
    case OPTION_LISTEN:
        return add_address(config->listen, &config->n_listen, SERVER_LISTENERS_MAX,
                           value);
    case OPTION_WORKERS:
        return set_workers(config, value);
    case OPTION_RUNTIME:
        (void)snprintf(path, sizeof(path), "unix@%s", value);
        return add_address(config->runtimes, &config->n_runtimes, CONFIG_RUNTIMES_MAX,
                           path);
    default:
        return false; /* getopt has said what is wrong */
    }
}

static int next_option(int argc, char **argv)
{
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): there are no threads yet */
    return getopt_long(argc, argv, "c:", long_options, NULL);
}

static void find_file(int argc, char **argv, struct scan *scan)
{
    int id = 0;
    while ((id = next_option(argc, argv)) != -1) {
        scan->file = id == OPTION_CONFIG ? optarg : scan->file;
        scan->has_listen = scan->has_listen || id == OPTION_LISTEN;
        scan->has_runtime = scan->has_runtime || id == OPTION_RUNTIME;
        scan->wants_help = scan->wants_help || id == OPTION_HELP;
        scan->is_wrong = scan->is_wrong || id == '?';
    }
}

enum options_result options_read(struct config *config, int argc, char **argv)
{
    struct scan scan = {0};
    find_file(argc, argv, &scan);
    if (scan.wants_help) {
        print_usage(stdout);
        return OPTIONS_HELP;
    }
    if (scan.is_wrong) {
        return OPTIONS_USAGE;
    }
    if (optind < argc) {
        (void)usage_error(argv[optind], "not an option; see serve --help");
        return OPTIONS_USAGE;
    }
    if (scan.file != NULL && !config_read(config, scan.file, stderr)) {
        return OPTIONS_BAD_FILE;
    }
    config->n_listen = scan.has_listen ? 0 : config->n_listen;
    config->n_runtimes = scan.has_runtime ? 0 : config->n_runtimes;
    optind = 1;
    int id = 0;
    while ((id = next_option(argc, argv)) != -1) {
        if (!set_option(config, id, optarg)) {
            return OPTIONS_USAGE;
        }
    }
    if (config->n_listen == 0) {
        bool ok = add_address(config->listen, &config->n_listen, SERVER_LISTENERS_MAX,
                              CONFIG_DEFAULT_ADDRESS);
        ENSURE(ok);
    }
    return OPTIONS_OK;
}
