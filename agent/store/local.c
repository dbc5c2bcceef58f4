#include "agent/store/local.h"

#include <errno.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include <sys/mman.h>

#include <sodium.h>

#include "agent/base.h"

enum {
    NO_SLOT = LOCAL_WAYS
};

struct hash {
    uint64_t lo;
    uint64_t hi;
};

/* 96 bits of the hash; which set it is follows from the upper half of lo, so the set
 * tells some of the rest: about 113 bits in all at 64 MiB. */
struct slot {
    uint64_t hash_hi;
    uint32_t hash_lo;
    uint32_t expires_s; /* from then on as if untouched */
    struct limit_state state;
};

/* 576 bytes. A lookup touches the head and one slot: a cache line each. */
struct set {
    _Alignas(64) _Atomic uint8_t lock;
    /* guarded by lock: */
    uint8_t hand;              /* where the next search for a victim begins */
    uint16_t occupied;         /* a bit for each slot */
    uint16_t referenced;       /* used since the hand last passed */
    uint16_t tags[LOCAL_WAYS]; /* of the hash in each slot */
    _Alignas(64) struct slot slots[LOCAL_WAYS];
};

_Static_assert(sizeof(struct set) == (size_t)LOCAL_WAYS * LOCAL_COUNTER_BYTES,
               "the stated bytes of a counter");
_Static_assert(sizeof(struct limit_state) == 16, "a state is 16 bytes");

struct local {
    struct store store;
    struct set *sets;
    size_t n_sets;
    uint8_t secret[LOCAL_SECRET_BYTES];
};

/* Where one charge stands while its set is locked. */
struct place {
    struct set *set;
    struct hash hash;
    unsigned hits; /* slots of its tag */
    unsigned slot; /* NO_SLOT while the counter is not in the table */
    struct limit_state state;
};

static struct local *to_local(struct store *store)
{
    return CONTAINER_OF(store, struct local, store);
}

static uint16_t tag_of(const struct hash *hash)
{
    return (uint16_t)hash->hi;
}

static uint16_t bit_of(unsigned slot)
{
    return (uint16_t)(1U << slot);
}

static void set_lock(struct set *set)
{
    unsigned spins = 0;
    while (atomic_exchange_explicit(&set->lock, 1, memory_order_acquire) != 0) {
        if (++spins >= LOCAL_SPINS_MAX) {
            (void)sched_yield();
            spins = 0;
        }
    }
}

static void set_unlock(struct set *set)
{
    atomic_store_explicit(&set->lock, 0, memory_order_release);
}

/* All tags of a set side by side. */
typedef uint16_t tag_lanes __attribute__((vector_size(LOCAL_WAYS * sizeof(uint16_t))));

/* A bit for each slot that may hold the hash. */
static unsigned set_hits(const struct set *set, const struct hash *hash)
{
    static const tag_lanes bits = {0x1,    0x2,    0x4,    0x8,   0x10,  0x20,
                                   0x40,   0x80,   0x100,  0x200, 0x400, 0x800,
                                   0x1000, 0x2000, 0x4000, 0x8000};
    tag_lanes tags;
    uint64_t words[sizeof(tags) / sizeof(uint64_t)];
    memcpy(&tags, set->tags, sizeof(tags));
    tags = (tag_lanes)(tags == tag_of(hash)) & bits;
    memcpy(words, &tags, sizeof(words));
    uint64_t hits = words[0] | words[1] | words[2] | words[3];
    hits |= hits >> 32;
    hits |= hits >> 16;
    return (unsigned)hits & set->occupied;
}

/* The slot among `hits` that holds the hash; NO_SLOT when none does. */
static unsigned set_find(const struct set *set, const struct hash *hash, unsigned hits)
{
    for (; hits != 0; hits &= hits - 1) {
        unsigned i = (unsigned)__builtin_ctz(hits);
        const struct slot *slot = &set->slots[i];
        if (slot->hash_hi == hash->hi && slot->hash_lo == (uint32_t)hash->lo) {
            return i;
        }
    }
    return NO_SLOT;
}

/* A slot for a new counter: free, else expired, else the second chance. Slots of
 * `pinned` belong to other charges of the same take. */
