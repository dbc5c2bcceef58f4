#include "agent/control/edition.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rules/print.h"

#include "agent/control/diags.h"
#include "agent/file.h"

void edition_clear(struct edition *edition)
{
    for (unsigned i = 0; i < ARRAY_LEN(edition->counters); i++) {
        counters_free(edition->counters[i]);
    }
    decide_set_free(edition->set);
    clients_drop(edition->clients);
    free(edition->clients_path);
    sources_free(edition->sources);
    free(edition->copy);
    *edition = (struct edition){0};
}

void edition_keep_calendars(struct edition *edition)
{
    if (edition->set != NULL) {
        (void)decide_set_keep_calendars(edition->set, clock_now(), clock_wall_us());
    }
}

enum rules_clients_kind edition_clients_kind(const struct edition *edition)
{
    return rules_set_clients(edition->set->rules)->kind;
}

/* Where the file is that a set names: seen from the rules file. */
static bool find_clients(struct edition *edition, const char *rules_path)
{
    const struct rules_clients_file *file = rules_set_clients(edition->set->rules);
    if (file == NULL) {
        return true;
    }
    edition->clients_path = file_beside(rules_path, file->path);
    return edition->clients_path != NULL;
}

/* The rules as one file, for the keeper, and the version that this makes them. */
static bool print(struct edition *edition, const struct rules_file *file)
{
    uint32_t n_events = 0;
    edition->copy = rules_file_print(file, &edition->copy_len, &n_events);
    if (edition->copy == NULL) {
        return false;
    }
    version_of(edition->copy, edition->copy_len, edition->version);
    edition->is_readable = edition->copy_len <= RULES_FILE_BYTES_MAX
                           && n_events <= YAMLTREE_EVENTS_MAX;
    return true;
}

/* Compile what was found right. @return false: memory is short */
static bool compile(struct edition *edition, const struct rules_file *file,
                    const char *redis_prefix, struct rules_diags *diags)
{
    struct rules_set *rules = rules_file_compile(file, clock_wall_us() / US_PER_S,
                                                 diags);
    if (rules != NULL) {
        edition->set = decide_set_new(rules, redis_prefix);
        edition_keep_calendars(edition);
    }
    return edition->set != NULL;
}

bool edition_make(struct edition *edition, const struct edition_options *options,
                  struct rules_file *file, struct rules_diags *diags, char *error)
{
    const char *prefix = options->redis_prefix;
    (void)snprintf(error, EDITION_ERROR_BYTES_MAX, "out of memory");
    bool is_good = file != NULL && (prefix != NULL || rules_file_is_local(file, diags))
                   && print(edition, file) && compile(edition, file, prefix, diags);
    diags_log(diags);
    diags_first_error(diags, error, EDITION_ERROR_BYTES_MAX);
    rules_file_free(file);
    if (is_good && find_clients(edition, options->rules_path)) {
        return true;
    }
    edition_clear(edition);
    return false;
}

bool edition_compile(struct edition *edition, const struct edition_options *options,
                     const char *path, char *error)
{
    struct rules_diags *diags = diags_new(path);
    if (diags == NULL) {
        (void)snprintf(error, EDITION_ERROR_BYTES_MAX, "out of memory");
        edition_clear(edition);
        return false;
    }
    bool is_good = edition_make(edition, options, sources_read(edition->sources, diags),
                                diags, error);
    free(diags);
    return is_good;
}

bool edition_load(struct edition *edition, const struct edition_options *options,
                  const char *path, struct watch *watch, char *error)
{
    const char *reason = NULL;
    edition->sources = sources_open(path, watch, &reason);
    if (edition->sources == NULL) {
        (void)snprintf(error, EDITION_ERROR_BYTES_MAX, "%s", reason);
        return false;
    }
    return edition_compile(edition, options, path, error);
}

void edition_copy_as_it_is(struct edition *edition)
{
    char *text = sources_copy(edition->sources, &edition->copy_len);
    if (text != NULL) {
        free(edition->copy);
        edition->copy = text;
        edition->is_readable = true;
    }
}

/* --- what is counted --- */

bool edition_count(struct edition *edition, unsigned n_workers)
{
    for (unsigned i = 0; i <= n_workers; i++) {
        edition->counters[i] = counters_new(edition->set->n_limits);
        if (edition->counters[i] == NULL) {
            return false;
        }
    }
    return true;
}

static int limit_compare(const void *a, const void *b)
{
    return strcmp(((const struct edition_limit *)a)->name,
                  ((const struct edition_limit *)b)->name);
}

struct edition_limit *edition_limits(const struct edition *edition)
{
    const struct decide_set *set = edition->set;
    struct edition_limit *limits = calloc((size_t)set->n_limits + 1, sizeof(*limits));
    for (uint32_t i = 0; limits != NULL && i < set->n_limits; i++) {
        limits[i] = (struct edition_limit){set->limits[i].name, i};
    }
    if (limits != NULL) {
        qsort(limits, set->n_limits, sizeof(*limits), limit_compare);
    }
    return limits;
}

static void add_outcomes(struct counters *to, uint32_t to_idx,
                         const struct counters *from, uint32_t from_idx)
{
    for (unsigned outcome = 0; outcome < OUTCOMES_N; outcome++) {
        counter_add_outcome(to, to_idx, (enum outcome)outcome,
                            counter_get_outcome(from, from_idx, (enum outcome)outcome));
    }
}

/* Into our own block of the next edition, which has the old one's place then. */
static void carry_outcomes(struct edition *next, const struct edition *old,
                           const struct edition_limit *limits, unsigned n_workers)
{
    const struct decide_set *set = next->set;
    struct counters *carried = next->counters[n_workers];
    for (uint32_t i = 0; i < set->n_limits; i++) {
        struct edition_limit key = {.name = set->limits[i].name};
        const struct edition_limit *found = bsearch(&key, limits, old->set->n_limits,
                                                    sizeof(*limits), limit_compare);
        for (unsigned j = 0; found != NULL && j <= n_workers; j++) {
            add_outcomes(carried, i, old->counters[j], found->idx);
        }
    }
    counters_swap_outcomes(old->counters[n_workers], carried);
}

void edition_follow(struct edition *next, struct edition *old,
                    const struct edition_limit *limits, unsigned n_workers)
{
    struct counters *own = old->counters[n_workers];
    carry_outcomes(next, old, limits, n_workers);
    for (unsigned i = 0; i < n_workers; i++) {
        counters_add_all(own, old->counters[i]);
    }
    counters_free(next->counters[n_workers]);
    next->counters[n_workers] = own;
    old->counters[n_workers] = NULL;
}
