#include "agent/clock.h"

#include <time.h>

static int64_t offset_us; /* the agent's clock minus the monotonic one */

static int64_t read_us(clockid_t id)
{
    struct timespec ts = {0};
    (void)clock_gettime(id, &ts); /* cannot fail for the two clocks used here */
    return (int64_t)ts.tv_sec * US_PER_S + ts.tv_nsec / 1000;
}

void clock_start(void)
{
    offset_us = read_us(CLOCK_REALTIME) - read_us(CLOCK_MONOTONIC);
}

void clock_continue(struct instant then, int64_t wall_then_us)
{
    int64_t passed_us = clock_wall_us() - wall_then_us;
    int64_t now_us = then.us + (passed_us > 0 ? passed_us : 0);
    offset_us = now_us - read_us(CLOCK_MONOTONIC);
}

void clock_start_at(int64_t offset)
{
    offset_us = offset;
}

int64_t clock_offset_us(void)
{
    return offset_us;
}

int64_t clock_wall_us(void)
{
    return read_us(CLOCK_REALTIME);
}

struct instant clock_now(void)
{
    return (struct instant){.us = read_us(CLOCK_MONOTONIC) + offset_us};
}
