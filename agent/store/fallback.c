#include "agent/store/fallback.h"

/* Requests of one agent are rounded down: they are counted in parts of a request, so small
 * that 100 agents of a rule with one request still lose less than 1 in 1 000. */
enum {
    PARTS_MIN = 100000
};

void fallback_init(struct fallback *fallback, const struct limit *limit, int64_t base,
                   int64_t cost_max)
{
    int64_t parts = 1;
    while (base > 0 && base * parts < PARTS_MIN) {
        parts *= 10;
    }
    int64_t requests = limit->requests * parts;
    *fallback = (struct fallback){
        .limit =
            {
                .algorithm = LIMIT_TOKEN_BUCKET,
                .requests = requests < LIMIT_AMOUNT_MAX ? requests : LIMIT_AMOUNT_MAX,
                .per_ticks = limit->per_ticks,
                .tick_us = limit->tick_us * parts,
            },
        .size = limit->requests,
        .cost_max = cost_max < limit->size ? cost_max : limit->size,
    };
}

void fallback_limit(const struct fallback *fallback, unsigned n_agents, int share,
                    struct limit *limit)
{
    int64_t whole = (int64_t)n_agents * FALLBACK_SHARE_WHOLE;
    *limit = fallback->limit;
    if (fallback->size == 0) {
        limit->size = 0; /* nothing passes, as ever */
        return;
    }
    limit->requests = most_of(fallback->limit.requests * share / whole, 1);
    limit->size = most_of(div_up(fallback->size * share, whole), fallback->cost_max);
}
