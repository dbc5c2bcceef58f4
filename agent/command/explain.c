#include "agent/control/explain.h"

#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include <sodium.h>

#include "agent/command/ask.h"
#include "agent/command/command.h"
#include "agent/control/rulebook.h"
#include "agent/control/runtime.h"
#include "agent/store/local.h"

static void print_usage(FILE *out)
{
    (void)fputs(
        "usage: spoa-ratelimit explain [OPTION]... NAME=VALUE...\n\n"
        "Says what would be decided about a request: which rules apply and why others do\n"
        "not, keys, costs, what each limit holds, and what HAProxy would get. Charges\n"
        "nothing. NAME=VALUE as HAProxy sends it: ip=203.0.113.7 method=GET path=/v1/x\n\n"
        "      --rules FILE     by this file, with counters that nothing has touched\n"
        "      --runtime PATH   ask the agent of this runtime socket, with its counters\n"
        "                       (default " ASK_DEFAULT_PATH ")\n"
        "      --all            the rules that do not match, too\n"
        "      --json           as one JSON object\n"
        "      --exit-verdict   exit code 1 where the request would be refused\n"
        "      --help\n\n"
        "Exit code: 0 it was explained, 1 it cannot be, 2 usage.\n",
        out);
}

enum option_id {
    OPTION_RULES = 256,
    OPTION_RUNTIME,
    OPTION_ALL,
    OPTION_JSON,
    OPTION_EXIT_VERDICT,
    OPTION_HELP,
};

static const struct option long_options[] = {
    {"rules", required_argument, NULL, OPTION_RULES},
    {"runtime", required_argument, NULL, OPTION_RUNTIME},
    {"all", no_argument, NULL, OPTION_ALL},
    {"json", no_argument, NULL, OPTION_JSON},
    {"exit-verdict", no_argument, NULL, OPTION_EXIT_VERDICT},
    {"help", no_argument, NULL, OPTION_HELP},
    {NULL, 0, NULL, 0},
};

struct choice {
    const char *rules;
    const char *runtime;
    bool is_exit_verdict;
    bool wants_help;
    bool is_json;
    unsigned n_words;
    const char *words[RUNTIME_WORDS_MAX]; /* as for the runtime socket */
};

static bool usage_error(const char *what, const char *why)
{
    (void)fprintf(stderr, EXPLAIN_ERROR "%s: %s\n", what, why);
    return false;
}

static bool set_option(struct choice *choice, int id)
{
    switch (id) {
    case OPTION_RULES:
        choice->rules = optarg;
        return true;
    case OPTION_RUNTIME:
        choice->runtime = optarg;
        return true;
    case OPTION_ALL:
        choice->words[choice->n_words++] = "--all";
        return choice->n_words < 4 || usage_error("--all", "once is enough");
    case OPTION_JSON:
        choice->is_json = true;
        choice->words[choice->n_words++] = "--json";
        return choice->n_words < 4 || usage_error("--json", "once is enough");
    case OPTION_EXIT_VERDICT:
        choice->is_exit_verdict = true;
        return true;
    case OPTION_HELP:
        choice->wants_help = true;
        return true;
    default:
        return false; /* getopt has said what is wrong */
    }
}

static bool add_words(struct choice *choice, int argc, char **argv)
{
    for (int i = optind; i < argc; i++) {
        const char *equals = strchr(argv[i], '=');
        if (equals == NULL || equals == argv[i]) {
            return usage_error(argv[i], "want NAME=VALUE; see explain --help");
        }
        if (choice->n_words == RUNTIME_WORDS_MAX) {
            return usage_error(argv[i], "too many arguments");
        }
        choice->words[choice->n_words++] = argv[i];
    }
    if (choice->rules != NULL && choice->runtime != NULL) {
        return usage_error("--rules, --runtime", "want one of them");
    }
    return true;
}

static bool read_command_line(struct choice *choice, int argc, char **argv)
{
    int id = 0;
    choice->words[choice->n_words++] = "explain";
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): there are no threads yet */
    while ((id = getopt_long(argc, argv, "", long_options, NULL)) != -1) {
        if (!set_option(choice, id)) {
            return false;
        }
    }
    return choice->wants_help || add_words(choice, argc, argv);
}

static int exit_code_of(const struct choice *choice, bool is_denied)
{
    return choice->is_exit_verdict && is_denied ? EXIT_CODE_FAILED : EXIT_CODE_OK;
}

/* Both forms say it in a line of their own. */
static bool says_denied(const struct choice *choice, const char *answer)
{
    return strstr(answer,
                  choice->is_json ? "\n    \"deny\": true" : "\n  deny = true\n")
           != NULL;
}

static int explain_running(const struct choice *choice)
{
    const char *path = choice->runtime != NULL ? choice->runtime : ASK_DEFAULT_PATH;
    char *answer = ask_agent(path, choice->n_words, choice->words);
    if (answer == NULL) {
        return EXIT_CODE_FAILED;
    }
    bool is_error = strncmp(answer, EXPLAIN_ERROR, strlen(EXPLAIN_ERROR)) == 0;
    (void)fputs(answer, is_error ? stderr : stdout);
    int code = is_error ? EXIT_CODE_FAILED
                        : exit_code_of(choice, says_denied(choice, answer));
    free(answer);
    return code;
}

static int explain_by(const struct choice *choice, struct rulebook *book,
                      struct store *store)
{
    struct decide_options options;
    decide_options_init(&options, variables_default() | VARIABLE_BIT(VARIABLE_RATELIMIT)
                                      | VARIABLE_BIT(VARIABLE_POLICY));
    struct peek_source source = {
        .now = clock_now(),
        .set = rulebook_set(book),
        .clients = rulebook_clients(book),
        .store = store,
        .options = &options,
    };
    switch (explain_print(&source, choice->n_words - 1, choice->words + 1, stdout)) {
    case EXPLAIN_ALLOWED:
        return exit_code_of(choice, false);
    case EXPLAIN_DENIED:
        return exit_code_of(choice, true);
    case EXPLAIN_FAILED:
        break;
    }
    return EXIT_CODE_FAILED;
}

/* The smallest table there is: it stays empty. */
static int explain_file(const struct choice *choice)
{
    uint8_t secret[LOCAL_SECRET_BYTES];
    if (sodium_init() < 0) {
        return EXIT_CODE_FAILED;
    }
    clock_start();
    randombytes_buf(secret, sizeof(secret));
    struct store *store = local_new(LOCAL_MEMORY_BYTES_MIN, LOCAL_LOG_BYTES_MIN,
                                    secret);
    struct rulebook *book = rulebook_open(choice->rules, NULL, 1, "rl");
    int code = store != NULL && book != NULL ? explain_by(choice, book, store)
                                             : EXIT_CODE_FAILED;
    rulebook_free(book);
    store_free(store);
    return code;
}

int command_explain(int argc, char **argv)
{
    struct choice choice = {0};
    if (!read_command_line(&choice, argc, argv)) {
        return EXIT_CODE_USAGE;
    }
    if (choice.wants_help) {
        print_usage(stdout);
        return EXIT_CODE_OK;
    }
    return choice.rules != NULL ? explain_file(&choice) : explain_running(&choice);
}
