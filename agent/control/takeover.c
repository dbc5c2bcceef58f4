#include "agent/control/takeover.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sodium.h>

#include "agent/log.h"

struct takeover {
    struct takeover_parts parts;
    int channel_fd;   /* -1: over */
    bool is_complete; /* the end has come, and was answered */
    bool is_stop_wanted;
    unsigned n_expected; /* connections still to come, at most */
    struct upgrade_taken taken;
    struct instant begun_at; /* from here to the end a key may count twice */
    struct ev_io io;
    struct ev_timer stop_deadline;
    struct upgrade_hello hello;
    struct image_reader image;
    struct inheritance inheritance;
    uint8_t buf[CHANNEL_BYTES_MAX];
};

/* The number in the variable, which nobody else is to find; -1 when there is none. */
static int take_variable(void)
{
    /* NOLINTBEGIN(concurrency-mt-unsafe): no other thread runs yet */
    const char *text = getenv(PROGRAM_CHANNEL_VARIABLE);
    if (text == NULL) {
        return -1;
    }
    char *end = NULL;
    errno = 0;
    long number = strtol(text, &end, 10);
    bool is_number = errno == 0 && *text >= '0' && *text <= '9' && *end == '\0';
    int fd = is_number && number <= INT32_MAX ? (int)number : INT32_MAX;
    (void)unsetenv(PROGRAM_CHANNEL_VARIABLE);
    /* NOLINTEND(concurrency-mt-unsafe) */
    return fd;
}

/* The next packet of the first ones, which are waiting already. */
static bool receive_first(struct takeover *takeover, enum channel_type type,
                          struct channel_packet *packet)
{
    if (!channel_wait(takeover->channel_fd, POLLIN, UPGRADE_WAIT_S * 1000)
        || channel_receive(takeover->channel_fd, takeover->buf, sizeof(takeover->buf),
                           packet)
               != CHANNEL_OK) {
        return false;
    }
    if (packet->type == type) {
        return true;
    }
    if (packet->fd >= 0) {
        (void)close(packet->fd);
    }
    return false;
}

static bool receive_hello(struct takeover *takeover)
{
    struct channel_packet packet;
    struct upgrade_hello *hello = &takeover->hello;
    if (!receive_first(takeover, CHANNEL_HELLO, &packet)
        || packet.len < sizeof(hello->version)) {
        return false;
    }
    memcpy(&hello->version, takeover->buf, sizeof(hello->version));
    if (hello->version != UPGRADE_VERSION) {
        log_error("upgrade: version %u is spoken there, %d here: restart instead",
                  hello->version, UPGRADE_VERSION);
        return false;
    }
    if (packet.len != sizeof(*hello)) {
        return false;
    }
    memcpy(hello, takeover->buf, sizeof(*hello));
    sodium_memzero(takeover->buf, sizeof(*hello));
    return true;
}

static bool receive_listeners(struct takeover *takeover)
{
    for (uint32_t i = 0; i < takeover->hello.n_listeners; i++) {
        struct channel_packet packet;
        if (!receive_first(takeover, CHANNEL_LISTENER, &packet)
            || !inheritance_receive(&takeover->inheritance, &packet, takeover->buf)) {
            return false;
        }
    }
    return true;
}

bool takeover_open(struct takeover **opened)
{
    int fd = take_variable();
    *opened = NULL;
    if (fd < 0) {
        return true;
    }
    if (!channel_is_one(fd)) {
        log_error(
            PROGRAM_CHANNEL_VARIABLE
            " is set and names no channel: it is for upgrades by SIGUSR2; unset it");
        return false;
    }
    struct takeover *takeover = calloc(1, sizeof(*takeover));
    if (takeover == NULL) {
        log_error("out of memory");
        return false;
    }
    takeover->channel_fd = fd;
    if (fcntl(fd, F_SETFD, FD_CLOEXEC) != 0 || !receive_hello(takeover)
        || !receive_listeners(takeover)) {
        log_error("upgrade: the agent that runs cannot be understood");
        takeover_close(takeover);
        return false;
    }
    *opened = takeover;
    return true;
}

