#include "agent/bench/bench.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <sys/resource.h>

#include "agent/bench/loader.h"

enum {
    LOOK_US = 20000,           /* how often the run is looked at */
    DESCRIPTORS_OF_A_RUN = 80, /* beside connections: a thread's epoll, standard ones */
};

struct team {
    struct bench_run run;
    unsigned n_loaders; /* made */
    unsigned n_threads; /* started */
    struct loader *loaders[BENCH_THREADS_MAX];
    pthread_t threads[BENCH_THREADS_MAX];
};

static _Atomic bool is_interrupted;

void bench_interrupt(void)
{
    atomic_store(&is_interrupted, true);
}

static bool fail(struct bench_result *result, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static bool fail(struct bench_result *result, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    (void)vsnprintf(result->error, sizeof(result->error), format, args);
    va_end(args);
    return false;
}

static bool raise_descriptors(const struct bench_plan *plan,
                              struct bench_result *result)
{
    struct rlimit limit;
    rlim_t wanted = plan->n_connections + DESCRIPTORS_OF_A_RUN;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= wanted) {
        return true;
    }
    limit.rlim_cur = wanted < limit.rlim_max ? wanted : limit.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &limit);
    return limit.rlim_cur >= wanted
           || fail(result,
                   "%u connections need %" PRIu64
                   " descriptors, and the limit is %" PRIu64 "; see ulimit -n",
                   plan->n_connections, (uint64_t)wanted, (uint64_t)limit.rlim_max);
}

static uint64_t sum_of(const struct team *team, enum tally_counter counter)
{
    uint64_t sum = 0;
    for (unsigned i = 0; i < team->n_loaders; i++) {
        sum += tally_get(&team->loaders[i]->env.tally, counter);
    }
    return sum;
}

static void print_progress(const struct team *team, struct instant now,
                           uint64_t n_acks_of_second)
{
    const struct bench_plan *plan = team->run.plan;
    uint64_t n_lost = 0;
    for (unsigned i = 0; i < team->n_loaders; i++) {
        n_lost += tally_lost(&team->loaders[i]->env.tally);
    }
    uint64_t n_under_way = sum_of(team, TALLY_NOTIFIES) - sum_of(team, TALLY_ACKS)
                           - sum_of(team, TALLY_UNANSWERED)
                           - sum_of(team, TALLY_UNANSWERED_CLOSED);
    (void)fprintf(plan->progress,
                  "%4" PRId64 " s%s  %9" PRIu64 " ACK/s  %6" PRIu64
                  " under way  %" PRIu64 " denied  %" PRIu64
                  " connections lost  %" PRIu64 " unanswered\n",
                  instant_diff_us(now, team->run.start) / US_PER_S,
                  instant_diff_us(now, team->run.measure_from) < 0 ? " warm-up" : "",
                  n_acks_of_second, n_under_way, sum_of(team, TALLY_DENIED), n_lost,
                  sum_of(team, TALLY_UNANSWERED));
}

static void sleep_us(int64_t us)
{
    const long ns_per_us = 1000;
    struct timespec wait = {.tv_sec = us / US_PER_S,
                            .tv_nsec = us % US_PER_S * ns_per_us};
    (void)nanosleep(&wait, NULL);
}

/* Sleep until `until`, an interrupt or the last request, with a line each second. */
static void watch(struct team *team, struct instant until)
{
    struct instant now = clock_now();
    uint64_t n_acks = sum_of(team, TALLY_ACKS);
    struct instant line_at = instant_add_us(now, US_PER_S);
    while (instant_diff_us(until, now) > 0 && !atomic_load(&is_interrupted)
           && atomic_load(&team->run.n_loading) > 0) {
        int64_t left_us = instant_diff_us(until, now);
        sleep_us(left_us < LOOK_US ? left_us : LOOK_US);
        now = clock_now();
        if (instant_diff_us(now, line_at) >= 0 && team->run.plan->progress != NULL) {
            uint64_t n_acks_now = sum_of(team, TALLY_ACKS);
            print_progress(team, now, n_acks_now - n_acks);
            n_acks = n_acks_now;
            line_at = instant_add_us(line_at, US_PER_S);
        }
    }
}

