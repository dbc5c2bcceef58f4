#include "agent/net/server.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "agent/log.h"
#include "agent/net/asker.h"
#include "agent/net/reassembly.h"
#include "agent/net/worker.h"

struct listener {
    struct ev_io io;
    struct server *server;
    struct listening listening;
    char text[ADDRESS_TEXT_BYTES_MAX]; /* as configured */
    bool is_tcp;
    bool is_inherited; /* fd@N: whoever started us listens on */
};

struct server {
    struct ev_loop *loop;
    unsigned connections_max;
    unsigned n_listeners;
    unsigned n_workers;
    unsigned next_worker; /* whose turn it is */
    unsigned n_reserved;  /* connections that are still to be adopted */
    bool is_paused;       /* at the limit, or out of descriptors */
    bool is_handing_over;
    bool is_stopped;
    unsigned upgrade; /* number of the latest */
    server_handed_over_fn *handed_over;
    void *handed_over_context;
    struct instant warned_at; /* of a pause */
    struct ev_timer pause;
    struct worker_gone gone;
    struct reassembly *reassembly;
    struct listener listeners[SERVER_LISTENERS_MAX];
    struct worker *workers[SERVER_WORKERS_MAX];
    uint32_t n_turns[SERVER_WORKERS_MAX]; /* of each worker, when last looked at */
    unsigned change;                      /* number of the last change of rules */
    server_changed_fn *changed;           /* of the change under way, or NULL */
    void *changed_context;
    unsigned n_holds;     /* of the rules that workers were given last */
    unsigned n_old_holds; /* of those before them */
    struct asker *asker;
    unsigned next_asked; /* the worker whose turn it is */
};

static void watch_listeners(struct server *server)
{
    bool is_accepting = !server->is_paused && !server->is_handing_over
                        && !server->is_stopped;
    for (unsigned i = 0; i < server->n_listeners; i++) {
        if (is_accepting) {
            ev_io_start(server->loop, &server->listeners[i].io);
        } else {
            ev_io_stop(server->loop, &server->listeners[i].io);
        }
    }
}

static void pause_accepting(struct server *server, const char *why)
{
    if (server->is_paused) {
        return;
    }
    server->is_paused = true;
    watch_listeners(server);
    struct instant now = clock_now();
    if (instant_diff_us(now, server->warned_at) >= WORKER_WARNING_US) {
        server->warned_at = now;
        log_warning("not accepting for now: %s (said at most once a minute)", why);
    }
}

static void resume_accepting(struct server *server)
{
    if (!server->is_paused) {
        return;
    }
    server->is_paused = false;
    ev_timer_stop(server->loop, &server->pause);
    watch_listeners(server);
}

static bool is_full(const struct server *server)
{
    return server_n_open(server) + server->n_reserved >= server->connections_max;
}

/* Once, when all workers have nothing left to hand over. */
static void check_handed_over(struct server *server)
{
    if (!server->is_handing_over || server->handed_over == NULL) {
        return;
    }
    for (unsigned i = 0; i < server->n_workers; i++) {
        if (!worker_has_handed_over(server->workers[i], server->upgrade)) {
            return;
        }
    }
    server_handed_over_fn *handed_over = server->handed_over;
    server->handed_over = NULL;
    handed_over(server->handed_over_context);
}

static void check_changed(struct server *server)
{
    if (server->changed == NULL || server->n_old_holds > 0) {
        return;
    }
    for (unsigned i = 0; i < server->n_workers; i++) {
        if (!worker_has_changed(server->workers[i], server->change)) {
            return;
        }
    }
    server_changed_fn *changed = server->changed;
    server->changed = NULL;
    changed(server->changed_context);
}

unsigned server_hold(struct server *server)
{
    server->n_holds++;
    return server->change;
}

void server_let_go(struct server *server, unsigned hold)
{
    if (hold == server->change) {
        server->n_holds--;
        return;
    }
    server->n_old_holds--;
    check_changed(server);
}

static void send_ask(void *context, struct ask *ask)
{
    struct server *server = context;
    worker_post(server->workers[server->next_asked],
                (struct letter){.type = LETTER_ASK, .ask = ask});
    server->next_asked = (server->next_asked + 1) % server->n_workers;
}

static void on_gone(struct ev_loop *loop, struct ev_async *async, int events)
{
    struct server *server = CONTAINER_OF(async, struct server, gone.async);
    (void)loop;
    (void)events;
    if (!is_full(server)) {
        resume_accepting(server);
    }
    asker_collect(server->asker);
    check_handed_over(server);
    check_changed(server);
}

static void on_pause_over(struct ev_loop *loop, struct ev_timer *timer, int events)
{
    (void)loop;
    (void)events;
    resume_accepting(CONTAINER_OF(timer, struct server, pause));
}

static void pause_for_resources(struct server *server, int error)
{
    char reason[64];
    pause_accepting(server, strerror_r(error, reason, sizeof(reason)));
    ev_timer_set(&server->pause, SERVER_PAUSE_MS / 1000.0, 0);
    ev_timer_start(server->loop, &server->pause);
}

