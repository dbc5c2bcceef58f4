#include "agent/control/upgrade.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <sys/wait.h>

#include <sodium.h>

#include "agent/log.h"

bool upgrade_init(struct upgrade *upgrade, const struct upgrade_parts *parts)
{
    *upgrade = (struct upgrade){.parts = *parts, .channel_fd = -1};
    if (program_read(&upgrade->program)) {
        return true;
    }
    if (errno == ENOMEM) {
        log_error("out of memory");
        return false;
    }
    log_warning("no upgrade by SIGUSR2: /proc does not say what this program is: %s",
                strerrordesc_np(errno));
    return true;
}

/* Nothing of the successor is looked at any more. */
static void forget(struct upgrade *upgrade)
{
    ev_io_stop(upgrade->parts.loop, &upgrade->io);
    ev_child_stop(upgrade->parts.loop, &upgrade->child);
    ev_timer_stop(upgrade->parts.loop, &upgrade->deadline);
    (void)close(upgrade->channel_fd);
    upgrade->channel_fd = -1;
}

static void set_runtimes_open(struct upgrade *upgrade, bool is_open)
{
    for (unsigned i = 0; i < upgrade->parts.n_runtimes; i++) {
        runtime_set_open(upgrade->parts.runtimes[i], is_open);
    }
}

/* End the successor, and go on as if there had been none. */
static void call_off(struct upgrade *upgrade)
{
    if (upgrade->pid != 0) {
        (void)kill(upgrade->pid, SIGKILL); /* the loop reaps it */
    }
    forget(upgrade);
    if (upgrade->state != UPGRADE_STARTING) {
        server_keep(upgrade->parts.server);
        set_runtimes_open(upgrade, true);
    }
    upgrade->state = UPGRADE_IDLE;
}

__attribute__((format(printf, 2, 3))) static void fail(struct upgrade *upgrade,
                                                       const char *format, ...)
{
    char why[256];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(why, sizeof(why), format, args);
    va_end(args);
    log_error("upgrade failed, serving on: %s; SIGUSR2 tries again", why);
    call_off(upgrade);
    if (upgrade->is_stop_wanted) {
        upgrade->parts.over(upgrade->parts.context);
    }
}

static void restart_deadline(struct upgrade *upgrade)
{
    ev_timer_again(upgrade->parts.loop, &upgrade->deadline);
}

/* One piece of the image. */
static bool send_counters(void *context, const void *bytes, size_t len)
{
    const struct upgrade *upgrade = context;
    struct iovec part = channel_part(bytes, len);
    enum channel_status status = CHANNEL_LATER;
    bool has_room = true;
    upgrade->parts.sending(upgrade->parts.context);
    while (status == CHANNEL_LATER && has_room) {
        status = channel_send(upgrade->channel_fd, CHANNEL_COUNTERS, &part, 1, -1);
        has_room = status != CHANNEL_LATER
                   || channel_wait(upgrade->channel_fd, POLLOUT, UPGRADE_WAIT_S * 1000);
    }
    return status == CHANNEL_OK;
}

static bool send_image(struct upgrade *upgrade)
{
    struct store *store = upgrade->parts.store;
    struct image_writer writer;
    struct image_origin origin = {
        .agent_at = clock_now(),
        .wall_us = clock_wall_us(),
        .clock_offset_us = clock_offset_us(),
    };
    memcpy(origin.secret, local_secret(store), sizeof(origin.secret));
    image_writer_init(&writer, &origin, send_counters, upgrade);
    local_export(store, origin.agent_at, &writer);
    bool is_sent = image_write_end(&writer);
    sodium_memzero(&origin, sizeof(origin));
    return is_sent;
}

/* Connections that may ask are all with the successor: counters change no more. Nobody
 * waits for this thread but who asks a door, and those are closed. */
static void on_handed_over(void *context)
{
    struct upgrade *upgrade = context;
    if (!send_image(upgrade)) {
        fail(upgrade, "process %d does not take the counters", (int)upgrade->pid);
        return;
    }
    if (channel_send(upgrade->channel_fd, CHANNEL_END, NULL, 0, -1) != CHANNEL_OK) {
        fail(upgrade, "process %d does not take the end of it", (int)upgrade->pid);
        return;
    }
    upgrade->state = UPGRADE_CONFIRMING;
    restart_deadline(upgrade);
}

