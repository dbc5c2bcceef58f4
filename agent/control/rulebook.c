#include "agent/control/rulebook.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/control/diags.h"
#include "agent/control/edition.h"
#include "agent/control/keeper.h"
#include "agent/control/sources.h"
#include "agent/log.h"

/* The file of clients that the newest rules name. */
struct clients_watch {
    char *path; /* NULL: none */
    enum rules_clients_kind kind;
    struct clients *newest; /* the last good table of it, or NULL */
    struct stat seen;
    unsigned due_s; /* in how many seconds it is to be read; 0: not */
    bool is_stale;  /* what the loader makes now is of another file */
    bool is_wanted; /* once the loader is through */
    bool is_asked;  /* by a person */
};

struct rulebook {
    const char *path;
    char *last_good_path; /* NULL: nowhere */
    char *last_good_clients_path;
    unsigned n_workers;
    struct edition_options options;
    struct edition in_force;
    struct edition next;          /* being handed to the workers */
    struct clients *next_clients; /* the same, with the set in force */
    struct edition waiting;       /* for the end of that */
    struct edition arriving;      /* for the file of clients that it names */
    struct clients_watch clients;
    struct clients_loader loader;
    struct edition_limit *limits; /* of what is in force, while `next` is on its way */
    char tried[VERSION_BYTES];
    struct rulebook_report report;
    struct keeper *keeper;
    struct keeper *clients_keeper; /* NULL: there were no clients to keep yet */
    struct ev_loop *loop;          /* NULL: not started */
    struct server *server;
    rulebook_changed_fn *changed;
    void *context;
    struct watch watch; /* the files, when they were last read */
    struct ev_timer settle;
    struct ev_timer second;
};

static void keep_last_good(struct rulebook *book)
{
    struct edition *edition = &book->in_force;
    if (!edition->is_readable) {
        edition_copy_as_it_is(edition);
    }
    if (edition->is_readable) {
        keeper_keep(book->keeper, edition->copy, edition->copy_len);
        edition->copy = NULL;
    } else if (book->keeper != NULL) {
        log_warning("%s: not kept as the last good rules: as one file they are larger "
                    "than a file may be",
                    book->path);
    }
}

/* Where nothing is kept it is just freed. */
static void keep_clients(struct rulebook *book)
{
    struct clients *clients = book->in_force.clients;
    if (clients == NULL || clients->text == NULL) {
        return;
    }
    if (book->clients_keeper == NULL && book->last_good_clients_path != NULL) {
        book->clients_keeper = keeper_start(book->last_good_clients_path);
    }
    keeper_keep(book->clients_keeper, clients->text, clients->len);
    clients->text = NULL;
}

static void report_change(struct rulebook *book)
{
    book->report.clients.path = book->in_force.clients_path;
    memcpy(book->report.version, book->in_force.version, sizeof(book->report.version));
    book->report.is_last_good = book->in_force.is_last_good;
    book->report.changed_at = clock_now();
}

static void report_failure(struct rulebook *book, const char *error)
{
    book->report.n_failures++;
    (void)snprintf(book->report.error, sizeof(book->report.error), "%s", error);
}

static void report_clients(struct rulebook *book)
{
    const struct clients *clients = book->in_force.clients;
    struct clients_report *report = &book->report.clients;
    if (clients != NULL) {
        memcpy(report->version, clients->version, sizeof(report->version));
        report->changed_at = clients->loaded_at;
    }
}

static void report_clients_failure(struct rulebook *book, const char *error)
{
    struct clients_report *report = &book->report.clients;
    report->n_failures++;
    (void)snprintf(report->error, sizeof(report->error), "%s", error);
}

/* Rules whose clients are no good. */
static void tell_both(const char *path, const char *reason, char *error)
{
    (void)snprintf(error, EDITION_ERROR_BYTES_MAX, "%.128s: %.180s", path, reason);
}

static bool is_same_path(const char *a, const char *b)
{
    return a == NULL || b == NULL ? a == b : strcmp(a, b) == 0;
}

/* Look at the file of clients that new rules name. */
static bool watch_clients(struct rulebook *book, const struct edition *edition)
{
    struct clients_watch *watch = &book->clients;
    const char *path = edition->clients_path;
    enum rules_clients_kind kind = path != NULL ? edition_clients_kind(edition)
                                                : RULES_CLIENTS_TEXT;
    if (is_same_path(path, watch->path) && kind == watch->kind) {
        return true;
    }
    char *copy = path != NULL ? strdup(path) : NULL;
    if (path != NULL && copy == NULL) {
        return false;
    }
    free(watch->path);
    clients_drop(watch->newest);
    *watch = (struct clients_watch){.path = copy,
                                    .kind = kind,
                                    .is_stale = book->loader.is_busy};
    book->report.clients.error[0] = '\0';
    return true;
}

