/* Whatever allocates when the agent starts, or when a connection or a person comes: its
 * n-th allocation fails, for every n. Each time it ends without a crash or a leak, and says
 * so; with none left to fail it works. libev is spared: it aborts, with a line of its own.
 * Rules have a test of their own (tests/unit/rules/test_memory.c). */
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

#include <cmocka.h>
#include <sodium.h>

#include "agent/config.h"
#include "agent/control/daemon.h"
#include "agent/control/rulebook.h"
#include "agent/control/runtime.h"
#include "agent/file.h"
#include "agent/net/connection.h"
#include "agent/net/worker.h"
#include "agent/store/local.h"

#include "tests/support/alloc_failure.h"
#include "tests/support/alloc_probe.h"
#include "tests/support/spop_client.h"

static const char good_rules[] = "tests/golden/rules/readme.yaml";
static const uint8_t secret[LOCAL_SECRET_BYTES] = {42};

static struct {
    char dir[32];
    char config_path[64];
    char runtime_path[64];
    char snapshot_path[64];
    char last_good_path[64];
    char *rules_text;
    size_t rules_len;
    struct rules_diags diags;
    struct config config;
    FILE *errors; /* of config_read */
    char errors_buf[4096];
    int said_fd; /* standard error, for as long as something may fail */
    int saved_fd;
} f;

static struct spop_client client;

/* What was said on standard error since the last call. */
static bool is_told(void)
{
    off_t len = lseek(f.said_fd, 0, SEEK_END);
    assert_int_equal(ftruncate(f.said_fd, 0), 0);
    return len > 0;
}

/* From here on standard error is kept; what is_told has not dropped is shown after all. */
static int listen_in(void **context)
{
    (void)context;
    return dup2(f.said_fd, STDERR_FILENO) < 0;
}

static int stop_listening(void **context)
{
    char said[4096];
    ssize_t n = 0;
    (void)context;
    (void)dup2(f.saved_fd, STDERR_FILENO);
    (void)lseek(f.said_fd, 0, SEEK_SET);
    while ((n = read(f.said_fd, said, sizeof(said))) > 0) {
        (void)fwrite(said, 1, (size_t)n, stderr);
    }
    (void)is_told();
    return 0;
}

static void write_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

/* Threads that lived leave their stacks to later ones, and with them a block each. */
static void *wait_for_release(void *arg)
{
    (void)pthread_barrier_wait(arg);
    return NULL;
}

static void warm_threads(unsigned n)
{
    pthread_t threads[SERVER_WORKERS_MAX];
    pthread_barrier_t barrier;
    assert_int_equal(pthread_barrier_init(&barrier, NULL, n), 0);
    for (unsigned i = 0; i < n; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, wait_for_release, &barrier),
                         0);
    }
    for (unsigned i = 0; i < n; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    (void)pthread_barrier_destroy(&barrier);
}

static int set_up(void **context)
{
    const char *error = NULL;
    char yaml[256];
    (void)context;
    (void)snprintf(f.dir, sizeof(f.dir), "/tmp/test_alloc.XXXXXX");
    if (sodium_init() < 0 || mkdtemp(f.dir) == NULL) {
        return 1;
    }
    (void)snprintf(f.config_path, sizeof(f.config_path), "%s/agent.yaml", f.dir);
    (void)snprintf(f.runtime_path, sizeof(f.runtime_path), "%s/runtime.sock", f.dir);
    (void)snprintf(f.snapshot_path, sizeof(f.snapshot_path), "%s/counters.snapshot",
                   f.dir);
    (void)snprintf(f.last_good_path, sizeof(f.last_good_path), "%s/last-good.yaml",
                   f.dir);
    (void)snprintf(yaml, sizeof(yaml),
                   "listen: ['unix@%s/agent.sock']\nruntime: ['%s']\nrules: %s\n"
                   "workers: 2\nmemory: 1MiB\nstate_dir: %s\n",
                   f.dir, f.runtime_path, good_rules, f.dir);
    write_file(f.config_path, yaml);
    f.rules_text = file_read(good_rules, RULES_FILE_BYTES_MAX, &f.rules_len, &error);
    f.errors = fmemopen(f.errors_buf, sizeof(f.errors_buf), "we");
    f.said_fd = memfd_create("stderr", MFD_CLOEXEC);
    f.saved_fd = dup(STDERR_FILENO);
    return f.rules_text == NULL || f.errors == NULL
           || setvbuf(f.errors, NULL, _IONBF, 0) != 0 || f.said_fd < 0
           || dup2(f.said_fd, STDERR_FILENO) < 0;
}

static int tear_down(void **context)
{
    (void)context;
    (void)close(f.said_fd);
    (void)close(f.saved_fd);
    free(f.rules_text);
    (void)fclose(f.errors);
    (void)unlink(f.config_path);
    (void)unlink(f.snapshot_path);
    (void)unlink(f.last_good_path);
    return rmdir(f.dir);
}