/* From here on the successor accepts what comes. */
static void hand_over(struct upgrade *upgrade)
{
    uint32_t n_open = server_n_open(upgrade->parts.server);
    struct iovec part = channel_part(&n_open, sizeof(n_open));
    upgrade->state = UPGRADE_HANDING;
    set_runtimes_open(upgrade, false);
    restart_deadline(upgrade);
    if (channel_send(upgrade->channel_fd, CHANNEL_CONNECTIONS, &part, 1, -1)
            != CHANNEL_OK
        || !server_hand_over(upgrade->parts.server, upgrade->channel_fd, on_handed_over,
                             upgrade)) {
        fail(upgrade, "handing over cannot begin: %s", strerrordesc_np(errno));
    }
}

static void finish(struct upgrade *upgrade, const struct upgrade_taken *taken)
{
    log_info("upgrade: process %d has taken over: connections %u, counters %ju",
             (int)upgrade->pid, taken->n_connections, (uintmax_t)taken->n_counters);
    server_own_files(upgrade->parts.server, false);
    for (unsigned i = 0; i < upgrade->parts.n_runtimes; i++) {
        runtime_own_file(upgrade->parts.runtimes[i], false);
    }
    if (upgrade->is_stop_wanted) {
        (void)kill(upgrade->pid, SIGTERM);
    }
    upgrade->state = UPGRADE_DONE;
    upgrade->parts.over(upgrade->parts.context);
    forget(upgrade); /* this tells the successor that it is alone */
}

static void on_packet(struct upgrade *upgrade, const struct channel_packet *packet,
                      const struct upgrade_taken *taken)
{
    if (packet->type == CHANNEL_READY && packet->len == 0
        && upgrade->state == UPGRADE_STARTING) {
        hand_over(upgrade);
    } else if (packet->type == CHANNEL_DONE && packet->len == sizeof(*taken)
               && upgrade->state == UPGRADE_CONFIRMING) {
        finish(upgrade, taken);
    } else {
        fail(upgrade, "process %d says what it should not", (int)upgrade->pid);
    }
}

static void on_channel(struct ev_loop *loop, struct ev_io *io, int events)
{
    struct upgrade *upgrade = CONTAINER_OF(io, struct upgrade, io);
    struct upgrade_taken taken;
    struct channel_packet packet;
    (void)events;
    switch (channel_receive(io->fd, (uint8_t *)&taken, sizeof(taken), &packet)) {
    case CHANNEL_OK:
        on_packet(upgrade, &packet, &taken);
        break;
    case CHANNEL_LATER:
        break;
    case CHANNEL_ENDED:
        if (upgrade->state == UPGRADE_STARTING) {
            ev_io_stop(loop, io); /* on_child says what became of it */
            break;
        }
        fail(upgrade, "process %d is gone", (int)upgrade->pid);
        break;
    case CHANNEL_BAD:
        fail(upgrade, "process %d says what is no packet", (int)upgrade->pid);
        break;
    }
}

static void on_child(struct ev_loop *loop, struct ev_child *child, int events)
{
    struct upgrade *upgrade = CONTAINER_OF(child, struct upgrade, child);
    int pid = (int)upgrade->pid;
    (void)loop;
    (void)events;
    upgrade->pid = 0;
    if (WIFEXITED(child->rstatus)) {
        fail(upgrade, "process %d ended with exit code %d: mend what it says above",
             pid, WEXITSTATUS(child->rstatus));
    } else {
        fail(upgrade, "process %d was ended by SIG%s", pid,
             sigabbrev_np(WTERMSIG(child->rstatus)));
    }
}

static void on_deadline(struct ev_loop *loop, struct ev_timer *timer, int events)
{
    struct upgrade *upgrade = CONTAINER_OF(timer, struct upgrade, deadline);
    (void)loop;
    (void)events;
    fail(upgrade, "process %d %s for %d s", (int)upgrade->pid,
         upgrade->state == UPGRADE_STARTING ? "was not ready" : "took nothing more",
         UPGRADE_WAIT_S);
}

