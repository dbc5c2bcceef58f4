/**
 * @file tests/conformance/fixture.h  What every check stands on: the agent as a process, a
 *       well-behaved connection beside whatever is tried, and what has to be as before.
 *
 * Model:     one agent a program. Before and after each check the bystander asks and has to
 *            be answered rightly; afterwards the agent has as many descriptors as before,
 *            hardly more memory, and has answered what it took.
 * Ownership: `peers` are the test's own; tear-down closes those left open.
 * Threads:   the test's main thread, except where a test says so.
 * Errors:    assertions of cmocka, with the line of the check.
 */
#ifndef TESTS_CONFORMANCE_FIXTURE_H
#define TESTS_CONFORMANCE_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/conformance/wire.h"
#include "tests/support/agent_process.h"
#include "tests/support/spop_client.h"

enum {
    PEERS = 24,
    FIXTURE_LARGE = 1000000000, /* the limit of most keys: never reached here */
    FIXTURE_SMALL = 3,          /* that of the route "small" */
};

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#    define FIXTURE_IS_SANITIZED 1
#else
#    define FIXTURE_IS_SANITIZED 0
#endif

struct fixture {
    struct agent_process agent;
    struct agent_process_options options;
    int tcp_fd; /* listens on 127.0.0.1:tcp_port; the agent has inherited it */
    uint16_t tcp_port;
    struct spop_client bystander;
    uint64_t n_asked;     /* by the bystander */
    unsigned n_fds;       /* before the check */
    size_t rss_kib;       /* likewise */
    size_t log_bytes;     /* likewise */
    size_t rss_slack_kib; /* how much memory may grow */
};

extern struct fixture f;
extern struct spop_client peers[PEERS];
extern struct wire wire;    /* what is sent next */
extern struct wire_ack ack; /* what was received last */
extern size_t agreed_size;  /* no ACK may be larger; a check may set it */

/** Group: the agent runs, with a connection of the bystander. */
int group_set_up(void **state);
int group_tear_down(void **state);

/** End the agent, which has to end well, and start it again: the check goes on. */
void group_restart(void);

/** A check. */
int check_set_up(void **state);
int check_tear_down(void **state);

#define CHECK(name) cmocka_unit_test_setup_teardown(name, check_set_up, check_tear_down)

/** The allocator may keep what so many connections took that were open at once: twice
 * that, since it lies in pieces. */
void allow_memory_of(unsigned n_connections);

/** Memory is what it was before the check, but for the slack. */
void expect_memory_as_before(void);

/** Start `wire` anew. */
void wire_clear(void);

/** Connect, by UNIX socket or TCP. */
void peer_connect(struct spop_client *c);
void peer_connect_tcp(struct spop_client *c);

/** Connect and shake hands as HAProxy 3.1 does. */
void peer_open(struct spop_client *c);
void peer_open_tcp(struct spop_client *c);

/** Close now; by a reset where the connection is TCP. */
void peer_close(struct spop_client *c);
void peer_reset(struct spop_client *c);

/** Send all of `wire`, or some of it. */
void peer_send(struct spop_client *c);
void peer_send_part(struct spop_client *c, size_t from, size_t to);

/** Wait until the agent has taken all that was sent. UNIX sockets only. */
void peer_wait_taken(const struct spop_client *c);

/** What has to come next. */
struct wire_hello_answer expect_hello(struct spop_client *c);
void expect_ack(struct spop_client *c, uint64_t stream_id, uint64_t frame_id);
void expect_allowed(struct spop_client *c, uint64_t stream_id, uint64_t frame_id);
void expect_neutral(struct spop_client *c, uint64_t stream_id, uint64_t frame_id);
void expect_disconnect(struct spop_client *c, uint64_t code); /* and the end */
void expect_end(struct spop_client *c);
void expect_nothing(const struct spop_client *c); /* has come so far */

/** Connect, send `wire`, expect D `code`. */
void expect_refused(uint64_t code);

/** Open a connection, send `wire`, expect D `code`. */
void expect_refused_later(uint64_t code);

/** Ask on `c` about `key` and expect to be allowed. @return what is left of its limit */
int64_t ask(struct spop_client *c, const char *key);

/** Ask as the bystander: the answer has to count every question. */
void bystander_ask(void);

/** How many lines the log has got since the check began: all, and at `level`. */
unsigned log_lines(void);
unsigned log_lines_at(const char *level);

/** It has got none; else they are shown. */
void expect_silence(void);

/** Wait until the agent has `n` descriptors; it closes at its own time. */
void wait_for_fds(unsigned n);

/** Wait until a figure of `show metrics` has `value`. */
void wait_for_metric(const char *name, uint64_t value);

/** A socket listening on a free port of 127.0.0.1, to be inherited. */
int listen_on_free_port(uint16_t *port);

#endif