static struct rules_set *load(const char *text, size_t len)
{
    struct rules_bytes bytes = {.ptr = (const uint8_t *)text, .len = len};
    rules_diags_init(&f.diags, "rules.yaml");
    return rules_load(&(struct rules_source){.name = "rules.yaml", .text = bytes},
                      &f.diags);
}

static bool config_works(void)
{
    config_init(&f.config);
    rewind(f.errors);
    bool ok = config_read(&f.config, f.config_path, f.errors);
    assert_int_equal(ftell(f.errors) == 0, ok);
    return ok;
}

static void config(void **context)
{
    (void)context;
    alloc_failure_each(config_works, 5);
}

static struct rules_set *rules_of_set;

static bool set_works(void)
{
    struct decide_set *set = decide_set_new(rules_of_set, "rl");
    decide_set_free(set);
    return set != NULL;
}

static void set(void **context)
{
    (void)context;
    bool ok = false;
    for (unsigned n = 1; !ok; n++) { /* it takes the rules over: new ones each time */
        long live = alloc_live();
        rules_of_set = load(f.rules_text, f.rules_len);
        assert_non_null(rules_of_set);
        alloc_fail_at(n);
        ok = set_works();
        assert_int_equal(alloc_has_failed(), !ok);
        alloc_fail_at(0);
        assert_int_equal(alloc_live(), live);
    }
}

static bool store_works(void)
{
    struct store *store = local_new(LOCAL_MEMORY_BYTES_MIN, LOCAL_LOG_BYTES_MIN,
                                    secret);
    store_free(store);
    return store != NULL;
}

static void store(void **context)
{
    (void)context;
    alloc_failure_each(store_works, 1);
}

static bool counters_work(void)
{
    struct counters *counters = counters_new(3);
    counters_free(counters);
    return counters != NULL;
}

static void counters(void **context)
{
    (void)context;
    alloc_failure_each(counters_work, 2);
}

/* A worker without a thread. */
static struct {
    struct worker worker;
    struct worker_gone gone;
    struct decide_options options;
    struct decide_set *set;
} w;

static void on_gone(struct ev_loop *loop, struct ev_async *async, int events)
{
    (void)loop;
    (void)async;
    (void)events;
}

static void make_worker(void)
{
    w.set = decide_set_new(load(f.rules_text, f.rules_len), "rl");
    assert_non_null(w.set);
    decide_options_init(&w.options, VARIABLE_BIT(VARIABLES_N) - 1);
    w.worker.loop = ev_loop_new(EVFLAG_NOENV);
    w.worker.gone = &w.gone;
    w.gone.main_loop = w.worker.loop;
    ev_async_init(&w.gone.async, on_gone);
    ev_async_start(w.worker.loop, &w.gone.async);
    w.worker.decide.set = w.set;
    w.worker.decide.store = local_new(LOCAL_MEMORY_BYTES_MIN, LOCAL_LOG_BYTES_MIN,
                                      secret);
    w.worker.decide.counters = counters_new(w.set->n_limits);
    w.worker.decide.options = &w.options;
}

static void free_worker(void)
{
    ev_async_stop(w.worker.loop, &w.gone.async);
    ev_loop_destroy(w.worker.loop);
    store_free(w.worker.decide.store);
    counters_free(w.worker.decide.counters);
    decide_set_free(w.set);
}

static void turn(struct ev_loop *loop)
{
    for (int i = 0; i < 10; i++) {
        ev_run(loop, EVRUN_NOWAIT);
    }
}

/* What comes back: a frame's type, or -1 at the end of the connection. */
static int receive(void)
{
    turn(w.worker.loop);
    return spop_client_receive(&client) ? spop_client_frame_type(&client) : -1;
}

static bool get_ack(void)
{
    uint8_t frame[512];
    size_t len = spop_client_put_hello(frame, sizeof(frame), SPOP_FRAME_SIZE_MAX,
                                       false);
    if (!spop_client_send(&client, frame, len) || receive() != SPOP_FRAME_AGENT_HELLO) {
        return false; /* refused before: closed at once */
    }
    len = spop_client_put_notify(frame, sizeof(frame), 1, "key", 10);
    (void)spop_client_send(&client, frame, len);
    int type = receive();
    assert_true(type == SPOP_FRAME_ACK || type == SPOP_FRAME_AGENT_DISCONNECT);
    return type == SPOP_FRAME_ACK;
}

