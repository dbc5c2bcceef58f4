/**
 * @file rules/table.h  A hash table from (tag, bytes) to a number, filled once.
 *
 * Model:     open addressing, at most half full. Holds only what the rules file says:
 *            values of clients are looked up, never put in. The hash is a fast one, with a
 *            secret of each table's own: no file is slow to load by what it says.
 * Ownership: entries lie in the arena given to init; bytes are borrowed.
 * Threads:   read-only after the last put.
 * Errors:    init: false when memory ran out. The program calls sodium_init first.
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
    uint64_t secret[2];
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

/** The halves of a product, folded: each bit of a word moves all bits, in ways that the
 * factor decides. */
static inline uint64_t rules_table_mix(uint64_t word, uint64_t factor)
{
    __extension__ typedef unsigned __int128 wide;
    wide product = (wide)word * factor;

    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

/** @param secret  random; the second one odd */
static inline uint32_t rules_hash(const uint64_t secret[2], uint32_t tag,
                                  struct rules_bytes bytes)
{
    const uint64_t odd = UINT64_C(0x9e3779b97f4a7c15);
    uint64_t factor = secret[1];
    uint64_t hash = secret[0] ^ ((uint64_t)tag + 1) * odd ^ bytes.len;
    uint64_t word = 0;
    const uint8_t *p = bytes.ptr;
    size_t left = bytes.len;

    for (; left > 8; left -= 8, p += 8) {
        memcpy(&word, p, 8);
        hash = rules_table_mix(hash ^ word, factor);
    }
    word = rules_bytes_word(p, left);
    hash = rules_table_mix(hash ^ word, factor);
    return (uint32_t)(hash * odd >> 32);
}

static inline uint32_t rules_table_hash(const struct rules_table *table, uint32_t tag,
                                        struct rules_bytes bytes)
{
    return rules_hash(table->secret, tag, bytes);
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
    uint32_t hash = rules_table_hash(table, tag, bytes);

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
