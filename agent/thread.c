#include "agent/thread.h"

#include <signal.h>

/* A thread inherits the mask that its parent has. */
int thread_start(pthread_t *thread, void *(*run)(void *), void *arg)
{
    sigset_t all;
    sigset_t old;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &old);
    int rc = pthread_create(thread, NULL, run, arg);
    (void)pthread_sigmask(SIG_SETMASK, &old, NULL);
    return rc;
}