static unsigned set_claim(struct set *set, uint16_t pinned, uint32_t now_s,
                          struct counters *counters)
{
    unsigned vacant = ~(unsigned)set->occupied & 0xffffU;
    if (vacant != 0) {
        counter_add(counters, COUNTER_LOCAL_FILLED, 1);
        return (unsigned)__builtin_ctz(vacant);
    }
    for (unsigned i = 0; i < LOCAL_WAYS; i++) {
        if (set->slots[i].expires_s <= now_s && (pinned & bit_of(i)) == 0) {
            return i;
        }
    }
    for (;;) {
        unsigned i = set->hand;
        set->hand = (uint8_t)((i + 1) % LOCAL_WAYS);
        if ((pinned & bit_of(i)) != 0) {
            continue;
        }
        if ((set->referenced & bit_of(i)) == 0) {
            counter_add(counters, COUNTER_LOCAL_EVICTED, 1);
            return i;
        }
        set->referenced &= (uint16_t)~bit_of(i);
    }
}

static struct hash hash_key(const struct local *local,
                            const struct store_charge *charge)
{
    uint8_t out[16];
    struct hash hash;
    _Static_assert(sizeof(out) == crypto_shorthash_siphashx24_BYTES, "128 bits");
    (void)crypto_shorthash_siphashx24(out, charge->key, charge->key_bytes,
                                      local->secret);
    memcpy(&hash, out, sizeof(hash));
    return hash;
}

/* The counter's hash: the keyed hash of its key, moved by the digest that names its
 * limit. Rules with one key share the work; without the secret no two are related. */
static void place_charges(const struct local *local, const struct store_take *take,
                          struct place *places)
{
    for (unsigned i = 0; i < take->n_charges; i++) {
        const struct store_charge *charge = &take->charges[i];
        struct hash limit_id;
        memcpy(&limit_id, charge->limit_id, sizeof(limit_id));
        struct hash hash = hash_key(local, charge);
        hash.lo ^= limit_id.lo;
        hash.hi ^= limit_id.hi;
        places[i].hash = hash;
        size_t set_idx = (size_t)((hash.lo >> 32) * local->n_sets >> 32);
        places[i].set = &local->sets[set_idx];
        __builtin_prefetch(places[i].set, 1);
    }
}

/* The distinct sets of a take in address order; returns how many. */
static unsigned sort_sets(const struct place *places, unsigned n, struct set **sorted)
{
    unsigned n_sorted = 0;
    for (unsigned i = 0; i < n; i++) {
        struct set *set = places[i].set;
        unsigned at = n_sorted;
        while (at > 0 && sorted[at - 1] > set) {
            at--;
        }
        if (at > 0 && sorted[at - 1] == set) {
            continue;
        }
        memmove(&sorted[at + 1], &sorted[at], (n_sorted - at) * sizeof(struct set *));
        sorted[at] = set;
        n_sorted++;
    }
    return n_sorted;
}

/* Find every counter by its tag first, so that the misses of memory overlap. */
static void find_slots(struct place *places, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        struct place *place = &places[i];
        place->hits = set_hits(place->set, &place->hash);
        if (place->hits != 0) {
            __builtin_prefetch(&place->set->slots[__builtin_ctz(place->hits)], 1);
        }
    }
    for (unsigned i = 0; i < n; i++) {
        places[i].slot = set_find(places[i].set, &places[i].hash, places[i].hits);
    }
}

/* Answer every charge on a copy of its state; nothing is written back yet, but for the
 * stamp of a counter that a stepped clock had left in the future. */
static bool answer_charges(struct store_take *take, struct place *places)
{
    bool is_allowed = true;
    for (unsigned i = 0; i < take->n_charges; i++) {
        struct store_charge *charge = &take->charges[i];
        struct place *place = &places[i];
        place->state = (struct limit_state){0};
        if (place->slot != NO_SLOT) {
            struct limit_state *held = &place->set->slots[place->slot].state;
            limit_align(charge->limit, held, take->now);
            place->state = *held;
            place->set->referenced |= bit_of(place->slot);
        }
        bool passes = limit_take(charge->limit, &place->state, take->now, charge->cost,
                                 &charge->answer);
        is_allowed = is_allowed && (passes || charge->is_shadow);
    }
    return is_allowed;
}

/* The request is refused: a charge that would have passed is answered as the counter
 * stands without it. */
