#include "tests/support/clock_seam.h"

#include <stdio.h>

static struct clock_seam *to_clock(struct seam *seam)
{
    return CONTAINER_OF(seam, struct clock_seam, seam);
}

static struct instant current(const struct clock_seam *clock)
{
    int64_t us = instant_diff_us(seam_now(clock->behind), clock->set_at);
    return instant_add_us(clock->now, clock->is_running ? us : 0);
}

/* The same moment on the clock behind. */
static struct instant translate(const struct clock_seam *clock, struct instant at)
{
    return instant_add_us(seam_now(clock->behind), instant_diff_us(at, current(clock)));
}

static void clock_run(struct seam *seam, struct seam_call *call)
{
    struct clock_seam *clock = to_clock(seam);
    struct clock_seam_args *args = &clock
                                        ->args[clock->n_calls++ % CLOCK_SEAM_CALLS_MAX];
    ENSURE(call->n_args == 1);
    int n = snprintf(args->now, sizeof(args->now), "%lld",
                     (long long)current(clock).us);
    args->args[0] = call->args[0];
    args->args[1] = (struct seam_bytes){args->now, (size_t)n};
    call->args = args->args;
    call->n_args = 2;
    call->deadline = translate(clock, call->deadline);
    seam_run(clock->behind, call);
}

static void clock_reject(struct seam *seam, const struct seam_call *call)
{
    struct seam *behind = to_clock(seam)->behind;
    behind->ops->reject(behind, call);
}

static unsigned clock_slot(struct seam *seam, struct seam_bytes key)
{
    return seam_slot(to_clock(seam)->behind, key);
}

static unsigned clock_node(struct seam *seam, unsigned slot)
{
    return seam_node(to_clock(seam)->behind, slot);
}

static struct instant clock_seam_now(struct seam *seam)
{
    return current(to_clock(seam));
}

static void clock_timer_set(struct seam *seam, struct seam_timer *timer)
{
    struct clock_seam *clock = to_clock(seam);
    timer->at = translate(clock, timer->at);
    seam_timer_set(clock->behind, timer);
}

static void clock_timer_stop(struct seam *seam, struct seam_timer *timer)
{
    seam_timer_stop(to_clock(seam)->behind, timer);
}

static uint64_t clock_random(struct seam *seam)
{
    return seam_random(to_clock(seam)->behind);
}

void clock_seam_init(struct clock_seam *clock, struct seam *behind, struct instant now)
{
    static const struct seam_ops ops = {
        .run = clock_run,
        .reject = clock_reject,
        .slot = clock_slot,
        .node = clock_node,
        .now = clock_seam_now,
        .timer_set = clock_timer_set,
        .timer_stop = clock_timer_stop,
        .random = clock_random,
    };
    clock->seam.ops = &ops;
    clock->behind = behind;
    clock->is_running = false;
    clock->n_calls = 0;
    clock_seam_set(clock, now);
}

void clock_seam_set(struct clock_seam *clock, struct instant now)
{
    clock->now = now;
    clock->set_at = seam_now(clock->behind);
}
