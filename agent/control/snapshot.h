/**
 * @file agent/control/snapshot.h  The file that carries counters over a restart.
 *
 * Model:     DIR/counters.snapshot is an image (agent/store/image.h) of all live counters.
 *            It is written aside as counters.snapshot.new, brought to the disk and then
 *            renamed: whatever happens, the file is a whole one, old or new. It is read
 *            twice: once for a verdict on the whole, then for its records.
 * Ownership: a found snapshot holds a descriptor until snapshot_close.
 * Threads:   any; a lock on the directory keeps two writers of any process apart.
 * Errors:    a text for people that names the path and the mend.
 * Limits:    memory for one block of an image. Waits for the disk.
 */
#ifndef AGENT_CONTROL_SNAPSHOT_H
#define AGENT_CONTROL_SNAPSHOT_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/base.h"
#include "agent/observe/counters.h"
#include "agent/store/image.h"
#include "agent/store/store.h"

#define SNAPSHOT_FILE "counters.snapshot"

enum {
    SNAPSHOT_ERROR_BYTES_MAX = 640
};

/**
 * Write the live counters of a local store, mode 0600.
 *
 * @param n_records  out: how many
 * @param error      SNAPSHOT_ERROR_BYTES_MAX bytes, filled on failure; the file is then as
 *                   it was
 */
MUST_USE bool snapshot_write(const char *dir, struct store *store, uint64_t *n_records,
                             char *error);

struct snapshot {
    int fd;
    struct image_origin origin;
};

enum snapshot_found {
    SNAPSHOT_NONE = 0, /* there is no such file */
    SNAPSHOT_GOOD,
    SNAPSHOT_BAD, /* error says why; the file is left where it is */
};

/**
 * Look for a snapshot and read it to its end.
 *
 * @param snapshot  filled when SNAPSHOT_GOOD; then to be closed
 * @param error     SNAPSHOT_ERROR_BYTES_MAX bytes: why it is bad; for a good one a warning,
 *                  or empty
 */
MUST_USE enum snapshot_found snapshot_open(const char *dir, struct snapshot *snapshot,
                                           char *error);

/**
 * Add the counters of a good snapshot to a store that has its secret; the agent runs on
 * its clock.
 *
 * @return false when the file changed meanwhile: what was read until then stays
 */
MUST_USE bool snapshot_restore(const struct snapshot *snapshot, struct store *store,
                               struct counters *counters);

void snapshot_close(struct snapshot *snapshot);

#endif
