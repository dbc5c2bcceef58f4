/* Also the instrument of tests/bench: its options are what people and scripts use. */
#include "agent/bench/bench.h"

#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/bench/report.h"
#include "agent/command/command.h"
#include "agent/net/address.h"

/* What the shipped spoe-ratelimit.conf sends for a client with an API key. */
static const char *const default_args[] = {
    "ip:ip=10.0.0.0+{key}", "method=GET",   "host=api.example.com", "path=/v1/items/42",
    "route:null",           "auth=api_key", "api_key=key-{key}",
};

static const char default_message[] = "ratelimit-check";

static void print_usage(FILE *out)
{
    (void)fprintf(
        out,
        "usage: spoa-ratelimit bench ADDR [OPTION]...\n\n"
        "Loads any agent over SPOP and says what it did. ADDR is IP:PORT, [v6]:PORT or\n"
        "unix@/path.\n\n"
        "      --connections N        (default 8)\n"
        "      --depth N              NOTIFYs under way on a connection (default 20)\n"
        "      --threads N            (default 1)\n"
        "      --duration SECONDS     measured (default 10)\n"
        "      --warmup SECONDS       before that (default 1)\n"
        "      --rate N               requests a second, all together, due at even times:\n"
        "                             latency counts from when each was due. Without it\n"
        "                             each ACK is followed by the next NOTIFY\n"
        "      --requests N           end after that many, if the time is not over before\n"
        "      --timeout SECONDS      silence that loses a connection (default 5)\n"
        "      --kill-connections N   close that many a second, at random\n"
        "      --keys N               different clients (default 100000)\n"
        "      --in-turn              each client once before any comes again\n"
        "      --zipf S               clients by Zipf's law of exponent S, not evenly\n"
        "      --seed N               of the random numbers (default 1)\n"
        "      --message NAME         (default ratelimit-check)\n"
        "      --arg NAME[:TYPE]=VALUE\n"
        "                             may be repeated; the first one replaces the default\n"
        "                             arguments, those of the shipped\n"
        "                             spoe-ratelimit.conf. Types: text (the default), int,\n"
        "                             ip, bool, null (NAME:null). {key} in a text, alone\n"
        "                             as an int, or in ADDRESS+{key}, is the client's\n"
        "                             number\n"
        "      --frame-size N         max-frame-size to announce (default 16380)\n"
        "      --pid PID              the agent's process: adds its CPU time and memory\n"
        "      --progress, --quiet    a line each second or none (default: one where\n"
        "                             standard error is a terminal)\n"
        "      --json                 the result as one JSON object\n"
        "      --help\n\n"
        "Exit code: 0 every NOTIFY got its ACK, 1 something went wrong, 2 usage.\n");
}

enum option_id {
    OPTION_CONNECTIONS = 256,
    OPTION_DEPTH,
    OPTION_THREADS,
    OPTION_DURATION,
    OPTION_WARMUP,
    OPTION_RATE,
    OPTION_REQUESTS,
    OPTION_TIMEOUT,
    OPTION_KILL,
    OPTION_KEYS,
    OPTION_IN_TURN,
    OPTION_ZIPF,
    OPTION_SEED,
    OPTION_MESSAGE,
    OPTION_ARG,
    OPTION_FRAME_SIZE,
    OPTION_PID,
    OPTION_PROGRESS,
    OPTION_QUIET,
    OPTION_JSON,
    OPTION_HELP,
};

static const struct option long_options[] = {
    {"connections", required_argument, NULL, OPTION_CONNECTIONS},
    {"depth", required_argument, NULL, OPTION_DEPTH},
    {"threads", required_argument, NULL, OPTION_THREADS},
    {"duration", required_argument, NULL, OPTION_DURATION},
    {"warmup", required_argument, NULL, OPTION_WARMUP},
    {"rate", required_argument, NULL, OPTION_RATE},
    {"requests", required_argument, NULL, OPTION_REQUESTS},
    {"timeout", required_argument, NULL, OPTION_TIMEOUT},
    {"kill-connections", required_argument, NULL, OPTION_KILL},
    {"keys", required_argument, NULL, OPTION_KEYS},
    {"in-turn", no_argument, NULL, OPTION_IN_TURN},
    {"zipf", required_argument, NULL, OPTION_ZIPF},
    {"seed", required_argument, NULL, OPTION_SEED},
    {"message", required_argument, NULL, OPTION_MESSAGE},
    {"arg", required_argument, NULL, OPTION_ARG},
    {"frame-size", required_argument, NULL, OPTION_FRAME_SIZE},
    {"pid", required_argument, NULL, OPTION_PID},
    {"progress", no_argument, NULL, OPTION_PROGRESS},
    {"quiet", no_argument, NULL, OPTION_QUIET},
    {"json", no_argument, NULL, OPTION_JSON},
    {"help", no_argument, NULL, OPTION_HELP},
    {NULL, 0, NULL, 0},
};

