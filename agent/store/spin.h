/**
 * @file agent/store/spin.h  A lock of one byte, for what takes a moment.
 *
 * Model:     test and set; yields after SPIN_TRIES_MAX tries.
 * Ownership: the byte is the caller's; zero is unlocked.
 * Threads:   any.
 * Errors:    none.
 */
#ifndef AGENT_STORE_SPIN_H
#define AGENT_STORE_SPIN_H

#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum {
    SPIN_TRIES_MAX = 100
};

static inline bool spin_try_lock(_Atomic uint8_t *lock)
{
    return atomic_exchange_explicit(lock, 1, memory_order_acquire) == 0;
}

static inline void spin_lock(_Atomic uint8_t *lock)
{
    unsigned tries = 0;
    while (!spin_try_lock(lock)) {
        if (++tries >= SPIN_TRIES_MAX) {
            (void)sched_yield();
            tries = 0;
        }
    }
}

static inline void spin_unlock(_Atomic uint8_t *lock)
{
    atomic_store_explicit(lock, 0, memory_order_release);
}

#endif
