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

void counters_free(struct counters *c)
{
    if (c == NULL) {
        return;
    }
    free(c->outcomes);
    free(c);
}
