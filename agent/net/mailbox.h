/**
 * @file agent/net/mailbox.h  Letters from the main thread to one worker.
 *
 * Model:     a bounded queue and a wake-up. The wake-up coalesces: the reader empties
 *            the queue each time it is woken.
 * Ownership: what is in a letter belongs to whoever holds the letter.
 * Threads:   mailbox_put any thread; mailbox_get the worker.
 * Errors:    none: there is room for every connection that may be open, all asks, a drain, one
 *            change of rules, and more upgrades that failed than there can be before the
 *            worker reads on.
 * Limits:    MAILBOX_LETTERS_MAX.
 */
#ifndef AGENT_NET_MAILBOX_H
#define AGENT_NET_MAILBOX_H

#include <pthread.h>
#include <stdbool.h>

#include "agent/base.h"
#include "agent/net/asker.h"
#include "agent/net/limits.h"

enum {
    MAILBOX_LETTERS_MAX = SERVER_CONNECTIONS_MAX + ASKER_ASKS_MAX + 64
};

enum letter_type {
    LETTER_CONNECTION = 0, /* serve `fd` */
    LETTER_ASK,            /* do the peek of `ask`, and give it back */
    LETTER_RULES,          /* decide by `set` and `clients`, and count in `counters` */
    LETTER_ADOPT,          /* go on with the connection in `handover` */
    LETTER_HAND_OVER,      /* hand all connections over through the channel `fd` */
    LETTER_KEEP,           /* no longer: serve them on */
    LETTER_DRAIN,          /* end all connections, then the worker */
    LETTER_LEAVE,          /* the same, sooner: somebody else listens on */
};

struct handover;
struct decide_set;
struct rules_clients;
struct counters;

struct letter {
    enum letter_type type;
    int fd;
    unsigned upgrade; /* HAND_OVER: its number, for worker_has_handed_over */
    unsigned change;  /* RULES: its number, for worker_has_changed */
    struct ask *ask;
    struct handover *handover;
    const struct decide_set *set;
    const struct rules_clients *clients;
    struct counters *counters;
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
