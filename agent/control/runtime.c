#include "agent/control/runtime.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sys/socket.h>

#include "agent/log.h"

struct client {
    struct ev_io io;
    struct ev_timer deadline; /* of the line, then of the answer */
    struct runtime *runtime;
    bool is_used;
    size_t line_len;
    char line[RUNTIME_LINE_BYTES_MAX + 1];
    char *answer;
    size_t answer_len;
    size_t answer_cap;
    size_t answer_off;
    bool is_answer_cut; /* memory was short */
};

struct runtime {
    struct ev_loop *loop;
    struct ev_io io;
    struct ev_timer pause; /* without descriptors, until the next try */
    struct listening listening;
    char text[ADDRESS_TEXT_BYTES_MAX]; /* as configured */
    const struct runtime_command *commands;
    const void *context;
    struct client clients[RUNTIME_CLIENTS_MAX];
};

static void client_close(struct client *client)
{
    struct ev_loop *loop = client->runtime->loop;
    ev_io_stop(loop, &client->io);
    ev_timer_stop(loop, &client->deadline);
    (void)close(client->io.fd);
    free(client->answer);
    client->answer = NULL;
    client->is_used = false;
}

static void print_help(const struct runtime *runtime, FILE *out)
{
    (void)fprintf(out, "%-16s %s\n", "help", "this text");
    for (const struct runtime_command *c = runtime->commands; c->words != NULL; c++) {
        if (c->args != NULL) {
            (void)fprintf(out, "%s %s\n%-16s %s\n", c->words, c->args, "", c->help);
        } else {
            (void)fprintf(out, "%-16s %s\n", c->words, c->help);
        }
    }
}

/* The words of a line. */
struct words {
    unsigned n;
    bool is_cut; /* there are more */
    const char *words[RUNTIME_WORDS_MAX];
};

static bool is_blank(char c)
{
    return isspace((unsigned char)c) != 0;
}

/* Take a word apart from what follows, in place. */
static char *end_word(char *word)
{
    char *to = word;
    char *from = word;
    while (*from != '\0' && !is_blank(*from)) {
        from += *from == '\\' && from[1] != '\0';
        *to++ = *from++;
    }
    char *next = from + (*from != '\0');
    *to = '\0';
    return next;
}

static void split(struct words *words, char *line)
{
    words->n = 0;
    words->is_cut = false;
    for (char *at = line; *at != '\0';) {
        if (is_blank(*at)) {
            at++;
            continue;
        }
        words->is_cut = words->n == RUNTIME_WORDS_MAX;
        if (words->is_cut) {
            return;
        }
        words->words[words->n++] = at;
        at = end_word(at);
    }
}

/* How many words a command has; 0 when the line does not begin with them. */
static unsigned count_own(const struct runtime_command *command,
                          const struct words *words)
{
    const char *own = command->words;
    for (unsigned i = 0; i < words->n; i++) {
        size_t len = strcspn(own, " ");
        if (strlen(words->words[i]) != len || memcmp(own, words->words[i], len) != 0) {
            return 0;
        }
        if (own[len] == '\0') {
            return i + 1;
        }
        own += len + 1;
    }
    return 0;
}

static void run_command(const struct runtime *runtime,
                        const struct runtime_command *command,
                        const struct runtime_args *args, FILE *out)
{
    if (args->n > 0 && command->args == NULL) {
        (void)fprintf(out, "%s takes no arguments.\n", command->words);
        return;
    }
    command->run(runtime->context, args, out);
}

static void run_line(struct client *client, FILE *out)
{
    const struct runtime *runtime = client->runtime;
    struct words words;
    split(&words, client->line);
    if (words.is_cut) {
        (void)fprintf(out, "The line has more than %d words.\n", RUNTIME_WORDS_MAX);
        return;
    }
    for (const struct runtime_command *c = runtime->commands; c->words != NULL; c++) {
        unsigned n_own = count_own(c, &words);
        if (n_own > 0) {
            struct runtime_args args = {words.n - n_own, words.words + n_own};
            run_command(runtime, c, &args, out);
            return;
        }
    }
    if (words.n != 1 || strcmp(words.words[0], "help") != 0) {
        (void)fputs("Unknown command. These are known:\n", out);
    }
    print_help(runtime, out);
}

/* What a command prints is kept whole. glibc's memory streams would not tell of a part
 * that found no memory. */
static ssize_t keep_answer(void *cookie, const char *bytes, size_t len)
{
    struct client *client = cookie;
    size_t need = client->answer_len + len;
    if (need > client->answer_cap) {
        size_t cap = need > 2 * client->answer_cap ? need : 2 * client->answer_cap;
        char *grown = realloc(client->answer, cap);
        if (grown == NULL) {
            client->is_answer_cut = true;
            return 0;
        }
        client->answer = grown;
        client->answer_cap = cap;
    }
    memcpy(client->answer + client->answer_len, bytes, len);
    client->answer_len = need;
    return (ssize_t)len;
}

/* Run the line and turn to writing the answer: all of it, or none. */
static void client_answer(struct client *client, bool is_too_long)
{
    static const cookie_io_functions_t functions = {.write = keep_answer};
    FILE *out = fopencookie(client, "w", functions);
    if (out == NULL) {
        client_close(client);
        return;
    }
    if (is_too_long) {
        (void)fprintf(out, "The line is longer than %d bytes.\n",
                      RUNTIME_LINE_BYTES_MAX - 1);
    } else {
        run_line(client, out);
    }
    if (fclose(out) != 0 || client->is_answer_cut) {
        client_close(client);
        return;
    }
    ev_io_stop(client->runtime->loop, &client->io);
    ev_io_set(&client->io, client->io.fd, EV_WRITE);
    ev_io_start(client->runtime->loop, &client->io);
    client->deadline.repeat = RUNTIME_ANSWER_S;
    ev_timer_again(client->runtime->loop, &client->deadline);
}

