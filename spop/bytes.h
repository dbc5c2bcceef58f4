/**
 * @file spop/bytes.h  Small helpers for borrowed byte ranges.
 *
 * Model:     pure functions.
 * Ownership: borrow in, borrow out.
 * Threads:   no shared state.
 * Errors:    none.
 * Limits:    none.
 */
#ifndef SPOP_BYTES_H
#define SPOP_BYTES_H

#include "spop/spop.h"

/** @return a view of the C string `text`, without its NUL. */
struct spop_bytes spop_bytes_view(const char *text);

/** @return true when `bytes` are exactly those of `text`; letter case counts. */
bool spop_bytes_is(struct spop_bytes bytes, const char *text);

#endif