/* The newest table for an edition; NULL: there is none. */
static struct clients *table_for(const struct rulebook *book,
                                 const struct edition *edition)
{
    struct clients *tables[] = {book->clients.newest, book->in_force.clients};
    for (size_t i = 0; edition->clients_path != NULL && i < ARRAY_LEN(tables); i++) {
        if (clients_are_of(tables[i], edition->clients_path,
                           edition_clients_kind(edition))) {
            return tables[i];
        }
    }
    return NULL;
}

static const struct rules_clients *table_of(const struct clients *clients)
{
    return clients != NULL ? clients->table : NULL;
}

/* The table of the first rules, now. Rules whose clients are no good wait for better. */
static bool load_first_clients(struct rulebook *book, char *error)
{
    char reason[CLIENTS_ERROR_BYTES_MAX];
    struct clients_watch *watch = &book->clients;
    struct edition *edition = &book->in_force;
    if (!watch_clients(book, edition)) {
        (void)snprintf(error, EDITION_ERROR_BYTES_MAX, "out of memory");
        edition_clear(edition);
        return false;
    }
    if (watch->path == NULL) {
        return true;
    }
    (void)watch_sees_change(watch->path, &watch->seen);
    enum clients_status status = clients_load(watch->path, watch->kind, &watch->newest,
                                              reason);
    if (status == CLIENTS_OK) {
        edition->clients = clients_share(watch->newest);
        return true;
    }
    tell_both(watch->path, reason, error);
    report_clients_failure(book, reason);
    watch->due_s = status == CLIENTS_UNREAD ? RULEBOOK_CLIENTS_RETRY_S : 0;
    book->arriving = *edition;
    *edition = (struct edition){0};
    return false;
}

static bool load_last_good_clients(struct rulebook *book)
{
    char error[CLIENTS_ERROR_BYTES_MAX];
    struct edition *edition = &book->in_force;
    if (edition->clients_path == NULL) {
        return true;
    }
    if (clients_load(book->last_good_clients_path, edition_clients_kind(edition),
                     &edition->clients, error)
        != CLIENTS_OK) {
        log_error("%s: %s", book->last_good_clients_path, error);
        return false;
    }
    free(edition->clients->text); /* it is kept as it is */
    edition->clients->text = NULL;
    return true;
}

/* The rules that came into force last, and their clients, where the files are no good. */
static bool load_last_good(struct rulebook *book)
{
    char error[EDITION_ERROR_BYTES_MAX];
    struct edition *edition = &book->in_force;
    if (book->last_good_path == NULL) {
        return false;
    }
    if (!edition_load(edition, &book->options, book->last_good_path, NULL, error)) {
        log_error("%s: %s", book->last_good_path, error);
        return false;
    }
    if (!load_last_good_clients(book)) {
        return false;
    }
    if (book->arriving.set == NULL && !watch_clients(book, edition)) {
        log_error("out of memory");
        return false;
    }
    edition->is_last_good = true;
    log_warning("%s: serving the last good rules, %s", book->path,
                book->last_good_path);
    return true;
}

static bool load_first(struct rulebook *book)
{
    char error[EDITION_ERROR_BYTES_MAX];
    if (!edition_load(&book->in_force, &book->options, book->path, &book->watch, error)
        || !load_first_clients(book, error)) {
        log_error("%s: %s", book->path, error);
        report_failure(book, error);
        if (!load_last_good(book)) {
            log_error("%s: nothing is served", book->path);
            return false;
        }
    }
    if (!edition_count(&book->in_force, book->n_workers)) {
        log_error("out of memory");
        return false;
    }
    sources_digest(book->in_force.sources, book->tried);
    report_change(book);
    report_clients(book);
    return true;
}

static char *path_in(const char *dir, const char *name)
{
    size_t size = strlen(dir) + 1 + strlen(name) + 1;
    char *path = malloc(size);
    if (path != NULL) {
        (void)snprintf(path, size, "%s/%s", dir, name);
    }
    return path;
}

static bool open_keeper(struct rulebook *book, const char *state_dir)
{
    if (state_dir == NULL) {
        return true;
    }
    book->last_good_path = path_in(state_dir, LAST_GOOD_FILE);
    book->last_good_clients_path = path_in(state_dir, LAST_GOOD_CLIENTS);
    if (book->last_good_path == NULL || book->last_good_clients_path == NULL) {
        log_error("out of memory");
        return false;
    }
    book->keeper = keeper_start(book->last_good_path);
    return book->keeper != NULL;
}

