#include "agent/store/refusals.h"

#include <stdlib.h>
#include <string.h>

#include <sodium.h>

enum {
    SETS = REFUSALS_N / REFUSALS_WAYS,
    LIMIT_NUMBERS = 6,
};

struct refusal {
    uint64_t hash_lo;
    struct instant at; /* the waits below are from then */
    int64_t retry_us;
    int64_t reset_us;
    int64_t window_end_us;
    uint32_t holds_us;
    uint32_t cost;
    int64_t remaining;
    void *asker;
};

_Static_assert(sizeof(struct refusal) == 64, "a cache line");

/* A lookup that finds nothing touches the first line of one. */
struct set {
    _Alignas(64) uint64_t hashes_hi[REFUSALS_WAYS];
    struct refusal slots[REFUSALS_WAYS];
};

struct refusals {
    struct instant last_ends_at; /* no refusal ends later; its doubt, no doubt */
    uint8_t secret[REFUSALS_SECRET_BYTES];
    struct set sets[SETS];
};

_Static_assert((int)REFUSALS_SECRET_BYTES == (int)crypto_shorthash_siphashx24_KEYBYTES,
               "its key");
_Static_assert(sizeof(struct refusals_counter) == crypto_shorthash_siphashx24_BYTES,
               "128 bits");

struct refusals *refusals_new(const uint8_t *secret)
{
    struct refusals *refusals = aligned_alloc(_Alignof(struct refusals),
                                              sizeof(struct refusals));
    if (refusals != NULL) {
        refusals_clear(refusals);
        memcpy(refusals->secret, secret, sizeof(refusals->secret));
    }
    return refusals;
}

void refusals_free(struct refusals *refusals)
{
    free(refusals);
}

void refusals_clear(struct refusals *refusals)
{
    refusals->last_ends_at = (struct instant){0};
    memset(refusals->sets, 0, sizeof(refusals->sets));
}

bool refusals_are_over(const struct refusals *refusals, struct instant now)
{
    return instant_diff_us(now, refusals->last_ends_at) >= REFUSALS_US_MAX;
}

/* The limit's numbers are a prefix of fixed length: no two counters have the same bytes.
 * What calendar it follows is in the name. */
struct refusals_counter refusals_counter(const struct refusals *refusals,
                                         const struct store_charge *charge)
{
    UNCLEARED uint8_t bytes[sizeof(int64_t[LIMIT_NUMBERS]) + STORE_NAME_BYTES_MAX];
    const struct limit *limit = charge->limit;
    const int64_t numbers[LIMIT_NUMBERS] = {
        (int64_t)limit->algorithm, limit->requests, limit->size,
        limit->per_ticks,          limit->tick_us,  limit->max_delay_ticks,
    };
    struct refusals_counter counter;
    ENSURE(charge->key_bytes <= STORE_NAME_BYTES_MAX);
    memcpy(bytes, numbers, sizeof(numbers));
    memcpy(bytes + sizeof(numbers), charge->key, charge->key_bytes);
    (void)crypto_shorthash_siphashx24((uint8_t *)&counter, bytes,
                                      sizeof(numbers) + charge->key_bytes,
                                      refusals->secret);
    return counter;
}

/* Its way in the set; REFUSALS_WAYS: it is not there. */
static unsigned set_find(const struct set *set, const struct refusals_counter *counter)
{
    for (unsigned i = 0; i < REFUSALS_WAYS; i++) {
        if (set->hashes_hi[i] == counter->hi && set->slots[i].hash_lo == counter->lo) {
            return i;
        }
    }
    return REFUSALS_WAYS;
}

static struct instant refusal_ends_at(const struct refusal *refusal)
{
    return instant_add_us(refusal->at, refusal->holds_us);
}

static unsigned set_find_first_to_end(const struct set *set)
{
    unsigned first = 0;
    for (unsigned i = 1; i < REFUSALS_WAYS; i++) {
        if (instant_diff_us(refusal_ends_at(&set->slots[i]),
                            refusal_ends_at(&set->slots[first]))
            < 0) {
            first = i;
        }
    }
    return first;
}

