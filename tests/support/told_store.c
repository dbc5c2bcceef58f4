#include "tests/support/told_store.h"

#include "agent/base.h"

static void answer(const struct told_store *told, struct store_take *take, unsigned i)
{
    struct store_charge *charge = &take->charges[i];
    bool is_shared = charge->home != NULL;
    take->held[i] = (struct limit_answer){
        .is_allowed = true,
        .remaining = charge->limit->size - (is_shared ? told->used : 0),
        .reset_us = is_shared ? told->reset_us : 0,
    };
    charge->answer = take->held[i];
    if (is_shared) {
        charge->source = told->source;
        charge->answer.is_allowed = told->is_allowed;
        charge->answer.retry_us = told->is_allowed ? 0 : 2 * US_PER_S;
    }
}

static void complete(const struct told_store *told, struct store_take *take)
{
    for (unsigned i = 0; i < take->n_charges; i++) {
        answer(told, take, i);
    }
    take->failure = told->failure;
    take->is_allowed = told->is_allowed;
    take->done(take);
}

void told_store_answer(struct told_store *told)
{
    struct store_take *take = told->waiting;
    told->waiting = NULL;
    complete(told, take);
}

static void take_as_told(struct store *store, struct store_take *take)
{
    struct told_store *told = CONTAINER_OF(store, struct told_store, store);
    ENSURE(take->is_peek && instant_diff_us(take->deadline, take->now) > 0);
    told->n_taken++;
    told->n_charges += take->n_charges;
    if (told->is_later) {
        ENSURE(told->waiting == NULL);
        told->waiting = take;
    } else {
        complete(told, take);
    }
}

void told_store_init(struct told_store *told)
{
    static const struct store_ops ops = {.name = "told", .take = take_as_told};
    *told = (struct told_store){.store.ops = &ops, .is_allowed = true};
}
