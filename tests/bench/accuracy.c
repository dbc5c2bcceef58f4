/* The sliding window's two counts against the exact log, on the same traffic: a table on
 * standard output and, where a name is given, what each admitted in the last minute, as SVG.
 * Simulated time; the same figures at every run. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/limit/limit.h"

#include "tests/support/prng.h"

enum {
    LIMIT = 600,
    WINDOWS = 1000, /* of a minute, simulated */
    WINDOWS_SHOWN = 6,
    SAMPLES = 360, /* of a plot: one a second */
    PLOT_WIDTH = 720,
    PLOT_HEIGHT = 150,
    PLOT_GAP = 40,
};

#define PER_US   (60 * US_PER_S)
#define START_US (INT64_C(1800000000) * US_PER_S)

/* When one request comes after another. */
typedef int64_t next_fn(struct prng *prng, int64_t now_us, double rate);

static double uniform(struct prng *prng)
{
    return ((double)(prng_next(prng) >> 11) + 0.5) / (double)(UINT64_C(1) << 53);
}

static int64_t next_poisson(struct prng *prng, int64_t now_us, double rate)
{
    return now_us + 1 + (int64_t)(-log(uniform(prng)) / rate * (double)US_PER_S);
}

/* 50 at once, at the times of a Poisson stream. */
static int64_t next_bursty(struct prng *prng, int64_t now_us, double rate)
{
    return prng_below(prng, 50) > 0 ? now_us + 1
                                    : next_poisson(prng, now_us, rate / 50);
}

/* A part of each period has all of its requests. */
struct span {
    int64_t period_us;
    int64_t begin_us;
    int64_t end_us;
};

static int64_t next_within(struct prng *prng, int64_t now_us, double rate,
                           const struct span *span)
{
    int64_t period_us = now_us - now_us % span->period_us;
    int64_t begin_us = period_us + span->begin_us;
    double density = (double)span->period_us / (double)(span->end_us - span->begin_us);
    int64_t from_us = now_us > begin_us ? now_us : begin_us;
    int64_t next_us = next_poisson(prng, from_us, rate * density);
    return next_us < period_us + span->end_us ? next_us : begin_us + span->period_us;
}

static int64_t next_front(struct prng *prng, int64_t now_us, double rate)
{
    static const struct span span = {PER_US, 0, PER_US / 6};
    return next_within(prng, now_us, rate, &span);
}

static int64_t next_back(struct prng *prng, int64_t now_us, double rate)
{
    static const struct span span = {PER_US, PER_US * 5 / 6, PER_US};
    return next_within(prng, now_us, rate, &span);
}

/* The end of one minute and the begin of the next, then nothing: the worst for two counts. */
static int64_t next_turn(struct prng *prng, int64_t now_us, double rate)
{
    static const struct span span = {2 * PER_US, PER_US * 5 / 6, PER_US * 7 / 6};
    return next_within(prng, now_us, rate, &span);
}

/* What was admitted in the last minute; of that an exact log decides. */
struct last_minute {
    int64_t at_us[2 * LIMIT];
    unsigned first;
    unsigned n;
    unsigned most;
};

static void forget(struct last_minute *m, int64_t now_us)
{
    while (m->n > 0 && now_us - m->at_us[m->first] >= PER_US) {
        m->first = (m->first + 1) % (2 * LIMIT);
        m->n--;
    }
}

static void remember(struct last_minute *m, int64_t now_us)
{
    m->at_us[(m->first + m->n) % (2 * LIMIT)] = now_us;
    m->n++;
    m->most = m->n > m->most ? m->n : m->most;
}

struct run {
    struct limit limit;
    struct limit_state state;
    struct last_minute window;
    struct last_minute log;
    long n_requests;
    long n_window;
    long n_log;
    long
        n_falsely_refused; /* though there was room in the minute that the window saw */
    long n_falsely_allowed;
    unsigned samples[2][SAMPLES];
};

static void request(struct run *run, int64_t now_us)
{
    struct limit_answer answer;
    forget(&run->window, now_us);
    forget(&run->log, now_us);
    bool has_room = run->window.n < LIMIT;
    run->n_requests++;
    if (limit_take(&run->limit, &run->state, (struct instant){.us = now_us}, 1,
                   &answer)) {
        remember(&run->window, now_us);
        run->n_window++;
        run->n_falsely_allowed += !has_room;
    } else {
        run->n_falsely_refused += has_room;
    }
    if (run->log.n < LIMIT) {
        remember(&run->log, now_us);
        run->n_log++;
    }
}

static void sample(struct run *run, int64_t from_us, int64_t to_us)
{
    int64_t i = (from_us - START_US) / US_PER_S + 1;
    for (; i < SAMPLES && START_US + i * US_PER_S <= to_us; i++) {
        forget(&run->window, START_US + i * US_PER_S);
        forget(&run->log, START_US + i * US_PER_S);
        run->samples[0][i] = run->window.n;
        run->samples[1][i] = run->log.n;
    }
}

