#include "agent/store/head_count.h"

static unsigned settle_on(struct head_count *count, unsigned n)
{
    count->n = n;
    count->is_falling = false;
    return n;
}

unsigned head_count_hear(struct head_count *count, unsigned n_heard, struct instant now)
{
    unsigned n = n_heard > 0 ? n_heard : 1;
    bool is_gap = instant_diff_us(now, count->heard_at) > HEAD_COUNT_GAP_US;
    count->heard_at = now;
    if (n >= count->n) {
        return settle_on(count, n);
    }
    if (!count->is_falling || is_gap) {
        count->is_falling = true;
        count->falls_since = now;
        count->n_most = 0;
    }
    count->n_most = n > count->n_most ? n : count->n_most;
    if (instant_diff_us(now, count->falls_since) >= HEAD_COUNT_FALL_US) {
        return settle_on(count, count->n_most);
    }
    return count->n;
}