const struct upgrade_hello *takeover_hello(const struct takeover *takeover)
{
    return &takeover->hello;
}

struct inheritance *takeover_inheritance(struct takeover *takeover)
{
    return &takeover->inheritance;
}

/* Files of sockets are this agent's from now on. */
static void own_files(struct takeover *takeover)
{
    const struct takeover_parts *parts = &takeover->parts;
    server_own_files(parts->server, true);
    for (unsigned i = 0; i < parts->n_runtimes; i++) {
        runtime_own_file(parts->runtimes[i], true);
    }
}

/* Nothing more comes. Where the agent before has ended, all there is is this agent's; else it
 * may go on, and then needs the files of its sockets. */
static void finish(struct takeover *takeover, bool is_alone)
{
    const struct takeover_parts *parts = &takeover->parts;
    ev_io_stop(parts->loop, &takeover->io);
    ev_timer_stop(parts->loop, &takeover->stop_deadline);
    image_reader_clear(&takeover->image);
    (void)close(takeover->channel_fd);
    takeover->channel_fd = -1;
    server_reserve(parts->server, 0);
    if (is_alone) {
        own_files(takeover);
    }
    inheritance_close(&takeover->inheritance, is_alone);
    parts->over(parts->context);
}

static void finish_early(struct takeover *takeover, bool is_alone, const char *why)
{
    log_warning("upgrade: %s; serving with what it gave: connections %u, counters %ju",
                why, takeover->taken.n_connections,
                (uintmax_t)takeover->taken.n_counters);
    finish(takeover, is_alone);
}

static bool take_number(struct takeover *takeover, const struct channel_packet *packet)
{
    uint32_t n = 0;
    if (packet->len != sizeof(n)) {
        return false;
    }
    memcpy(&n, takeover->buf, sizeof(n));
    if (n > SERVER_CONNECTIONS_MAX) {
        return false;
    }
    takeover->n_expected = n;
    takeover->begun_at = clock_now();
    server_reserve(takeover->parts.server, n);
    return true;
}

static bool take_connection(struct takeover *takeover,
                            const struct channel_packet *packet)
{
    if (takeover->n_expected == 0) {
        (void)close(packet->fd);
        return false;
    }
    struct handover *handover = handover_receive(packet, takeover->buf);
    if (handover == NULL) {
        return false;
    }
    takeover->n_expected--;
    takeover->taken.n_connections++;
    server_adopt(takeover->parts.server, handover);
    return true;
}

static void add_counters(void *context, enum image_kind kind,
                         const struct image_record *records, size_t n_records)
{
    const struct takeover *takeover = context;
    local_import(takeover->parts.store, kind, records, n_records, clock_now(),
                 takeover->parts.counters);
}

static bool take_counters(struct takeover *takeover,
                          const struct channel_packet *packet)
{
    enum image_status status = image_read(&takeover->image, takeover->buf, packet->len);
    takeover->taken.n_counters = takeover->image.n_records;
    return status == IMAGE_MORE || status == IMAGE_END;
}

static bool take_end(struct takeover *takeover)
{
    if (takeover->image.status != IMAGE_END) {
        return false;
    }
    struct iovec part = channel_part(&takeover->taken, sizeof(takeover->taken));
    if (channel_send(takeover->channel_fd, CHANNEL_DONE, &part, 1, -1) != CHANNEL_OK) {
        return false;
    }
    log_info("upgrade: taken over in %jd ms: connections %u, counters %ju",
             (intmax_t)(instant_diff_us(clock_now(), takeover->begun_at) / US_PER_MS),
             takeover->taken.n_connections, (uintmax_t)takeover->taken.n_counters);
    takeover->is_complete = true;
    return true;
}

