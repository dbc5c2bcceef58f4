/**
 * @file tests/support/alloc_probe.h  Count the allocations of the whole process, shared
 *       libraries included, and make one of them fail.
 *
 * Model:     malloc and its relatives are defined here, so that every library uses them.
 *            Linking the file is enough; not with sanitizers: they own malloc.
 * Ownership: none.
 * Threads:   any; the counts are of all threads together.
 * Errors:    none.
 */
#ifndef TESTS_SUPPORT_ALLOC_PROBE_H
#define TESTS_SUPPORT_ALLOC_PROBE_H

#include <stdbool.h>

/** Allocations asked for so far. */
unsigned long alloc_count(void);

/** Blocks allocated and not yet freed. */
long alloc_live(void);

/** Let the n-th allocation from now on fail, 1 being the next; 0 lets none fail. */
void alloc_fail_at(unsigned long n);

/** Whether the allocation that alloc_fail_at chose was asked for, and failed. */
bool alloc_has_failed(void);

/** For ev_set_allocator: neither counted nor failed. libev itself aborts without memory. */
void *alloc_spared(void *ptr, long size);

#endif