/* One connection more, for the worker whose turn it is. */
static void give(struct server *server, struct letter letter)
{
    (void)atomic_fetch_add_explicit(&server->gone.n_open, 1, memory_order_relaxed);
    worker_post(server->workers[server->next_worker], letter);
    server->next_worker = (server->next_worker + 1) % server->n_workers;
}

static void on_acceptable(struct ev_loop *loop, struct ev_io *io, int events)
{
    struct listener *listener = CONTAINER_OF(io, struct listener, io);
    struct server *server = listener->server;
    (void)loop;
    (void)events;
    for (int i = 0; i < SERVER_ACCEPTS_MAX; i++) {
        if (is_full(server)) {
            pause_accepting(server, "the connection limit is reached");
            return;
        }
        int fd = address_accept(io->fd);
        if (fd < 0 && errno == EAGAIN) {
            return;
        }
        if (fd < 0) {
            pause_for_resources(server, errno);
            return;
        }
        int on = 1;
        if (listener->is_tcp) {
            (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
        }
        give(server, (struct letter){.type = LETTER_CONNECTION, .fd = fd});
    }
}

static bool open_listener(struct server *server, const struct address *address,
                          struct inheritance *inheritance)
{
    char error[ADDRESS_ERROR_BYTES_MAX];
    struct listener *listener = &server->listeners[server->n_listeners];
    if (!inheritance_listen(inheritance, address, &listener->listening, error)) {
        log_error("cannot listen on %s", error);
        return false;
    }
    if (address_is_remote(address)) {
        log_warning(
            "%s is reachable from other hosts: SPOP has no authentication, keep "
            "it behind a firewall",
            address->text);
    }
    struct sockaddr_storage bound = {0};
    socklen_t len = sizeof(bound);
    (void)getsockname(listener->listening.fd, (struct sockaddr *)&bound, &len);
    listener->is_tcp = bound.ss_family != AF_UNIX;
    listener->is_inherited = address->inherited_fd >= 0;
    listener->server = server;
    memcpy(listener->text, address->text, sizeof(listener->text));
    ev_io_init(&listener->io, on_acceptable, listener->listening.fd, EV_READ);
    server->n_listeners++;
    return true;
}

static void close_listeners(struct server *server)
{
    for (unsigned i = 0; i < server->n_listeners; i++) {
        ev_io_stop(server->loop, &server->listeners[i].io);
        address_unlisten(&server->listeners[i].listening);
    }
    server->n_listeners = 0;
}

static bool start_workers(struct server *server, const struct server_options *options)
{
    for (unsigned i = 0; i < options->n_workers; i++) {
        struct decide decide = {
            .set = options->set,
            .clients = options->clients,
            .store = options->store,
            .counters = options->counters[i],
            .options = options->decide_options,
        };
        server->workers[i] = worker_start(i, &decide, options->stores, &server->gone,
                                          server->reassembly);
        if (server->workers[i] == NULL) {
            return false;
        }
        server->n_workers++;
    }
    return true;
}

static struct server *make_server(struct store *local)
{
    struct server *server = calloc(1, sizeof(*server));
    struct asker *asker = asker_new(local, send_ask, server);
    struct reassembly *reassembly = reassembly_new();
    if (server == NULL || asker == NULL || reassembly == NULL) {
        reassembly_free(reassembly);
        asker_free(asker);
        free(server);
        return NULL;
    }
    server->asker = asker;
    server->reassembly = reassembly;
    return server;
}

struct server *server_start(struct ev_loop *loop, const struct server_options *options)
{
    ENSURE(options->n_workers >= 1 && options->n_workers <= SERVER_WORKERS_MAX);
    ENSURE(options->n_addresses <= SERVER_LISTENERS_MAX);
    ENSURE(options->connections_max <= SERVER_CONNECTIONS_MAX);
    struct server *server = make_server(options->local);
    if (server == NULL) {
        log_error("out of memory");
        return NULL;
    }
    server->loop = loop;
    server->connections_max = options->connections_max;
    server->gone.main_loop = loop;
    ev_async_init(&server->gone.async, on_gone);
    ev_async_start(loop, &server->gone.async);
    ev_timer_init(&server->pause, on_pause_over, 0, 0);
    bool ok = true;
    for (unsigned i = 0; ok && i < options->n_addresses; i++) {
        ok = open_listener(server, &options->addresses[i], options->inheritance);
    }
    if (!ok || !start_workers(server, options)) {
        server_stop(server);
        server_free(server);
        return NULL;
    }
    watch_listeners(server);
    return server;
}

unsigned server_n_listeners(const struct server *server)
{
    return server->n_listeners;
}

enum channel_status server_send_listeners(const struct server *server, int channel_fd)
{
    enum channel_status status = CHANNEL_OK;
    for (unsigned i = 0; status == CHANNEL_OK && i < server->n_listeners; i++) {
        const struct listener *listener = &server->listeners[i];
        status = inheritance_send(channel_fd, listener->text, &listener->listening);
    }
    return status;
}

static void post_all(struct server *server, enum letter_type type)
{
    for (unsigned i = 0; i < server->n_workers; i++) {
        worker_post(server->workers[i], (struct letter){.type = type, .fd = -1});
    }
}

/* One for each worker, so that nobody closes what another uses. */
static bool copy_channel(int channel_fd, int *fds, unsigned n)
{
    unsigned n_copied = 0;
    while (n_copied < n) {
        fds[n_copied] = fcntl(channel_fd, F_DUPFD_CLOEXEC, 0);
        if (fds[n_copied] < 0) {
            break;
        }
        n_copied++;
    }
    if (n_copied == n) {
        return true;
    }
    while (n_copied > 0) {
        (void)close(fds[--n_copied]);
    }
    return false;
}

bool server_hand_over(struct server *server, int channel_fd,
                      server_handed_over_fn *handed_over, void *context)
{
    int fds[SERVER_WORKERS_MAX];
    if (!copy_channel(channel_fd, fds, server->n_workers)) {
        return false;
    }
    server->is_handing_over = true;
    server->handed_over = handed_over;
    server->handed_over_context = context;
    server->upgrade++;
    watch_listeners(server);
    for (unsigned i = 0; i < server->n_workers; i++) {
        worker_post(server->workers[i], (struct letter){.type = LETTER_HAND_OVER,
                                                        .fd = fds[i],
                                                        .upgrade = server->upgrade});
    }
    return true;
}

void server_keep(struct server *server)
{
    if (!server->is_handing_over) {
        return;
    }
    server->is_handing_over = false;
    post_all(server, LETTER_KEEP);
    watch_listeners(server);
}

void server_own_files(struct server *server, bool is_ours)
{
    for (unsigned i = 0; i < server->n_listeners; i++) {
        server->listeners[i].listening.is_foreign = !is_ours;
    }
}

void server_reserve(struct server *server, unsigned n)
{
    server->n_reserved = n;
    if (!is_full(server)) {
        resume_accepting(server);
        return;
    }
    server->is_paused = true;
    watch_listeners(server);
}

void server_adopt(struct server *server, struct handover *handover)
{
    ENSURE(server->n_reserved > 0);
    server->n_reserved--;
    give(server, (struct letter){.type = LETTER_ADOPT,
                                 .fd = handover->fd,
                                 .handover = handover});
}

/* Whether whoever started us keeps all our listeners open. HAProxy goes on connecting
 * then: each moment that we stay is one more before somebody accepts. */
static bool has_only_inherited(const struct server *server)
{
    for (unsigned i = 0; i < server->n_listeners; i++) {
        if (!server->listeners[i].is_inherited) {
            return false;
        }
    }
    return true;
}

void server_change_rules(struct server *server, const struct decide_set *set,
                         const struct rules_clients *clients,
                         struct counters *const *counters, server_changed_fn *changed,
                         void *context)
{
    ENSURE(server->changed == NULL && server->n_old_holds == 0);
    server->changed = changed;
    server->changed_context = context;
    server->change++;
    server->n_old_holds = server->n_holds;
    server->n_holds = 0;
    for (unsigned i = 0; i < server->n_workers; i++) {
        worker_post(server->workers[i], (struct letter){.type = LETTER_RULES,
                                                        .change = server->change,
                                                        .set = set,
                                                        .clients = clients,
                                                        .counters = counters[i]});
    }
}

struct store *server_store(struct server *server)
{
    return asker_store(server->asker);
}

void server_stop(struct server *server)
{
    if (server->is_stopped) {
        return;
    }
    server->is_stopped = true;
    bool is_listened_on = has_only_inherited(server);
    ev_timer_stop(server->loop, &server->pause);
    close_listeners(server);
    post_all(server, is_listened_on ? LETTER_LEAVE : LETTER_DRAIN);
}

void server_free(struct server *server)
{
    if (server == NULL) {
        return;
    }
    for (unsigned i = 0; i < server->n_workers; i++) {
        worker_join(server->workers[i]);
    }
    ev_async_stop(server->loop, &server->gone.async);
    server->changed = NULL;
    asker_free(server->asker);
    reassembly_free(server->reassembly);
    free(server);
}

bool server_is_turning(struct server *server)
{
    bool is_turning = true;
    for (unsigned i = 0; i < server->n_workers; i++) {
        uint32_t n_turns = worker_n_turns(server->workers[i]);
        if (n_turns == server->n_turns[i]) {
            log_error(
                "worker %u stands still: the service manager is not told that all is well",
                i);
            is_turning = false;
        }
        server->n_turns[i] = n_turns;
    }
    return is_turning;
}

unsigned server_n_open(const struct server *server)
{
    return atomic_load_explicit(&server->gone.n_open, memory_order_relaxed);
}