/* What the command line says, beside the plan. */
struct choice {
    const char *message;
    const char *args[SHAPE_ARGS_MAX];
    unsigned n_args;
    bool wants_json;
    bool wants_help;
};

static bool usage_error(const char *what, const char *why)
{
    (void)fprintf(stderr, "bench: %s: %s\n", what, why);
    return false;
}

/* A whole number of `min` to `max`. */
static bool read_number(const char *option, const char *text, uint64_t min,
                        uint64_t max, uint64_t *number)
{
    char *end = NULL;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    if (*text < '0' || *text > '9' || *end != '\0' || errno != 0 || value < min
        || value > max) {
        (void)fprintf(stderr, "bench: %s %s: want a number from %llu to %llu\n", option,
                      text, (unsigned long long)min, (unsigned long long)max);
        return false;
    }
    *number = value;
    return true;
}

static bool read_unsigned(const char *option, const char *text, unsigned max,
                          unsigned *number)
{
    uint64_t value = 0;
    bool ok = read_number(option, text, 1, max, &value);
    *number = ok ? (unsigned)value : *number;
    return ok;
}

static bool read_decimal(const char *option, const char *text, double min, double max,
                         double *number)
{
    char *end = NULL;
    double value = strtod(text, &end);
    if (*text < '0' || *text > '9' || *end != '\0' || !isfinite(value) || value < min
        || value > max) {
        (void)fprintf(stderr, "bench: %s %s: want a number from %g to %g\n", option,
                      text, min, max);
        return false;
    }
    *number = value;
    return true;
}

static bool read_seconds(const char *option, const char *text, double min, int64_t *us)
{
    double seconds = 0;
    bool ok = read_decimal(option, text, min, BENCH_SECONDS_MAX, &seconds);
    *us = ok ? (int64_t)(seconds * US_PER_S) : *us;
    return ok;
}

static bool set_load(struct bench_plan *plan, int id, const char *text)
{
    const double least_s = 0.001;
    switch (id) {
    case OPTION_CONNECTIONS:
        return read_unsigned("--connections", text, BENCH_CONNECTIONS_MAX,
                             &plan->n_connections);
    case OPTION_DEPTH:
        return read_unsigned("--depth", text, BENCH_DEPTH_MAX, &plan->depth);
    case OPTION_THREADS:
        return read_unsigned("--threads", text, BENCH_THREADS_MAX, &plan->n_threads);
    case OPTION_DURATION:
        return read_seconds("--duration", text, least_s, &plan->duration_us);
    case OPTION_WARMUP:
        return read_seconds("--warmup", text, 0, &plan->warmup_us);
    case OPTION_TIMEOUT:
        return read_seconds("--timeout", text, least_s, &plan->timeout_us);
    case OPTION_RATE:
        return read_number("--rate", text, 1, BENCH_RATE_MAX, &plan->rate);
    case OPTION_REQUESTS:
        return read_number("--requests", text, 1, BENCH_REQUESTS_MAX,
                           &plan->n_requests);
    case OPTION_KILL:
        return read_number("--kill-connections", text, 1, BENCH_KILLS_MAX,
                           &plan->kill_rate);
    default:
        return false; /* getopt has said what is wrong */
    }
}

static bool set_request(struct bench_plan *plan, struct choice *choice, int id,
                        const char *text)
{
    const double zipf_min = 0.01;
    const double zipf_max = 10;
    uint64_t number = 0;
    bool ok = true;
    switch (id) {
    case OPTION_KEYS:
        return read_number("--keys", text, 1, BENCH_KEYS_MAX, &plan->n_keys);
    case OPTION_IN_TURN:
        plan->is_in_turn = true;
        return true;
    case OPTION_ZIPF:
        return read_decimal("--zipf", text, zipf_min, zipf_max, &plan->zipf_s);
    case OPTION_SEED:
        return read_number("--seed", text, 0, UINT64_MAX, &plan->seed);
    case OPTION_MESSAGE:
        choice->message = text;
        return true;
    case OPTION_ARG:
        if (choice->n_args == SHAPE_ARGS_MAX) {
            return usage_error("--arg", "more than 64 of them");
        }
        choice->args[choice->n_args++] = text;
        return true;
    case OPTION_FRAME_SIZE:
        ok = read_number("--frame-size", text, SPOP_FRAME_SIZE_MIN, SPOP_FRAME_SIZE_MAX,
                         &number);
        plan->frame_bytes_max = (size_t)number;
        return ok;
    default:
        return set_load(plan, id, text);
    }
}

