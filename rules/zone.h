/**
 * @file rules/zone.h  Time zones: how far local time is ahead of UTC, and since when.
 *
 * Model:     the system's time zone database (TZif, RFC 8536) read into a sorted list of
 *            changes of the offset. The rule at a file's end that says how it goes on is
 *            turned into changes, too, up to ZONE_YEAR_MAX; after that the last holds.
 *            `UTC` needs no file.
 * Ownership: all in the arena that it was read into.
 * Threads:   no shared state, none of libc's notion of a zone; a zone never changes.
 * Errors:    a closed enum.
 * Limits:    files of RULES_ZONE_BYTES_MAX; offsets below 26 hours.
 */
#ifndef RULES_ZONE_H
#define RULES_ZONE_H

#include "rules/arena.h"

enum {
    RULES_ZONE_BYTES_MAX = 65536,
    RULES_ZONE_NAME_BYTES_MAX = 64,
    RULES_ZONE_YEAR_MAX = 2106, /* when seconds no longer fit 32 bits */
    RULES_ZONE_OFFSET_S_MAX = 26 * 3600,
};

/** From `at_s` on, local time is ahead of UTC by `offset_s`. */
struct rules_zone_change {
    int64_t at_s;
    int64_t offset_s;
};

struct rules_zone {
    const char *name;
    struct rules_zone *next; /* of those that were read */
    uint32_t n_changes;      /* at least 1: the first is before all time */
    struct rules_zone_change *changes;
};

enum rules_zone_status {
    RULES_ZONE_OK = 0,
    RULES_ZONE_UNKNOWN,   /* no such name, or no file for it */
    RULES_ZONE_DAMAGED,   /* the file is not TZif of version 2 or later */
    RULES_ZONE_NO_MEMORY, /* the arena's */
};

/**
 * Read a zone of /usr/share/zoneinfo by its IANA name.
 *
 * @errors all but RULES_ZONE_OK; nothing is left in the arena then but where memory ran
 *         out: a file may name thousands of zones that there are not
 */
RULES_MUST_USE enum rules_zone_status rules_zone_load(struct rules_bytes name,
                                                      struct rules_arena *arena,
                                                      struct rules_zone **zone);

/** The same with the bytes of its file. */
RULES_MUST_USE enum rules_zone_status rules_zone_parse(struct rules_bytes name,
                                                       struct rules_bytes file,
                                                       struct rules_arena *arena,
                                                       struct rules_zone **zone);

/** @return a copy in another arena, or NULL */
RULES_MUST_USE struct rules_zone *rules_zone_copy(const struct rules_zone *zone,
                                                  struct rules_arena *arena);

/** @return the change that holds at a time */
const struct rules_zone_change *rules_zone_at(const struct rules_zone *zone,
                                              int64_t at_s);

/** @return the first second at which local time shows `local_s` or later */
int64_t rules_zone_first_s(const struct rules_zone *zone, int64_t local_s);

#endif
