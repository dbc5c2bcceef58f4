/**
 * @file tests/support/told_store.h  A store that says of each counter what it was told to,
 *       at once or when it is told.
 */
#ifndef TESTS_SUPPORT_TOLD_STORE_H
#define TESTS_SUPPORT_TOLD_STORE_H

#include "agent/store/store.h"

struct told_store {
    struct store store;
    /* what it says of charges with a home; of others, that nothing was charged */
    int64_t used;
    int64_t reset_us;
    bool is_allowed;
    enum store_source source;
    enum store_failure failure;
    bool is_later;
    unsigned n_taken;
    unsigned n_charges;         /* of all takes */
    struct store_take *waiting; /* where it is later */
};

void told_store_init(struct told_store *told);

/** Answer the take that waits. */
void told_store_answer(struct told_store *told);

#endif
