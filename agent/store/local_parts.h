/**
 * @file agent/store/local_parts.h  What the parts of the local store know together.
 *
 * Model:     local.c takes and settles; local_room.c finds room for a counter or an event
 *            that is not there yet; local_image.c writes counters down and adds them.
 *            Whatever looks at a set, but for its `lock` and `occupied`, has it locked.
 */
#ifndef AGENT_STORE_LOCAL_PARTS_H
#define AGENT_STORE_LOCAL_PARTS_H

#include <stdatomic.h>
#include <string.h>

#include "agent/base.h"
#include "agent/store/local.h"
#include "agent/store/log_pool.h"
#include "agent/store/spin.h"

enum {
    NO_SLOT = LOCAL_WAYS
};

struct hash {
    uint64_t lo;
    uint64_t hi;
};

/* 576 bytes. A lookup touches the head and one slot: a cache line each. */
struct set {
    _Alignas(64) _Atomic uint8_t lock;
    /* guarded by lock: */
    uint8_t hand;              /* where the next search for a victim begins */
    _Atomic uint16_t occupied; /* a bit for each slot; peeked at without the lock */
    uint16_t referenced;       /* used again since the hand last passed */
    uint16_t refused;          /* refused a request since then: one chance more */
    uint16_t inherited;        /* to be added to another slot of the same hash */
    uint16_t logs; /* sliding logs: their events are in blocks of the pool */
    uint16_t tags[LOCAL_WAYS]; /* of the hash in each slot */
    _Alignas(64) struct image_record slots[LOCAL_WAYS];
};

_Static_assert(sizeof(struct set) == (size_t)LOCAL_WAYS * LOCAL_COUNTER_BYTES,
               "the stated bytes of a counter");
_Static_assert((int)LOCAL_SECRET_BYTES == (int)IMAGE_SECRET_BYTES, "one secret");

struct local {
    struct store store;
    struct set *sets;
    size_t n_sets;
    struct log_pool pool;  /* of the events of sliding logs */
    _Atomic uint32_t hand; /* block where the next search for one begins */
    uint8_t secret[LOCAL_SECRET_BYTES];
};

static inline struct local *to_local(struct store *store)
{
    return CONTAINER_OF(store, struct local, store);
}

/* The set follows from what a slot keeps of the hash. */
static inline struct set *set_of(const struct local *local, uint32_t hash_lo)
{
    return &local->sets[(size_t)(hash_lo * (uint64_t)local->n_sets >> 32)];
}

static inline uint16_t tag_of(const struct hash *hash)
{
    return (uint16_t)hash->hi;
}

static inline uint16_t bit_of(unsigned slot)
{
    return (uint16_t)(1U << slot);
}

static inline void set_lock(struct set *set)
{
    spin_lock(&set->lock);
}

static inline void set_unlock(struct set *set)
{
    spin_unlock(&set->lock);
}

static inline unsigned set_occupied(const struct set *set)
{
    return atomic_load_explicit(&set->occupied, memory_order_relaxed);
}

/* Only under the lock: no read-modify-write instruction is needed. */
static inline void set_occupy(struct set *set, unsigned occupied)
{
    atomic_store_explicit(&set->occupied, (uint16_t)occupied, memory_order_relaxed);
}

static inline bool is_same(const struct image_record *slot, const struct hash *hash)
{
    return slot->hash_hi == hash->hi && slot->hash_lo == (uint32_t)hash->lo;
}

/* Half of a set's tags side by side. */
typedef uint16_t tag_lanes __attribute__((vector_size(LOCAL_WAYS)));

/* The bits of those slots of a half, `bits` for all, that have the tag. */
static inline tag_lanes lanes_hits(const uint16_t *tags, uint16_t tag, tag_lanes bits)
{
    tag_lanes lanes;
    memcpy(&lanes, tags, sizeof(lanes));
    return (tag_lanes)(lanes == tag) & bits;
}

/* A bit for each slot that may hold the hash. */
static inline unsigned set_hits(const struct set *set, const struct hash *hash)
{
    static const tag_lanes low = {0x1, 0x2, 0x4, 0x8, 0x10, 0x20, 0x40, 0x80};
    uint16_t tag = tag_of(hash);
    tag_lanes lanes = lanes_hits(set->tags, tag, low)
                      | lanes_hits(set->tags + LOCAL_WAYS / 2, tag, low << 8);
    uint64_t words[2];
    memcpy(words, &lanes, sizeof(words));
    uint64_t hits = words[0] | words[1];
    hits |= hits >> 32;
    hits |= hits >> 16;
    return (unsigned)hits & set_occupied(set);
}

/* The slot among `hits` that holds the hash; NO_SLOT when none does. */
static inline unsigned set_find(const struct set *set, const struct hash *hash,
                                unsigned hits)
{
    for (; hits != 0; hits &= hits - 1) {
        unsigned i = (unsigned)__builtin_ctz(hits);
        if (is_same(&set->slots[i], hash)) {
            return i;
        }
    }
    return NO_SLOT;
}

/* The slot that a counter gets where it can, else the other of its cache line: a guess that is
 * mostly right, so that a counter is fetched from memory together with the head of its set, not
 * after it. */
static inline unsigned home_of(const struct hash *hash)
{
    return (unsigned)(hash->hi >> 32) % LOCAL_WAYS;
}

/**
 * Room for a counter that the set does not hold, pushing out another where there is none. It
 * counts as used only when it is used again: keys that come once push each other out, not
 * those that come often.
 *
 * @param pinned  a bit for each slot that stays
 * @return the slot, which has the hash's tag and is to be written
 */
unsigned local_claim_slot(struct local *local, struct set *set, const struct hash *hash,
                          uint16_t pinned, uint32_t now_s, struct counters *counters);

/** A block for an event of a log in a set, which is locked; 0: there is none, after
 *  LOCAL_RECLAIM_STEPS. */
uint32_t local_get_block(struct local *local, const struct set *set, uint32_t now_s,
                         struct counters *counters);

#endif
