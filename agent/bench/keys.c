#include "agent/bench/keys.h"

#include <math.h>

/* (e^x - 1) / x and ln(1 + x) / x, also where x is nearly 0. */
static double expm1_over(double x)
{
    return fabs(x) > 1e-8 ? expm1(x) / x : 1 + x / 2;
}

static double log1p_over(double x)
{
    return fabs(x) > 1e-8 ? log1p(x) / x : 1 - x / 2;
}

/* The law for real x, its integral from 1, and the inverse of that. */
static double law(const struct keys *keys, double x)
{
    return exp(-keys->s * log(x));
}

static double integral(const struct keys *keys, double x)
{
    double log_x = log(x);
    return expm1_over((1 - keys->s) * log_x) * log_x;
}

static double inverse(const struct keys *keys, double y)
{
    double t = fmax(y * (1 - keys->s), -1); /* less than -1 is an error of rounding */
    return exp(log1p_over(t) * y);
}

void keys_init(struct keys *keys, uint64_t n, double zipf_s, uint64_t seed)
{
    *keys = (struct keys){.state = seed, .n = n, .s = zipf_s};
    if (zipf_s > 0) {
        keys->h_first = integral(keys, 1.5) - 1;
        keys->h_last = integral(keys, (double)n + 0.5);
        keys->sure = 2 - inverse(keys, integral(keys, 2.5) - law(keys, 2));
    }
}

static uint64_t zipf_next(struct keys *keys)
{
    const double unit = 1.0 / 9007199254740992.0; /* of 53 random bits */
    while (1) {
        double share = (double)(keys_random(keys) >> 11) * unit;
        double y = keys->h_last + share * (keys->h_first - keys->h_last);
        double x = inverse(keys, y);
        double rank = fmin(fmax(floor(x + 0.5), 1), (double)keys->n);
        if (rank - x <= keys->sure
            || y >= integral(keys, rank + 0.5) - law(keys, rank)) {
            return (uint64_t)rank - 1;
        }
    }
}

void keys_init_in_turn(struct keys *keys, uint64_t n, uint64_t first, uint64_t seed)
{
    *keys = (struct keys){.state = seed, .n = n, .is_in_turn = true, .next = first % n};
}

uint64_t keys_next(struct keys *keys)
{
    if (keys->is_in_turn) {
        uint64_t key = keys->next;
        keys->next = (key + 1) % keys->n;
        return key;
    }
    return keys->s > 0 ? zipf_next(keys) : keys_random(keys) % keys->n;
}
