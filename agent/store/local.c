#include "agent/store/local.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <sys/mman.h>

#include <sodium.h>

#include "agent/store/local_parts.h"

static bool is_log(const struct limit *limit)
{
    return limit->algorithm == LIMIT_SLIDING_LOG;
}

/* Where one charge stands while its set is locked. */
struct place {
    struct set *set;
    struct hash hash;
    unsigned hits; /* slots of its tag */
    unsigned slot; /* NO_SLOT while the counter is not in the table */
    struct limit_state state;
};

/* The counter's hash: the keyed hash of its key, moved by the digest that names its
 * limit. Without the secret no two are related. */
static struct hash hash_counter(const struct local *local, const uint8_t *limit_id,
                                const uint8_t *key, size_t key_bytes)
{
    uint8_t out[16];
    struct hash hash;
    struct hash limit;
    _Static_assert(sizeof(out) == crypto_shorthash_siphashx24_BYTES, "128 bits");
    (void)crypto_shorthash_siphashx24(out, key, key_bytes, local->secret);
    memcpy(&hash, out, sizeof(hash));
    memcpy(&limit, limit_id, sizeof(limit));
    hash.lo ^= limit.lo;
    hash.hi ^= limit.hi;
    return hash;
}

/* Hash the keys, and have the sets and the slots that they lead to fetched. */
static void local_prepare(struct store *store, struct store_take *take)
{
    const struct local *local = to_local(store);
    for (unsigned i = 0; i < take->n_charges; i++) {
        struct store_charge *charge = &take->charges[i];
        struct hash hash = hash_counter(local, charge->limit_id, charge->key,
                                        charge->key_bytes);
        const struct set *set = set_of(local, (uint32_t)hash.lo);
        __builtin_prefetch(set, 1);
        __builtin_prefetch(&set->slots[home_of(&hash)], 1);
        charge->hash[0] = hash.lo;
        charge->hash[1] = hash.hi;
    }
}

static void place_charges(const struct local *local, const struct store_take *take,
                          struct place *places)
{
    for (unsigned i = 0; i < take->n_charges; i++) {
        const uint64_t *hash = take->charges[i].hash;
        places[i].hash = (struct hash){.lo = hash[0], .hi = hash[1]};
        places[i].set = set_of(local, (uint32_t)hash[0]);
    }
}

/* The sets of a take in address order. Each is put where it belongs, not moved there: that
 * needs no branch, and which of two sets comes first nobody can guess. */
static void sort_sets(const struct place *places, unsigned n, struct set **sorted)
{
    for (unsigned i = 0; i < n; i++) {
        const struct set *set = places[i].set;
        unsigned n_before = 0;
        for (unsigned j = 0; j < n; j++) {
            n_before += places[j].set < set || (places[j].set == set && j < i);
        }
        sorted[n_before] = places[i].set;
    }
}

/* Several charges may be in one set. */
static bool is_repeated(struct set *const *sorted, unsigned i)
{
    return i > 0 && sorted[i] == sorted[i - 1];
}

static void lock_sets(struct set *const *sorted, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        if (!is_repeated(sorted, i)) {
            set_lock(sorted[i]);
        }
    }
}

static void unlock_sets(struct set *const *sorted, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        if (!is_repeated(sorted, i)) {
            set_unlock(sorted[i]);
        }
    }
}

static uint32_t seconds_up(int64_t us)
{
    int64_t s = us / US_PER_S + 1;
    return s < UINT32_MAX ? (uint32_t)s : UINT32_MAX;
}

/* When a counter that is answered so at `now` will be as if untouched. */
static uint32_t expiry_s(const struct limit_answer *answer, struct instant now)
{
    return answer->reset_us < LIMIT_WAIT_US_MAX ? seconds_up(now.us + answer->reset_us)
                                                : UINT32_MAX;
}

/* What the functions of limit.h do, for a log too. */
static void merge(struct local *local, const struct limit *limit,
                  struct limit_state *state, const struct limit_state *other)
{
    if (is_log(limit)) {
        log_pool_put(&local->pool, sliding_log_merge(local->pool.blocks, state, other));
    } else {
        limit_merge(limit, state, other);
    }
}

