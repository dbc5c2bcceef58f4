#include "agent/store/table.h"

#include <string.h>

#include <sys/mman.h>

#include <sodium.h>

#include "agent/store/spin.h"

enum {
    SETS = TABLE_ENTRIES / TABLE_WAYS,
    LINE_BYTES = 64,
};

struct table_set {
    _Alignas(LINE_BYTES) _Atomic uint8_t lock;
    /* guarded by lock, as are the entries behind it: */
    uint8_t hand;
    uint8_t occupied;   /* a bit for each entry */
    uint8_t referenced; /* used again since the hand last passed */
    struct table_key keys[TABLE_WAYS];
};

_Static_assert((int)TABLE_SECRET_BYTES == (int)crypto_shorthash_siphashx24_KEYBYTES,
               "its key");

static uint8_t bit_of(unsigned i)
{
    return (uint8_t)(1U << i);
}

static void *entry_at(const struct table *table, struct table_set *set, unsigned i)
{
    return (uint8_t *)set + sizeof(*set) + i * table->entry_bytes;
}

bool table_init(struct table *table, size_t entry_bytes,
                bool (*may_go)(struct table *table, void *entry, struct instant now))
{
    size_t bytes = sizeof(struct table_set) + TABLE_WAYS * entry_bytes;
    table->entry_bytes = entry_bytes;
    table->set_bytes = (bytes + LINE_BYTES - 1) / LINE_BYTES * LINE_BYTES;
    table->may_go = may_go;
    randombytes_buf(table->secret, sizeof(table->secret));
    void *sets = mmap(NULL, SETS * table->set_bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    table->sets = sets != MAP_FAILED ? sets : NULL;
    return table->sets != NULL;
}

void table_fini(struct table *table)
{
    if (table->sets != NULL) {
        (void)munmap(table->sets, SETS * table->set_bytes);
    }
}

struct table_key table_key(const struct table *table, const struct store_charge *charge)
{
    struct table_key key;
    _Static_assert(sizeof(key) == crypto_shorthash_siphashx24_BYTES, "128 bits");
    (void)crypto_shorthash_siphashx24((uint8_t *)&key, charge->key, charge->key_bytes,
                                      table->secret);
    key.hi ^= (uint64_t)charge->limit->requests << 32 | (uint64_t)charge->limit->size;
    return key;
}

struct table_set *table_lock(struct table *table, const struct table_key *key)
{
    void *at = table->sets + key->lo % SETS * table->set_bytes;
    struct table_set *set = at;
    spin_lock(&set->lock);
    return set;
}

void table_unlock(struct table_set *set)
{
    spin_unlock(&set->lock);
}

void *table_find(const struct table *table, struct table_set *set,
                 const struct table_key *key)
{
    for (unsigned i = 0; i < TABLE_WAYS; i++) {
        if ((set->occupied & bit_of(i)) != 0 && set->keys[i].lo == key->lo
            && set->keys[i].hi == key->hi) {
            set->referenced |= bit_of(i);
            return entry_at(table, set, i);
        }
    }
    return NULL;
}

/* The place for a new entry; TABLE_WAYS: there is none. */
static unsigned find_place(struct table *table, struct table_set *set,
                           struct instant now)
{
    for (unsigned n = 0; n < 2 * TABLE_WAYS; n++) {
        unsigned i = set->hand;
        set->hand = (uint8_t)((i + 1) % TABLE_WAYS);
        if ((set->occupied & bit_of(i)) == 0) {
            return i;
        }
        if ((set->referenced & bit_of(i)) == 0
            && table->may_go(table, entry_at(table, set, i), now)) {
            return i;
        }
        set->referenced &= (uint8_t)~bit_of(i);
    }
    return TABLE_WAYS;
}

void *table_use(struct table *table, struct table_set *set, const struct table_key *key,
                struct instant now)
{
    void *entry = table_find(table, set, key);
    if (entry != NULL) {
        return entry;
    }
    unsigned i = find_place(table, set, now);
    if (i == TABLE_WAYS) {
        return NULL;
    }
    entry = entry_at(table, set, i);
    memset(entry, 0, table->entry_bytes);
    set->keys[i] = *key;
    set->occupied |= bit_of(i);
    return entry;
}
