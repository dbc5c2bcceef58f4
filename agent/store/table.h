/**
 * @file agent/store/table.h  A table of fixed size of what workers share about counters.
 *
 * Model:     sets of TABLE_WAYS entries. A counter is its name and the limit as it stands: of
 *            a plan, with an exception. Names are hashed with a secret; 128 bits stand for
 *            them. A new entry takes a free place, else by the second chance that of one
 *            which may go.
 * Ownership: table_init / table_fini. Reserved at start, touched when used.
 * Threads:   any. Each set has a lock of one byte (spin.h); its entries are the caller's
 *            between table_lock and table_unlock.
 * Errors:    table_init answers false when memory is short.
 * Limits:    TABLE_ENTRIES. No allocation later.
 */
#ifndef AGENT_STORE_TABLE_H
#define AGENT_STORE_TABLE_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/store/store.h"

enum {
    TABLE_WAYS = 8,
    TABLE_ENTRIES = 32768,
    TABLE_SECRET_BYTES = 16,
};

struct table_key {
    uint64_t lo;
    uint64_t hi;
};

struct table_set;

struct table {
    size_t entry_bytes;
    size_t set_bytes;
    bool (*may_go)(struct table *table, void *entry, struct instant now);
    uint8_t secret[TABLE_SECRET_BYTES];
    uint8_t *sets;
};

/** @param may_go  whether an entry may be pushed out; called under its lock */
MUST_USE bool table_init(struct table *table, size_t entry_bytes,
                         bool (*may_go)(struct table *table, void *entry,
                                        struct instant now));
void table_fini(struct table *table);

/** Of a charge: of its key (the counter's name) and its limit. */
struct table_key table_key(const struct table *table,
                           const struct store_charge *charge);

/** The set that a key is in, locked. */
struct table_set *table_lock(struct table *table, const struct table_key *key);
void table_unlock(struct table_set *set);

/** @return the entry of a key in its locked set, or NULL */
void *table_find(const struct table *table, struct table_set *set,
                 const struct table_key *key);

/** The same, made where there is none, zeroed. NULL: no other may go. */
void *table_use(struct table *table, struct table_set *set, const struct table_key *key,
                struct instant now);

#endif