static void align(struct local *local, const struct limit *limit,
                  struct limit_state *state, struct instant now)
{
    if (is_log(limit)) {
        sliding_log_align(local->pool.blocks, state, now);
    } else {
        limit_align(limit, state, now);
    }
}

/* Answer a cost on a copy of a state; what it charges to a log is not in it yet. */
static bool answer_cost(const struct local *local, const struct limit *limit,
                        struct limit_state *state, struct instant now, int64_t cost,
                        struct limit_answer *answer)
{
    return is_log(limit)
               ? sliding_log_look(limit, local->pool.blocks, state, now, cost, answer)
               : limit_take(limit, state, now, cost, answer);
}

static int64_t place_of(const struct local *local, const struct limit *limit,
                        const struct limit_state *state)
{
    return is_log(limit) ? sliding_log_place(local->pool.blocks, state)
                         : limit_place(limit, state);
}

static bool settle(struct local *local, const struct store_settlement *settlement,
                   struct limit_state *state)
{
    if (!is_log(settlement->limit)) {
        return limit_settle(settlement->limit, state, settlement->now,
                            &settlement->correction);
    }
    struct log_chain freed;
    bool is_changed = sliding_log_settle(settlement->limit, local->pool.blocks, state,
                                         settlement->now, &settlement->correction,
                                         &freed);
    log_pool_put(&local->pool, freed);
    return is_changed;
}

static void look(const struct local *local, const struct limit *limit,
                 const struct limit_state *state, struct instant now,
                 struct limit_answer *answer)
{
    struct limit_state copy = *state;
    (void)answer_cost(local, limit, &copy, now, 0, answer);
}

/* Bring the inherited slots of a counter and its own into one: here its limit, which
 * says how, is at hand. Returns that slot. */
static unsigned set_unite(struct local *local, const struct place *place,
                          const struct limit *limit, struct instant now)
{
    struct set *set = place->set;
    unsigned own = set_find(set, &place->hash, place->hits & ~(unsigned)set->inherited);
    for (unsigned hits = place->hits & set->inherited; hits != 0; hits &= hits - 1) {
        unsigned i = (unsigned)__builtin_ctz(hits);
        struct image_record *slot = &set->slots[i];
        if (!is_same(slot, &place->hash)) {
            continue;
        }
        set->inherited &= (uint16_t)~bit_of(i);
        if (own == NO_SLOT) {
            own = i;
            continue;
        }
        struct limit_state *state = &set->slots[own].state;
        struct limit_answer answer;
        merge(local, limit, state, &slot->state);
        look(local, limit, state, now, &answer);
        set->slots[own].expires_s = expiry_s(&answer, now);
        set->logs &= (uint16_t)~bit_of(i); /* its blocks went over */
        *slot = (struct image_record){0};  /* expired: the next to be filled */
    }
    return own;
}

/* Slots that may hold a counter: a log is never looked for in what is none, nor the other
 * way round, whatever an image said. */
static unsigned find_hits(const struct place *place, const struct limit *limit)
{
    const struct set *set = place->set;
    unsigned logs = is_log(limit) ? set->logs : ~(unsigned)set->logs;
    return set_hits(set, &place->hash) & logs;
}

/* Find every counter by its tag first, so that the misses of memory overlap. */
static void find_slots(struct local *local, const struct store_take *take,
                       struct place *places)
{
    unsigned n = take->n_charges;
    for (unsigned i = 0; i < n; i++) {
        struct place *place = &places[i];
        place->hits = find_hits(place, take->charges[i].limit);
        if (place->hits != 0) {
            __builtin_prefetch(&place->set->slots[__builtin_ctz(place->hits)], 1);
        }
    }
    for (unsigned i = 0; i < n; i++) {
        struct place *place = &places[i];
        place->slot = (place->hits & place->set->inherited) == 0
                          ? set_find(place->set, &place->hash, place->hits)
                          : set_unite(local, place, take->charges[i].limit, take->now);
    }
}

