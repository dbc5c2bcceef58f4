/**
 * @file agent/store/sub_take.h  Some of a take's charges as a take of their own, done at once.
 */
#ifndef AGENT_STORE_SUB_TAKE_H
#define AGENT_STORE_SUB_TAKE_H

#include "agent/store/store.h"

/** What is done of a take that is done at once. */
static inline void sub_take_ignore_done(struct store_take *take)
{
    (void)take;
}

/** Make a take without charges of the moment of another; charges are for the caller to add. */
static inline void sub_take_begin(struct store_take *sub, const struct store_take *take)
{
    sub->now = take->now;
    sub->deadline = take->deadline;
    sub->is_peek = take->is_peek;
    sub->is_prepared = false;
    sub->counters = take->counters;
    sub->done = sub_take_ignore_done;
    sub->n_charges = 0;
}

/** Put the answer of its charge `i` where it belongs: to charge `at` of the whole take. */
static inline void sub_take_answer(const struct store_take *sub, unsigned i,
                                   struct store_take *take, unsigned at)
{
    struct store_charge *charge = &take->charges[at];
    charge->is_charged = sub->charges[i].is_charged;
    charge->place = sub->charges[i].place;
    charge->answer = sub->charges[i].answer;
    if (take->is_peek) {
        take->held[at] = sub->held[i];
    }
}

#endif