static int64_t wait_left_us(int64_t wait_us, int64_t gone_us)
{
    if (wait_us == LIMIT_NEVER) {
        return LIMIT_NEVER;
    }
    return wait_us > gone_us ? wait_us - gone_us : 0;
}

/* The window may have turned since. */
static int64_t window_left_us(const struct limit *limit, int64_t window_end_us,
                              int64_t gone_us)
{
    int64_t left_us = window_end_us - gone_us;
    int64_t per_us = limit->per_ticks * limit->tick_us;
    if (left_us > 0 || window_end_us == 0) {
        return left_us > 0 ? left_us : 0;
    }
    return per_us - -left_us % per_us;
}

static void answer(const struct refusal *refusal, struct store_charge *charge,
                   int64_t gone_us)
{
    bool is_never = charge->cost > charge->limit->size;
    charge->answer = (struct limit_answer){
        .remaining = refusal->remaining,
        .reset_us = wait_left_us(refusal->reset_us, gone_us),
        .retry_us = is_never ? LIMIT_NEVER : wait_left_us(refusal->retry_us, gone_us),
        .window_end_us = window_left_us(charge->limit, refusal->window_end_us, gone_us),
    };
}

bool refusals_answer(const struct refusals *refusals, struct store_charge *charge,
                     struct instant now, unsigned *doubt)
{
    struct refusals_counter counter = refusals_counter(refusals, charge);
    unsigned set = (unsigned)(counter.lo % SETS);
    unsigned way = set_find(&refusals->sets[set], &counter);
    *doubt = REFUSALS_N;
    if (way == REFUSALS_WAYS || charge->cost == 0) {
        return false;
    }
    const struct refusal *refusal = &refusals->sets[set].slots[way];
    int64_t gone_us = instant_diff_us(now, refusal->at);
    gone_us = gone_us > 0 ? gone_us : 0; /* a clock that was read a little earlier */
    if (gone_us < refusal->holds_us && charge->cost >= refusal->cost) {
        answer(refusal, charge, gone_us);
        return true;
    }
    if (gone_us < refusal->holds_us + REFUSALS_US_MAX) {
        *doubt = set * REFUSALS_WAYS + way;
    }
    return false;
}

void refusals_remember(struct refusals *refusals, const struct store_charge *charge,
                       struct instant at)
{
    const struct limit_answer *refused = &charge->answer;
    struct refusals_counter counter = refusals_counter(refusals, charge);
    struct set *set = &refusals->sets[counter.lo % SETS];
    unsigned way = set_find(set, &counter);
    void *asker = way < REFUSALS_WAYS ? set->slots[way].asker : NULL;
    way = way < REFUSALS_WAYS ? way : set_find_first_to_end(set);
    ENSURE(!refused->is_allowed);
    set->hashes_hi[way] = counter.hi;
    set->slots[way] = (struct refusal){
        .hash_lo = counter.lo,
        .at = at,
        .retry_us = refused->retry_us,
        .reset_us = refused->reset_us,
        .window_end_us = refused->window_end_us,
        .holds_us = (uint32_t)(refused->retry_us < REFUSALS_US_MAX ? refused->retry_us
                                                                   : REFUSALS_US_MAX),
        .cost = (uint32_t)charge->cost,
        .remaining = refused->remaining,
        .asker = asker,
    };
    struct instant ends_at = refusal_ends_at(&set->slots[way]);
    if (instant_diff_us(ends_at, refusals->last_ends_at) > 0) {
        refusals->last_ends_at = ends_at;
    }
}

void *refusals_asker(const struct refusals *refusals, unsigned doubt)
{
    return refusals->sets[doubt / REFUSALS_WAYS].slots[doubt % REFUSALS_WAYS].asker;
}

void refusals_set_asker(struct refusals *refusals, unsigned doubt, void *asker)
{
    refusals->sets[doubt / REFUSALS_WAYS].slots[doubt % REFUSALS_WAYS].asker = asker;
}
