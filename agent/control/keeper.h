/**
 * @file agent/control/keeper.h  Keep the newest contents of a file on disk.
 *
 * Model:     contents are handed over; a thread of its own writes them, so that a disk
 *            which hangs stops nobody. While one write is under way only the newest of
 *            those that came meanwhile is kept waiting.
 * Ownership: keeper_start / keeper_stop; takes the contents given to it.
 * Threads:   all functions are the main thread's.
 * Errors:    a warning each time that what is wrong changes. The old file stays.
 * Limits:    two contents at a time; keeper_stop waits for the disk.
 */
#ifndef AGENT_CONTROL_KEEPER_H
#define AGENT_CONTROL_KEEPER_H

#include <stddef.h>

#include "agent/base.h"

struct keeper;

/** @param path  copied. @return NULL, with a log line, when there can be no thread */
MUST_USE struct keeper *keeper_start(const char *path);

/** Keep `text`, which is taken and freed with free(). NULL keeper: just freed. */
void keeper_keep(struct keeper *keeper, char *text, size_t len);

/** Write what is waiting and end. NULL is fine. */
void keeper_stop(struct keeper *keeper);

#endif