static void withdraw_all(struct store_take *take, const struct place *places)
{
    for (unsigned i = 0; i < take->n_charges; i++) {
        struct store_charge *charge = &take->charges[i];
        charge->is_charged = false;
        if (!charge->answer.is_allowed) {
            continue;
        }
        struct limit_state state = {0};
        if (places[i].slot != NO_SLOT) {
            state = places[i].set->slots[places[i].slot].state;
        }
        (void)limit_take(charge->limit, &state, take->now, 0, &charge->answer);
    }
}

static uint32_t seconds_up(int64_t us)
{
    int64_t s = us / US_PER_S + 1;
    return s < UINT32_MAX ? (uint32_t)s : UINT32_MAX;
}

static void write_back(struct place *place, const struct store_charge *charge,
                       struct instant now, uint16_t pinned, struct counters *counters)
{
    struct set *set = place->set;
    if (place->slot == NO_SLOT) {
        place->slot = set_claim(set, pinned, (uint32_t)(now.us / US_PER_S), counters);
        set->tags[place->slot] = tag_of(&place->hash);
        set->occupied |= bit_of(place->slot);
    }
    set->referenced |= bit_of(place->slot);
    int64_t until_us = charge->answer.reset_us < LIMIT_WAIT_US_MAX
                           ? now.us + charge->answer.reset_us
                           : INT64_MAX;
    set->slots[place->slot] = (struct slot){
        .hash_hi = place->hash.hi,
        .hash_lo = (uint32_t)place->hash.lo,
        .expires_s = seconds_up(until_us),
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

static void charge_all(struct store_take *take, struct place *places)
{
    for (unsigned i = 0; i < take->n_charges; i++) {
        struct store_charge *charge = &take->charges[i];
        charge->is_charged = charge->answer.is_allowed && charge->cost > 0;
        if (!charge->is_charged) {
            continue;
        }
        uint16_t pinned = places[i].slot == NO_SLOT
                              ? pinned_slots(places, take->n_charges, places[i].set)
                              : 0;
        write_back(&places[i], charge, take->now, pinned, take->counters);
    }
}

static void local_take(struct store *store, struct store_take *take)
{
    const struct local *local = to_local(store);
    UNCLEARED struct place places[STORE_CHARGES_MAX];
    UNCLEARED struct set *sorted[STORE_CHARGES_MAX + 1];
    ENSURE(take->n_charges <= STORE_CHARGES_MAX);

    place_charges(local, take, places);
    unsigned n_sets = sort_sets(places, take->n_charges, sorted);
    for (unsigned i = 0; i < n_sets; i++) {
        set_lock(sorted[i]);
    }
    find_slots(places, take->n_charges);
    take->is_allowed = answer_charges(take, places);
    if (take->is_allowed) {
        charge_all(take, places);
    } else {
        withdraw_all(take, places);
    }
    for (unsigned i = 0; i < n_sets; i++) {
        set_unlock(sorted[i]);
    }
    take->done(take);
}

static void local_free(struct store *store)
{
    struct local *local = to_local(store);
    (void)munmap(local->sets, local->n_sets * sizeof(struct set));
    sodium_memzero(local->secret, sizeof(local->secret));
    free(local);
}

static const struct store_ops local_ops = {
    .name = "local",
    .take = local_take,
    .free = local_free,
};

struct store *local_new(size_t memory_bytes, const uint8_t *secret)
{
    size_t n_sets = memory_bytes / sizeof(struct set);
    if (memory_bytes < LOCAL_MEMORY_BYTES_MIN || n_sets > UINT32_MAX) {
        errno = EINVAL;
        return NULL;
    }
    struct local *local = calloc(1, sizeof(*local));
    if (local == NULL) {
        return NULL;
    }
    void *sets = mmap(NULL, n_sets * sizeof(struct set), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (sets == MAP_FAILED) {
        free(local);
        return NULL;
    }
    /* Counters lie at random places: with small pages each would cost a page walk. */
    (void)madvise(sets, n_sets * sizeof(struct set), MADV_HUGEPAGE);
    local->store.ops = &local_ops;
    local->sets = sets;
    local->n_sets = n_sets;
    memcpy(local->secret, secret, sizeof(local->secret));
    return &local->store;
}

size_t local_capacity(const struct store *store)
{
    /* store is the first member */
    const struct local *local = (const struct local *)store;
    return local->n_sets * LOCAL_WAYS;
}
