/**
 * @file tests/conformance/redis_fixture.h  The agent as a process over a Redis of its own.
 *
 * Model:     one redis-server, whose user for the agent is the one that agent/README.md gives
 *            it; where wanted a proxy before it; an agent with rules of each policy, and some
 *            connections to it.
 * Ownership: start_all / stop_all.
 * Threads:   one.
 * Errors:    a failure of the running test.
 */
#ifndef TESTS_CONFORMANCE_REDIS_FIXTURE_H
#define TESTS_CONFORMANCE_REDIS_FIXTURE_H

#include "tests/conformance/wire.h"
#include "tests/support/agent_process.h"
#include "tests/support/redis_process.h"
#include "tests/support/redis_proxy.h"
#include "tests/support/spop_client.h"

enum {
    CLIENTS = 4,
    LIMIT = 1000000000, /* of most rules, never reached */
};

struct redis_fixture {
    struct redis_process server;
    bool has_proxy;
    struct redis_proxy proxy;
    struct agent_process agent;
    struct agent_process_options options;
    struct spop_client clients[CLIENTS];
    struct wire wire;    /* what is sent next */
    struct wire_ack ack; /* what was received last */
};

extern struct redis_fixture r;

/** Read what agent/README.md says. @return false, with a text, where it gives no user */
bool redis_fixture_init(void);

/**
 * Start all, and wait until Redis counts what each connection asks about.
 *
 * @param more  fields of `redis` in agent.yaml: ", slow_ms: 0"
 */
void start_all(bool with_proxy, const char *more, unsigned deadline_ms);

/** @return whether the agent did not end well */
int stop_all(void);

void start_agent(void);
void stop_agent(int signal);

/** Wait until Redis counts what each connection asks about. */
void wait_for_counting(void);

/** The environment variable ROUNDS, or 2. */
unsigned n_rounds(void);

/** Let Redis do something, and see that it answers so. */
void tell(const char *command, const char *wanted);

/** @return the number that it answers */
unsigned tell_number(const char *command);

/** How many keys of a pattern there are, for which an expression of Lua about k holds. */
unsigned n_keys_where(const char *pattern, const char *expression);

/** Add a NOTIFY about a key to what is sent next. */
void put_question(const char *route, const char *key, uint64_t id);

void receive_ack(struct spop_client *c);

#endif
