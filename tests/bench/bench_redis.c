/*
 * bench_redis [CALLS [DEPTH]]: calls of a script through one connection of one worker, and
 * redis-benchmark's with the same script and as many under way, on the same server.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <ev.h>

#include "agent/redis/router.h"

#include "tests/support/redis_process.h"

enum {
    DEPTH_MAX = 512,
    ROUNDS = 3,
};

struct bench {
    struct ev_loop *loop;
    struct seam *seam;
    struct seam_bytes key;
    struct seam_bytes arg;
    unsigned long n_left; /* to be begun */
    unsigned long n_done;
    unsigned long n_bad;
    unsigned long n_calls;
    unsigned depth;
    struct seam_call calls[DEPTH_MAX];
};

static struct bench bench;

static void begin(struct seam_call *call);

static void on_done(struct seam_call *call, const struct seam_reply *reply)
{
    bench.n_done++;
    bench.n_bad += reply == NULL;
    if (bench.n_left > 0) {
        begin(call);
    } else if (bench.n_done == bench.n_calls) {
        ev_break(bench.loop, EVBREAK_ALL);
    }
}

static void begin(struct seam_call *call)
{
    bench.n_left--;
    call->deadline = instant_add_us(clock_now(), 60 * US_PER_S);
    seam_run(bench.seam, call);
}

static double run_ours(void)
{
    struct instant began = clock_now();
    bench.n_left = bench.n_calls;
    bench.n_done = 0;
    bench.n_bad = 0;
    for (unsigned i = 0; i < bench.depth; i++) {
        bench.calls[i] = (struct seam_call){.keys = &bench.key,
                                            .n_keys = 1,
                                            .args = &bench.arg,
                                            .n_args = 1,
                                            .done = on_done,
                                            .late = on_done};
        begin(&bench.calls[i]);
    }
    (void)ev_run(bench.loop, 0);
    if (bench.n_bad > 0) {
        (void)printf("%lu calls without a reply\n", bench.n_bad);
    }
    return (double)bench.n_calls * (double)US_PER_S
           / (double)instant_diff_us(clock_now(), began);
}

static double run_theirs(const struct redis_process *server, const char *sha)
{
    char command[512];
    char line[256];
    double per_s = 0;
    (void)snprintf(command, sizeof(command),
                   "redis-benchmark -p %u -c 1 -P %u -n %lu --csv evalsha %s 1 "
                   "rl:public_api:{ip=203.0.113.7}:anon_per_ip:s60s 1 2>/dev/null",
                   server->port, bench.depth, bench.n_calls, sha);
    FILE *pipe = popen(command, "r");
    while (pipe != NULL && fgets(line, sizeof(line), pipe) != NULL) {
        const char *comma = strstr(line, "\",\"");
        per_s = comma != NULL && strncmp(line, "\"test", 5) != 0
                    ? strtod(comma + 3, NULL)
                    : per_s;
    }
    (void)pclose(pipe);
    return per_s;
}

int main(int argc, char **argv)
{
    static const char text[] = "return redis.call('incrby', KEYS[1], ARGV[1])";
    static const char *const options[] = {NULL};
    struct redis_process server = {.port = 0};
    struct link_script script = {.text = text, .text_bytes = sizeof(text) - 1};
    link_script_name(&script);
    bench.n_calls = argc > 1 ? strtoul(argv[1], NULL, 10) : 400000;
    bench.depth = argc > 2 ? (unsigned)strtoul(argv[2], NULL, 10) : 16;
    if (bench.depth < 1 || bench.depth > DEPTH_MAX || bench.n_calls < bench.depth
        || !redis_process_start(&server, options)) {
        return 1;
    }
    struct endpoint endpoint = redis_process_endpoint(&server);
    struct redis_options redis_options = {.n_endpoints = 1,
                                          .endpoints = &endpoint,
                                          .scripts = &script,
                                          .n_scripts = 1};
    bench.loop = ev_loop_new(EVFLAG_NOENV);
    struct redis *redis = redis_new(&redis_options);
    struct router *router = router_new(redis, bench.loop, 1);
    bench.seam = router_seam(router);
    bench.key = (struct seam_bytes){"rl:public_api:{ip=203.0.113.7}:anon_per_ip:s60s",
                                    47};
    bench.arg = (struct seam_bytes){"1", 1};
    for (unsigned i = 0; i < 50; i++) { /* until it is connected */
        (void)ev_run(bench.loop, EVRUN_NOWAIT);
        ev_sleep(0.01);
    }
    for (unsigned i = 0; i < ROUNDS; i++) {
        double theirs = run_theirs(&server, script.sha);
        double ours = run_ours();
        (void)printf("%u under way: %.0f calls/s, redis-benchmark %.0f, ratio %.2f\n",
                     bench.depth, ours, theirs, theirs > 0 ? ours / theirs : 0);
    }
    router_free(router);
    redis_free(redis);
    ev_loop_destroy(bench.loop);
    redis_process_stop(&server);
    return 0;
}
