/**
 * @file agent/store/hot.h  Which counters Redis is asked about most.
 *
 * Model:     of the charges that go to Redis one in HOT_SAMPLE is noted under the name of its
 *            counter, in a list of HOT_NAMES that is counted anew each second. Where it is
 *            full a new name takes the place of the least and goes on from its count, so that
 *            no hot one is missed (Metwally, Agrawal, El Abbadi: Space-Saving, 2005); what it
 *            may be too high by is known, and taken off.
 * Ownership: hot_new / hot_free.
 * Threads:   any; a lock of one byte (spin.h).
 * Errors:    hot_new answers NULL when memory is short.
 * Limits:    HOT_NAMES; rates below HOT_PER_S_MIN are not told.
 */
#ifndef AGENT_STORE_HOT_H
#define AGENT_STORE_HOT_H

#include "agent/clock.h"
#include "agent/store/store.h"

enum {
    HOT_NAMES = 32,
    HOT_SAMPLE = 16,
    HOT_PER_S_MIN = 2000, /* which one primary carries well */
};

struct hot;

struct hot_name {
    uint64_t per_s; /* charges in the last whole second, at least */
    size_t name_bytes;
    char name[STORE_NAME_BYTES_MAX];
};

MUST_USE struct hot *hot_new(void);

/** NULL is fine. */
void hot_free(struct hot *hot);

/** Note a charge that was chosen by chance, one of HOT_SAMPLE. */
void hot_note(struct hot *hot, const void *name, size_t name_bytes, struct instant now);

/** @param names  room for HOT_NAMES. @return how many are hot, the hottest first */
unsigned hot_read(struct hot *hot, struct instant now, struct hot_name *names);

#endif
