#include "agent/control/rulebook.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sys/stat.h>

#include <sodium.h>

#include "agent/control/keeper.h"
#include "agent/file.h"
#include "agent/log.h"

/* A rules file as it was read. */
struct text {
    char *bytes; /* NULL: it could not be read */
    size_t len;
    char version[RULEBOOK_VERSION_BYTES];
};

/* A set with what its workers count, from its compilation on. */
struct edition {
    struct decide_set *set; /* NULL: none */
    struct text text;
    char *copy; /* of the text, for the keeper */
    bool is_last_good;
    struct counters *counters[SERVER_WORKERS_MAX + 1]; /* workers', then our own */
};

/* A limit of the set in force, by name. */
struct named {
    const char *name;
    uint32_t idx;
};

struct rulebook {
    const char *path;
    char *last_good_path; /* NULL: nowhere */
    unsigned n_workers;
    struct edition in_force;
    struct edition next;    /* being handed to the workers */
    struct edition waiting; /* for the end of that */
    struct named
        *names; /* of the limits in force, sorted, while `next` is on its way */
    char tried[RULEBOOK_VERSION_BYTES];
    struct rulebook_report report;
    struct keeper *keeper;
    struct ev_loop *loop; /* NULL: not started */
    struct server *server;
    rulebook_changed_fn *changed;
    void *context;
    struct stat seen; /* the file, when it was last looked at; zero: there was none */
    struct ev_timer settle;
    struct ev_timer second;
};

static void edition_clear(struct edition *edition)
{
    for (unsigned i = 0; i < ARRAY_LEN(edition->counters); i++) {
        counters_free(edition->counters[i]);
    }
    decide_set_free(edition->set);
    free(edition->text.bytes);
    free(edition->copy);
    *edition = (struct edition){0};
}

static void set_version(struct text *text)
{
    uint8_t digest[(RULEBOOK_VERSION_BYTES - 1) / 2];
    /* Fails only for lengths out of its range. */
    uint8_t whole[crypto_generichash_BYTES];
    (void)crypto_generichash(whole, sizeof(whole), (const uint8_t *)text->bytes,
                             text->len, NULL, 0);
    memcpy(digest, whole, sizeof(digest));
    (void)sodium_bin2hex(text->version, sizeof(text->version), digest, sizeof(digest));
}

static struct text text_read(const char *path, const char **error)
{
    struct text text = {0};
    text.bytes = file_read(path, RULES_FILE_BYTES_MAX, &text.len, error);
    if (text.bytes != NULL) {
        set_version(&text);
    }
    return text;
}

static void keep_first_error(const struct rules_diags *diags, char *error)
{
    for (uint32_t i = 0; i < diags->n_kept; i++) {
        const struct rules_diag *diag = &diags->kept[i];
        if (diag->severity == RULES_ERROR) {
            (void)snprintf(error, RULEBOOK_ERROR_BYTES_MAX,
                           "line %" PRIu32 ", column %" PRIu32 ": %.200s [%s]",
                           diag->mark.line, diag->mark.column, diag->text, diag->code);
            return;
        }
    }
}

static void keep_calendars(struct decide_set *set)
{
    if (set != NULL) {
        (void)decide_set_keep_calendars(set, clock_now(), clock_wall_us());
    }
}

/* On standard error, like log lines: who does not read there holds up nobody. */
static void print_diags(const struct rules_diags *diags)
{
    char *text = NULL;
    size_t len = 0;
    FILE *out = diags->n_kept > 0 ? open_memstream(&text, &len) : NULL;
    if (out == NULL) {
        return;
    }
    rules_diags_print(diags, out);
    if (fclose(out) == 0) {
        log_text(text);
    }
    free(text);
}

/* Compile a text; its diagnostics go to standard error, the first error to `error`. */
static struct decide_set *compile(const char *path, const struct text *text,
                                  char *error)
{
    struct rules_source source = {
        .name = path,
        .text = {.ptr = (const uint8_t *)text->bytes, .len = text->len},
        .now_s = clock_wall_us() / US_PER_S,
    };
    struct decide_set *set = NULL;
    struct rules_diags *diags = malloc(sizeof(*diags));
    (void)snprintf(error, RULEBOOK_ERROR_BYTES_MAX, "out of memory");
    if (diags == NULL) {
        return NULL;
    }
    rules_diags_init(diags, path);
    struct rules_set *rules = rules_load(&source, diags);
    print_diags(diags);
    if (rules != NULL) {
        set = decide_set_new(rules);
        keep_calendars(set);
    } else {
        keep_first_error(diags, error);
    }
    free(diags);
    return set;
}

