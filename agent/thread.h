/**
 * @file agent/thread.h  Start a thread that no signal goes to: signals are the main thread's.
 */
#ifndef AGENT_THREAD_H
#define AGENT_THREAD_H

#include <pthread.h>

#include "agent/base.h"

/** @return 0, or the number of the error. */
MUST_USE int thread_start(pthread_t *thread, void *(*run)(void *), void *arg);

#endif