static bool set_option(struct bench_plan *plan, struct choice *choice, int id,
                       const char *text)
{
    uint64_t number = 0;
    struct process_usage usage;
    switch (id) {
    case OPTION_PID:
        if (!read_number("--pid", text, 1, INT32_MAX, &number)) {
            return false;
        }
        plan->pid = (long)number;
        return process_read(plan->pid, &usage)
               || usage_error("--pid", "there is no such process");
    case OPTION_PROGRESS:
        plan->progress = stderr;
        return true;
    case OPTION_QUIET:
        plan->progress = NULL;
        return true;
    case OPTION_JSON:
        choice->wants_json = true;
        return true;
    case OPTION_HELP:
        choice->wants_help = true;
        return true;
    default:
        return set_request(plan, choice, id, text);
    }
}

static bool set_address(struct bench_plan *plan, const char *text)
{
    char error[ADDRESS_ERROR_BYTES_MAX];
    struct address address;
    if (!address_parse(&address, text, error)) {
        (void)fprintf(stderr, "bench: %s\n", error);
        return false;
    }
    if (address.inherited_fd >= 0) {
        return usage_error(text, "want an address to connect to");
    }
    plan->address = text;
    plan->sockaddr = address.sockaddr;
    plan->sockaddr_len = address.sockaddr_len;
    return true;
}

static bool set_shape(struct bench_plan *plan, const struct choice *choice)
{
    char error[SHAPE_ERROR_BYTES_MAX];
    const char *const *args = choice->n_args > 0 ? choice->args : default_args;
    size_t n_args = choice->n_args > 0 ? choice->n_args : ARRAY_LEN(default_args);
    bool ok = shape_init(&plan->shape, choice->message, error);
    for (size_t i = 0; ok && i < n_args; i++) {
        ok = shape_add(&plan->shape, args[i], error);
    }
    return ok || usage_error("--arg", error);
}

static bool read_command_line(struct bench_plan *plan, struct choice *choice, int argc,
                              char **argv)
{
    int id = 0;
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): there are no threads yet */
    while ((id = getopt_long(argc, argv, "", long_options, NULL)) != -1) {
        if (!set_option(plan, choice, id, optarg)) {
            return false;
        }
    }
    if (choice->wants_help) {
        return true;
    }
    if (argc - optind != 1) {
        return usage_error("ADDR", "want one address; see bench --help");
    }
    if (plan->n_threads > plan->n_connections) {
        return usage_error("--threads", "more threads than connections");
    }
    if (plan->is_in_turn && plan->zipf_s > 0) {
        return usage_error("--zipf", "clients come in turn or at random, not both");
    }
    return set_address(plan, argv[optind]) && set_shape(plan, choice);
}

static void on_signal(int number)
{
    (void)number;
    bench_interrupt();
}

/* The first signal ends the measured time, a second one the process. */
static void catch_signals(void)
{
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND};
    (void)sigemptyset(&action.sa_mask);
    (void)sigaction(SIGINT, &action, NULL);
    (void)sigaction(SIGTERM, &action, NULL);
}

int command_bench(int argc, char **argv)
{
    static struct bench_plan plan = {
        .n_connections = 8,
        .depth = 20,
        .n_threads = 1,
        .duration_us = 10 * US_PER_S,
        .warmup_us = US_PER_S,
        .timeout_us = 5 * US_PER_S,
        .frame_bytes_max = 16380,
        .n_keys = 100000,
        .seed = 1,
    };
    static struct bench_result result;
    struct choice choice = {.message = default_message};
    plan.progress = isatty(STDERR_FILENO) == 1 ? stderr : NULL;
    if (!read_command_line(&plan, &choice, argc, argv)) {
        return EXIT_CODE_USAGE;
    }
    if (choice.wants_help) {
        print_usage(stdout);
        return EXIT_CODE_OK;
    }
    clock_start();
    catch_signals();
    bench_run(&plan, &result);
    if (result.error[0] != '\0') {
        (void)fprintf(stderr, "bench: %s: %s\n", plan.address, result.error);
        return EXIT_CODE_FAILED;
    }
    (choice.wants_json ? report_print_json : report_print)(&plan, &result, stdout);
    return bench_is_good(&result) ? EXIT_CODE_OK : EXIT_CODE_FAILED;
}
