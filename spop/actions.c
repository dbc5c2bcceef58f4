#include "spop/actions.h"

/* The byte of an action and the number of arguments after it. */
enum {
    ACTION_SET = 1,
    ACTION_SET_ARGS = 3,
    ACTION_UNSET = 2,
    ACTION_UNSET_ARGS = 2,
};

static bool verb_is_valid(unsigned verb, unsigned n_args)
{
    return (verb == ACTION_SET && n_args == ACTION_SET_ARGS)
           || (verb == ACTION_UNSET && n_args == ACTION_UNSET_ARGS);
}

void spop_actions_init(struct spop_actions *it, struct spop_bytes payload)
{
    spop_reader_init(&it->reader, payload);
}

enum spop_status spop_actions_next(struct spop_actions *it, struct spop_action *action)
{
    struct spop_reader *r = &it->reader;
    if (r->status == SPOP_OK && r->len == 0) {
        return SPOP_END;
    }
    struct spop_action next = {0};
    unsigned verb = spop_read_u8(r);
    unsigned n_args = spop_read_u8(r);
    unsigned scope = spop_read_u8(r);
    next.name = spop_read_string(r);
    if (!verb_is_valid(verb, n_args) || scope > SPOP_SCOPE_RES || next.name.len == 0) {
        spop_reader_fail(r, SPOP_ERR_FRAME);
    }
    next.is_unset = verb == ACTION_UNSET;
    next.scope = (enum spop_scope)scope;
    if (!next.is_unset) {
        spop_value_decode(r, &next.value);
    }
    if (r->status != SPOP_OK) {
        return r->status;
    }
    *action = next;
    return SPOP_OK;
}
