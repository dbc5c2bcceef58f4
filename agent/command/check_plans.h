/**
 * @file agent/command/check_plans.h  Plans of a file of clients that no rule knows.
 *
 * Model:     a plan is known where a rule names it: in `plans`, or as a value that it, an item of
 *            its costs, or a list matches. Where plans are matched by a pattern or by what they
 *            are not, or are part of a key, any may be meant.
 * Ownership: borrows all of it.
 * Threads:   no shared state.
 * Errors:    none.
 */
#ifndef AGENT_COMMAND_CHECK_PLANS_H
#define AGENT_COMMAND_CHECK_PLANS_H

#include "rules/clients.h"
#include "rules/file.h"

/** Warn of them where the rules name the file. */
void check_plans_find(const struct rules_file *file,
                      const struct rules_clients *clients, struct rules_diags *diags);

#endif