/* Compile the text of `edition`; false with a text in `error`, and nothing is left. */
static bool edition_compile(struct edition *edition, const char *path, char *error)
{
    (void)snprintf(error, RULEBOOK_ERROR_BYTES_MAX, "out of memory");
    edition->copy = malloc(edition->text.len + 1);
    if (edition->copy != NULL) {
        memcpy(edition->copy, edition->text.bytes, edition->text.len + 1);
        edition->set = compile(path, &edition->text, error);
    }
    if (edition->set == NULL) {
        edition_clear(edition);
        return false;
    }
    return true;
}

/* Read and compile a file into `edition`; likewise. */
static bool edition_load(struct edition *edition, const char *path, char *error)
{
    const char *reason = NULL;
    edition->text = text_read(path, &reason);
    if (edition->text.bytes == NULL) {
        (void)snprintf(error, RULEBOOK_ERROR_BYTES_MAX, "%s", reason);
        return false;
    }
    return edition_compile(edition, path, error);
}

static bool make_counters(struct edition *edition, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        edition->counters[i] = counters_new(edition->set->n_limits);
        if (edition->counters[i] == NULL) {
            return false;
        }
    }
    return true;
}

/* The text itself stays: it is compiled again where something in it ends. */
static void keep_last_good(struct rulebook *book)
{
    struct edition *edition = &book->in_force;
    keeper_keep(book->keeper, edition->copy, edition->text.len);
    edition->copy = NULL;
}

static void report_change(struct rulebook *book)
{
    memcpy(book->report.version, book->in_force.text.version,
           sizeof(book->report.version));
    book->report.is_last_good = book->in_force.is_last_good;
    book->report.changed_at = clock_now();
}

static void report_failure(struct rulebook *book, const char *error)
{
    book->report.n_failures++;
    (void)snprintf(book->report.error, sizeof(book->report.error), "%s", error);
}

/* The rules that came into force last, where the file is no good. */
static bool load_last_good(struct rulebook *book)
{
    char error[RULEBOOK_ERROR_BYTES_MAX];
    if (book->last_good_path == NULL) {
        return false;
    }
    if (!edition_load(&book->in_force, book->last_good_path, error)) {
        log_error("%s: %s", book->last_good_path, error);
        return false;
    }
    book->in_force.is_last_good = true;
    log_warning("%s: serving the last good rules, %s", book->path,
                book->last_good_path);
    return true;
}

/* Whether the file is another one than when it was last looked at. Links are followed:
 * what they lead to changes while they stay. */
static bool has_changed(struct rulebook *book)
{
    struct stat then = book->seen;
    struct stat now = {0};
    (void)stat(book->path, &now);
    book->seen = now;
    return now.st_dev != then.st_dev || now.st_ino != then.st_ino
           || now.st_size != then.st_size || now.st_mtim.tv_sec != then.st_mtim.tv_sec
           || now.st_mtim.tv_nsec != then.st_mtim.tv_nsec;
}

static bool load_first(struct rulebook *book)
{
    char error[RULEBOOK_ERROR_BYTES_MAX];
    (void)has_changed(book); /* what changes from here on is seen */
    if (!edition_load(&book->in_force, book->path, error)) {
        log_error("%s: %s", book->path, error);
        report_failure(book, error);
        if (!load_last_good(book)) {
            log_error("%s: nothing is served", book->path);
            return false;
        }
    }
    if (!make_counters(&book->in_force, book->n_workers + 1)) {
        log_error("out of memory");
        return false;
    }
    memcpy(book->tried, book->in_force.text.version, sizeof(book->tried));
    report_change(book);
    return true;
}

static bool open_keeper(struct rulebook *book, const char *state_dir)
{
    if (state_dir == NULL) {
        return true;
    }
    size_t size = strlen(state_dir) + sizeof("/" LAST_GOOD_FILE);
    book->last_good_path = malloc(size);
    if (book->last_good_path == NULL) {
        log_error("out of memory");
        return false;
    }
    (void)snprintf(book->last_good_path, size, "%s/" LAST_GOOD_FILE, state_dir);
    book->keeper = keeper_start(book->last_good_path);
    return book->keeper != NULL;
}

