/**
 * @file agent/net/mailbox.h  Letters from the main thread to one worker.
 *
 * Model:     a bounded queue and a wake-up. The wake-up coalesces: the reader empties
 *            the queue each time it is woken.
 * Ownership: a descriptor in a letter belongs to whoever holds the letter.
 * Threads:   mailbox_put any thread; mailbox_get the worker.
 * Errors:    none: there is room for every connection that may be open, and a drain.
 * Limits:    MAILBOX_LETTERS_MAX.
 */
#ifndef AGENT_NET_MAILBOX_H
#define AGENT_NET_MAILBOX_H

#include <pthread.h>
#include <stdbool.h>

#include "agent/base.h"
#include "agent/net/limits.h"

enum {
    MAILBOX_LETTERS_MAX = SERVER_CONNECTIONS_MAX + 1
};

enum letter_type {
    LETTER_CONNECTION = 0, /* serve `fd` */
    LETTER_DRAIN,          /* end all connections, then the worker */
};

struct letter {
    enum letter_type type;
    int fd;
};

struct mailbox {
    pthread_mutex_t lock;
    /* guarded by lock: */
    unsigned first;
    unsigned n_letters;
    struct letter letters[MAILBOX_LETTERS_MAX];
};

void mailbox_init(struct mailbox *mailbox);
void mailbox_fini(struct mailbox *mailbox);
void mailbox_put(struct mailbox *mailbox, struct letter letter);
MUST_USE bool mailbox_get(struct mailbox *mailbox, struct letter *letter);

#endif
