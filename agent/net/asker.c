#include "agent/net/asker.h"

#include <stdlib.h>
#include <string.h>

#include "agent/store/policy.h"

struct asker {
    struct store store;
    struct store *local; /* or NULL */
    asker_send_fn *send;
    void *context;
    struct ask *free;
    _Atomic(struct ask *) back; /* a stack: workers push, main takes all */
    struct ask asks[ASKER_ASKS_MAX];
};

static void end_unasked(struct store_take *take, enum store_failure failure)
{
    policy_pass_unasked(take, (UINT32_C(1) << take->n_charges) - 1);
    take->failure = failure;
    take->is_allowed = true;
    take->done(take);
}

static void copy_take(struct ask *ask, const struct store_take *take)
{
    ask->take = *take;
    for (unsigned i = 0; i < take->n_charges; i++) {
        struct store_charge *charge = &ask->take.charges[i];
        ENSURE(charge->key_bytes <= STORE_KEY_BYTES_MAX);
        memcpy(ask->keys[i], charge->key, charge->key_bytes);
        charge->key = ask->keys[i];
        if (charge->home != NULL) {
            ENSURE(charge->name_bytes <= STORE_NAME_BYTES_MAX);
            memcpy(ask->names[i], charge->name, charge->name_bytes);
            charge->name = ask->names[i];
        }
    }
}

/* Keys are the ask's, as those of what is answered later are the store's. */
static void copy_answers(const struct ask *ask, struct store_take *take)
{
    take->failure = ask->take.failure;
    take->is_allowed = ask->take.is_allowed;
    memcpy(take->held, ask->take.held, sizeof(take->held));
    for (unsigned i = 0; i < take->n_charges; i++) {
        const struct store_charge *from = &ask->take.charges[i];
        struct store_charge *to = &take->charges[i];
        to->source = from->source;
        to->is_charged = from->is_charged;
        to->place = from->place;
        to->answer = from->answer;
        if (to->home != NULL) {
            to->key = (const uint8_t *)ask->names[i];
            to->key_bytes = to->name_bytes;
        } else {
            to->key = ask->keys[i];
        }
    }
}

static bool has_homes(const struct store_take *take)
{
    for (unsigned i = 0; i < take->n_charges; i++) {
        if (take->charges[i].home != NULL) {
            return true;
        }
    }
    return false;
}

static void asker_take(struct store *store, struct store_take *take)
{
    struct asker *asker = CONTAINER_OF(store, struct asker, store);
    ENSURE(take->is_peek && take->n_charges <= STORE_CHARGES_MAX);
    struct ask *ask = asker->free;
    if (asker->local != NULL && !has_homes(take)) {
        store_take(asker->local, take);
        return;
    }
    if (ask == NULL || instant_diff_us(take->deadline, take->now) <= 0) {
        end_unasked(take, STORE_SLOW);
        return;
    }
    asker->free = ask->next;
    ask->asked = take;
    copy_take(ask, take);
    asker->send(asker->context, ask);
}

static void end_ask(struct asker *asker, struct ask *ask)
{
    copy_answers(ask, ask->asked);
    ask->asked->done(ask->asked);
    ask->next = asker->free;
    asker->free = ask;
}

void asker_collect(struct asker *asker)
{
    struct ask *next = NULL;
    for (struct ask *ask =
             atomic_exchange_explicit(&asker->back, NULL, memory_order_acquire);
         ask != NULL; ask = next) {
        next = ask->next;
        end_ask(asker, ask);
    }
}

void ask_return(struct ask *ask)
{
    struct asker *asker = ask->asker;
    struct ask *last = atomic_load_explicit(&asker->back, memory_order_relaxed);
    do {
        ask->next = last;
    } while (!atomic_compare_exchange_weak_explicit(&asker->back, &last, ask,
                                                    memory_order_release,
                                                    memory_order_relaxed));
}

struct store *asker_store(struct asker *asker)
{
    return &asker->store;
}

struct asker *asker_new(struct store *local, asker_send_fn *send, void *context)
{
    static const struct store_ops ops = {.name = "asker", .take = asker_take};
    struct asker *asker = calloc(1, sizeof(*asker));
    if (asker == NULL) {
        return NULL;
    }
    asker->store.ops = &ops;
    asker->local = local;
    asker->send = send;
    asker->context = context;
    for (unsigned i = ASKER_ASKS_MAX; i-- > 0;) {
        struct ask *ask = &asker->asks[i];
        ask->asker = asker;
        ask->next = asker->free;
        asker->free = ask;
    }
    return asker;
}

void asker_free(struct asker *asker)
{
    if (asker != NULL) {
        asker_collect(asker);
        free(asker);
    }
}
