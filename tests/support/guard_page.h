/**
 * @file tests/support/guard_page.h  Memory with a hard end: one byte further traps.
 *
 * Model:     pages with an unreadable one after them; a copy is placed against it, so
 *            that a read past its last byte kills the test.
 * Ownership: init maps, release unmaps; place returns a view into the mapping.
 * Threads:   one struct, one thread.
 * Errors:    abort: a test without its guard proves nothing.
 */
#ifndef TESTS_SUPPORT_GUARD_PAGE_H
#define TESTS_SUPPORT_GUARD_PAGE_H

#include <stddef.h>
#include <stdint.h>

struct guard_page {
    uint8_t *map;
    size_t map_bytes;
    size_t cap; /* most bytes that can be placed */
};

void guard_page_init(struct guard_page *g, size_t cap);
void guard_page_release(struct guard_page *g);

/** @return a copy of `bytes` that ends where the guard begins. */
const uint8_t *guard_page_place(struct guard_page *g, const void *bytes, size_t len);

#endif
