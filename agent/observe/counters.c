#include "agent/observe/counters.h"

#include <stdlib.h>
#include <string.h>

struct counters *counters_new(uint32_t n_limits)
{
    struct counters *c = aligned_alloc(_Alignof(struct counters), sizeof(*c));
    if (c == NULL) {
        return NULL;
    }
    memset(c, 0, sizeof(*c));
    c->n_limits = n_limits;
    /* One spare, so that a set without limits is no special case. */
    c->outcomes = calloc(((size_t)n_limits + 1) * OUTCOMES_N, sizeof(*c->outcomes));
    if (c->outcomes == NULL) {
        free(c);
        return NULL;
    }
    return c;
}

void counters_swap_outcomes(struct counters *a, struct counters *b)
{
    _Atomic uint64_t *outcomes = a->outcomes;
    uint32_t n_limits = a->n_limits;
    a->outcomes = b->outcomes;
    a->n_limits = b->n_limits;
    b->outcomes = outcomes;
    b->n_limits = n_limits;
}

void counters_add_all(struct counters *c, const struct counters *other)
{
    for (unsigned i = 0; i < COUNTERS_N; i++) {
        counter_add(c, (enum counter)i, counter_get(other, (enum counter)i));
    }
}

void counters_free(struct counters *c)
{
    if (c == NULL) {
        return;
    }
    free(c->outcomes);
    free(c);
}