struct rulebook *rulebook_open(const char *path, const char *state_dir,
                               unsigned n_workers, const char *redis_prefix)
{
    ENSURE(n_workers <= SERVER_WORKERS_MAX);
    struct rulebook *book = calloc(1, sizeof(*book));
    if (book == NULL) {
        log_error("out of memory");
        return NULL;
    }
    book->path = path;
    book->n_workers = n_workers;
    book->options.rules_path = path;
    book->options.redis_prefix = redis_prefix;
    clients_loader_init(&book->loader);
    if (!open_keeper(book, state_dir) || !load_first(book)) {
        rulebook_free(book);
        return NULL;
    }
    if (!book->in_force.is_last_good) {
        keep_last_good(book);
        keep_clients(book);
    }
    return book;
}

static void look_in_ms(struct rulebook *book, int ms)
{
    ev_timer_stop(book->loop, &book->settle);
    ev_timer_set(&book->settle, ms / 1000.0, 0);
    ev_timer_start(book->loop, &book->settle);
}

static void continue_changes(struct rulebook *book);

static void say_clients(struct rulebook *book)
{
    const struct clients *clients = book->in_force.clients;
    report_clients(book);
    if (clients != NULL) {
        book->report.clients.n_changes++;
        log_info("%s: in force: version %s, %" PRIu32 " clients", clients->path,
                 clients->version, rules_clients_count(clients->table));
    }
    keep_clients(book);
}

/* The last worker has left the old set: it can go. */
static void on_changed(void *context)
{
    struct rulebook *book = context;
    bool has_other_clients = book->next.clients != book->in_force.clients;
    edition_follow(&book->next, &book->in_force, book->limits, book->n_workers);
    free(book->limits);
    book->limits = NULL;
    edition_clear(&book->in_force);
    book->in_force = book->next;
    book->next = (struct edition){0};
    book->report.n_changes++;
    report_change(book);
    log_info("%s: in force: version %s, %" PRIu32 " rules", book->path,
             book->report.version, rules_set_n_rules(book->in_force.set->rules));
    keep_last_good(book);
    if (has_other_clients) {
        say_clients(book);
    }
    continue_changes(book);
    book->changed(book->context);
}

/* The last worker has left the old table. */
static void on_clients_changed(void *context)
{
    struct rulebook *book = context;
    clients_drop(book->in_force.clients);
    book->in_force.clients = book->next_clients;
    book->next_clients = NULL;
    say_clients(book);
    continue_changes(book);
}

static bool is_changing(const struct rulebook *book)
{
    return book->next.set != NULL || book->next_clients != NULL;
}

/* With the newest clients, which may be newer than the edition. */
static void begin_change(struct rulebook *book)
{
    struct edition *next = &book->next;
    struct clients *newest = clients_share(table_for(book, next));
    if (newest != NULL) {
        clients_drop(next->clients);
        next->clients = newest;
    }
    book->limits = edition_limits(&book->in_force);
    if (book->limits == NULL || !edition_count(next, book->n_workers)) {
        log_error("%s: out of memory: the old rules stay in force", book->path);
        report_failure(book, "out of memory");
        free(book->limits);
        book->limits = NULL;
        edition_clear(next);
        book->tried[0] = '\0';
        look_in_ms(book, RULEBOOK_RETRY_MS);
        return;
    }
    server_change_rules(book->server, next->set, table_of(next->clients),
                        next->counters, on_changed, book);
}

/* The set stays, and what is counted. */
static void begin_clients_change(struct rulebook *book, struct clients *clients)
{
    const struct edition *edition = &book->in_force;
    book->next_clients = clients_share(clients);
    server_change_rules(book->server, edition->set, clients->table, edition->counters,
                        on_clients_changed, book);
}

/* What is there and not in force yet, one change at a time. */
static void continue_changes(struct rulebook *book)
{
    if (is_changing(book)) {
        return;
    }
    if (book->waiting.set != NULL) {
        book->next = book->waiting;
        book->waiting = (struct edition){0};
        begin_change(book);
        return;
    }
    struct clients *clients = table_for(book, &book->in_force);
    if (clients != NULL && clients != book->in_force.clients) {
        begin_clients_change(book, clients);
    }
}

/* A good file that is not what is in force, or on its way. */
static void take(struct rulebook *book, struct edition *edition)
{
    edition_clear(&book->waiting);
    book->waiting = *edition;
    continue_changes(book);
}

