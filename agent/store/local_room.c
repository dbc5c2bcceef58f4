/* Where a counter or an event goes that is not there yet, and what is pushed out for it. */
#include "agent/store/local_parts.h"

/* All slots one after another: its home, the other of its cache line, then line by line. */
static unsigned nth_slot(unsigned home, unsigned n)
{
    return home ^ n;
}

/* A slot for a new counter: free, else expired, else the second chance; near its home before
 * others. Slots of `pinned` belong to other charges of the same take. */
static unsigned set_find_room(struct set *set, unsigned home, uint16_t pinned,
                              uint32_t now_s, struct counters *counters)
{
    unsigned occupied = set_occupied(set);
    for (unsigned n = 0; n < LOCAL_WAYS; n++) {
        unsigned i = nth_slot(home, n);
        if ((occupied & bit_of(i)) == 0) {
            counter_add(counters, COUNTER_LOCAL_FILLED, 1);
            return i;
        }
    }
    for (unsigned n = 0; n < LOCAL_WAYS; n++) {
        unsigned i = nth_slot(home, n);
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
        uint16_t *chance = (set->referenced & bit_of(i)) != 0 ? &set->referenced
                                                              : &set->refused;
        if ((*chance & bit_of(i)) == 0) {
            counter_add(counters, COUNTER_LOCAL_EVICTED, 1);
            return i;
        }
        *chance &= (uint16_t)~bit_of(i);
    }
}

/* Let go of a slot's events, if it is a log: it is as if untouched then. */
static void set_drop_log(struct local *local, struct set *set, unsigned i)
{
    if ((set->logs & bit_of(i)) == 0) {
        return;
    }
    const struct limit_state *state = &set->slots[i].state;
    log_pool_put(&local->pool, (struct log_chain){state->log.first, state->log.last});
    set->logs &= (uint16_t)~bit_of(i);
    set->slots[i] = (struct image_record){0}; /* expired: the next to be filled */
}

/* Let go of the log that begins with a block: when it is expired, or was not used again
 * since the hand last passed. @return whether it did */
static bool set_reclaim(struct local *local, struct set *set, uint32_t block,
                        uint32_t now_s, struct counters *counters)
{
    unsigned logs = set->logs;
    while (logs != 0 && set->slots[__builtin_ctz(logs)].state.log.first != block) {
        logs &= logs - 1;
    }
    if (logs == 0) {
        return false;
    }
    unsigned i = (unsigned)__builtin_ctz(logs);
    if (set->slots[i].expires_s > now_s) {
        uint16_t *chance = (set->referenced & bit_of(i)) != 0 ? &set->referenced
                                                              : &set->refused;
        if ((*chance & bit_of(i)) != 0) {
            *chance &= (uint16_t)~bit_of(i);
            return false;
        }
        counter_add(counters, COUNTER_LOCAL_EVICTED, 1);
    }
    set_drop_log(local, set, i);
    return true;
}

/* The hand goes from block to block; that of a log's begin asks for the log. Sets that are
 * locked, by this thread or another, are passed over. */
static bool reclaim_one(struct local *local, uint32_t now_s, struct counters *counters)
{
    uint32_t n_blocks = local->pool.n_blocks - 1;
    uint32_t hand = atomic_fetch_add_explicit(&local->hand, 1, memory_order_relaxed);
    uint32_t block = 1 + hand % n_blocks;
    uint32_t owner = atomic_load_explicit(&local->pool.blocks[block].owner,
                                          memory_order_relaxed);
    struct set *set = &local->sets[owner];
    if (!spin_try_lock(&set->lock)) {
        return false;
    }
    bool has_room = set_reclaim(local, set, block, now_s, counters);
    set_unlock(set);
    return has_room;
}

uint32_t local_get_block(struct local *local, const struct set *set, uint32_t now_s,
                         struct counters *counters)
{
    uint32_t block = log_pool_get(&local->pool);
    for (unsigned i = 0; i < LOCAL_RECLAIM_STEPS && block == 0; i++) {
        if (reclaim_one(local, now_s, counters)) {
            block = log_pool_get(&local->pool);
        }
    }
    if (block != 0) {
        atomic_store_explicit(&local->pool.blocks[block].owner,
                              (uint32_t)(set - local->sets), memory_order_relaxed);
    }
    return block;
}

unsigned local_claim_slot(struct local *local, struct set *set, const struct hash *hash,
                          uint16_t pinned, uint32_t now_s, struct counters *counters)
{
    unsigned i = set_find_room(set, home_of(hash), pinned, now_s, counters);
    set_drop_log(local, set, i);
    set->tags[i] = tag_of(hash);
    set_occupy(set, set_occupied(set) | bit_of(i));
    set->referenced &= (uint16_t)~bit_of(i);
    set->refused &= (uint16_t)~bit_of(i);
    set->inherited &= (uint16_t)~bit_of(i);
    return i;
}
