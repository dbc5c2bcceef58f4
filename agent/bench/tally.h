/**
 * @file agent/bench/tally.h  What a run counts.
 *
 * Model:     one tally a thread, added up at the end. At rest
 *              notifies = acks + unanswered + unanswered_closed
 *              connections_opened = those that are lost or closed + those open
 * Ownership: a plain struct; zeroed is empty.
 * Threads:   one writer; any thread may read the numbers (relaxed). `first_error` is the
 *            writer's alone until it has ended.
 * Errors:    none.
 */
#ifndef AGENT_BENCH_TALLY_H
#define AGENT_BENCH_TALLY_H

#include "agent/clock.h"
#include "agent/observe/counters.h"
#include "agent/observe/histogram.h"

enum {
    BENCH_ERROR_BYTES_MAX = 320
};

/** name, label */
#define TALLY_TABLE(X)                                                                \
    X(NOTIFIES, "notifies")                   /* sent, or at least begun */           \
    X(ACKS, "acks")                           /* of them */                           \
    X(UNANSWERED, "unanswered")               /* connection lost, or run ended */     \
    X(UNANSWERED_CLOSED, "unanswered_closed") /* on connections closed on purpose */  \
    X(ALLOWED, "allowed")                                                             \
    X(DENIED, "denied")                                                               \
    X(WITHOUT_VERDICT, "without_verdict") /* ACKs without `deny` and `action` */      \
    X(UNSENT, "unsent")                   /* open loop: due, but there was no room */ \
    X(OPENED, "connections_opened")       /* handshakes done */                       \
    X(REOPENED, "connections_reopened")   /* of them not a connection's first */      \
    X(LOST_CONNECT, "lost_connect")       /* could not connect */                     \
    X(LOST_CLOSED, "lost_closed")         /* the agent closed or reset */             \
    X(LOST_DISCONNECT, "lost_disconnect") /* the agent sent DISCONNECT */             \
    X(LOST_PROTOCOL, "lost_protocol")     /* the agent broke the protocol */          \
    X(LOST_TIMEOUT, "lost_timeout")       /* the agent was silent for too long */     \
    X(CLOSED, "closed_on_purpose")        /* --kill-connections */

enum tally_counter {
#define X(name, label) TALLY_##name,
    TALLY_TABLE(X)
#undef X
};

enum {
    TALLY_N = TALLY_CLOSED + 1
};

struct tally {
    _Atomic uint64_t values[TALLY_N];
    struct histogram latency_us; /* of requests due in the measured time */
    struct instant first_error_at;
    char first_error[BENCH_ERROR_BYTES_MAX]; /* "": there was none */
};

static inline void tally_add(struct tally *tally, enum tally_counter counter,
                             uint64_t n)
{
    counter_bump(&tally->values[counter], n);
}

static inline uint64_t tally_get(const struct tally *tally, enum tally_counter counter)
{
    return atomic_load_explicit(&tally->values[counter], memory_order_relaxed);
}

/** Connections lost, for whatever reason that is not our own. */
static inline uint64_t tally_lost(const struct tally *tally)
{
    uint64_t n = 0;
    for (unsigned i = TALLY_LOST_CONNECT; i <= TALLY_LOST_TIMEOUT; i++) {
        n += tally_get(tally, (enum tally_counter)i);
    }
    return n;
}

#endif
