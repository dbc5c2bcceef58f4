/**
 * @file agent/bench/bench.h  Load an agent over SPOP and tell what it did.
 *
 * Model:     threads, each with connections of its own, on which NOTIFYs are under way.
 *            Closed loop: an ACK is followed by the next NOTIFY; latency counts from
 *            sending. Open loop: requests are due at fixed times; latency counts from
 *            when a request was due, whether or not there was room to send it then.
 *            A connection that is lost comes back after a back-off, and its NOTIFYs
 *            without an ACK are counted. After the measured time nothing is sent, and
 *            the ACKs under way are waited for.
 * Ownership: bench_run borrows the plan and fills the result.
 * Threads:   bench_run starts and ends its own; it does not return before.
 * Errors:    a text in the result where there is nothing to measure: the agent could not
 *            be reached at all, or memory or descriptors are short.
 * Limits:    the BENCH_*_MAX below; memory is taken at the start: per connection a frame
 *            of input, two NOTIFYs of output, 32 bytes for each NOTIFY under way.
 */
#ifndef AGENT_BENCH_BENCH_H
#define AGENT_BENCH_BENCH_H

#include <stdbool.h>
#include <stdio.h>

#include <sys/socket.h>

#include "agent/bench/process.h"
#include "agent/bench/shape.h"
#include "agent/bench/tally.h"

enum {
    BENCH_CONNECTIONS_MAX = 4096,
    BENCH_DEPTH_MAX = 1024,
    BENCH_THREADS_MAX = 64,
    BENCH_SECONDS_MAX = 86400,
    BENCH_RATE_MAX = 10000000,
    BENCH_KILLS_MAX = 10000,
};

#define BENCH_KEYS_MAX     INT64_C(1000000000000)
#define BENCH_REQUESTS_MAX INT64_C(1000000000000)

struct bench_plan {
    const char *address; /* as people wrote it */
    struct sockaddr_storage sockaddr;
    socklen_t sockaddr_len;
    unsigned n_connections;
    unsigned depth; /* NOTIFYs under way on a connection */
    unsigned n_threads;
    int64_t duration_us; /* measured */
    int64_t warmup_us;   /* before that */
    int64_t timeout_us;  /* silence that loses a connection */
    uint64_t rate;       /* requests a second, all together; 0: closed loop */
    uint64_t n_requests; /* after which the run ends; 0: when its time is over */
    uint64_t kill_rate;  /* connections closed a second, all together */
    size_t frame_bytes_max;
    uint64_t n_keys;
    bool is_in_turn; /* each key once before any comes again */
    double zipf_s;   /* at random: 0 evenly, else by Zipf's law */
    uint64_t seed;
    long pid; /* of the agent; 0: not told */
    struct shape shape;
    FILE *progress; /* NULL: none */
};

struct bench_result {
    struct tally tally; /* of the whole run */
    int64_t measured_us;
    uint64_t n_measured_acks;
    bool has_usage; /* of the agent, at both ends of the measured time */
    struct process_usage usage_before;
    struct process_usage usage_after;
    char error[BENCH_ERROR_BYTES_MAX]; /* "": the run took place */
};

/** Run as planned; `error` in the result says whether it took place. */
void bench_run(const struct bench_plan *plan, struct bench_result *result);

/** Ask a run to end its measured time now; safe in a signal handler. */
void bench_interrupt(void);

/** Whether all went well: every NOTIFY of at least one got its ACK, and nothing broke. */
bool bench_is_good(const struct bench_result *result);

#endif
