/**
 * @file agent/control/rulebook.h  The rules in force: where they come from, how they change.
 *
 * Model:     a file is read, with what it includes, and compiled aside. A good one becomes
 *            a set that all workers are handed; once the last of them has left the old set,
 *            that is freed, and what was counted goes on (edition.h). A bad file
 *            changes nothing: its errors are said once, and the report has the first.
 *            What came into force is kept as LAST_GOOD_FILE in state_dir, as one file, in
 *            the form of rules/print.h: a start with a bad file serves that. Its digest is
 *            the version: the same rules have the same, however they are written.
 *            Where the rules name a file of clients, its table is handed on with them, and
 *            alone when only that file has changed. A bad one leaves the table in force;
 *            rules that name another file wait until that is good. It is kept as
 *            LAST_GOOD_CLIENTS; a start with a bad one is a start with bad rules.
 *            The files are looked at each second, and read when one has changed or when
 *            asked. Where something in them ends, they are compiled once more.
 * Ownership: rulebook_open / rulebook_free. Owns sets and counters; borrows the rest.
 * Threads:   the main thread. Threads of their own write the files that are kept
 *            (keeper.h) and make tables of clients (clients.h).
 * Errors:    log lines; files also get diagnostics on standard error.
 * Limits:    one change under way, and the newest set that waits for its end; one table of
 *            clients that is made.
 */
#ifndef AGENT_CONTROL_RULEBOOK_H
#define AGENT_CONTROL_RULEBOOK_H

#include <ev.h>

#include "agent/clock.h"
#include "agent/control/clients.h"
#include "agent/control/edition.h"
#include "agent/control/version.h"
#include "agent/net/server.h"

#define LAST_GOOD_FILE    "last-good.yaml"
#define LAST_GOOD_CLIENTS "last-good.clients"

enum {
    RULEBOOK_SETTLE_MS = 100, /* from a change that is seen until the file is read */
    RULEBOOK_RETRY_MS = 5000, /* from a file that cannot be read until the next try */
    RULEBOOK_CLIENTS_SETTLE_S = 1, /* the same for clients, while they do not change */
    RULEBOOK_CLIENTS_RETRY_S = 5,
};

struct rulebook;

/**
 * Load the rules.
 *
 * @param path       of the file; borrowed
 * @param state_dir  where good rules are kept; NULL: nowhere. Borrowed
 * @param n_workers  that will count
 * @param redis_prefix  of the names of counters in Redis; NULL: there is none. Borrowed
 * @return NULL when there are no rules to serve
 */
MUST_USE struct rulebook *rulebook_open(const char *path, const char *state_dir,
                                        unsigned n_workers, const char *redis_prefix);

/** Called when other rules are in force. */
typedef void rulebook_changed_fn(void *context);

/** Look at the file, and hand what comes of it to the workers of `server`. */
void rulebook_start(struct rulebook *book, struct ev_loop *loop, struct server *server,
                    rulebook_changed_fn *changed, void *context);

/** Windows of calendars follow the wall clock: look where it is. Done once a second when
 * started; to be done once before, when the agent's clock has been set. */
void rulebook_keep_calendars(struct rulebook *book);

/** Read the files now, also if they are the same as before. */
void rulebook_reload(struct rulebook *book);

/** No more watching. The workers may still use what they have. */
void rulebook_stop(struct rulebook *book);

/** Free all; the workers are gone. NULL is fine. */
void rulebook_free(struct rulebook *book);

/** The set in force; good until the next change. */
const struct decide_set *rulebook_set(const struct rulebook *book);

/** The clients in force, likewise; NULL: the rules name no file of them. */
const struct rules_clients *rulebook_clients(const struct rulebook *book);

/** Those that workers decide a letter by that is posted now: while a change is under way, the
 *  ones to come. Good for as long as they are held (server_hold). */
void rulebook_newest(const struct rulebook *book, const struct decide_set **set,
                     const struct rules_clients **clients);

/** One block for each worker, then the main thread's own, which stays the same. The array
 *  stays in place, its blocks until the next change. */
struct counters *const *rulebook_counters(const struct rulebook *book);

/** The main thread's block. */
struct counters *rulebook_own_counters(const struct rulebook *book);

struct clients_report {
    const char *path; /* as it is opened; NULL: the rules in force name none */
    char version[VERSION_BYTES];
    struct instant changed_at; /* the age of the table in force */
    uint64_t n_changes;        /* after the start */
    uint64_t n_failures;
    char error[CLIENTS_ERROR_BYTES_MAX]; /* of the last try; empty: it went well */
};

struct rulebook_report {
    char version[VERSION_BYTES]; /* digest of the rules in force */
    bool is_last_good;           /* from LAST_GOOD_FILE, not the file */
    struct instant changed_at;
    uint64_t n_changes; /* after the start */
    uint64_t n_failures;
    char error[EDITION_ERROR_BYTES_MAX]; /* of the last try; empty: it went well */
    struct clients_report clients;
};

const struct rulebook_report *rulebook_read_report(const struct rulebook *book);

#endif