static void refuse(struct rulebook *book, const char *error)
{
    log_error("%s: %s: the rules in force stay", book->path, error);
    report_failure(book, error);
}

/* Rules that wait for their clients are refused with them. */
static void refuse_clients(struct rulebook *book, enum clients_status status,
                           const char *reason)
{
    struct clients_watch *watch = &book->clients;
    bool are_rules_refused = book->arriving.set != NULL;
    bool is_news = status == CLIENTS_BAD || watch->is_asked
                   || (are_rules_refused && book->report.error[0] == '\0')
                   || strcmp(book->report.clients.error, reason) != 0;
    watch->is_asked = false;
    if (status == CLIENTS_UNREAD) {
        watch->due_s = RULEBOOK_CLIENTS_RETRY_S;
    }
    if (!is_news) {
        return;
    }
    report_clients_failure(book, reason);
    if (are_rules_refused) {
        char error[EDITION_ERROR_BYTES_MAX];
        tell_both(watch->path, reason, error);
        refuse(book, error);
        return;
    }
    log_error("%s: %s: the clients in force stay", watch->path, reason);
}

static void ask_clients(struct rulebook *book)
{
    struct clients_watch *watch = &book->clients;
    if (watch->path == NULL) {
        return;
    }
    watch->is_wanted = book->loader.is_busy;
    if (watch->is_wanted) {
        return;
    }
    watch->due_s = 0;
    (void)watch_sees_change(watch->path, &watch->seen); /* what changes from here on */
    if (!clients_loader_load(&book->loader, watch->path, watch->kind)) {
        refuse_clients(book, CLIENTS_UNREAD, "no thread to read it");
    }
}

/* A good table of the file that is watched; rules may have waited for it. */
static void take_clients(struct rulebook *book, struct clients *clients)
{
    struct clients_watch *watch = &book->clients;
    watch->is_asked = false;
    book->report.clients.error[0] = '\0';
    if (watch->newest != NULL
        && strcmp(watch->newest->version, clients->version) == 0) {
        clients_drop(clients); /* only touched */
    } else {
        clients_drop(watch->newest);
        watch->newest = clients;
    }
    if (book->arriving.set == NULL) {
        continue_changes(book);
        return;
    }
    struct edition edition = book->arriving;
    book->arriving = (struct edition){0};
    book->report.error[0] = '\0';
    edition.clients = clients_share(watch->newest);
    take(book, &edition);
}

static void on_clients_loaded(void *context, enum clients_status status,
                              struct clients *clients, const char *error)
{
    struct rulebook *book = context;
    struct clients_watch *watch = &book->clients;
    if (watch->is_stale) {
        watch->is_stale = false;
        clients_drop(clients);
    } else if (status == CLIENTS_OK) {
        take_clients(book, clients);
    } else {
        refuse_clients(book, status, error);
    }
    if (watch->is_wanted) {
        ask_clients(book);
    }
}

/* Rules that are good. Where there is no table yet of the clients that they name they wait
 * for it. */
