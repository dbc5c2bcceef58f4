#include "rules/table.h"

#include <sodium.h>

bool rules_table_init(struct rules_table *table, struct rules_arena *arena,
                      size_t n_entries_max)
{
    size_t n = 2;

    while (n < 2 * n_entries_max + 2) {
        n *= 2;
    }
    table->mask = (uint32_t)(n - 1);
    randombytes_buf(table->secret, sizeof table->secret);
    table->secret[1] |= 1;
    table->entries = rules_arena_array(arena, n, sizeof *table->entries);
    if (table->entries == NULL) {
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        table->entries[i].value = RULES_NONE;
    }
    return true;
}

uint32_t *rules_table_put(struct rules_table *table, uint32_t tag,
                          struct rules_bytes bytes, uint32_t value)
{
    uint32_t hash = rules_table_hash(table, tag, bytes);
    uint32_t i = hash & table->mask;
    struct rules_entry *entry = &table->entries[i];

    while (entry->value != RULES_NONE) {
        if (rules_entry_is(entry, hash, tag, bytes)) {
            return &entry->value;
        }
        i = (i + 1) & table->mask;
        entry = &table->entries[i];
    }
    *entry = (struct rules_entry){hash, tag, value, (uint32_t)bytes.len, bytes.ptr};
    return &entry->value;
}