/* Answer every charge on a copy of its state; nothing is written back yet, but for the
 * stamp of a counter that a stepped clock had left in the future. */
static bool answer_charges(struct local *local, struct store_take *take,
                           struct place *places)
{
    bool is_allowed = true;
    for (unsigned i = 0; i < take->n_charges; i++) {
        struct store_charge *charge = &take->charges[i];
        struct place *place = &places[i];
        place->state = (struct limit_state){0};
        /* NOLINTNEXTLINE(clang-analyzer-core.Undefined*): find_slots has set it */
        if (place->slot != NO_SLOT) {
            struct limit_state *held = &place->set->slots[place->slot].state;
            align(local, charge->limit, held, take->now);
            place->state = *held;
            place->set->referenced |= bit_of(place->slot);
        }
        bool passes = answer_cost(local, charge->limit, &place->state, take->now,
                                  charge->cost, &charge->answer);
        is_allowed = is_allowed && (passes || charge->is_lenient);
    }
    return is_allowed;
}

static void mark_refused(const struct place *place)
{
    if (place->slot != NO_SLOT) {
        place->set->refused |= bit_of(place->slot);
    }
}

/* A charge that is not made although it would have passed is answered as the counter
 * stands without it. */
static void withdraw(const struct local *local, struct store_take *take, unsigned i,
                     const struct place *place)
{
    struct store_charge *charge = &take->charges[i];
    charge->is_charged = false;
    if (!charge->answer.is_allowed) {
        mark_refused(place);
        return;
    }
    struct limit_state state = {0};
    if (place->slot != NO_SLOT) {
        state = place->set->slots[place->slot].state;
    }
    look(local, charge->limit, &state, take->now, &charge->answer);
}

static void withdraw_all(const struct local *local, struct store_take *take,
                         const struct place *places)
{
    for (unsigned i = 0; i < take->n_charges; i++) {
        withdraw(local, take, i, &places[i]);
    }
}

/* Add a charge to the events of a log that has a slot. */
static void log_charge(struct local *local, struct place *place,
                       const struct store_charge *charge, struct instant now,
                       struct counters *counters)
{
    struct log_block *blocks = local->pool.blocks;
    struct limit_state *state = &place->state;
    uint32_t block = 0;
    log_pool_put(&local->pool, sliding_log_drop(charge->limit, blocks, state, now));
    if (sliding_log_is_full(state)) {
        block = local_get_block(local, place->set, (uint32_t)(now.us / US_PER_S),
                                counters);
        if (block == 0) {
            counter_add(counters, COUNTER_LOCAL_EVENTS_LOST, 1);
            return;
        }
    }
    int64_t newest_us = sliding_log_place(blocks, state);
    sliding_log_add(blocks, state, block,
                    log_event(now.us > newest_us ? now.us : newest_us, charge->cost));
}

static void claim_slot(struct local *local, struct place *place, struct instant now,
                       uint16_t pinned, struct counters *counters)
{
    if (place->slot == NO_SLOT) {
        place->slot = local_claim_slot(local, place->set, &place->hash, pinned,
                                       (uint32_t)(now.us / US_PER_S), counters);
    }
}

static void write_back(const struct place *place, const struct limit *limit,
                       const struct limit_answer *answer, struct instant now)
{
    struct set *set = place->set;
    if (is_log(limit)) {
        set->logs |= bit_of(place->slot);
    }
    set->slots[place->slot] = (struct image_record){
        .hash_hi = place->hash.hi,
        .hash_lo = (uint32_t)place->hash.lo,
        .expires_s = expiry_s(answer, now),
        .state = place->state,
    };
}

static uint16_t pinned_slots(const struct place *places, unsigned n,
                             const struct set *set)
{
    uint16_t pinned = 0;
    for (unsigned i = 0; i < n; i++) {
        if (places[i].set == set && places[i].slot != NO_SLOT) {
            pinned |= bit_of(places[i].slot);
        }
    }
    return pinned;
}

