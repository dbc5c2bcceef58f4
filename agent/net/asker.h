/**
 * @file agent/net/asker.h  Peeks of the main thread, made by workers.
 *
 * Model:     a store for the main thread, of peeks only: each goes to a worker as a letter,
 *            whose store answers it as it would a request, over the worker's connections, and
 *            comes back. Its deadline counts from when the worker has it: where a worker
 *            stands still, that is late. What is counted on this host alone is looked at
 *            here, at once.
 * Ownership: asker_new / asker_free, after the workers have ended. An ask belongs to a worker
 *            from when it is sent until ask_return.
 * Threads:   the main thread; ask_return that of the worker.
 * Errors:    take->failure.
 * Limits:    ASKER_ASKS_MAX at a time: beyond these, STORE_SLOW.
 */
#ifndef AGENT_NET_ASKER_H
#define AGENT_NET_ASKER_H

#include <stdatomic.h>

#include "agent/store/store.h"

enum {
    ASKER_ASKS_MAX = 64
};

struct asker;
struct worker;

/** A peek on its way. */
struct ask {
    struct store_take take; /* the worker's copy; its keys and names are below */
    struct worker *worker;  /* who has it; set by that one, as is change */
    unsigned change;        /* of rules: it was begun under */
    struct asker *asker;
    struct store_take *asked; /* main's */
    struct ask *next;         /* of those that are free, or back */
    uint8_t keys[STORE_CHARGES_MAX][STORE_KEY_BYTES_MAX];
    char names[STORE_CHARGES_MAX][STORE_NAME_BYTES_MAX];
};

/** Send an ask to a worker. */
typedef void asker_send_fn(void *context, struct ask *ask);

/** @param local  of this host; NULL: workers are asked about all
 *  @return NULL when memory is short */
MUST_USE struct asker *asker_new(struct store *local, asker_send_fn *send,
                                 void *context);

/** End what is under way. NULL is fine. */
void asker_free(struct asker *asker);

struct store *asker_store(struct asker *asker);

/** End the takes of those asks that are back. To be called after ask_return, in time. */
void asker_collect(struct asker *asker);

/** Give back an ask whose take is done. */
void ask_return(struct ask *ask);

#endif
