/**
 * @file tests/conformance/flood.h  A thread that asks as fast as it is answered, so that a
 *       worker has something to do.
 *
 * Model:     a connection of its own; batches of NOTIFYs, and as many frames read back.
 * Ownership: start / stop.
 * Threads:   `n_answered` may be read by any.
 * Errors:    stop answers false when a batch was not answered in full.
 */
#ifndef TESTS_CONFORMANCE_FLOOD_H
#define TESTS_CONFORMANCE_FLOOD_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct flood {
    pthread_t thread;
    int fd;
    bool is_whole;
    _Atomic bool is_over;
    _Atomic uint64_t n_answered;
};

/** Flood the agent behind `path`. */
bool flood_start(struct flood *flood, const char *path);
bool flood_stop(struct flood *flood);

/** Wait until it has got `n` answers, or failed. */
void flood_wait(const struct flood *flood, uint64_t n);

#endif
