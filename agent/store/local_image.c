/* All counters as an image, and back. */
#include "agent/store/local_parts.h"

/* The live counters of a set, but for logs; returns how many. */
static unsigned set_copy(struct set *set, uint32_t now_s, struct image_record *records)
{
    unsigned n = 0;
    set_lock(set);
    for (unsigned hits = set_occupied(set) & ~(unsigned)set->logs; hits != 0;
         hits &= hits - 1) {
        const struct image_record *slot = &set->slots[__builtin_ctz(hits)];
        if (slot->expires_s > now_s) {
            records[n++] = *slot;
        }
    }
    set_unlock(set);
    return n;
}

/* A bit for each log of a set, which is not locked. */
static unsigned set_logs(struct set *set)
{
    unsigned logs = 0;
    if (set_occupied(set) != 0) {
        set_lock(set);
        logs = set->logs;
        set_unlock(set);
    }
    return logs;
}

/* A live log and its events; returns how many, 0 when the slot has none. */
static unsigned set_copy_log(const struct local *local, struct set *set, unsigned i,
                             uint32_t now_s, struct image_record *record,
                             uint64_t *events)
{
    unsigned n = 0;
    set_lock(set);
    *record = set->slots[i];
    if ((set->logs & bit_of(i)) != 0 && record->expires_s > now_s) {
        n = sliding_log_read(local->pool.blocks, &record->state, events);
    }
    set_unlock(set);
    return n;
}

static void export_counters(const struct local *local, uint32_t now_s,
                            struct image_writer *writer)
{
    struct image_record records[LOCAL_WAYS];
    for (size_t i = 0; i < local->n_sets && !writer->is_failed; i++) {
        struct set *set = &local->sets[i];
        if (set_occupied(set) == 0) {
            continue; /* its memory may never have been touched: leave it so */
        }
        unsigned n = set_copy(set, now_s, records);
        for (unsigned j = 0; j < n; j++) {
            image_write(writer, IMAGE_COUNTERS, &records[j]);
        }
    }
}

/* Two events a record. */
static void export_log(struct image_record *record, const uint64_t *events, unsigned n,
                       struct image_writer *writer)
{
    for (unsigned i = 0; i < n; i += 2) {
        record->state = (struct limit_state){0};
        record->state.events[0] = events[i];
        record->state.events[1] = i + 1 < n ? events[i + 1] : 0;
        image_write(writer, IMAGE_EVENTS, record);
    }
}

static void export_logs(const struct local *local, uint32_t now_s,
                        struct image_writer *writer)
{
    struct image_record record;
    uint64_t events[LOG_USED_MAX];
    for (size_t i = 0; i < local->n_sets && !writer->is_failed; i++) {
        struct set *set = &local->sets[i];
        for (unsigned logs = set_logs(set); logs != 0; logs &= logs - 1) {
            unsigned j = (unsigned)__builtin_ctz(logs);
            unsigned n = set_copy_log(local, set, j, now_s, &record, events);
            export_log(&record, events, n, writer);
        }
    }
}

void local_export(struct store *store, struct instant now, struct image_writer *writer)
{
    const struct local *local = to_local(store);
    uint32_t now_s = (uint32_t)(now.us / US_PER_S);
    export_counters(local, now_s, writer);
    export_logs(local, now_s, writer);
}

/* A slot for what comes from an image: beside the counter's own, if it has one. */
static unsigned set_inherit(struct local *local, struct set *set,
                            const struct hash *hash, uint32_t now_s,
                            struct counters *counters)
{
    unsigned own = set_find(set, hash, set_hits(set, hash));
    unsigned i = local_claim_slot(local, set, hash, own != NO_SLOT ? bit_of(own) : 0,
                                  now_s, counters);
    if (own != NO_SLOT) {
        set->inherited |= bit_of(i);
    }
    return i;
}

static void add_counter(struct local *local, const struct image_record *record,
                        uint32_t now_s, struct counters *counters)
{
    struct hash hash = {.lo = record->hash_lo, .hi = record->hash_hi};
    struct set *set = set_of(local, record->hash_lo);
    set_lock(set);
    set->slots[set_inherit(local, set, &hash, now_s, counters)] = *record;
    set_unlock(set);
    counter_add(counters, COUNTER_LOCAL_RESTORED, 1);
}

/* The slot of a log whose events end before `event`: inherited ones go on so. */
static unsigned set_find_log(const struct local *local, const struct set *set,
                             const struct hash *hash, uint64_t event)
{
    for (unsigned hits = set_hits(set, hash) & set->logs; hits != 0; hits &= hits - 1) {
        unsigned i = (unsigned)__builtin_ctz(hits);
        const struct limit_state *state = &set->slots[i].state;
        if (is_same(&set->slots[i], hash)
            && sliding_log_place(local->pool.blocks, state) <= log_event_us(event)) {
            return i;
        }
    }
    return NO_SLOT;
}

/* Events of one log come in order, so most go on where those before them went. */
static void set_add_event(struct local *local, struct set *set,
                          const struct image_record *record, uint64_t event,
                          uint32_t now_s, struct counters *counters)
{
    struct hash hash = {.lo = record->hash_lo, .hi = record->hash_hi};
    unsigned i = set_find_log(local, set, &hash, event);
    if (i == NO_SLOT) {
        i = set_inherit(local, set, &hash, now_s, counters);
        set->slots[i] = *record;
        set->slots[i].state = (struct limit_state){0};
        set->logs |= bit_of(i);
        counter_add(counters, COUNTER_LOCAL_RESTORED, 1);
    }
    struct limit_state *state = &set->slots[i].state;
    uint32_t block = 0;
    if (state->log.used + log_event_cost(event) > LOG_USED_MAX) {
        return;
    }
    if (sliding_log_is_full(state)) {
        block = local_get_block(local, set, now_s, counters);
        if (block == 0) {
            counter_add(counters, COUNTER_LOCAL_EVENTS_LOST, 1);
            return;
        }
    }
    sliding_log_add(local->pool.blocks, state, block, event);
    if (set->slots[i].expires_s < record->expires_s) {
        set->slots[i].expires_s = record->expires_s;
    }
}

static void add_events(struct local *local, const struct image_record *record,
                       uint32_t now_s, struct counters *counters)
{
    struct set *set = set_of(local, record->hash_lo);
    set_lock(set);
    for (int i = 0; i < 2; i++) {
        if (log_event_cost(record->state.events[i]) > 0) {
            set_add_event(local, set, record, record->state.events[i], now_s, counters);
        }
    }
    set_unlock(set);
}

void local_import(struct store *store, enum image_kind kind,
                  const struct image_record *records, size_t n_records,
                  struct instant now, struct counters *counters)
{
    struct local *local = to_local(store);
    uint32_t now_s = (uint32_t)(now.us / US_PER_S);
    for (size_t i = 0; i < n_records; i++) {
        if (records[i].expires_s <= now_s) {
            continue;
        }
        if (kind == IMAGE_EVENTS) {
            add_events(local, &records[i], now_s, counters);
        } else {
            add_counter(local, &records[i], now_s, counters);
        }
    }
}
