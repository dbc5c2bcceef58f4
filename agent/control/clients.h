/**
 * @file agent/control/clients.h  Files of clients, read and made tables.
 *
 * Model:     a table of a million clients takes some tenths of a second to make, longer
 *            than HAProxy waits for an agent that does not accept. So a loader makes it on
 *            a thread, one at a time, and tells the main loop.
 * Ownership: tables are counted: the last of those who share one frees it.
 * Threads:   the main thread; what the loader's thread makes is nobody else's yet.
 * Errors:    a status and a text; diagnostics go to standard error.
 * Limits:    those of rules/clients.h.
 */
#ifndef AGENT_CONTROL_CLIENTS_H
#define AGENT_CONTROL_CLIENTS_H

#include <pthread.h>
#include <stdbool.h>

#include <ev.h>

#include "rules/clients.h"

#include "agent/clock.h"
#include "agent/control/version.h"

enum {
    CLIENTS_ERROR_BYTES_MAX = 320
};

enum clients_status {
    CLIENTS_OK = 0,
    CLIENTS_BAD,    /* by what the file says */
    CLIENTS_UNREAD, /* it may be read another time */
};

/** A table, and what it was made of. */
struct clients {
    unsigned n_users;
    struct rules_clients *table;
    enum rules_clients_kind kind;
    char version[VERSION_BYTES]; /* of the text */
    struct instant loaded_at;
    char *path;
    char *text; /* NULL: it was taken */
    size_t len;
};

/**
 * Read a file and make its table, now.
 *
 * @param clients  on CLIENTS_OK the table, for one user
 * @param error    otherwise a text of up to CLIENTS_ERROR_BYTES_MAX
 */
MUST_USE enum clients_status clients_load(const char *path,
                                          enum rules_clients_kind kind,
                                          struct clients **clients, char *error);

/** One user more. NULL is fine. @return the same */
struct clients *clients_share(struct clients *clients);

/** One user less. NULL is fine. */
void clients_drop(struct clients *clients);

/** Whether a table is that of a file. NULL is of none. */
bool clients_are_of(const struct clients *clients, const char *path,
                    enum rules_clients_kind kind);

/** Called on the main loop when the loader is through; `clients` as from clients_load. */
typedef void clients_loaded_fn(void *context, enum clients_status status,
                               struct clients *clients, const char *error);

struct clients_loader {
    struct ev_async async;
    clients_loaded_fn *loaded;
    void *context;
    bool is_busy;
    pthread_t thread;
    pthread_mutex_t lock;
    struct ev_loop *loop; /* NULL: nobody is to be told. Guarded by lock */
    /* the thread's, while it is busy */
    char *path;
    enum rules_clients_kind kind;
    enum clients_status status;
    struct clients *clients;
    char error[CLIENTS_ERROR_BYTES_MAX];
};

void clients_loader_init(struct clients_loader *loader);

/** Tell `loaded` on a loop from now on. */
void clients_loader_start(struct clients_loader *loader, struct ev_loop *loop,
                          clients_loaded_fn *loaded, void *context);

/** Load a file; the loader is not busy. @return false when there can be no thread */
MUST_USE bool clients_loader_load(struct clients_loader *loader, const char *path,
                                  enum rules_clients_kind kind);

/** Tell nobody any more; does not wait. One that was not started is fine. */
void clients_loader_stop(struct clients_loader *loader);

/** Wait for the thread, and forget what it made. */
void clients_loader_fini(struct clients_loader *loader);

#endif
