#include "tests/support/later_store.h"

#include "agent/base.h"

static void complete(struct store_take *take, bool is_allowed)
{
    for (unsigned i = 0; i < take->n_charges; i++) {
        struct store_charge *charge = &take->charges[i];
        charge->answer = (struct limit_answer){
            .is_allowed = is_allowed,
            .remaining = is_allowed ? charge->limit->size - charge->cost : 0,
            .retry_us = is_allowed ? 0 : US_PER_S,
        };
        charge->is_charged = is_allowed;
    }
    take->is_allowed = is_allowed;
    take->done(take);
}

void later_store_answer(struct later_store *later, unsigned i, bool is_allowed)
{
    struct store_take *take = later->takes[i];
    later->takes[i] = NULL;
    complete(take, is_allowed);
}

static void take_later(struct store *store, struct store_take *take)
{
    struct later_store *later = CONTAINER_OF(store, struct later_store, store);
    static const uint8_t key[] = "a key of the store's own";
    unsigned last = later->n_taken - 1;
    if (later->is_by_next && later->n_taken > 0 && later->takes[last] != NULL) {
        later_store_answer(later, last, true);
    }
    if (later->is_at_once || instant_diff_us(take->deadline, take->now) <= 0) {
        later->n_at_once++;
        complete(take, true);
        return;
    }
    ENSURE(later->n_taken < LATER_TAKES_MAX);
    for (unsigned i = 0; i < take->n_charges; i++) {
        take->charges[i].key = key;
        take->charges[i].key_bytes = sizeof(key);
    }
    later->takes[later->n_taken++] = take;
}

static void settle_nothing(struct store *store,
                           const struct store_settlement *settlement)
{
    (void)store;
    (void)settlement;
}

static void free_nothing(struct store *store)
{
    (void)store;
}

void later_store_init(struct later_store *later)
{
    static const struct store_ops ops = {
        .name = "later",
        .take = take_later,
        .settle = settle_nothing,
        .free = free_nothing,
    };
    *later = (struct later_store){.store.ops = &ops};
}