/* A bit for each tie of which a charge is over its limit. */
static uint32_t broken_ties(const struct store_take *take)
{
    uint32_t ties = 0;
    for (unsigned i = 0; i < take->n_charges; i++) {
        ties |= (uint32_t)!take->charges[i].answer.is_allowed << take->charges[i].tie;
    }
    return ties & ~UINT32_C(1);
}

static void charge_all(struct local *local, struct store_take *take,
                       struct place *places)
{
    uint32_t broken = broken_ties(take);
    for (unsigned i = 0; i < take->n_charges; i++) {
        struct store_charge *charge = &take->charges[i];
        if ((broken >> charge->tie & 1) != 0) {
            withdraw(local, take, i, &places[i]);
            continue;
        }
        charge->is_charged = charge->answer.is_allowed && charge->cost > 0;
        if (!charge->is_charged) {
            continue;
        }
        uint16_t pinned = places[i].slot == NO_SLOT
                              ? pinned_slots(places, take->n_charges, places[i].set)
                              : 0;
        claim_slot(local, &places[i], take->now, pinned, take->counters);
        if (is_log(charge->limit)) {
            log_charge(local, &places[i], charge, take->now, take->counters);
        }
        write_back(&places[i], charge->limit, &charge->answer, take->now);
        charge->place = place_of(local, charge->limit, &places[i].state);
    }
}

static void take_all(struct local *local, struct store_take *take, struct place *places)
{
    take->is_allowed = answer_charges(local, take, places);
    if (take->is_allowed) {
        charge_all(local, take, places);
    } else {
        withdraw_all(local, take, places);
    }
}

/* The state of a counter as a take would find it. What a stepped clock left in the future
 * is put right in the copy alone; in a log, whose events it has in common, for good. */
static void peek_at_counter(struct local *local, struct place *place,
                            const struct limit *limit, struct instant now)
{
    place->state = (struct limit_state){0};
    /* NOLINTNEXTLINE(clang-analyzer-core.Undefined*): find_slots has set it */
    if (place->slot != NO_SLOT) {
        place->state = place->set->slots[place->slot].state;
        align(local, limit, &place->state, now);
    }
}

/* An answer with another's remaining and reset. */
static void answer_numbers(struct limit_answer *answer, const struct limit_answer *from)
{
    answer->remaining = from->remaining;
    answer->reset_us = from->reset_us;
    answer->window_end_us = from->window_end_us;
}

/* What answer_charges and charge_all or withdraw_all would come to. */
static void peek_all(struct local *local, struct store_take *take, struct place *places)
{
    struct limit_answer held;
    take->is_allowed = true;
    for (unsigned i = 0; i < take->n_charges; i++) {
        struct store_charge *charge = &take->charges[i];
        peek_at_counter(local, &places[i], charge->limit, take->now);
        look(local, charge->limit, &places[i].state, take->now, &take->held[i]);
        bool passes = answer_cost(local, charge->limit, &places[i].state, take->now,
                                  charge->cost, &charge->answer);
        take->is_allowed = take->is_allowed && (passes || charge->is_lenient);
    }
    uint32_t broken = broken_ties(take);
    for (unsigned i = 0; i < take->n_charges; i++) {
        struct store_charge *charge = &take->charges[i];
        bool is_withdrawn = !take->is_allowed || (broken >> charge->tie & 1) != 0;
        charge->is_charged = false;
        held = take->held[i];
        if (charge->answer.is_allowed && is_withdrawn) {
            charge->answer = held;
        }
        take->held[i] = charge->answer;
        answer_numbers(&take->held[i], &held);
    }
}