static bool take(struct takeover *takeover, const struct channel_packet *packet)
{
    switch (packet->type) {
    case CHANNEL_CONNECTIONS:
        return take_number(takeover, packet);
    case CHANNEL_CONNECTION:
        return take_connection(takeover, packet);
    case CHANNEL_END:
        return take_end(takeover);
    case CHANNEL_LISTENER:
        (void)close(packet->fd);
        return false;
    case CHANNEL_COUNTERS:
        return take_counters(takeover, packet);
    case CHANNEL_HELLO:
    case CHANNEL_READY:
    case CHANNEL_DONE:
        return false;
    }
    NEVER("a packet's type");
}

static void on_ended(struct takeover *takeover)
{
    if (takeover->is_complete) {
        finish(takeover, true);
    } else {
        finish_early(takeover, true, "the agent before ended too early");
    }
}

/* Take one packet; whether there may be another. */
static bool take_next(struct takeover *takeover)
{
    struct channel_packet packet;
    switch (channel_receive(takeover->channel_fd, takeover->buf, sizeof(takeover->buf),
                            &packet)) {
    case CHANNEL_OK:
        if (take(takeover, &packet)) {
            return true;
        }
        finish_early(takeover, false, "the agent before cannot be understood");
        return false;
    case CHANNEL_LATER:
        return false;
    case CHANNEL_ENDED:
        on_ended(takeover);
        return false;
    case CHANNEL_BAD:
        finish_early(takeover, false, "the agent before sent what is no packet");
        return false;
    }
    NEVER("a channel's status");
}

static void on_channel(struct ev_loop *loop, struct ev_io *io, int events)
{
    struct takeover *takeover = CONTAINER_OF(io, struct takeover, io);
    (void)loop;
    (void)events;
    for (int i = 0; i < TAKEOVER_PACKETS_MAX && take_next(takeover); i++) {
    }
}

static void on_stop_deadline(struct ev_loop *loop, struct ev_timer *timer, int events)
{
    (void)loop;
    (void)events;
    finish_early(CONTAINER_OF(timer, struct takeover, stop_deadline), false,
                 "the agent before does not come to an end");
}

void takeover_begin(struct takeover *takeover, const struct takeover_parts *parts)
{
    takeover->parts = *parts;
    image_reader_init(&takeover->image, add_counters, takeover);
    ev_io_init(&takeover->io, on_channel, takeover->channel_fd, EV_READ);
    ev_io_start(parts->loop, &takeover->io);
    ev_timer_init(&takeover->stop_deadline, on_stop_deadline, 0, UPGRADE_WAIT_S);
    /* How many come is not known yet; until then all is accepted by the one before. */
    server_reserve(parts->server, SERVER_CONNECTIONS_MAX);
    if (channel_send(takeover->channel_fd, CHANNEL_READY, NULL, 0, -1) != CHANNEL_OK) {
        finish_early(takeover, true, "the agent before is gone");
    }
}

bool takeover_is_under_way(const struct takeover *takeover)
{
    return takeover != NULL && takeover->channel_fd >= 0;
}

bool takeover_may_stop(struct takeover *takeover)
{
    if (!takeover_is_under_way(takeover)) {
        return true;
    }
    if (!takeover->is_stop_wanted) {
        log_info("stopping when the upgrade is over");
        takeover->is_stop_wanted = true;
        ev_timer_again(takeover->parts.loop, &takeover->stop_deadline);
    }
    return false;
}

bool takeover_is_stop_wanted(const struct takeover *takeover)
{
    return takeover->is_stop_wanted;
}

void takeover_close(struct takeover *takeover)
{
    if (takeover == NULL) {
        return;
    }
    if (takeover->channel_fd >= 0) {
        (void)close(takeover->channel_fd);
    }
    inheritance_close(&takeover->inheritance, false);
    sodium_memzero(&takeover->hello, sizeof(takeover->hello));
    free(takeover);
}
