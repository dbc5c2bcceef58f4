/**
 * @file agent/control/agents.h  What an agent knows of its last run: how many there are, and
 *       who it was.
 *
 * Model:     a start goes by what the last run heard, which is kept as AGENTS_FILE in
 *            state_dir, else by `nodes` of agent.yaml, else by 1, with a warning where Redis
 *            does not soon say more. Each second what was heard is kept where it changed,
 *            and health is told whether HAProxy asked this agent something.
 *
 *            AGENTS_FILE has the count, and on a second line the name by which the agent says
 *            in Redis that it lives: a run that was killed is still counted there when the
 *            next one begins, which can say that it has ended (beat.h).
 * Ownership: agents_start / agents_stop; zeroed before. Borrows the rest.
 * Threads:   the main thread; a thread of its own writes the file (keeper.h).
 * Errors:    log lines. A bad file is told of and not used.
 */
#ifndef AGENT_CONTROL_AGENTS_H
#define AGENT_CONTROL_AGENTS_H

#include <ev.h>

#include "agent/config.h"
#include "agent/control/keeper.h"
#include "agent/observe/counters.h"
#include "agent/store/beat.h"
#include "agent/store/health.h"

#define AGENTS_FILE "agents"

enum {
    AGENTS_PERIOD_S = 1,
    AGENTS_WARNING_S = 3, /* after the start */
};

struct agents {
    const struct config *config;
    const char *name;                    /* of this run */
    char ended[BEAT_NAME_BYTES_MAX + 1]; /* of the last one; empty: not known */
    struct counters *const *counters;
    struct health *health;
    struct ev_loop *loop; /* NULL: not started */
    struct ev_timer timer;
    struct keeper *keeper; /* NULL without state_dir */
    bool is_unknown;       /* nobody has said, so far */
    unsigned n_kept;       /* as of this run; 0: nothing */
    unsigned n_periods;
    uint64_t n_notifies;
};

/** Sets `ended`, too. @return how many to go by at first; 0: nobody says */
MUST_USE unsigned agents_recall(struct agents *agents, const struct config *config);

/**
 * @param name      hexadecimal, at most BEAT_NAME_BYTES_MAX; stays in place
 * @param counters  of workers and the main thread; the array stays in place
 * @return false, with a log line, when there can be no thread
 */
MUST_USE bool agents_start(struct agents *agents, const struct config *config,
                           const char *name, struct counters *const *counters,
                           struct health *health, struct ev_loop *loop);

/** Fine where it was not started. */
void agents_stop(struct agents *agents);

#endif