struct rulebook *rulebook_open(const char *path, const char *state_dir,
                               unsigned n_workers)
{
    ENSURE(n_workers <= SERVER_WORKERS_MAX);
    struct rulebook *book = calloc(1, sizeof(*book));
    if (book == NULL) {
        log_error("out of memory");
        return NULL;
    }
    book->path = path;
    book->n_workers = n_workers;
    if (!open_keeper(book, state_dir) || !load_first(book)) {
        rulebook_free(book);
        return NULL;
    }
    if (!book->in_force.is_last_good) {
        keep_last_good(book);
    }
    return book;
}

static int named_compare(const void *a, const void *b)
{
    return strcmp(((const struct named *)a)->name, ((const struct named *)b)->name);
}

static struct named *names_of(const struct decide_set *set)
{
    struct named *names = calloc((size_t)set->n_limits + 1, sizeof(*names));
    for (uint32_t i = 0; names != NULL && i < set->n_limits; i++) {
        names[i] = (struct named){set->limits[i].name, i};
    }
    if (names != NULL) {
        qsort(names, set->n_limits, sizeof(*names), named_compare);
    }
    return names;
}

static void add_outcomes(struct counters *to, uint32_t to_idx,
                         const struct counters *from, uint32_t from_idx)
{
    for (unsigned outcome = 0; outcome < OUTCOMES_N; outcome++) {
        counter_add_outcome(to, to_idx, (enum outcome)outcome,
                            counter_get_outcome(from, from_idx, (enum outcome)outcome));
    }
}

/* What was counted for a limit goes on for the limit of that name, in our own block: those
 * of the workers begin anew. */
static void carry_outcomes(struct rulebook *book)
{
    const struct edition *old = &book->in_force;
    const struct decide_set *set = book->next.set;
    struct counters *carried = book->next.counters[book->n_workers];
    for (uint32_t i = 0; i < set->n_limits; i++) {
        struct named key = {.name = set->limits[i].name};
        const struct named *found = bsearch(&key, book->names, old->set->n_limits,
                                            sizeof(*book->names), named_compare);
        for (unsigned j = 0; found != NULL && j <= book->n_workers; j++) {
            add_outcomes(carried, i, old->counters[j], found->idx);
        }
    }
    counters_swap_outcomes(old->counters[book->n_workers], carried);
}

static void look_in_ms(struct rulebook *book, int ms)
{
    ev_timer_stop(book->loop, &book->settle);
    ev_timer_set(&book->settle, ms / 1000.0, 0);
    ev_timer_start(book->loop, &book->settle);
}

static void begin_change(struct rulebook *book);

/* What was counted goes on; our own block stays where it is. */
static void carry_counters(struct rulebook *book)
{
    unsigned own = book->n_workers;
    struct edition *old = &book->in_force;
    carry_outcomes(book);
    for (unsigned i = 0; i < book->n_workers; i++) {
        counters_add_all(old->counters[own], old->counters[i]);
    }
    counters_free(book->next.counters[own]);
    book->next.counters[own] = old->counters[own];
    old->counters[own] = NULL;
}

/* The last worker has left the old set: it can go. */
static void on_changed(void *context)
{
    struct rulebook *book = context;
    carry_counters(book);
    free(book->names);
    book->names = NULL;
    edition_clear(&book->in_force);
    book->in_force = book->next;
    book->next = (struct edition){0};
    book->report.n_changes++;
    report_change(book);
    log_info("%s: in force: version %s, %" PRIu32 " rules", book->path,
             book->report.version, rules_set_n_rules(book->in_force.set->rules));
    keep_last_good(book);
    if (book->waiting.set != NULL) {
        book->next = book->waiting;
        book->waiting = (struct edition){0};
        begin_change(book);
    }
    book->changed(book->context);
}

static void begin_change(struct rulebook *book)
{
    book->names = names_of(book->in_force.set);
    if (book->names == NULL || !make_counters(&book->next, book->n_workers + 1)) {
        log_error("%s: out of memory: the old rules stay in force", book->path);
        report_failure(book, "out of memory");
        free(book->names);
        book->names = NULL;
        edition_clear(&book->next);
        book->tried[0] = '\0';
        look_in_ms(book, RULEBOOK_RETRY_MS);
        return;
    }
    server_change_rules(book->server, book->next.set, book->next.counters, on_changed,
                        book);
}

/* A good file that is not what is in force, or on its way. */
static void take(struct rulebook *book, struct edition *edition)
{
    if (book->next.set == NULL) {
        book->next = *edition;
        begin_change(book);
        return;
    }
    edition_clear(&book->waiting);
    book->waiting = *edition;
}

static void refuse(struct rulebook *book, const char *error)
{
    log_error("%s: %s: the rules in force stay", book->path, error);
    report_failure(book, error);
}

