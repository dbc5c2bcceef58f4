/**
 * @file tests/support/death.h  Does an assertion hold?
 *
 * Model:     the function runs in a child process.
 * Ownership: borrows its arguments.
 * Threads:   call it from the only thread.
 * Errors:    abort where there is no child to be had.
 */
#ifndef TESTS_SUPPORT_DEATH_H
#define TESTS_SUPPORT_DEATH_H

#include <stdbool.h>

/** @return true when `run(arg)` aborts. */
bool death_by_abort(void (*run)(void *arg), void *arg);

#endif
