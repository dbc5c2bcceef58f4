#include <stdio.h>

#include "agent/command/command.h"
#include "agent/command/options.h"
#include "agent/config.h"
#include "agent/control/daemon.h"
#include "agent/log.h"

static const char first_rules[] =
    "no rules file: give one with --rules FILE or as `rules:` in agent.yaml.\n"
    "These lines would do:\n\n"
    "  version: 1\n"
    "  domain: api\n"
    "  rules:\n"
    "    - name: per_address\n"
    "      key: [ip]\n"
    "      limit: { requests: 60, per: 60s }\n";

int command_serve(int argc, char **argv)
{
    static struct config config; /* large */
    config_init(&config);
    switch (options_read(&config, argc, argv)) {
    case OPTIONS_OK:
        break;
    case OPTIONS_HELP:
        return EXIT_CODE_OK;
    case OPTIONS_USAGE:
        return EXIT_CODE_USAGE;
    case OPTIONS_BAD_FILE:
        return EXIT_CODE_FAILED;
    }
    log_start(config.log_level);
    if (config.rules_path[0] == '\0') {
        (void)fputs(first_rules, stderr);
        return EXIT_CODE_FAILED;
    }
    return daemon_run(&config) ? EXIT_CODE_OK : EXIT_CODE_FAILED;
}
