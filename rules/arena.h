/**
 * @file rules/arena.h  Memory that is allocated piece by piece and freed whole.
 *
 * Model:     a list of chunks; pieces are zeroed and aligned for any object.
 * Ownership: the arena owns every piece. Zeroed is empty; fini accepts that.
 * Threads:   one arena, one thread; finished contents may be shared read-only.
 * Errors:    NULL when memory ran out; the arena stays usable and can be freed.
 * Limits:    none of its own: callers bound what they ask for.
 */
#ifndef RULES_ARENA_H
#define RULES_ARENA_H

#include "rules/rules.h"

struct rules_chunk;

struct rules_arena {
    struct rules_chunk *chunks;
};

void rules_arena_fini(struct rules_arena *arena);

/** @return n zeroed objects of `size` bytes (never NULL for n = 0), or NULL */
RULES_MUST_USE void *rules_arena_array(struct rules_arena *arena, size_t n,
                                       size_t size);

/** @return a copy with a NUL behind it, or NULL */
RULES_MUST_USE char *rules_arena_dup(struct rules_arena *arena, const void *bytes,
                                     size_t len);

#endif
