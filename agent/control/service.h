/**
 * @file agent/control/service.h  What a service manager is told: ready, alive, stopping.
 *
 * Model:     sd_notify(3). When the unit has a watchdog it is fed four times in its
 *            period, as long as `is_alive` says so. Without NOTIFY_SOCKET nothing is sent, and
 *            without WATCHDOG_USEC nobody is asked.
 * Ownership: borrows the loop; service_init / service_fini.
 * Threads:   the main thread, service_init before there are others. A notification waits
 *            until the manager has room for it; no worker does.
 * Errors:    a log line: the agent serves, whoever knows of it.
 * Limits:    SERVICE_STATUS_BYTES_MAX, cut beyond.
 */
#ifndef AGENT_CONTROL_SERVICE_H
#define AGENT_CONTROL_SERVICE_H

#include <stdbool.h>
#include <stdint.h>

#include <sys/types.h>

#include <ev.h>

enum {
    SERVICE_STATUS_BYTES_MAX = 4096
};

/** Whether the agent does its work; answers for the time since it was last asked. */
typedef bool service_alive_fn(void *context);

struct service {
    struct ev_loop *loop;
    struct ev_timer watchdog;
    uint64_t watchdog_us; /* the unit's period; 0: it has none */
    service_alive_fn *is_alive;
    void *context;
    bool is_ready;
    bool is_handed_over;
};

/**
 * Take from the environment what the manager wants. A process started from this one after
 * an exec finds there what it needs to take its place.
 */
void service_init(struct service *service, struct ev_loop *loop,
                  service_alive_fn *is_alive, void *context);

/** READY=1, a line that says what is served, and the watchdog from now on. */
void service_ready(struct service *service, const char *status);

/** Another line that says what is served; nothing before it was said once. */
void service_tell(const struct service *service, const char *status);

/** Feed the watchdog if it is due, where the loop does not turn for long. */
void service_feed(struct service *service);

/** STOPPING=1: no more is taken on, what is in flight is answered. */
void service_stopping(struct service *service);

/**
 * MAINPID=: from now on `pid` is the service, and has to say that it is ready; this process
 * says no more.
 */
void service_hand_over(struct service *service, pid_t pid);

void service_fini(struct service *service);

#endif