static void client_write(struct client *client)
{
    ssize_t n = send(client->io.fd, client->answer + client->answer_off,
                     client->answer_len - client->answer_off,
                     MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
        return;
    }
    if (n > 0) {
        client->answer_off += (size_t)n;
    }
    if (n <= 0 || client->answer_off == client->answer_len) {
        client_close(client);
    }
}

static void client_read(struct client *client)
{
    ssize_t n = recv(client->io.fd, client->line + client->line_len,
                     RUNTIME_LINE_BYTES_MAX - client->line_len, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
        return;
    }
    if (n < 0) {
        client_close(client);
        return;
    }
    client->line_len += (size_t)n;
    client->line[client->line_len] = '\0';
    char *end = memchr(client->line, '\n', client->line_len);
    bool is_whole = end != NULL || (n == 0 && client->line_len > 0);
    if (end != NULL) {
        *end = '\0';
    }
    bool is_too_long = !is_whole && client->line_len == RUNTIME_LINE_BYTES_MAX;
    if (is_whole || is_too_long) {
        client_answer(client, is_too_long);
    } else if (n == 0) {
        client_close(client);
    }
}

static void on_client(struct ev_loop *loop, struct ev_io *io, int events)
{
    struct client *client = CONTAINER_OF(io, struct client, io);
    (void)loop;
    if ((events & EV_WRITE) != 0) {
        client_write(client);
    } else {
        client_read(client);
    }
}

static void on_deadline(struct ev_loop *loop, struct ev_timer *timer, int events)
{
    (void)loop;
    (void)events;
    client_close(CONTAINER_OF(timer, struct client, deadline));
}

static struct client *find_free(struct runtime *runtime)
{
    for (int i = 0; i < RUNTIME_CLIENTS_MAX; i++) {
        if (!runtime->clients[i].is_used) {
            return &runtime->clients[i];
        }
    }
    return NULL;
}

static void on_pause_over(struct ev_loop *loop, struct ev_timer *timer, int events)
{
    struct runtime *runtime = CONTAINER_OF(timer, struct runtime, pause);
    (void)events;
    ev_timer_stop(loop, timer);
    ev_io_start(loop, &runtime->io);
}

static void on_acceptable(struct ev_loop *loop, struct ev_io *io, int events)
{
    struct runtime *runtime = CONTAINER_OF(io, struct runtime, io);
    (void)events;
    int fd = address_accept(io->fd);
    if (fd < 0) {
        if (errno != EAGAIN) {
            ev_io_stop(loop, &runtime->io);
            ev_timer_again(loop, &runtime->pause);
        }
        return;
    }
    struct client *client = find_free(runtime);
    if (client == NULL) {
        (void)close(fd); /* too many people at the door: they may come back */
        return;
    }
    memset(client, 0, sizeof(*client));
    client->runtime = runtime;
    client->is_used = true;
    ev_io_init(&client->io, on_client, fd, EV_READ);
    ev_io_start(loop, &client->io);
    ev_timer_init(&client->deadline, on_deadline, 0, RUNTIME_LINE_S);
    ev_timer_again(loop, &client->deadline);
}

struct runtime *runtime_start(struct ev_loop *loop, const struct address *address,
                              struct inheritance *inheritance,
                              const struct runtime_command *commands,
                              const void *context)
{
    char error[ADDRESS_ERROR_BYTES_MAX];
    struct runtime *runtime = calloc(1, sizeof(*runtime));
    if (runtime == NULL) {
        log_error("runtime socket: out of memory");
        return NULL;
    }
    if (!inheritance_listen(inheritance, address, &runtime->listening, error)) {
        log_error("runtime socket: cannot listen on %s", error);
        free(runtime);
        return NULL;
    }
    memcpy(runtime->text, address->text, sizeof(runtime->text));
    runtime->loop = loop;
    runtime->commands = commands;
    runtime->context = context;
    ev_io_init(&runtime->io, on_acceptable, runtime->listening.fd, EV_READ);
    ev_io_start(loop, &runtime->io);
    ev_timer_init(&runtime->pause, on_pause_over, 0, RUNTIME_PAUSE_S);
    return runtime;
}

enum channel_status runtime_send_listener(const struct runtime *runtime, int channel_fd)
{
    return inheritance_send(channel_fd, runtime->text, &runtime->listening);
}

void runtime_set_open(struct runtime *runtime, bool is_open)
{
    ev_timer_stop(runtime->loop, &runtime->pause);
    if (is_open) {
        ev_io_start(runtime->loop, &runtime->io);
    } else {
        ev_io_stop(runtime->loop, &runtime->io);
    }
}

void runtime_own_file(struct runtime *runtime, bool is_ours)
{
    runtime->listening.is_foreign = !is_ours;
}

void runtime_stop(struct runtime *runtime)
{
    if (runtime == NULL) {
        return;
    }
    for (int i = 0; i < RUNTIME_CLIENTS_MAX; i++) {
        if (runtime->clients[i].is_used) {
            client_close(&runtime->clients[i]);
        }
    }
    ev_io_stop(runtime->loop, &runtime->io);
    ev_timer_stop(runtime->loop, &runtime->pause);
    address_unlisten(&runtime->listening);
    free(runtime);
}