static void local_take(struct store *store, struct store_take *take)
{
    struct local *local = to_local(store);
    UNCLEARED struct place places[STORE_CHARGES_MAX];
    UNCLEARED struct set *sorted[STORE_CHARGES_MAX];
    ENSURE(take->n_charges <= STORE_CHARGES_MAX);

    if (!take->is_prepared) {
        local_prepare(store, take);
    }
    place_charges(local, take, places);
    sort_sets(places, take->n_charges, sorted);
    lock_sets(sorted, take->n_charges);
    find_slots(local, take, places);
    if (take->is_peek) {
        peek_all(local, take, places);
    } else {
        take_all(local, take, places);
    }
    unlock_sets(sorted, take->n_charges);
    take->done(take);
}

/* Where the counter of a settlement stands; its set is locked. */
static void find_place(struct local *local, struct place *place,
                       const struct store_settlement *settlement)
{
    place->hits = find_hits(place, settlement->limit);
    place->slot = (place->hits & place->set->inherited) == 0
                      ? set_find(place->set, &place->hash, place->hits)
                      : set_unite(local, place, settlement->limit, settlement->now);
    place->state = (struct limit_state){0};
    if (place->slot != NO_SLOT) {
        struct limit_state *held = &place->set->slots[place->slot].state;
        align(local, settlement->limit, held, settlement->now);
        place->state = *held;
    }
}

static void local_settle(struct store *store, const struct store_settlement *settlement)
{
    struct local *local = to_local(store);
    struct limit_answer answer;
    struct place place;
    place.hash = hash_counter(local, settlement->limit_id, settlement->key,
                              settlement->key_bytes);
    place.set = set_of(local, (uint32_t)place.hash.lo);

    set_lock(place.set);
    find_place(local, &place, settlement);
    bool is_changed = settle(local, settlement, &place.state);
    if (is_changed) {
        look(local, settlement->limit, &place.state, settlement->now, &answer);
        claim_slot(local, &place, settlement->now, 0, settlement->counters);
        write_back(&place, settlement->limit, &answer, settlement->now);
    }
    set_unlock(place.set);
    if (!is_changed) {
        counter_add(settlement->counters, COUNTER_SETTLED_TOO_LATE, 1);
    }
}

static void local_free(struct store *store)
{
    struct local *local = to_local(store);
    (void)munmap(local->sets, local->n_sets * sizeof(struct set));
    log_pool_fini(&local->pool);
    sodium_memzero(local->secret, sizeof(local->secret));
    free(local);
}

static const struct store_ops local_ops = {
    .name = "local",
    .prepare = local_prepare,
    .take = local_take,
    .settle = local_settle,
    .free = local_free,
};

static bool map_sets(struct local *local, size_t bytes)
{
    local->n_sets = bytes / sizeof(struct set);
    if (local->n_sets == 0 || local->n_sets > UINT32_MAX) {
        errno = EINVAL;
        return false;
    }
    void *sets = mmap(NULL, local->n_sets * sizeof(struct set), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (sets == MAP_FAILED) {
        return false;
    }
    /* Counters lie at random places: with small pages each would cost a page walk. */
    (void)madvise(sets, local->n_sets * sizeof(struct set), MADV_HUGEPAGE);
    local->sets = sets;
    return true;
}

struct store *local_new(size_t memory_bytes, size_t log_bytes, const uint8_t *secret)
{
    if (memory_bytes < LOCAL_MEMORY_BYTES_MIN || log_bytes > memory_bytes / 2) {
        errno = EINVAL;
        return NULL;
    }
    struct local *local = calloc(1, sizeof(*local));
    if (local == NULL) {
        return NULL;
    }
    if (!log_pool_init(&local->pool, log_bytes)) {
        free(local);
        return NULL;
    }
    if (!map_sets(local, memory_bytes - log_bytes)) {
        log_pool_fini(&local->pool);
        free(local);
        return NULL;
    }
    local->store.ops = &local_ops;
    memcpy(local->secret, secret, sizeof(local->secret));
    return &local->store;
}

/* store is the first member */
static const struct local *to_const_local(const struct store *store)
{
    return (const struct local *)store;
}

size_t local_capacity(const struct store *store)
{
    return to_const_local(store)->n_sets * LOCAL_WAYS;
}

const uint8_t *local_secret(const struct store *store)
{
    return to_const_local(store)->secret;
}
