/**
 * @file tests/support/alloc_failure.h  The law of short memory: whichever allocation fails,
 *       what needed it says so, and leaves nothing behind.
 *
 * Model:     run it with its first allocation failing, then its second, until there are
 *            fewer. Link alloc_probe.c too.
 * Ownership: none.
 * Threads:   what runs may have threads; one test at a time.
 * Errors:    a failure of the test that calls.
 */
#ifndef TESTS_SUPPORT_ALLOC_FAILURE_H
#define TESTS_SUPPORT_ALLOC_FAILURE_H

#include <stdbool.h>

/** One run was `ok`, had its allocation or not, and leaked: fail where that is wrong. */
void alloc_failure_judge(unsigned n, bool ok, bool has_failed, long n_leaked);

/**
 * @param works  false when it failed as it should; frees all it makes
 * @param least  allocations that it is known to make, at least
 */
void alloc_failure_each(bool (*works)(void), unsigned least);

#endif