/* All that a successor needs to start; it waits in the channel. */
static bool send_first(struct upgrade *upgrade, int channel_fd)
{
    struct upgrade_hello hello = {
        .version = UPGRADE_VERSION,
        .n_listeners = server_n_listeners(upgrade->parts.server)
                       + upgrade->parts.n_runtimes,
        .clock_offset_us = clock_offset_us(),
    };
    memcpy(hello.store_secret, local_secret(upgrade->parts.store),
           sizeof(hello.store_secret));
    memcpy(hello.jitter_secret, upgrade->parts.jitter_secret,
           sizeof(hello.jitter_secret));
    struct iovec part = channel_part(&hello, sizeof(hello));
    enum channel_status status = channel_send(channel_fd, CHANNEL_HELLO, &part, 1, -1);
    if (status == CHANNEL_OK) {
        status = server_send_listeners(upgrade->parts.server, channel_fd);
    }
    sodium_memzero(&hello, sizeof(hello));
    for (unsigned i = 0; status == CHANNEL_OK && i < upgrade->parts.n_runtimes; i++) {
        status = runtime_send_listener(upgrade->parts.runtimes[i], channel_fd);
    }
    return status == CHANNEL_OK;
}

/* NOLINTNEXTLINE(readability-function-size): the macros of ev.h nest */
static void watch(struct upgrade *upgrade)
{
    struct ev_loop *loop = upgrade->parts.loop;
    ev_io_init(&upgrade->io, on_channel, upgrade->channel_fd, EV_READ);
    ev_io_start(loop, &upgrade->io);
    ev_child_init(&upgrade->child, on_child, upgrade->pid, 0);
    ev_set_priority(&upgrade->child, EV_MAXPRI); /* its number is free from then on */
    ev_child_start(loop, &upgrade->child);
    ev_timer_init(&upgrade->deadline, on_deadline, 0, UPGRADE_WAIT_S);
    ev_timer_again(loop, &upgrade->deadline);
}

void upgrade_begin(struct upgrade *upgrade)
{
    int fds[2] = {-1, -1};
    if (upgrade->state != UPGRADE_IDLE) {
        log_warning("SIGUSR2 is ignored: an upgrade is under way");
        return;
    }
    if (upgrade->program.argv == NULL) {
        log_error(
            "no upgrade: /proc did not say what this program is; restart instead");
        return;
    }
    if (!channel_pair(fds) || !send_first(upgrade, fds[0])) {
        log_error("upgrade failed, serving on: no channel to a successor: %s",
                  strerrordesc_np(errno));
        goto out;
    }
    if (!program_start(&upgrade->program, fds[1], &upgrade->pid)) {
        log_error("upgrade failed, serving on: %s: %s; SIGUSR2 tries again",
                  upgrade->program.path, strerrordesc_np(errno));
        goto out;
    }
    upgrade->state = UPGRADE_STARTING;
    upgrade->channel_fd = fds[0];
    fds[0] = -1;
    watch(upgrade);
    log_info("upgrade: %s runs as process %d", upgrade->program.path,
             (int)upgrade->pid);
out:
    for (int i = 0; i < 2; i++) {
        if (fds[i] >= 0) {
            (void)close(fds[i]);
        }
    }
}

bool upgrade_may_stop(struct upgrade *upgrade)
{
    switch (upgrade->state) {
    case UPGRADE_IDLE:
    case UPGRADE_DONE:
        return true;
    case UPGRADE_STARTING:
        call_off(upgrade);
        return true;
    case UPGRADE_HANDING:
    case UPGRADE_CONFIRMING:
        log_info("stopping when the upgrade is over");
        upgrade->is_stop_wanted = true;
        return false;
    }
    NEVER("an upgrade's state");
}

bool upgrade_is_done(const struct upgrade *upgrade)
{
    return upgrade->state == UPGRADE_DONE;
}

void upgrade_fini(struct upgrade *upgrade)
{
    if (upgrade->state != UPGRADE_IDLE && upgrade->state != UPGRADE_DONE) {
        call_off(upgrade);
    }
    program_clear(&upgrade->program);
}
