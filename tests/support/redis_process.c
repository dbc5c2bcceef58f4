#include "tests/support/redis_process.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>

enum {
    ARGS_MAX = 48,
    ARG_BYTES_MAX = 96,
    TRIES_MAX = 500, /* of 10 ms */
    BUS_OFFSET = 10000,
    INFO_BYTES_MAX = 16384,
};

static struct sockaddr_in loopback(unsigned port)
{
    return (struct sockaddr_in){.sin_family = AF_INET,
                                .sin_port = htons((uint16_t)port),
                                .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};
}

static bool is_free(unsigned port)
{
    struct sockaddr_in address = loopback(port);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool ok = fd >= 0
              && bind(fd, (const struct sockaddr *)&address, sizeof(address)) == 0;
    (void)close(fd);
    return ok;
}

unsigned redis_process_free_port(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    unsigned port = 20000
                    + ((unsigned)getpid() * 37U + (unsigned)now.tv_nsec / 1000U)
                          % 10000U;
    for (unsigned i = 0; i < 10000; i++) {
        port = port < 29999 ? port + 1 : 20000;
        if (is_free(port) && is_free(port + BUS_OFFSET)) {
            return port;
        }
    }
    return 0;
}

static int connect_to(unsigned port)
{
    struct sockaddr_in address = loopback(port);
    struct timeval patience = {.tv_sec = 5};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0
        || setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)) != 0
        || connect(fd, (const struct sockaddr *)&address, sizeof(address)) != 0) {
        (void)close(fd);
        return -1;
    }
    return fd;
}

/* How long a reply is as its first bytes have it, where that says it. */
static size_t reply_length(const char *reply, size_t len)
{
    const char *end = memchr(reply, '\n', len);
    bool is_bulk = end != NULL && reply[0] == '$' && reply[1] != '-';
    return is_bulk ? (size_t)(end + 1 - reply) + strtoul(reply + 1, NULL, 10) + 2 : len;
}

static size_t receive(int fd, char *reply, size_t reply_bytes)
{
    size_t len = 0;
    ssize_t n = 0;
    do {
        n = recv(fd, reply + len, reply_bytes - 1 - len, 0);
        len += n > 0 ? (size_t)n : 0;
    } while (n > 0 && len < reply_bytes - 1 && len < reply_length(reply, len));
    reply[len] = '\0';
    return len;
}

bool redis_process_tell(const struct redis_process *process, const char *command,
                        char *reply, size_t reply_bytes)
{
    char line[1024];
    int len = snprintf(line, sizeof(line), "%s\r\n", command);
    int fd = connect_to(process->port);
    if (fd < 0) {
        return false;
    }
    reply[0] = '\0';
    size_t n = send(fd, line, (size_t)len, MSG_NOSIGNAL) == len
                   ? receive(fd, reply, reply_bytes)
                   : 0;
    (void)close(fd);
    return n > 0;
}

double redis_process_info(const struct redis_process *process, const char *section,
                          const char *name)
{
    char reply[INFO_BYTES_MAX];
    char command[64];
    (void)snprintf(command, sizeof(command), "INFO %s", section);
    const char *at = redis_process_tell(process, command, reply, sizeof(reply))
                         ? strstr(reply, name)
                         : NULL;
    return at != NULL ? strtod(at + strlen(name), NULL) : -1;
}

double redis_process_cpu_us(const struct redis_process *process)
{
    return 1e6
           * (redis_process_info(process, "cpu", "\nused_cpu_user:")
              + redis_process_info(process, "cpu", "\nused_cpu_sys:"));
}

/* Whatever it answers, it is there: it may want TLS or a password. */
static bool wait_until_there(const struct redis_process *process)
{
    static const struct timespec moment = {.tv_nsec = 10000000};
    for (unsigned i = 0; i < TRIES_MAX; i++) {
        int fd = connect_to(process->port);
        (void)close(fd);
        if (fd >= 0) {
            return true;
        }
        (void)nanosleep(&moment, NULL);
    }
    return false;
}

/* Arguments of a program, which may write into them. */
struct args {
    unsigned n;
    char *pointers[ARGS_MAX + 1];
    char texts[ARGS_MAX][ARG_BYTES_MAX];
};

static void add(struct args *args, const char *text)
{
    if (args->n < ARGS_MAX) {
        args->pointers[args->n] = args->texts[args->n];
        (void)snprintf(args->texts[args->n++], ARG_BYTES_MAX, "%s", text);
    }
}

static void add_options(struct args *args, const struct redis_process *process)
{
    char port[8];
    char log[ARG_BYTES_MAX];
    (void)snprintf(port, sizeof(port), "%u", process->port);
    (void)snprintf(log, sizeof(log), "%s/log", process->dir);
    const char *const fixed[] = {"--save", "",          "--dir",     process->dir,
                                 "--bind", "127.0.0.1", "--logfile", log,
                                 "--port", port};
    bool has_file = process->options[0] != NULL && process->options[0][0] != '-';
    for (size_t i = 0; !has_file && i < sizeof(fixed) / sizeof(fixed[0]); i++) {
        add(args, fixed[i]);
    }
    for (const char *const *option = process->options; *option != NULL; option++) {
        add(args, *option);
        if (strcmp(*option, "--tls-port") == 0) { /* it takes the port's place */
            add(args, port);
            add(args, "--port");
            add(args, "0");
        }
    }
}

bool redis_process_restart(struct redis_process *process)
{
    struct args args = {.n = 0};
    posix_spawn_file_actions_t actions;
    add(&args, "redis-server");
    add_options(&args, process);
    (void)posix_spawn_file_actions_init(&actions);
    (void)posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
    (void)posix_spawn_file_actions_adddup2(&actions, 1, 2);
    int rc = posix_spawnp(&process->pid, args.pointers[0], &actions, NULL,
                          args.pointers, environ);
    (void)posix_spawn_file_actions_destroy(&actions);
    if (rc != 0) {
        process->pid = 0;
        (void)fprintf(stderr, "redis-server: %s\n", strerrordesc_np(rc));
        return false;
    }
    return wait_until_there(process);
}

bool redis_process_start(struct redis_process *process, const char *const *options)
{
    unsigned port = process->port; /* given, where others have to know it */
    *process = (struct redis_process){.options = options};
    process->port = port != 0 ? port : redis_process_free_port();
    memcpy(process->dir, "/tmp/redis_test.XXXXXX", sizeof("/tmp/redis_test.XXXXXX"));
    return mkdtemp(process->dir) != NULL && redis_process_restart(process);
}

void redis_process_kill(struct redis_process *process)
{
    if (process->pid > 0) {
        (void)kill(process->pid, SIGKILL);
        (void)waitpid(process->pid, NULL, 0);
        process->pid = 0;
    }
}

void redis_process_stop(struct redis_process *process)
{
    static const char *const files[] = {"log",       "nodes.conf",    "sentinel.conf",
                                        "dump.rdb",  "ca.pem",        "key.pem",
                                        "other.pem", "other_key.pem", "appendonly.aof"};
    char path[64];
    if (process->dir[0] == '\0') {
        return; /* was never started */
    }
    redis_process_kill(process);
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        (void)snprintf(path, sizeof(path), "%s/%s", process->dir, files[i]);
        (void)unlink(path);
    }
    (void)rmdir(process->dir);
}

struct endpoint redis_process_endpoint(const struct redis_process *process)
{
    return (struct endpoint){.host = "127.0.0.1", .port = (uint16_t)process->port};
}
