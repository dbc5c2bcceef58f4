/**
 * @file tests/support/alloc_count.h  Count allocations of the whole process, shared
 *       libraries included. Not with sanitizers: they own malloc.
 */
#ifndef TESTS_SUPPORT_ALLOC_COUNT_H
#define TESTS_SUPPORT_ALLOC_COUNT_H

/** Calls of malloc, calloc, realloc and aligned allocation so far. */
unsigned long alloc_count(void);

#endif
