#include "tests/support/loop_thread.h"

static void on_quit(struct ev_loop *loop, struct ev_async *async, int events)
{
    (void)async;
    (void)events;
    ev_break(loop, EVBREAK_ALL);
}

static void *run(void *arg)
{
    struct loop_thread *t = arg;
    ev_run(t->loop, 0);
    return NULL;
}

bool loop_thread_init(struct loop_thread *t)
{
    t->loop = ev_loop_new(EVFLAG_NOENV);
    if (t->loop == NULL) {
        return false;
    }
    ev_async_init(&t->quit, on_quit);
    ev_async_start(t->loop, &t->quit);
    return true;
}

bool loop_thread_start(struct loop_thread *t)
{
    return pthread_create(&t->thread, NULL, run, t) == 0;
}

void loop_thread_stop(struct loop_thread *t)
{
    ev_async_send(t->loop, &t->quit);
    (void)pthread_join(t->thread, NULL);
}

void loop_thread_fini(struct loop_thread *t)
{
    ev_loop_destroy(t->loop);
}
