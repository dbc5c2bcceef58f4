/**
 * @file agent/store/notebook.h  What a worker remembers of counters that it looks after.
 *
 * Model:     a note is the name of a counter and its limit, and when to look after it. A
 *            note is known by its number; what else belongs to it stands in arrays beside.
 *            Notes outlive rules: before these go, notebook_keep copies what limits point to.
 * Ownership: notebook_init; the memory is the caller's.
 * Threads:   one.
 * Errors:    notebook_take answers NOTEBOOK_NONE when all are in use.
 * Limits:    NOTEBOOK_NOTES.
 */
#ifndef AGENT_STORE_NOTEBOOK_H
#define AGENT_STORE_NOTEBOOK_H

#include "agent/store/seam.h"
#include "agent/store/store.h"

enum {
    NOTEBOOK_NOTES = 16384,
    NOTEBOOK_NONE = NOTEBOOK_NOTES,
};

struct note {
    bool is_taken;
    uint32_t next_free;
    struct limit limit;
    size_t name_bytes;
    char name[STORE_NAME_BYTES_MAX];
};

struct notebook {
    uint32_t free;
    uint32_t n_taken;
    uint32_t n_used;                        /* ever: all numbers are below it */
    struct instant look_at[NOTEBOOK_NOTES]; /* 0: not, as long as it is written so */
    struct note notes[NOTEBOOK_NOTES];
    struct calendar calendars[NOTEBOOK_NOTES]; /* of notes whose rules have gone */
};

/** @param book  zeroed */
void notebook_init(struct notebook *book);

/** Write down the name and the limit of a charge. @return its number, or NOTEBOOK_NONE */
MUST_USE uint32_t notebook_take(struct notebook *book,
                                const struct store_charge *charge);
void notebook_put(struct notebook *book, uint32_t idx);

/** Keep what the calendars of all notes say: they will be gone. Good for as many windows
 *  as a calendar knows. */
void notebook_keep(struct notebook *book);

static inline bool notebook_has_room(const struct notebook *book)
{
    return book->n_taken < NOTEBOOK_NOTES;
}

static inline bool notebook_is_taken(const struct notebook *book, uint32_t idx)
{
    return book->notes[idx].is_taken;
}

/** By this a pool knows the note, of all workers', that watches it: never 0. */
static inline uint32_t notebook_watcher(uint32_t worker, uint32_t idx)
{
    return worker * NOTEBOOK_NOTES + idx + 1;
}

/** The note of a worker that is known so; NOTEBOOK_NONE: it is another's. */
static inline uint32_t notebook_watched(uint32_t worker, uint32_t watcher)
{
    uint32_t idx = watcher - 1 - worker * NOTEBOOK_NOTES;
    return idx < NOTEBOOK_NOTES ? idx : NOTEBOOK_NONE;
}

static inline struct seam_bytes notebook_name(const struct notebook *book, uint32_t idx)
{
    return (struct seam_bytes){book->notes[idx].name, book->notes[idx].name_bytes};
}

static inline const struct limit *notebook_limit(const struct notebook *book,
                                                 uint32_t idx)
{
    return &book->notes[idx].limit;
}

#endif
