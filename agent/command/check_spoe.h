/**
 * @file agent/command/check_spoe.h  Whether HAProxy sends what the rules need.
 *
 * Model:     compares the descriptors that rules use with the arguments of the messages
 *            ratelimit-check and ratelimit-settle.
 * Ownership: borrows all it is given.
 * Threads:   one thread.
 * Errors:    diagnostics, in the SPOE file: codes spoe-... of check_code.h.
 * Limits:    none of its own.
 */
#ifndef AGENT_COMMAND_CHECK_SPOE_H
#define AGENT_COMMAND_CHECK_SPOE_H

#include "rules/ast.h"

#include "agent/command/spoe_conf.h"

/** The file, as it was read. */
struct check_spoe {
    const struct rules_text *text;
    const struct spoe_conf *conf;
};

/**
 * Compare.
 *
 * @param ast          of a rules file without errors
 * @param deadline_us  what the agent may take for an answer
 */
void check_spoe_find(const struct check_spoe *spoe, const struct rules_ast *ast,
                     int64_t deadline_us, struct rules_diags *diags);

#endif
