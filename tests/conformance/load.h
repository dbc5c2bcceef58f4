/**
 * @file tests/conformance/load.h  A thread that asks the agent without a pause, and checks each
 *       answer.
 *
 * Model:     one connection. In each turn one request for each of LOAD_KEYS keys, in one
 *            write; the next when all are answered. Each key has a limit of its own in Redis
 *            that is never reached, and a policy (load_rules). By what an answer says, its key
 *            holds as many charges as were answered as counted, and no more than those and
 *            the ones that policies answered, which may have been charged.
 * Ownership: start / stop; the agent is the caller's.
 * Threads:   start, pause, resume, stop and the waits: one. What is counted may be read while
 *            it is paused.
 * Errors:    the first answer that is wrong ends the load; load_pause, load_wait and
 *            load_stop fail the test then.
 */
#ifndef TESTS_CONFORMANCE_LOAD_H
#define TESTS_CONFORMANCE_LOAD_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/observe/histogram.h"

#include "tests/conformance/wire.h"
#include "tests/support/spop_client.h"

enum {
    LOAD_KEYS = 60,
    LOAD_LIMIT = 1000000000,
    LOAD_FAULT_BYTES = 256,
};

/** Of a key: as the rules have them in turn. */
enum load_policy {
    LOAD_LOCAL = 0,
    LOAD_OPEN,
    LOAD_CLOSED,
    LOAD_POLICIES_N,
};

struct load_key {
    char name[16];       /* of the value */
    char redis_name[64]; /* of the key in Redis */
    enum load_policy policy;
    unsigned n_counted; /* by Redis */
    unsigned n_unsure;  /* answered by policy */
    int64_t left;       /* as Redis said last */
};

struct load {
    pthread_t thread;
    struct spop_client client;
    struct wire wire;
    bool may_forget; /* keys may hold less than was answered as counted */
    atomic_bool is_over;
    atomic_bool is_paused; /* wanted */
    atomic_bool is_idle;   /* it does */
    atomic_uint n_turns;
    atomic_uint n_good; /* turns in a row of which Redis counted all */
    unsigned n_asked;
    unsigned n_by_policy;
    unsigned n_late; /* of these: no answer in time */
    unsigned n_late_ever;
    struct histogram waits; /* in us */
    char fault[LOAD_FAULT_BYTES];
    struct load_key keys[LOAD_KEYS];
};

/** Text of a rules file: a rule of each policy. */
const char *load_rules(void);

void load_start(struct load *load, const char *socket_path);

/** End it; fine for one that was not started. */
void load_stop(struct load *load);

/** It begins paused. What it saw is counted anew when it is resumed. */
void load_pause(struct load *load);
void load_resume(struct load *load);

/** Let it go on for so many turns. */
void load_wait(struct load *load, unsigned n_turns);

/** ... until Redis counted all in so many in a row. @return how long it took, in us */
int64_t load_wait_counted(struct load *load, unsigned n_turns);

/** While it is paused: begin to count now, from what keys hold. */
void load_forget(struct load *load);

/** Say what was seen since it was resumed. */
void load_print(const struct load *load, const char *name);

#endif
