/**
 * @file tests/support/later_store.h  A store that answers when it is told to.
 */
#ifndef TESTS_SUPPORT_LATER_STORE_H
#define TESTS_SUPPORT_LATER_STORE_H

#include "agent/store/store.h"

enum {
    LATER_TAKES_MAX = 4096
};

struct later_store {
    struct store store;
    bool is_by_next; /* a take lets the one before it be answered */
    _Atomic bool is_at_once; /* and is itself answered at once */
    unsigned n_taken;
    unsigned n_at_once;                        /* those that could not wait */
    struct store_take *takes[LATER_TAKES_MAX]; /* NULL once answered */
};

void later_store_init(struct later_store *later);

/** Answer take `i`: every charge allowed, or refused. Each is charged when allowed. */
void later_store_answer(struct later_store *later, unsigned i, bool is_allowed);

#endif