static bool connection_works(void)
{
    int fds[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    assert_int_equal(fcntl(fds[0], F_SETFL, O_NONBLOCK), 0);
    client.fd = fds[1];
    client.len = 0;
    w.gone.n_open++;
    connection_open(&w.worker, fds[0]);
    bool ok = get_ack();
    spop_client_close(&client);
    turn(w.worker.loop);
    assert_null(w.worker.connections);
    assert_int_equal(w.gone.n_open, 0);
    return ok;
}

static void connection(void **context)
{
    (void)context;
    make_worker();
    alloc_failure_each(connection_works, 3);
    assert_true(is_told());
    struct counters *c = w.worker.decide.counters;
    assert_int_equal(counter_get(c, COUNTER_CONNECTIONS_FAILED), 2);
    assert_int_equal(counter_get(c, COUNTER_PROTOCOL_ERRORS), 1); /* at HELLO */
    free_worker();
}

static struct runtime *door;
static struct ev_loop *door_loop;

static void say_much(const void *context, const struct runtime_args *args, FILE *out)
{
    (void)context;
    (void)args;
    for (int i = 0; i < 2000; i++) {
        (void)fputs("one line of many\n", out);
    }
}

static const struct runtime_command commands[] = {
    {"say much", NULL, "more than a first block holds", say_much, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

/* A whole answer, or none. */
static bool answer_works(void)
{
    static char answer[65536];
    size_t len = 0;
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    (void)snprintf(un.sun_path, sizeof(un.sun_path), "%s", f.runtime_path);
    assert_int_equal(connect(fd, (struct sockaddr *)&un, sizeof(un)), 0);
    assert_int_equal(send(fd, "say much\n", 9, 0), 9);
    turn(door_loop);
    ssize_t n = 0;
    while ((n = recv(fd, answer + len, sizeof(answer) - len, MSG_DONTWAIT)) > 0) {
        len += (size_t)n;
    }
    assert_int_equal(n, 0);
    (void)close(fd);
    assert_true(len == 0 || len == 2000 * strlen("one line of many\n"));
    return len > 0;
}

static bool door_works(void)
{
    struct address address;
    char text[80];
    char error[ADDRESS_ERROR_BYTES_MAX];
    (void)snprintf(text, sizeof(text), "unix@%s", f.runtime_path);
    assert_true(address_parse(&address, text, error));
    door = runtime_start(door_loop, &address, NULL, commands, NULL);
    assert_int_equal(is_told(), door == NULL);
    bool ok = door != NULL && answer_works();
    runtime_stop(door);
    return ok && !alloc_has_failed(); /* a stream goes on without its buffer */
}

static void runtime(void **context)
{
    (void)context;
    door_loop = ev_loop_new(EVFLAG_NOENV);
    alloc_failure_each(door_works, 3);
    ev_loop_destroy(door_loop);
}

enum { /* bits of the child's exit code */
    DAEMON_RAN = 1,
    DAEMON_LEAKED = 2,
    DAEMON_HAD_FAILURE = 4,
};

static void be_daemon(unsigned n, int ready_fd)
{
    static char stdout_buf[4096];
    (void)dup2(ready_fd, STDOUT_FILENO);
    (void)setvbuf(stdout, stdout_buf, _IOLBF, sizeof(stdout_buf));
    warm_threads(f.config.n_workers + 1); /* and the one that keeps the rules */
    long live = alloc_live();
    alloc_fail_at(n);
    bool ok = daemon_run(&f.config);
    bool has_failed = alloc_has_failed();
    alloc_fail_at(0);
    _exit((ok ? DAEMON_RAN : 0) | (alloc_live() != live ? DAEMON_LEAKED : 0)
          | (has_failed ? DAEMON_HAD_FAILURE : 0));
}

/* Start the whole daemon in a child, end it once it is ready; answers its exit code. */
static int run_daemon(unsigned n)
{
    int fds[2];
    int status = 0;
    char byte = 0;
    (void)unlink(f.last_good_path); /* it would be served in the file's place */
    assert_int_equal(pipe(fds), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        be_daemon(n, fds[1]);
    }
    (void)close(fds[1]);
    if (read(fds[0], &byte, 1) == 1) {
        assert_int_equal(kill(child, SIGTERM), 0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    (void)close(fds[0]);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void daemon_as_a_whole(void **context)
{
    (void)context;
    assert_true(config_works());
    assert_int_equal(run_daemon(0), DAEMON_RAN); /* leaves a snapshot to start from */
    int code = DAEMON_HAD_FAILURE;
    unsigned n = 0;
    while ((code & DAEMON_HAD_FAILURE) != 0) {
        (void)is_told();
        code = run_daemon(++n);
        alloc_failure_judge(n, (code & DAEMON_RAN) != 0,
                            (code & DAEMON_HAD_FAILURE) != 0, code & DAEMON_LEAKED);
        assert_true(is_told()); /* why it does not start, or that it ends */
    }
    assert_in_range(n, 20, 100000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(config),
        cmocka_unit_test(set),
        cmocka_unit_test(store),
        cmocka_unit_test(counters),
        cmocka_unit_test_setup_teardown(connection, listen_in, stop_listening),
        cmocka_unit_test_setup_teardown(runtime, listen_in, stop_listening),
        cmocka_unit_test_setup_teardown(daemon_as_a_whole, listen_in, stop_listening),
    };
    ev_set_allocator(alloc_spared);
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
