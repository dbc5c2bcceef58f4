/**
 * @file agent/bench/loader.h  One thread of a run: its clients and when they send.
 *
 * Model:     running -> draining (nothing new is sent, ACKs are waited for) -> ending
 *            (DISCONNECT sent) -> done. Plain epoll with a timeout in nanoseconds and a
 *            fresh clock: libev's timers are of whole milliseconds.
 * Ownership: loader_new / loader_free.
 * Threads:   loader_run on a thread of its own; others may read the tally's numbers.
 * Errors:    loader_new answers NULL without memory or descriptors.
 * Limits:    those of the plan.
 */
#ifndef AGENT_BENCH_LOADER_H
#define AGENT_BENCH_LOADER_H

#include "agent/bench/client.h"

/** When the n-th of evenly spaced events of the whole run falls to this thread. */
struct loader_schedule {
    uint64_t rate; /* a second, of all threads; 0: never */
    uint64_t n_done;
};

struct loader {
    struct client_env env;
    unsigned idx; /* of this thread */
    unsigned n_clients;
    unsigned next_client; /* open loop: whose turn it is */
    struct loader_schedule sending;
    struct loader_schedule killing;
    struct instant check_at; /* of the clients' timers */
    struct client clients[];
};

MUST_USE struct loader *loader_new(struct bench_run *run, unsigned idx);
void loader_free(struct loader *loader);

/** Run the struct loader `arg` to the end. */
void *loader_run(void *arg);

#endif
