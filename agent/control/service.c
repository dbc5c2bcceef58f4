#include "agent/control/service.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <systemd/sd-daemon.h>

#include "agent/base.h"
#include "agent/clock.h"
#include "agent/log.h"
#include "agent/net/worker.h"

/* Once a period would do; a successor that takes nothing holds the main loop for most of
 * the rest. */
enum {
    FEEDS_A_PERIOD = 4
};

/* Workers turn every WORKER_SWEEP_MS; there have to be two turns from look to look. */
#define WATCHDOG_US_MIN \
    ((uint64_t)WORKER_SWEEP_MS * 2 * FEEDS_A_PERIOD * (uint64_t)US_PER_MS)

static void notify(const struct service *service, const char *state)
{
    if (service->is_handed_over) {
        return;
    }
    int rc = sd_notify(0, state);
    if (rc < 0) {
        char reason[64];
        log_warning("cannot notify the service manager: %s",
                    strerror_r(-rc, reason, sizeof(reason)));
    }
}

static void on_watchdog(struct ev_loop *loop, struct ev_timer *timer, int events)
{
    struct service *service = CONTAINER_OF(timer, struct service, watchdog);
    (void)loop;
    (void)events;
    if (service->is_alive(service->context)) {
        notify(service, "WATCHDOG=1");
    }
}

void service_init(struct service *service, struct ev_loop *loop,
                  service_alive_fn *is_alive, void *context)
{
    *service = (struct service){.loop = loop, .is_alive = is_alive, .context = context};
    if (sd_watchdog_enabled(0, &service->watchdog_us) <= 0) {
        service->watchdog_us = 0;
    }
    if (service->watchdog_us > 0 && service->watchdog_us < WATCHDOG_US_MIN) {
        log_warning(
            "WatchdogSec is too short to see every worker turn: 4 s and more do");
    }
    /* It names this process: a successor would take the watchdog for another's. */
    (void)unsetenv("WATCHDOG_PID"); /* NOLINT(concurrency-mt-unsafe): no threads yet */
    double every_s = (double)service->watchdog_us / FEEDS_A_PERIOD / US_PER_S;
    ev_timer_init(&service->watchdog, on_watchdog, every_s, every_s);
}

/* Feeds as well: the process before may not have done so for long. */
static const char ready[] = "READY=1\nWATCHDOG=1\nSTATUS=";

void service_ready(struct service *service, const char *status)
{
    char state[sizeof(ready) + SERVICE_STATUS_BYTES_MAX];
    (void)snprintf(state, sizeof(state), "%s%s", ready, status);
    notify(service, state);
    service->is_ready = true;
    if (service->watchdog_us > 0) {
        ev_timer_start(service->loop, &service->watchdog);
    }
}

void service_tell(const struct service *service, const char *status)
{
    char state[sizeof("STATUS=") + SERVICE_STATUS_BYTES_MAX];
    if (service->is_ready) {
        (void)snprintf(state, sizeof(state), "STATUS=%s", status);
        notify(service, state);
    }
}

void service_feed(struct service *service)
{
    struct ev_timer *watchdog = &service->watchdog;
    ev_now_update(service->loop);
    if (ev_is_active(watchdog) && ev_timer_remaining(service->loop, watchdog) <= 0) {
        ev_timer_again(service->loop, watchdog);
        on_watchdog(service->loop, watchdog, EV_TIMER);
    }
}

void service_stopping(struct service *service)
{
    notify(service, "STOPPING=1\nSTATUS=Stopping: answering what is in flight");
}

void service_hand_over(struct service *service, pid_t pid)
{
    char state[32];
    (void)snprintf(state, sizeof(state), "MAINPID=%" PRIdMAX, (intmax_t)pid);
    notify(service, state);
    service->is_handed_over = true;
    service_fini(service);
}

void service_fini(struct service *service)
{
    ev_timer_stop(service->loop, &service->watchdog);
}
