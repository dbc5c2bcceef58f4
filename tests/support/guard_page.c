#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */ /* NOLINT(readability-identifier-naming) */

#include "tests/support/guard_page.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sys/mman.h>

void guard_page_init(struct guard_page *g, size_t cap)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t usable = (cap + page - 1) / page * page;
    g->map_bytes = usable + page;
    g->cap = usable;
    void *map = mmap(NULL, g->map_bytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (map == MAP_FAILED) {
        abort();
    }
    g->map = map;
    if (mprotect(g->map + usable, page, PROT_NONE) != 0) {
        abort();
    }
}

void guard_page_release(struct guard_page *g)
{
    if (munmap(g->map, g->map_bytes) != 0) {
        abort();
    }
    *g = (struct guard_page){0};
}

const uint8_t *guard_page_place(struct guard_page *g, const void *bytes, size_t len)
{
    if (len > g->cap) {
        abort();
    }
    uint8_t *place = g->map + (g->cap - len);
    if (len > 0) {
        memcpy(place, bytes, len);
    }
    return place;
}
