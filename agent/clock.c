#include "agent/clock.h"

#include <time.h>

static int64_t wall_minus_monotonic_us;

static int64_t read_us(clockid_t id)
{
    struct timespec ts = {0};
    (void)clock_gettime(id, &ts); /* cannot fail for the two clocks used here */
    return (int64_t)ts.tv_sec * US_PER_S + ts.tv_nsec / 1000;
}

void clock_start(void)
{
    wall_minus_monotonic_us = read_us(CLOCK_REALTIME) - read_us(CLOCK_MONOTONIC);
}

struct instant clock_now(void)
{
    return (struct instant){.us = read_us(CLOCK_MONOTONIC) + wall_minus_monotonic_us};
}
