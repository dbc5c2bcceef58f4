/**
 * @file rules/table.h  A hash table from (tag, bytes) to a number, filled once.
 *
 * Model:     open addressing, at most half full. Holds only what the rules file says:
 *            values of clients are looked up, never put in, so they cannot flood it and
 *            a fast hash without a secret is enough.
 * Ownership: entries lie in the arena given to init; bytes are borrowed.
 * Threads:   read-only after the last put.
 * Errors:    init: false when memory ran out.
 * Limits:    as many entries as init was told.
 */
#ifndef RULES_TABLE_H
#define RULES_TABLE_H

#include "rules/arena.h"
#include "rules/bytes.h"

/** No number: what find returns when there is nothing. */
#define RULES_NONE UINT32_MAX

struct rules_entry {
    uint32_t hash;
    uint32_t tag;
    uint32_t value; /* RULES_NONE: the entry is free */
    uint32_t len;
    const uint8_t *ptr;
};

struct rules_table {
    struct rules_entry *entries;
    uint32_t mask;
};

RULES_MUST_USE bool rules_table_init(struct rules_table *table,
                                     struct rules_arena *arena, size_t n_entries_max);

/**
 * Find or add an entry.
 *
 * @param value  what a new entry holds
 * @return where its value is kept; may be changed
 */
uint32_t *rules_table_put(struct rules_table *table, uint32_t tag,
                          struct rules_bytes bytes, uint32_t value);

static inline uint32_t rules_table_hash(uint32_t tag, struct rules_bytes bytes)
{
    const uint64_t odd = UINT64_C(0x9e3779b97f4a7c15);
    uint64_t hash = ((uint64_t)tag + 1) * odd ^ bytes.len;
    uint64_t word = 0;
    const uint8_t *p = bytes.ptr;
    size_t left = bytes.len;

    for (; left > 8; left -= 8, p += 8) {
        memcpy(&word, p, 8);
        hash = (hash ^ word) * odd;
        hash ^= hash >> 32;
    }
    word = rules_bytes_word(p, left);
    hash = (hash ^ word) * odd;
    hash ^= hash >> 32;
    return (uint32_t)(hash * odd >> 32);
}

static inline bool rules_entry_is(const struct rules_entry *entry, uint32_t hash,
                                  uint32_t tag, struct rules_bytes bytes)
{
    return entry->hash == hash && entry->tag == tag
           && rules_bytes_equal((struct rules_bytes){entry->ptr, entry->len}, bytes);
}

/** @return the value of an entry, or RULES_NONE */
static inline uint32_t rules_table_find(const struct rules_table *table, uint32_t tag,
                                        struct rules_bytes bytes)
{
    uint32_t hash = rules_table_hash(tag, bytes);

    for (uint32_t i = hash & table->mask;; i = (i + 1) & table->mask) {
        const struct rules_entry *entry = &table->entries[i];

        if (entry->value == RULES_NONE) {
            return RULES_NONE;
        }
        if (rules_entry_is(entry, hash, tag, bytes)) {
            return entry->value;
        }
    }
}

#endif