static void bring(struct rulebook *book, struct edition *edition)
{
    edition_clear(&book->arriving);
    edition->clients = clients_share(table_for(book, edition));
    if (edition->clients_path == NULL || edition->clients != NULL) {
        take(book, edition);
        return;
    }
    book->arriving = *edition;
    ask_clients(book);
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

/* Whether what was read is what was read last time; then nothing is said again. */
static bool is_known(struct rulebook *book, const struct sources *sources)
{
    char digest[VERSION_BYTES];
    sources_digest(sources, digest);
    bool is_same = strcmp(digest, book->tried) == 0;
    memcpy(book->tried, digest, sizeof(book->tried));
    return is_same;
}

/* What was read is good so far. */
static void admit(struct rulebook *book, struct edition *edition)
{
    if (!watch_clients(book, edition)) {
        refuse(book, "out of memory");
        edition_clear(edition);
        return;
    }
    book->report.error[0] = '\0';
    bring(book, edition);
}

/* Take what was read, if it is good. */
static void judge(struct rulebook *book, struct edition *edition, bool is_asked)
{
    char error[EDITION_ERROR_BYTES_MAX];
    struct rules_diags *diags = diags_new(book->path);
    if (diags == NULL) {
        refuse_unreadable(book, "out of memory", is_asked);
        edition_clear(edition);
        return;
    }
    struct rules_file *file = sources_read(edition->sources, diags);
    if (sources_are_incomplete(edition->sources)) {
        look_in_ms(book, RULEBOOK_RETRY_MS); /* it may be there before long */
    }
    if (is_known(book, edition->sources) && !is_asked) {
        rules_file_free(file);
        edition_clear(edition);
    } else if (edition_make(edition, &book->options, file, diags, error)) {
        admit(book, edition);
    } else {
        refuse(book, error);
    }
    free(diags);
}

/* Read the files; unless `is_asked`, what is as it was last time is passed over. */
static void look(struct rulebook *book, bool is_asked)
{
    const char *reason = NULL;
    struct edition edition = {0};
    watch_clear(&book->watch);
    edition.sources = sources_open(book->path, &book->watch, &reason);
    if (edition.sources == NULL) {
        refuse_unreadable(book, reason, is_asked);
        return;
    }
    judge(book, &edition, is_asked);
}

/* The rules in force once more, without what has ended meanwhile. */
static void renew(struct rulebook *book)
{
    char error[EDITION_ERROR_BYTES_MAX];
    struct edition edition = {.sources = sources_share(book->in_force.sources),
                              .is_last_good = book->in_force.is_last_good};
    if (!edition_compile(&edition, &book->options, book->path, error)) {
        return; /* in a second again */
    }
    edition.clients = clients_share(book->in_force.clients);
    log_info("%s: something in it has ended", book->path);
    take(book, &edition);
}

void rulebook_reload(struct rulebook *book)
{
    bool was_busy = book->loader.is_busy;
    look(book, true);
    book->clients.is_asked = true;
    if (was_busy || !book->loader.is_busy) { /* else the rules have asked just now */
        ask_clients(book);
    }
}

static void on_settled(struct ev_loop *loop, struct ev_timer *timer, int events)
{
    (void)loop;
    (void)events;
    look(CONTAINER_OF(timer, struct rulebook, settle), false);
}

void rulebook_keep_calendars(struct rulebook *book)
{
    edition_keep_calendars(&book->in_force);
    edition_keep_calendars(&book->next);
    edition_keep_calendars(&book->waiting);
    edition_keep_calendars(&book->arriving);
}

/* Read when it has not changed for a while: what is written half may look whole. */
static void look_at_clients(struct rulebook *book)
{
    struct clients_watch *watch = &book->clients;
    if (watch->path == NULL) {
        return;
    }
    if (watch_sees_change(watch->path, &watch->seen)) {
        watch->due_s = RULEBOOK_CLIENTS_SETTLE_S;
    } else if (watch->due_s > 0 && --watch->due_s == 0) {
        ask_clients(book);
    }
}

static void on_second(struct ev_loop *loop, struct ev_timer *timer, int events)
{
    struct rulebook *book = CONTAINER_OF(timer, struct rulebook, second);
    (void)loop;
    (void)events;
    rulebook_keep_calendars(book);
    look_at_clients(book);
    if (watch_has_changed(&book->watch)) {
        /* Whoever writes it may not be done yet. */
        look_in_ms(book, RULEBOOK_SETTLE_MS);
    }
    int64_t now_s = clock_wall_us() / US_PER_S;
    if (!is_changing(book)
        && now_s >= rules_set_changes_at_s(book->in_force.set->rules)) {
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
    clients_loader_start(&book->loader, loop, on_clients_loaded, book);
}

void rulebook_stop(struct rulebook *book)
{
    if (book->loop != NULL) {
        ev_timer_stop(book->loop, &book->settle);
        ev_timer_stop(book->loop, &book->second);
        clients_loader_stop(&book->loader);
        book->loop = NULL;
    }
}

void rulebook_free(struct rulebook *book)
{
    if (book == NULL) {
        return;
    }
    rulebook_stop(book);
    clients_loader_fini(&book->loader);
    keeper_stop(book->keeper);
    keeper_stop(book->clients_keeper);
    edition_clear(&book->in_force);
    edition_clear(&book->next);
    edition_clear(&book->waiting);
    edition_clear(&book->arriving);
    watch_clear(&book->watch);
    clients_drop(book->next_clients);
    clients_drop(book->clients.newest);
    free(book->clients.path);
    free(book->limits);
    free(book->last_good_path);
    free(book->last_good_clients_path);
    free(book);
}

const struct decide_set *rulebook_set(const struct rulebook *book)
{
    return book->in_force.set;
}

const struct rules_clients *rulebook_clients(const struct rulebook *book)
{
    return table_of(book->in_force.clients);
}

void rulebook_newest(const struct rulebook *book, const struct decide_set **set,
                     const struct rules_clients **clients)
{
    const struct edition *edition = book->next.set != NULL ? &book->next
                                                           : &book->in_force;
    *set = edition->set;
    *clients = table_of(book->next_clients != NULL ? book->next_clients
                                                   : edition->clients);
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