static void simulate(struct run *run, next_fn *next, double load)
{
    struct prng prng;
    prng_init(&prng, 1);
    *run = (struct run){.limit = {.algorithm = LIMIT_SLIDING_WINDOW,
                                  .requests = LIMIT,
                                  .size = LIMIT,
                                  .per_ticks = 600000,
                                  .tick_us = 100}};
    double rate = load * LIMIT / 60;
    int64_t now_us = START_US;
    for (;;) {
        int64_t next_us = next(&prng, now_us, rate);
        sample(run, now_us, next_us);
        now_us = next_us;
        if (now_us >= START_US + WINDOWS * PER_US) {
            return;
        }
        request(run, now_us);
    }
}

static const struct {
    const char *name;
    next_fn *next;
} traffics[] = {
    {"Poisson", next_poisson},
    {"bursts of 50", next_bursty},
    {"first 10 s", next_front},
    {"last 10 s", next_back},
    {"around every other turn", next_turn},
};

static void print_row(const char *name, double load, const struct run *run)
{
    double refused = (double)run->n_falsely_refused * 100 / (double)run->n_requests;
    double allowed = (double)run->n_falsely_allowed * 100 / (double)run->n_requests;
    (void)printf("| %s | %.1f | %ld | %ld | %.4f | %.2f %% | %.2f %% | %u |\n", name,
                 load, run->n_requests, run->n_window,
                 (double)run->n_window / (double)run->n_log, refused, allowed,
                 run->window.most);
}

static void plot_line(FILE *svg, const unsigned *samples, double top, const char *style)
{
    (void)fprintf(svg, "<polyline fill='none' %s points='", style);
    for (int i = 0; i < SAMPLES; i++) {
        (void)fprintf(svg, "%d,%.1f ", i * PLOT_WIDTH / SAMPLES,
                      top + PLOT_HEIGHT
                          - samples[i] * (double)PLOT_HEIGHT / (2 * LIMIT));
    }
    (void)fprintf(svg, "'/>\n");
}

static void plot(FILE *svg, const char *name, const struct run *run, int row)
{
    double top = row * (PLOT_HEIGHT + PLOT_GAP) + PLOT_GAP;
    double limit_y = top + PLOT_HEIGHT / 2.0;
    (void)fprintf(svg, "<text x='0' y='%.0f'>%s, twice the limit offered</text>\n",
                  top - 8, name);
    (void)fprintf(svg,
                  "<path d='M0,%.0f h%d M0,%.0f h%d' stroke='#999' "
                  "stroke-dasharray='4'/>\n",
                  limit_y, PLOT_WIDTH, top + PLOT_HEIGHT, PLOT_WIDTH);
    plot_line(svg, run->samples[1], top, "stroke='#2a7' stroke-width='3'");
    plot_line(svg, run->samples[0], top, "stroke='#c33'");
}

static FILE *plot_begin(const char *path)
{
    FILE *svg = fopen(path, "we");
    if (svg == NULL) {
        perror(path);
        exit(EXIT_FAILURE);
    }
    int n = sizeof(traffics) / sizeof(traffics[0]);
    int height = n * (PLOT_HEIGHT + PLOT_GAP) + PLOT_GAP;
    (void)
        fprintf(svg,
                "<svg xmlns='http://www.w3.org/2000/svg' width='%d' height='%d' "
                "font-family='sans-serif' font-size='13'>\n"
                "<rect width='100%%' height='100%%' fill='white'/>\n"
                "<text x='0' y='%d'>Admitted in the last 60 s, over %d minutes: the "
                "sliding window (thin, red), the exact log (thick, green); dashed: the "
                "limit, and 0</text>\n",
                PLOT_WIDTH, height, height - 12, WINDOWS_SHOWN);
    return svg;
}

int main(int argc, char **argv)
{
    static const double loads[] = {0.5, 0.9, 1, 1.1, 2};
    static struct run run;
    FILE *svg = argc > 1 ? plot_begin(argv[1]) : NULL;
    (void)printf(
        "| traffic, %d a minute | offered over the limit | requests | admitted | "
        "over the log's | falsely refused | falsely allowed | most in 60 s |\n"
        "| --- | --- | --- | --- | --- | --- | --- | --- |\n",
        LIMIT);
    for (size_t i = 0; i < sizeof(traffics) / sizeof(traffics[0]); i++) {
        for (size_t j = 0; j < sizeof(loads) / sizeof(loads[0]); j++) {
            simulate(&run, traffics[i].next, loads[j]);
            print_row(traffics[i].name, loads[j], &run);
        }
        if (svg != NULL) {
            plot(svg, traffics[i].name, &run, (int)i);
        }
    }
    if (svg != NULL) {
        (void)fprintf(svg, "</svg>\n");
        if (fclose(svg) != 0) {
            perror(argv[1]);
            return EXIT_FAILURE;
        }
    }
    return EXIT_SUCCESS;
}
