#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "agent/base.h"
#include "agent/command/command.h"

static const struct {
    const char *name;
    const char *help;
    command_fn *run;
} commands[] = {
    {"serve", "answer HAProxy", command_serve},
    {"check", "say what is wrong with a rules file, and what it means", command_check},
    {"explain", "say what would be decided about a request, and why", command_explain},
    {"bench", "load an agent and say what it did", command_bench},
};

static void print_usage(FILE *out)
{
    (void)fprintf(out,
                  "spoa-ratelimit " AGENT_VERSION ", a rate limiter for HAProxy\n\n"
                  "usage: spoa-ratelimit COMMAND [OPTION]...\n\n");
    for (size_t i = 0; i < ARRAY_LEN(commands); i++) {
        (void)fprintf(out, "  %-10s %s\n", commands[i].name, commands[i].help);
    }
    (void)fprintf(out, "\nEach command has --help.\n");
}

/* What is opened first must not become standard output or error. */
static bool open_standard_descriptors(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDWR) != fd) {
            return false;
        }
    }
    return true;
}

int main(int argc, char **argv)
{
    (void)signal(SIGPIPE, SIG_IGN); /* a peer that went away is an error of send */
    (void)signal(SIGXFSZ, SIG_IGN); /* so is a limit on file sizes of write */
    if (!open_standard_descriptors()) {
        return EXIT_CODE_FAILED;
    }
    const char *name = argc > 1 ? argv[1] : "";
    for (size_t i = 0; i < ARRAY_LEN(commands); i++) {
        if (strcmp(name, commands[i].name) == 0) {
            return commands[i].run(argc - 1, argv + 1);
        }
    }
    if (strcmp(name, "--help") == 0) {
        print_usage(stdout);
        return EXIT_CODE_OK;
    }
    if (strcmp(name, "--version") == 0) {
        (void)puts("spoa-ratelimit " AGENT_VERSION);
        return EXIT_CODE_OK;
    }
    print_usage(stderr);
    return EXIT_CODE_USAGE;
}
