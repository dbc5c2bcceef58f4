#include "tests/support/agent_process.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>

enum {
    READY_MS = 60000, /* sanitizers, on a busy machine */
    ARGUMENTS_MAX = 24,
    METRICS_BYTES_MAX = 65536,
};

static bool say(const char *what)
{
    perror(what);
    return false;
}

static void in_dir(const struct agent_process *a, char *path, const char *name)
{
    (void)snprintf(path, AGENT_PROCESS_PATH_BYTES, "%s/%s", a->dir, name);
}

static bool write_file(const struct agent_process *a, const char *name,
                       const char *text)
{
    char path[AGENT_PROCESS_PATH_BYTES];
    in_dir(a, path, name);
    FILE *file = fopen(path, "we");
    if (file == NULL) {
        return say(path);
    }
    bool ok = fputs(text, file) >= 0;
    return fclose(file) == 0 && ok;
}

bool agent_process_init(struct agent_process *a,
                        const struct agent_process_options *options)
{
    *a = (struct agent_process){.pid = 0};
    const char *tmp = getenv("TMPDIR"); /* NOLINT(concurrency-mt-unsafe) */
    (void)snprintf(a->dir, sizeof(a->dir), "%s/agent_process.XXXXXX",
                   tmp != NULL ? tmp : "/tmp");
    if (mkdtemp(a->dir) == NULL) {
        return say(a->dir);
    }
    in_dir(a, a->socket_path, "agent.sock");
    in_dir(a, a->runtime_path, "runtime.sock");
    in_dir(a, a->log_path, "log");
    return write_file(a, "rules.yaml", options->rules)
           && write_file(a, "agent.yaml", options->config) && write_file(a, "log", "");
}

struct arguments {
    size_t n;
    char *argv[ARGUMENTS_MAX + 1];
};

/* In the child, which is about to become another program: nothing is freed. */
static void add_argument(struct arguments *arguments, const char *text)
{
    if (arguments->n == ARGUMENTS_MAX) {
        abort();
    }
    arguments->argv[arguments->n++] = strdup(text);
}

static void add_path(struct arguments *arguments, const struct agent_process *a,
                     const char *option, const char *name)
{
    char path[AGENT_PROCESS_PATH_BYTES];
    in_dir(a, path, name);
    add_argument(arguments, option);
    add_argument(arguments, path);
}

static void make_arguments(struct arguments *arguments, const struct agent_process *a,
                           const struct agent_process_options *options)
{
    char listen[AGENT_PROCESS_PATH_BYTES + 8];
    (void)snprintf(listen, sizeof(listen), "unix@%s", a->socket_path);
    add_argument(arguments, options->program);
    add_argument(arguments, "serve");
    add_path(arguments, a, "--config", "agent.yaml");
    add_path(arguments, a, "--rules", "rules.yaml");
    add_path(arguments, a, "--runtime", "runtime.sock");
    add_argument(arguments, "--listen");
    add_argument(arguments, listen);
    for (size_t i = 0; i < 4 && options->listen[i] != NULL; i++) {
        add_argument(arguments, "--listen");
        add_argument(arguments, options->listen[i]);
    }
}

/* The child: become the agent, or say why not. */
static void become_agent(const struct agent_process *a,
                         const struct agent_process_options *options, int out)
{
    struct arguments arguments = {.n = 0};
    make_arguments(&arguments, a, options);
    if (options->n_descriptors > 0) {
        struct rlimit limit = {options->n_descriptors, options->n_descriptors};
        (void)setrlimit(RLIMIT_NOFILE, &limit);
    }
    int log = open(a->log_path, O_WRONLY | O_APPEND);
    if (log < 0 || dup2(out, STDOUT_FILENO) < 0 || dup2(log, STDERR_FILENO) < 0) {
        return;
    }
    (void)close(log);
    (void)unsetenv("JOURNAL_STREAM"); /* NOLINT(concurrency-mt-unsafe) */
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)execv(options->program, arguments.argv);
    perror(options->program);
}

/* Whether a line comes from the agent's standard output. */
static bool is_ready(int out)
{
    char line[512];
    struct pollfd readable = {.fd = out, .events = POLLIN};
    return poll(&readable, 1, READY_MS) == 1 && read(out, line, sizeof(line)) > 0;
}

void agent_process_show_log(const struct agent_process *a, size_t from)
{
    char line[1200];
    FILE *file = fopen(a->log_path, "re");
    if (file != NULL) {
        (void)fseek(file, (long)from, SEEK_SET);
    }
    while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
        (void)fprintf(stderr, "agent: %s", line);
    }
    if (file != NULL) {
        (void)fclose(file);
    }
}

bool agent_process_start(struct agent_process *a,
                         const struct agent_process_options *options)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) {
        return say("pipe2");
    }
    a->log_off = agent_process_log_bytes(a);
    pid_t pid = fork();
    if (pid == 0) {
        become_agent(a, options, ends[1]);
        _exit(127);
    }
    (void)close(ends[1]);
    a->pid = pid > 0 ? pid : 0;
    bool ok = pid > 0 && is_ready(ends[0]);
    (void)close(ends[0]);
    if (!ok && agent_process_stop(a, SIGKILL) == 128 + SIGKILL) {
        agent_process_show_log(
            a, a->log_off); /* it did not end by itself, and so has not shown it yet */
    }
    return ok;
}

