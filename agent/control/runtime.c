#include "agent/control/runtime.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sys/socket.h>

#include "agent/log.h"

/* The words of a line. */
struct words {
    unsigned n;
    bool is_cut; /* there are more */
    const char *words[RUNTIME_WORDS_MAX];
};

struct client {
    struct ev_io io;
    struct ev_timer deadline; /* of the line, then of the answer's way out */
    struct runtime *runtime;
    bool is_used;
    struct runtime_answer answer; /* while a command is at it: `out` writes `text` */
    struct runtime_args args;
    struct words words;
    size_t line_len;
    char line[RUNTIME_LINE_BYTES_MAX + 1];
    char *text; /* of the answer */
    size_t text_len;
    size_t text_cap;
    size_t text_off;
    bool is_text_cut; /* memory was short */
};

struct runtime {
    struct ev_loop *loop;
    struct ev_io io;
    struct ev_timer pause; /* without descriptors, until the next try */
    struct listening listening;
    char text[ADDRESS_TEXT_BYTES_MAX]; /* as configured */
    const struct runtime_command *commands;
    const void *context;
    unsigned n_owed; /* answers to come after the door was closed */
    struct client clients[RUNTIME_CLIENTS_MAX];
};

static void client_close(struct client *client)
{
    struct ev_loop *loop = client->runtime->loop;
    ev_io_stop(loop, &client->io);
    ev_timer_stop(loop, &client->deadline);
    (void)close(client->io.fd);
    free(client->text);
    client->text = NULL;
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

/* @return whether the answer is given: else it is ended later */
static bool run_command(struct client *client, const struct runtime_command *command,
                        unsigned n_own)
{
    const struct words *words = &client->words;
    FILE *out = client->answer.out;
    client->args = (struct runtime_args){words->n - n_own, words->words + n_own};
    if (client->args.n > 0 && command->args == NULL) {
        (void)fprintf(out, "%s takes no arguments.\n", command->words);
    } else if (command->run != NULL) {
        command->run(client->runtime->context, &client->args, out);
    } else {
        command->begin(client->runtime->context, &client->args, &client->answer);
        return false;
    }
    return true;
}

/* @return whether the answer is given: else it is ended later */
static bool run_line(struct client *client)
{
    const struct runtime *runtime = client->runtime;
    struct words *words = &client->words;
    FILE *out = client->answer.out;
    split(words, client->line);
    if (words->is_cut) {
        (void)fprintf(out, "The line has more than %d words.\n", RUNTIME_WORDS_MAX);
        return true;
    }
    for (const struct runtime_command *c = runtime->commands; c->words != NULL; c++) {
        unsigned n_own = count_own(c, words);
        if (n_own > 0) {
            return run_command(client, c, n_own);
        }
    }
    if (words->n != 1 || strcmp(words->words[0], "help") != 0) {
        (void)fputs("Unknown command. These are known:\n", out);
    }
    print_help(runtime, out);
    return true;
}

/* What a command prints is kept whole. glibc's memory streams would not tell of a part
 * that found no memory. */
static ssize_t keep_text(void *cookie, const char *bytes, size_t len)
{
    struct client *client = cookie;
    size_t need = client->text_len + len;
    if (need > client->text_cap) {
        size_t cap = need > 2 * client->text_cap ? need : 2 * client->text_cap;
        char *grown = realloc(client->text, cap);
        if (grown == NULL) {
            client->is_text_cut = true;
            return 0;
        }
        client->text = grown;
        client->text_cap = cap;
    }
    memcpy(client->text + client->text_len, bytes, len);
    client->text_len = need;
    return (ssize_t)len;
}

/* Nobody reads it any more. */
static void end_owed(struct client *client)
{
    struct runtime *runtime = client->runtime;
    client_close(client);
    if (--runtime->n_owed == 0) {
        free(runtime);
    }
}

/* Turn to writing the answer: all of it, or none. */
void runtime_answer_end(struct runtime_answer *answer)
{
    struct client *client = CONTAINER_OF(answer, struct client, answer);
    struct ev_loop *loop = client->runtime->loop;
    bool is_whole = fclose(answer->out) == 0 && !client->is_text_cut;
    answer->out = NULL;
    if (client->runtime->n_owed > 0) {
        end_owed(client);
        return;
    }
    if (!is_whole) {
        client_close(client);
        return;
    }
    ev_io_set(&client->io, client->io.fd, EV_WRITE);
    ev_io_start(loop, &client->io);
    client->deadline.repeat = RUNTIME_ANSWER_S;
    ev_timer_again(loop, &client->deadline);
}

/* Run the line. Until it is answered nobody looks after the client. */
static void client_answer(struct client *client, bool is_too_long)
{
    static const cookie_io_functions_t functions = {.write = keep_text};
    client->answer.out = fopencookie(client, "w", functions);
    if (client->answer.out == NULL) {
        client_close(client);
        return;
    }
    ev_io_stop(client->runtime->loop, &client->io);
    ev_timer_stop(client->runtime->loop, &client->deadline);
    if (is_too_long) {
        (void)fprintf(client->answer.out, "The line is longer than %d bytes.\n",
                      RUNTIME_LINE_BYTES_MAX - 1);
    }
    if (is_too_long || run_line(client)) {
        runtime_answer_end(&client->answer);
    }
}

static void client_write(struct client *client)
{
    ssize_t n = send(client->io.fd, client->text + client->text_off,
                     client->text_len - client->text_off, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
        return;
    }
    if (n > 0) {
        client->text_off += (size_t)n;
    }
    if (n <= 0 || client->text_off == client->text_len) {
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
    ev_io_stop(runtime->loop, &runtime->io);
    ev_timer_stop(runtime->loop, &runtime->pause);
    address_unlisten(&runtime->listening);
    for (int i = 0; i < RUNTIME_CLIENTS_MAX; i++) {
        struct client *client = &runtime->clients[i];
        if (client->is_used && client->answer.out != NULL) {
            runtime->n_owed++;
        } else if (client->is_used) {
            client_close(client);
        }
    }
    if (runtime->n_owed == 0) {
        free(runtime);
    }
}