/* Said once; it may be there again before long. */
static void refuse_unreadable(struct rulebook *book, const char *reason, bool is_asked)
{
    if (is_asked || strcmp(book->report.error, reason) != 0) {
        refuse(book, reason);
    }
    book->tried[0] = '\0';
    look_in_ms(book, RULEBOOK_RETRY_MS);
}

/* Read the file; unless `is_asked`, one that is as it was last time is passed over. */
static void look(struct rulebook *book, bool is_asked)
{
    const char *reason = NULL;
    char error[RULEBOOK_ERROR_BYTES_MAX];
    struct edition edition = {.text = text_read(book->path, &reason)};
    if (edition.text.bytes == NULL) {
        refuse_unreadable(book, reason, is_asked);
        return;
    }
    if (!is_asked && strcmp(edition.text.version, book->tried) == 0) {
        free(edition.text.bytes);
        return;
    }
    memcpy(book->tried, edition.text.version, sizeof(book->tried));
    if (!edition_compile(&edition, book->path, error)) {
        refuse(book, error);
        return;
    }
    book->report.error[0] = '\0';
    take(book, &edition);
}

/* The text in force once more, without what has ended meanwhile. */
static void renew(struct rulebook *book)
{
    char error[RULEBOOK_ERROR_BYTES_MAX];
    const struct text *text = &book->in_force.text;
    struct edition edition = {.text = *text,
                              .is_last_good = book->in_force.is_last_good};
    edition.text.bytes = malloc(text->len + 1);
    if (edition.text.bytes == NULL) {
        return; /* in a second again */
    }
    memcpy(edition.text.bytes, text->bytes, text->len + 1);
    if (!edition_compile(&edition, book->path, error)) {
        return;
    }
    log_info("%s: something in it has ended", book->path);
    take(book, &edition);
}

void rulebook_reload(struct rulebook *book)
{
    look(book, true);
}

static void on_settled(struct ev_loop *loop, struct ev_timer *timer, int events)
{
    (void)loop;
    (void)events;
    look(CONTAINER_OF(timer, struct rulebook, settle), false);
}

void rulebook_keep_calendars(struct rulebook *book)
{
    keep_calendars(book->in_force.set);
    keep_calendars(book->next.set);
    keep_calendars(book->waiting.set);
}

static void on_second(struct ev_loop *loop, struct ev_timer *timer, int events)
{
    struct rulebook *book = CONTAINER_OF(timer, struct rulebook, second);
    (void)loop;
    (void)events;
    rulebook_keep_calendars(book);
    if (has_changed(book)) {
        /* Whoever writes it may not be done yet. */
        look_in_ms(book, RULEBOOK_SETTLE_MS);
    }
    bool is_changing = book->next.set != NULL;
    int64_t now_s = clock_wall_us() / US_PER_S;
    if (!is_changing && now_s >= rules_set_changes_at_s(book->in_force.set->rules)) {
        renew(book);
    }
}

/* NOLINTNEXTLINE(readability-function-size): the macros of ev.h nest */
void rulebook_start(struct rulebook *book, struct ev_loop *loop, struct server *server,
                    rulebook_changed_fn *changed, void *context)
{
    book->loop = loop;
    book->server = server;
    book->changed = changed;
    book->context = context;
    ev_timer_init(&book->settle, on_settled, 0, 0);
    ev_timer_init(&book->second, on_second, 1, 1);
    ev_timer_start(loop, &book->second);
}

void rulebook_stop(struct rulebook *book)
{
    if (book->loop != NULL) {
        ev_timer_stop(book->loop, &book->settle);
        ev_timer_stop(book->loop, &book->second);
        book->loop = NULL;
    }
}

void rulebook_free(struct rulebook *book)
{
    if (book == NULL) {
        return;
    }
    rulebook_stop(book);
    keeper_stop(book->keeper);
    edition_clear(&book->in_force);
    edition_clear(&book->next);
    edition_clear(&book->waiting);
    free(book->names);
    free(book->last_good_path);
    free(book);
}

const struct decide_set *rulebook_set(const struct rulebook *book)
{
    return book->in_force.set;
}

struct counters *const *rulebook_counters(const struct rulebook *book)
{
    return book->in_force.counters;
}

struct counters *rulebook_own_counters(const struct rulebook *book)
{
    return book->in_force.counters[book->n_workers];
}

const struct rulebook_report *rulebook_read_report(const struct rulebook *book)
{
    return &book->report;
}
