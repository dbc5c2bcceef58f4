#include "agent/control/program.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool read_path(char *path)
{
    ssize_t len = readlink("/proc/self/exe", path, PROGRAM_PATH_BYTES_MAX - 1);
    if (len <= 0) {
        return false;
    }
    path[len] = '\0';
    return true;
}

/* All of a file whose size is not known before; false with errno. */
static bool read_up_to(const char *path, char *to, size_t cap, size_t *len)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = -1;
    *len = 0;
    while (fd >= 0 && (n = read(fd, to + *len, cap - *len)) > 0) {
        *len += (size_t)n;
    }
    int saved = errno;
    if (fd >= 0) {
        (void)close(fd);
    }
    errno = saved;
    return n == 0;
}

static char *read_args(size_t *len)
{
    char *args = malloc(PROGRAM_ARGS_BYTES_MAX);
    if (args == NULL) {
        return NULL;
    }
    if (read_up_to("/proc/self/cmdline", args, PROGRAM_ARGS_BYTES_MAX, len)) {
        if (*len > 0 && *len < PROGRAM_ARGS_BYTES_MAX && args[*len - 1] == '\0') {
            return args;
        }
        errno = E2BIG;
    }
    free(args);
    return NULL;
}

/* Pointers to the texts in `args`, and a NULL. */
static char **point_at(char *args, size_t len)
{
    size_t n = 0;
    for (size_t i = 0; i < len; i++) {
        n += args[i] == '\0';
    }
    char **argv = calloc(n + 1, sizeof(*argv));
    if (argv == NULL) {
        return NULL;
    }
    char *next = args;
    for (size_t i = 0; i < n; i++) {
        argv[i] = next;
        next += strlen(next) + 1;
    }
    return argv;
}

bool program_read(struct program *program)
{
    size_t len = 0;
    *program = (struct program){0};
    if (!read_path(program->path)) {
        return false;
    }
    program->args = read_args(&len);
    program->argv = program->args != NULL ? point_at(program->args, len) : NULL;
    if (program->argv == NULL) {
        program_clear(program);
        return false;
    }
    return true;
}

void program_clear(struct program *program)
{
    free(program->argv);
    free(program->args);
    *program = (struct program){0};
}

/* What systemd says of one process by its number, and sockets that go another way. */
static bool is_of_this_process(const char *variable)
{
    static const char *const names[] = {
        "WATCHDOG_PID",   "LISTEN_PID",     "LISTEN_FDS",
        "LISTEN_FDNAMES", "LISTEN_PIDFDID", PROGRAM_CHANNEL_VARIABLE,
    };
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        size_t len = strlen(names[i]);
        if (strncmp(variable, names[i], len) == 0 && variable[len] == '=') {
            return true;
        }
    }
    return false;
}

/* The successor's environment: `ours`, and pointers into this one. */
static char **make_environment(char *ours)
{
    size_t n = 0;
    while (environ[n] != NULL) {
        n++;
    }
    char **made = calloc(n + 2, sizeof(*made));
    if (made == NULL) {
        return NULL;
    }
    size_t n_made = 0;
    for (size_t i = 0; i < n; i++) {
        if (!is_of_this_process(environ[i])) {
            made[n_made++] = environ[i];
        }
    }
    made[n_made] = ours;
    return made;
}

static int spawn(const struct program *program, int channel_fd, char **environment,
                 pid_t *pid)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none;
    sigset_t all;
    (void)sigemptyset(&none);
    (void)sigfillset(&all);
    int error = posix_spawn_file_actions_init(&actions);
    if (error != 0) {
        return error;
    }
    error = posix_spawnattr_init(&attributes);
    if (error != 0) {
        (void)posix_spawn_file_actions_destroy(&actions);
        return error;
    }
    /* A descriptor that is copied to itself is no longer closed on exec. */
    error = posix_spawn_file_actions_adddup2(&actions, channel_fd, channel_fd);
    if (error == 0) {
        (void)posix_spawnattr_setsigmask(&attributes, &none);
        (void)posix_spawnattr_setsigdefault(&attributes, &all);
        (void)posix_spawnattr_setflags(&attributes,
                                       POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
        error = posix_spawn(pid, program->path, &actions, &attributes, program->argv,
                            environment);
    }
    (void)posix_spawnattr_destroy(&attributes);
    (void)posix_spawn_file_actions_destroy(&actions);
    return error;
}

bool program_start(const struct program *program, int channel_fd, pid_t *pid)
{
    char ours[sizeof(PROGRAM_CHANNEL_VARIABLE) + 16];
    (void)snprintf(ours, sizeof(ours), PROGRAM_CHANNEL_VARIABLE "=%d", channel_fd);
    char **environment = make_environment(ours);
    if (environment == NULL) {
        return false;
    }
    int error = spawn(program, channel_fd, environment, pid);
    free(environment);
    errno = error;
    return error == 0;
}
