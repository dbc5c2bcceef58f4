/**
 * @file agent/command/command.h  The subcommands, one file each.
 */
#ifndef AGENT_COMMAND_COMMAND_H
#define AGENT_COMMAND_COMMAND_H

enum {
    EXIT_CODE_OK = 0,
    EXIT_CODE_FAILED = 1, /* refused, or a problem found */
    EXIT_CODE_USAGE = 2,
};

/**
 * A subcommand: argv[0] is its name, as getopt wants it.
 *
 * @return an exit code
 */
typedef int command_fn(int argc, char **argv);

/** Run the daemon. */
int command_serve(int argc, char **argv);

/** Say what is wrong with a rules file, and what it means. */
int command_check(int argc, char **argv);

/** Load an agent over SPOP. */
int command_bench(int argc, char **argv);

/** Say what would be decided about a request, and why. */
int command_explain(int argc, char **argv);

#endif
