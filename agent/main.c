#include <stdio.h>
#include <string.h>

#include "agent/base.h"
#include "agent/command/command.h"

static const struct {
    const char *name;
    const char *help;
    command_fn *run;
} commands[] = {
    {"serve", "answer HAProxy", command_serve},
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

int main(int argc, char **argv)
{
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
