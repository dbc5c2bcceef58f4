/**
 * @file agent/command/options.h  The command line of serve.
 *
 * Model:     agent.yaml first, then the options, which win; addresses on the command line
 *            replace those of the file.
 * Errors:    printed to standard error.
 */
#ifndef AGENT_COMMAND_OPTIONS_H
#define AGENT_COMMAND_OPTIONS_H

#include "agent/config.h"

enum options_result {
    OPTIONS_OK = 0,
    OPTIONS_HELP,     /* help was asked for and printed */
    OPTIONS_USAGE,    /* the command line is wrong */
    OPTIONS_BAD_FILE, /* agent.yaml is */
};

/** Read the command line, and the file it names, over `config`'s defaults. */
MUST_USE enum options_result options_read(struct config *config, int argc, char **argv);

#endif
