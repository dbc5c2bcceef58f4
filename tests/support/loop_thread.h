/**
 * @file tests/support/loop_thread.h  A main loop on a thread of its own, so that a test can
 *       be the client of what runs on it.
 */
#ifndef TESTS_SUPPORT_LOOP_THREAD_H
#define TESTS_SUPPORT_LOOP_THREAD_H

#include <pthread.h>
#include <stdbool.h>

#include <ev.h>

struct loop_thread {
    struct ev_loop *loop;
    struct ev_async quit;
    pthread_t thread;
};

/** Make the loop; watchers may be started on it until start. */
bool loop_thread_init(struct loop_thread *t);

/** Run it. */
bool loop_thread_start(struct loop_thread *t);

/** End the thread; the loop is the caller's again, and stays until fini. */
void loop_thread_stop(struct loop_thread *t);
void loop_thread_fini(struct loop_thread *t);

#endif
