/**
 * @file agent/store/beat.h  An agent says in Redis that it lives, and hears how many do.
 *
 * Model:     one call each BEAT_US, on a key that all agents with one prefix share. It says
 *            the agent's name where HAProxy asked this agent something within BEAT_IDLE_US,
 *            or it began since; else it only asks: an agent that stands by has no share.
 *            The first call says that its last run has ended, where that one's name is known:
 *            it may not have said so itself. Should another agent live by that name after
 *            all, it is back with its next beat, sooner than any count falls.
 *            What comes of the answers (head_count.h) is in health. Without an answer the
 *            count stays. Calls of beats are no traffic: breakers and counts of calls do not
 *            hear of them.
 * Ownership: the caller's memory, zeroed before beat_start. Borrows what is in the options.
 *            The seam goes first, and forgets the timer.
 * Threads:   the seam's; beat_leave also when its loop has ended.
 * Errors:    a warning each time that Redis refuses for another reason.
 * Limits:    BEAT_AGENTS_MAX agents. Nothing is allocated.
 */
#ifndef AGENT_STORE_BEAT_H
#define AGENT_STORE_BEAT_H

#include "agent/store/head_count.h"
#include "agent/store/health.h"
#include "agent/store/seam.h"

enum {
    BEAT_NAME_BYTES_MAX = 64,
    BEAT_PREFIX_BYTES_MAX = 100,
    BEAT_AGENTS_MAX = 10000,
};

#define BEAT_US         (1 * US_PER_S)
#define BEAT_RETRY_US   (100 * US_PER_MS) /* where nothing could be sent */
#define BEAT_TIMEOUT_US (500 * US_PER_MS)
#define BEAT_IDLE_US    (60 * US_PER_S)

struct beat_options {
    struct seam *seam;
    struct health *health;
    const char *prefix; /* of the key */
    const char *name;   /* no other agent's */
    const char *ended;  /* the name of its last run, if that is another; or NULL */
};

/** What is said in a call, and the call. */
struct beat_word {
    struct seam_call call;
    struct seam_bytes arg;
    char text[1 + BEAT_NAME_BYTES_MAX];
};

struct beat {
    struct beat_options options;
    struct seam_timer timer;
    struct head_count count;
    enum seam_error refused; /* why, the last time; NONE: it was not */
    bool is_under_way;
    struct beat_word word;
    struct beat_word last_word;
    struct seam_bytes key;
    char key_text[BEAT_PREFIX_BYTES_MAX + sizeof(":nodes:{all}")];
};

void beat_start(struct beat *beat, const struct beat_options *options);

/** Say that this agent ends; nobody waits for the answer. */
void beat_leave(struct beat *beat);

#endif
