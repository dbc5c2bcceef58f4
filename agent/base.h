/**
 * @file agent/base.h  Words that every layer of the agent uses.
 */
#ifndef AGENT_BASE_H
#define AGENT_BASE_H

#include <stddef.h>
#include <stdint.h>

#define MUST_USE     __attribute__((warn_unused_result))

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

/**
 * An array on the hot path that is filled as far as it is read: not cleared first, where
 * the hardening flags clear all others.
 */
#define UNCLEARED __attribute__((uninitialized))

/** A loop of the hot path that gets the registers to itself. */
#define NOINLINE __attribute__((noinline))

/** The object that `member` is part of. */
#define CONTAINER_OF(ptr, type, member) \
    ((type *)(void *)((char *)(ptr)-offsetof(type, member)))

static inline int64_t least_of(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static inline int64_t most_of(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/** a / b rounded up, for a >= 0 and b > 0. */
static inline int64_t div_up(int64_t a, int64_t b)
{
    return a / b + (a % b != 0);
}

/**
 * Stop at once when one of our own invariants is broken: always on, O(1), never used
 * on what a peer or a file says. A restart takes less than a wrong count costs.
 */
#define ENSURE(condition) \
    ((condition) ? (void)0 : ensure_failed(#condition, __FILE__, __LINE__))

/** Where a switch over a closed enum has no case left. */
#define NEVER(what) ensure_failed(what, __FILE__, __LINE__)

_Noreturn void ensure_failed(const char *condition, const char *file, int line);

#endif