int agent_process_stop(struct agent_process *a, int signal)
{
    int status = 0;
    if (a->pid == 0) {
        return -1;
    }
    (void)kill(a->pid, signal);
    (void)waitpid(a->pid, &status, 0);
    a->pid = 0;
    int code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    if (code != 0 && code != 128 + SIGKILL) {
        agent_process_show_log(a, a->log_off);
    }
    return code;
}

bool agent_process_fini(struct agent_process *a)
{
    static const char *const names[] = {"rules.yaml", "agent.yaml", "log"};
    char path[AGENT_PROCESS_PATH_BYTES];
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        in_dir(a, path, names[i]);
        (void)unlink(path);
    }
    return rmdir(a->dir) == 0 || say(a->dir);
}

bool agent_process_is_running(const struct agent_process *a)
{
    int status = 0;
    return a->pid != 0 && waitpid(a->pid, &status, WNOHANG) == 0;
}

/* The number after `n` blanks behind the last bracket of a file of one line, or from its
 * beginning where there is no bracket. */
static unsigned long proc_number(const struct agent_process *a, const char *name,
                                 unsigned n)
{
    char path[64];
    char line[1024];
    (void)snprintf(path, sizeof(path), "/proc/%d/%s", (int)a->pid, name);
    FILE *file = fopen(path, "re");
    if (file == NULL || fgets(line, sizeof(line), file) == NULL) {
        perror(path);
        abort();
    }
    (void)fclose(file);
    const char *at = strrchr(line, ')');
    at = at != NULL ? at : line;
    for (; n > 0 && at != NULL; n--) {
        at = strchr(at, ' ');
        at = at != NULL ? at + 1 : NULL;
    }
    return at != NULL ? strtoul(at, NULL, 10) : 0;
}

unsigned agent_process_n_fds(const struct agent_process *a)
{
    char path[64];
    unsigned n = 0;
    (void)snprintf(path, sizeof(path), "/proc/%d/fd", (int)a->pid);
    DIR *dir = opendir(path);
    if (dir == NULL) {
        perror(path);
        abort();
    }
    while (readdir(dir) != NULL) { /* NOLINT(concurrency-mt-unsafe): our own */
        n++;
    }
    (void)closedir(dir);
    return n - 2; /* . and .. */
}

size_t agent_process_rss_kib(const struct agent_process *a)
{
    size_t n_pages = proc_number(a, "statm", 1);
    return n_pages * (size_t)sysconf(_SC_PAGESIZE) / 1024;
}

unsigned long agent_process_ticks(const struct agent_process *a)
{
    return proc_number(a, "stat", 12) + proc_number(a, "stat", 13);
}

/* Ask the runtime socket; the answer is `text`, ended by a NUL. */
static void ask_runtime(const struct agent_process *a, const char *line, char *text,
                        size_t cap)
{
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    (void)snprintf(un.sun_path, sizeof(un.sun_path), "%s", a->runtime_path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    size_t len = 0;
    ssize_t n = -1;
    if (fd >= 0 && connect(fd, (struct sockaddr *)&un, sizeof(un)) == 0
        && write(fd, line, strlen(line)) == (ssize_t)strlen(line)) {
        while ((n = read(fd, text + len, cap - len - 1)) > 0) {
            len += (size_t)n;
        }
    }
    text[len] = '\0';
    if (n != 0) {
        perror(a->runtime_path);
        abort();
    }
    (void)close(fd);
}

uint64_t agent_process_metric(const struct agent_process *a, const char *name)
{
    char text[METRICS_BYTES_MAX];
    char wanted[128];
    ask_runtime(a, "show metrics\n", text, sizeof(text));
    (void)snprintf(wanted, sizeof(wanted), "\nspoa_ratelimit_%s ", name);
    const char *found = strstr(text, wanted);
    if (found == NULL) {
        (void)fprintf(stderr, "no metric %s\n", name);
        abort();
    }
    return strtoull(found + strlen(wanted), NULL, 10);
}

size_t agent_process_log_bytes(const struct agent_process *a)
{
    struct stat st;
    if (stat(a->log_path, &st) != 0) {
        perror(a->log_path);
        abort();
    }
    return (size_t)st.st_size;
}

unsigned agent_process_log_lines(const struct agent_process *a, size_t from,
                                 const char *prefix)
{
    char line[1200];
    unsigned n = 0;
    FILE *file = fopen(a->log_path, "re");
    if (file == NULL || fseek(file, (long)from, SEEK_SET) != 0) {
        perror(a->log_path);
        abort();
    }
    while (fgets(line, sizeof(line), file) != NULL) {
        n += strncmp(line, prefix, strlen(prefix)) == 0;
    }
    (void)fclose(file);
    return n;
}
