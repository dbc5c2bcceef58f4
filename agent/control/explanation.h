/**
 * @file agent/control/explanation.h  What explain.c has found out, before it is written.
 *
 * Model:     the request as it was decided, why each rule does what it does, and the ACK.
 *            Written as text (explain_text.c) and as JSON (explain_json.c).
 * Ownership: of explain.c; large.
 * Threads:   no shared state.
 * Errors:    false when memory is short.
 */
#ifndef AGENT_CONTROL_EXPLANATION_H
#define AGENT_CONTROL_EXPLANATION_H

#include "rules/explain.h"
#include "rules/key_text.h"
#include "spop/actions.h"

#include "agent/control/explain.h"

enum {
    EXPLANATION_VALUE_TEXT_BYTES = 3 * EXPLAIN_VALUE_BYTES_MAX + 4 /* "..." */
};

struct explanation {
    struct peek_source source;
    FILE *out;
    explain_done_fn *done;
    void *context;
    bool is_json;
    bool has_all; /* rules that do not apply are wanted too */
    bool is_plan_of_client;
    unsigned n_unused; /* words of descriptors that no rule uses */
    const char *unused[RULES_SLOTS_MAX];
    struct rules_address addresses[RULES_SLOTS_MAX];
    const struct rules_explanation *rules;
    struct decide decide;
    struct decide_request request;
    struct spop_bytes ack; /* into ack_buf */
    uint8_t ack_buf[DECIDE_ACK_BYTES_MAX];
};

/** Of the closed lists: `applies`, `unmet` … and `fixed`, `item` … */
const char *explanation_why(enum rules_why why);
const char *explanation_cost_from(enum rules_cost_from from);

/** A value as one word of printable ASCII, cut; "" where it is absent. */
struct explanation_value {
    char text[EXPLANATION_VALUE_TEXT_BYTES];
};

struct explanation_value explanation_value(struct rules_value value);

/** @return the first charge of a rule that applies, or -1 where nothing was asked */
int explanation_charge(const struct explanation *e, const struct rules_explained *rule);

/** Step through the variables of the ACK. */
bool explanation_variables(const struct explanation *e, struct spop_actions *it);
bool explanation_next(struct spop_actions *it, struct spop_action *action);

MUST_USE bool explanation_print_json(const struct explanation *e, FILE *out);
void explanation_print_text(const struct explanation *e, FILE *out);

#endif
