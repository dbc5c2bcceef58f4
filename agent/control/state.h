/**
 * @file agent/control/state.h  When counters are kept over a restart, and how that goes.
 *
 * Model:     state_open looks for a snapshot; when there is a good one, the agent takes
 *            its secret and its clock, makes its store, and state_restore fills it.
 *            Snapshots are written when the agent stops, and each STATE_PERIOD_S where a
 *            limit is long enough for that to be worth it. The bytes of a periodic one
 *            are written by a thread of their own: a disk that hangs stops nobody, and
 *            while a write is under way the next is left out.
 * Ownership: state_open / state_free; borrows the store.
 * Threads:   all functions are the main thread's. Its own thread exports from the store,
 *            which is shared among threads anyway, and fills the report under a mutex.
 * Errors:    none ends the agent. A warning each time that what is wrong changes, and a
 *            line when all is well again; the report has the last error.
 * Limits:    state_write waits for the disk, and for a periodic write under way: where a
 *            disk hangs, until whoever stops the agent loses patience and kills it.
 */
#ifndef AGENT_CONTROL_STATE_H
#define AGENT_CONTROL_STATE_H

#include <ev.h>

#include "agent/control/snapshot.h"

enum {
    STATE_PERIOD_S = 60
};

/** Limits whose `per` is as long as this are worth a periodic snapshot. */
#define STATE_PERIODIC_PER_US (300 * US_PER_S)

struct state;

/**
 * Keep counters in `dir`, which is copied.
 *
 * @param wants_snapshot  look for one: not where a running agent hands over its counters
 * @return NULL, with a log line, when memory is short
 */
MUST_USE struct state *state_open(const char *dir, bool wants_snapshot);

/** @return whose counters the snapshot has; NULL when there is none to restore */
const struct image_origin *state_origin(const struct state *state);

/** Add the snapshot's counters, if there are any, and let go of it. */
void state_restore(struct state *state, struct store *store, struct counters *counters);

/**
 * Write a snapshot each `period_s` from now on.
 *
 * @return false, with a log line, when there can be no thread
 */
MUST_USE bool state_start(struct state *state, struct ev_loop *loop,
                          struct store *store, double period_s);

/** End periodic snapshots and write the last one. Not called when a successor has the
 * counters. */
void state_write(struct state *state, struct store *store);

/** NULL is fine. */
void state_free(struct state *state);

struct state_report {
    uint64_t n_written; /* snapshots by this process */
    uint64_t n_failed;
    uint64_t n_records;                   /* in the last one written */
    struct instant written_at;            /* of the last one written */
    char error[SNAPSHOT_ERROR_BYTES_MAX]; /* of the last try; empty: it went well */
};

/** How it went so far. */
void state_read_report(struct state *state, struct state_report *report);

/** @return the directory */
const char *state_dir(const struct state *state);

#endif