static bool start_loaders(struct team *team, struct bench_result *result)
{
    const struct bench_plan *plan = team->run.plan;
    for (; team->n_loaders < plan->n_threads; team->n_loaders++) {
        struct loader *loader = loader_new(&team->run, team->n_loaders);
        if (loader == NULL) {
            return fail(result, "no memory for %u connections with %u NOTIFYs each",
                        plan->n_connections, plan->depth);
        }
        team->loaders[team->n_loaders] = loader;
    }
    atomic_store(&team->run.n_loading, plan->n_threads);
    for (; team->n_threads < plan->n_threads; team->n_threads++) {
        int error = pthread_create(&team->threads[team->n_threads], NULL, loader_run,
                                   team->loaders[team->n_threads]);
        if (error != 0) {
            atomic_store(&team->run.is_given_up, true);
            return fail(result, "thread %u could not be started: error %d",
                        team->n_threads, error);
        }
    }
    return true;
}

static void measure(struct team *team, struct bench_result *result)
{
    const struct bench_plan *plan = team->run.plan;
    struct instant end = {.us = atomic_load(&team->run.measure_to_us)};
    watch(team, team->run.measure_from);
    /* Without a warm-up all counts, also what came before this thread had its turn. */
    bool has_warmup = plan->warmup_us > 0;
    struct instant from = has_warmup ? clock_now() : team->run.start;
    uint64_t n_acks = has_warmup ? sum_of(team, TALLY_ACKS) : 0;
    result->has_usage = plan->pid > 0 && process_read(plan->pid, &result->usage_before);
    watch(team, end);
    struct instant to = clock_now();
    result->n_measured_acks = sum_of(team, TALLY_ACKS) - n_acks;
    result->measured_us = instant_diff_us(to, from);
    result->has_usage = result->has_usage
                        && process_read(plan->pid, &result->usage_after);
    atomic_store(&team->run.measure_to_us, to.us < end.us ? to.us : end.us);
}

static void take_tally(struct tally *to, const struct tally *from)
{
    for (unsigned i = 0; i < TALLY_N; i++) {
        tally_add(to, (enum tally_counter)i, tally_get(from, (enum tally_counter)i));
    }
    histogram_merge(&to->latency_us, &from->latency_us);
    bool is_first = to->first_error[0] == '\0'
                    || instant_diff_us(from->first_error_at, to->first_error_at) < 0;
    if (from->first_error[0] != '\0' && is_first) {
        to->first_error_at = from->first_error_at;
        memcpy(to->first_error, from->first_error, sizeof(to->first_error));
    }
}

static void finish(struct team *team, struct bench_result *result)
{
    for (unsigned i = 0; i < team->n_threads; i++) {
        (void)pthread_join(team->threads[i], NULL);
    }
    for (unsigned i = 0; i < team->n_loaders; i++) {
        take_tally(&result->tally, &team->loaders[i]->env.tally);
        loader_free(team->loaders[i]);
    }
    if (atomic_load(&team->run.is_given_up) && result->error[0] == '\0') {
        memcpy(result->error, result->tally.first_error, sizeof(result->error));
    }
}

void bench_run(const struct bench_plan *plan, struct bench_result *result)
{
    static struct team team; /* large */
    struct instant now = clock_now();
    memset(result, 0, sizeof(*result));
    memset(&team, 0, sizeof(team));
    atomic_store(&is_interrupted, false);
    team.run.plan = plan;
    team.run.start = now;
    team.run.measure_from = instant_add_us(now, plan->warmup_us);
    atomic_store(&team.run.measure_to_us, team.run.measure_from.us + plan->duration_us);
    if (raise_descriptors(plan, result) && start_loaders(&team, result)) {
        measure(&team, result);
    }
    finish(&team, result);
}

bool bench_is_good(const struct bench_result *result)
{
    const struct tally *tally = &result->tally;
    return result->error[0] == '\0' && tally_get(tally, TALLY_ACKS) > 0
           && tally_get(tally, TALLY_UNANSWERED) == 0 && tally_lost(tally) == 0;
}
