/**
 * @file agent/control/edition.h  Rules as they were at one time, and what is counted by them.
 *
 * Model:     made of sources (sources.h): checked, printed as one file, whose digest is the
 *            version, and compiled. What is counted is in a block for each worker and one of
 *            the main thread's own. Where one edition follows another, what was counted for
 *            a limit goes on for the limit of that name.
 * Ownership: the memory is the caller's, zeroed; edition_clear frees what is in it.
 * Threads:   the main thread, but for the workers' use of the set and their counters.
 * Errors:    a text of up to EDITION_ERROR_BYTES_MAX; diagnostics go to standard error. Where
 *            an edition cannot be made nothing is left of it.
 * Limits:    those of a rules file.
 */
#ifndef AGENT_CONTROL_EDITION_H
#define AGENT_CONTROL_EDITION_H

#include "agent/control/clients.h"
#include "agent/control/sources.h"
#include "agent/control/version.h"
#include "agent/control/watch.h"
#include "agent/net/server.h"

enum {
    EDITION_ERROR_BYTES_MAX = 576
};

struct edition {
    struct decide_set *set; /* NULL: none */
    char *clients_path;     /* of the file that the set names; NULL: none */
    struct clients *clients;
    struct sources *sources;
    char version[VERSION_BYTES];
    char *copy; /* of the rules as one file, for the keeper; NULL: it was taken */
    size_t copy_len;
    bool is_readable; /* the copy is no larger than a file may be */
    bool is_last_good;
    struct counters *counters[SERVER_WORKERS_MAX + 1]; /* workers', then our own */
};

/** Where rules are served. */
struct edition_options {
    const char *rules_path;   /* seen from there a set names a file of clients */
    const char *redis_prefix; /* of the names of counters; NULL: there is no Redis */
};

/**
 * Make what a rules file says that was read from the edition's sources.
 *
 * @param file   freed; NULL: it was found wrong
 * @param diags  of reading it; those of compiling are added, and all are told
 */
MUST_USE bool edition_make(struct edition *edition,
                           const struct edition_options *options,
                           struct rules_file *file, struct rules_diags *diags,
                           char *error);

/** Check and make what the edition's sources say. @param path  named in diagnostics */
MUST_USE bool edition_compile(struct edition *edition,
                              const struct edition_options *options, const char *path,
                              char *error);

/** Read a file and make what it says. @param watch  as of sources_open */
MUST_USE bool edition_load(struct edition *edition,
                           const struct edition_options *options, const char *path,
                           struct watch *watch, char *error);

/** Free what is in it. */
void edition_clear(struct edition *edition);

/** Windows of calendars follow the wall clock. Fine without a set. */
void edition_keep_calendars(struct edition *edition);

/** What the file of clients lists; the edition names one. */
enum rules_clients_kind edition_clients_kind(const struct edition *edition);

/** Have the copy be the file as it is, where it is no set of several. */
void edition_copy_as_it_is(struct edition *edition);

/** Begin to count: a block for each worker and our own. @return false: memory is short */
MUST_USE bool edition_count(struct edition *edition, unsigned n_workers);

/** A limit of an edition by name. */
struct edition_limit {
    const char *name;
    uint32_t idx;
};

/** @return the limits of an edition, for edition_follow, to be freed with free; NULL: memory
 *  is short */
MUST_USE struct edition_limit *edition_limits(const struct edition *edition);

/**
 * What was counted by one edition goes on in the next. Our own block stays where it is;
 * those of the workers begin anew.
 *
 * @param old     no worker counts in it any more
 * @param limits  of `old`
 */
void edition_follow(struct edition *next, struct edition *old,
                    const struct edition_limit *limits, unsigned n_workers);

#endif
