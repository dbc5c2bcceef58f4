#include "rules/arena.h"

#include <stdalign.h>
#include <stdlib.h>
#include <string.h>

#ifdef __has_feature
#    if __has_feature(address_sanitizer)
#        define ARENA_IS_CHECKED
#    endif
#endif
#ifdef __SANITIZE_ADDRESS__
#    define ARENA_IS_CHECKED
#endif

/* Under AddressSanitizer each piece gets its own chunk, so that a read past one is seen. */
#ifdef ARENA_IS_CHECKED
enum {
    CHUNK_BYTES = 1
};
#else
enum {
    CHUNK_BYTES = 32 * 1024
};
#endif

struct rules_chunk {
    struct rules_chunk *next;
    size_t used_bytes;
    size_t cap_bytes;
    alignas(max_align_t) uint8_t bytes[];
};

void rules_arena_fini(struct rules_arena *arena)
{
    while (arena->chunks != NULL) {
        struct rules_chunk *chunk = arena->chunks;

        arena->chunks = chunk->next;
        free(chunk);
    }
}

static struct rules_chunk *chunk_new(struct rules_arena *arena, size_t bytes)
{
    size_t cap_bytes = bytes > CHUNK_BYTES ? bytes : CHUNK_BYTES;
    struct rules_chunk *chunk = NULL;

    if (cap_bytes <= SIZE_MAX - sizeof *chunk) {
        chunk = malloc(sizeof *chunk + cap_bytes);
    }
    if (chunk == NULL) {
        return NULL;
    }
    chunk->next = arena->chunks;
    chunk->used_bytes = 0;
    chunk->cap_bytes = cap_bytes;
    arena->chunks = chunk;
    return chunk;
}

void *rules_arena_array(struct rules_arena *arena, size_t n, size_t size)
{
    const size_t align = alignof(max_align_t);
    struct rules_chunk *chunk = arena->chunks;

    if (size > 0 && n > (SIZE_MAX - align) / size) {
        return NULL;
    }

    size_t bytes = n * size;
    size_t room_bytes = (bytes + align - 1) / align * align;

    if (chunk == NULL || room_bytes > chunk->cap_bytes - chunk->used_bytes) {
        chunk = chunk_new(arena, bytes);
    }
    if (chunk == NULL) {
        return NULL;
    }

    void *piece = chunk->bytes + chunk->used_bytes;

    chunk->used_bytes += room_bytes < chunk->cap_bytes ? room_bytes : chunk->cap_bytes;
    return memset(piece, 0, bytes);
}

char *rules_arena_dup(struct rules_arena *arena, const void *bytes, size_t len)
{
    char *copy = len < SIZE_MAX ? rules_arena_array(arena, len + 1, 1) : NULL;

    if (copy != NULL && len > 0) {
        memcpy(copy, bytes, len);
    }
    return copy;
}
