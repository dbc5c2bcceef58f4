/**
 * @file agent/store/local.h  Counters in this process: a table of fixed size.
 *
 * Model:     sets of LOCAL_WAYS slots. A key is hashed with a secret (no key text is
 *            kept, nobody can aim at a set); 96 bits of the hash, kept in the slot, stand
 *            for it and say which set it is in. A new key takes a free or expired slot,
 *            else the first one not used again since the hand last passed (second
 *            chance); one that refused a request since has a third. An absent key is an
 *            untouched counter, so eviction is generous, never strict. A refusal changes
 *            no count but marks its slot: a client over its limit keeps its counter. A peek
 *            marks nothing.
 *
 *            The events of a sliding log are in blocks of a pool beside the table, which
 *            has its part of the memory. An event for which there is no block takes one
 *            from another log, again by second chance, from block to block; where that
 *            finds none in LOCAL_RECLAIM_STEPS it is not recorded, and counted as lost.
 *
 *            All counters can be written as an image (image.h) and be read into another
 *            table, of any size, that has the same secret and runs on the same clock.
 *            What is read is added: where the table has a counter of that hash, the
 *            record waits in a slot beside it, marked as inherited, until the next take
 *            of that counter, which knows its limit, merges the two.
 * Ownership: local_new / store_free. All memory is reserved at start, touched when used.
 * Threads:   any number of threads. Each set has a one-byte lock (spin.h). A take locks the
 *            sets of all its charges in address order, holds them for the arithmetic and
 *            nothing else, and so is atomic among threads. A settlement does the same for
 *            its one set.
 *
 *            | with           | take, export, import   | free         |
 *            | -------------- | ---------------------- | ------------ |
 *            | take, settle   | concurrent (set locks) | not allowed  |
 *            | export, import | concurrent (set locks) | not allowed  |
 *
 *            An export locks one set at a time, for a copy: it shows each counter as it
 *            stood at some moment of the export, each once.
 * Errors:    local_new answers NULL with errno when the memory cannot be had.
 * Limits:    LOCAL_COUNTER_BYTES a counter, 8 bytes an event of a log (64 a block of 7);
 *            completes before take and settle return; allocates, logs and waits for nothing.
 */
#ifndef AGENT_STORE_LOCAL_H
#define AGENT_STORE_LOCAL_H

#include <stddef.h>
#include <stdint.h>

#include "agent/store/image.h"
#include "agent/store/store.h"

enum {
    LOCAL_WAYS = 16,
    LOCAL_COUNTER_BYTES = 36,  /* a set over its slots, lock and tags included */
    LOCAL_RECLAIM_STEPS = 256, /* from block to block, in search of room for an event */
    LOCAL_SECRET_BYTES = 16,
    LOCAL_MEMORY_BYTES_MIN = 65536,
    LOCAL_LOG_BYTES_MIN = 128,
};

/**
 * Make a table.
 *
 * @param memory_bytes  hard cap, at least LOCAL_MEMORY_BYTES_MIN
 * @param log_bytes     of these, for the events of sliding logs: LOCAL_LOG_BYTES_MIN to half
 *                      of them
 * @param secret        LOCAL_SECRET_BYTES random bytes, copied
 * @return the store, or NULL and errno
 */
MUST_USE struct store *local_new(size_t memory_bytes, size_t log_bytes,
                                 const uint8_t *secret);

/** @return slots of the table */
size_t local_capacity(const struct store *store);

/** @return the LOCAL_SECRET_BYTES it was made with; live as long as the store */
const uint8_t *local_secret(const struct store *store);

/** Write the counters that are not as if untouched at `now`. */
void local_export(struct store *store, struct instant now, struct image_writer *writer);

/**
 * Add counters, but those that are as if untouched at `now`. Those that find no room push
 * others out, as new keys do.
 *
 * @param counters  of the calling thread
 */
void local_import(struct store *store, enum image_kind kind,
                  const struct image_record *records, size_t n_records,
                  struct instant now, struct counters *counters);

#endif
