/**
 * @file agent/control/watch.h  Files that are looked at for changes.
 *
 * Model:     what stat says of each file is kept; another answer is a change. Links are
 *            followed: what they lead to changes while they stay. A file that is not there
 *            is looked for too.
 * Ownership: paths are copied. Zeroed is empty; watch_clear.
 * Threads:   one.
 * Errors:    watch_add: false when there is no room or no memory.
 * Limits:    WATCH_FILES_MAX files.
 */
#ifndef AGENT_CONTROL_WATCH_H
#define AGENT_CONTROL_WATCH_H

#include <stdbool.h>

#include <sys/stat.h>

#include "agent/base.h"

enum {
    WATCH_FILES_MAX = 72 /* a rules file and all that it may include */
};

struct watched {
    char *path;
    struct stat seen; /* zero: there was none */
};

struct watch {
    unsigned n;
    struct watched files[WATCH_FILES_MAX];
};

/** Look at a file from now on. Done before it is read, no change is missed. */
MUST_USE bool watch_add(struct watch *watch, const char *path);

/** @return whether a file is another one than when it was last looked at */
MUST_USE bool watch_has_changed(struct watch *watch);

/** Look at no file any more, and free what was kept of them. */
void watch_clear(struct watch *watch);

/** The same for one file. @param seen  zero: it was not there; what it is now */
bool watch_sees_change(const char *path, struct stat *seen);

#endif
