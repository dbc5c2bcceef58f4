/**
 * @file rules/warn.h  What is right in a rules file, and yet may not be what was meant.
 *
 * Model:     looks at a checked file, not at what it compiles to. The codes are those of
 *            RULES_WARNING_TABLE; rules/README.md explains each.
 * Ownership: nothing is kept.
 * Threads:   one thread.
 * Errors:    none; a warning that needs memory is left out where there is none.
 * Limits:    RULES_WARN_STEPS_MAX comparisons in search of rules that others make idle.
 */
#ifndef RULES_WARN_H
#define RULES_WARN_H

#include "rules/file.h"

/** Comparisons of rules and of their values: a second or two. 10 000 rules with one value
 * each need 10^8. */
#define RULES_WARN_STEPS_MAX INT64_C(200000000)

/** Where and when the file is to be in force. */
struct rules_warn_place {
    int64_t now_s;   /* Unix time */
    int64_t n_hosts; /* that count for themselves: 1 and more */
    bool is_cluster; /* counters that are shared lie in slots of a Redis Cluster */
    int32_t lease_permyriad; /* of a limit, that hosts hold in blocks of store: lease */
    int64_t sync_interval_us; /* between exchanges of store: sync */
};

/** Add a warning to `diags` for each doubt about a file. */
void rules_warn(const struct rules_file *file, const struct rules_warn_place *place,
                struct rules_diags *diags);

#endif
