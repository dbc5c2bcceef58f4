/* A real redis-server: what it says, what happens to it, and how soon all is well again. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sys/stat.h>

#include <cmocka.h>

#include "agent/redis/router.h"
#include "agent/redis/tls.h"

#include "tests/support/redis_process.h"
#include "tests/support/router_driver.h"

#define LONG_US     (5 * US_PER_S)
#define PATIENCE_US (20 * US_PER_S)

struct fixture {
    struct redis_process server;
    struct endpoint endpoint;
    struct redis_options options;
    struct router_driver driver;
    bool is_driving;
};

/* A user with no more rights than are needed, as redis-server takes it. */
static const char *const with_user[] = {
    "--user",        "rl",       "on",    ">word",    "~rl:*",
    "resetchannels", "-@all",    "+auth", "+select",  "+client|setname",
    "+script|load",  "+evalsha", "+incr", "+pexpire", NULL};

static int set_up(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));
    (void)signal(SIGPIPE, SIG_IGN);
    assert_non_null(f);
    router_driver_options(&f->options, &f->endpoint);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    if (f->is_driving) {
        router_driver_stop(&f->driver);
    }
    redis_process_stop(&f->server);
    free(f);
    return 0;
}

static void start(struct fixture *f, const char *const *options)
{
    assert_true(redis_process_start(&f->server, options));
    f->endpoint = redis_process_endpoint(&f->server);
    f->is_driving = true;
    assert_true(router_driver_start(&f->driver, &f->options));
}

static void tell(const struct fixture *f, const char *command, const char *want)
{
    char reply[512];
    assert_true(redis_process_tell(&f->server, command, reply, sizeof(reply)));
    if (strstr(reply, want) == NULL) {
        fail_msg("%s: %s", command, reply);
    }
}

static void recover_within(struct fixture *f, int64_t us)
{
    int64_t took_us = router_driver_recover(&f->driver, "rl:k", PATIENCE_US);
    assert_true(took_us >= 0);
    if (took_us > us) {
        fail_msg("it took %lld ms", (long long)(took_us / US_PER_MS));
    }
}

static void test_counts_as_a_user_with_few_rights(void **state)
{
    struct fixture *f = *state;
    f->options.user = "rl";
    f->options.password = "word";
    f->options.database = 3;
    start(f, with_user);
    recover_within(f, PATIENCE_US);
    for (int64_t i = 2; i < 100; i++) {
        assert_int_equal(router_driver_call(&f->driver, "rl:k", LONG_US), SEAM_OK);
        assert_int_equal(f->driver.integer, i);
    }
    assert_int_equal(router_driver_call(&f->driver, "foreign", LONG_US), SEAM_ERROR);
    assert_int_equal(f->driver.call.error, SEAM_ERROR_DENIED);
    tell(f, "client list", "name=spoa-ratelimit");
}

static void test_a_password_that_becomes_right(void **state)
{
    struct fixture *f = *state;
    f->options.user = "rl";
    f->options.password = "another";
    start(f, with_user);
    for (unsigned i = 0; i < 50; i++) {
        assert_int_equal(router_driver_call(&f->driver, "rl:k", LONG_US), SEAM_DOWN);
        (void)ev_run(f->driver.loop, EVRUN_NOWAIT);
        ev_sleep(0.002);
    }
    tell(f, "acl setuser rl >another", "+OK");
    recover_within(f, 2 * US_PER_S);
}

static const char *const plain[] = {NULL};

static void test_scripts_that_are_flushed(void **state)
{
    struct fixture *f = *state;
    start(f, plain);
    recover_within(f, PATIENCE_US);
    for (int64_t i = 2; i < 20; i++) {
        tell(f, "script flush", "+OK");
        assert_int_equal(router_driver_call(&f->driver, "rl:k", LONG_US), SEAM_OK);
        assert_int_equal(f->driver.integer, i); /* once each */
    }
}

static void test_killed_and_started_again(void **state)
{
    struct fixture *f = *state;
    start(f, plain);
    recover_within(f, PATIENCE_US);
    for (unsigned i = 0; i < 5; i++) {
        redis_process_kill(&f->server);
        assert_int_not_equal(router_driver_call(&f->driver, "rl:k", LONG_US), SEAM_OK);
        assert_int_equal(router_driver_call(&f->driver, "rl:k", LONG_US), SEAM_DOWN);
        assert_true(redis_process_restart(&f->server));
        recover_within(f, 2 * US_PER_S); /* calls without an answer may have counted */
        assert_int_equal(router_driver_call(&f->driver, "rl:once", LONG_US), SEAM_OK);
        assert_int_equal(f->driver.integer, 1); /* it came back empty */
    }
}

static void test_stopped_and_continued(void **state)
{
    struct fixture *f = *state;
    start(f, plain);
    recover_within(f, PATIENCE_US);
    (void)kill(f->server.pid, SIGSTOP);
    assert_int_equal(router_driver_call(&f->driver, "rl:k", 5 * US_PER_MS),
                     SEAM_TIMEOUT);
    assert_int_equal(f->driver.call.outcome, SEAM_LOST);
    struct instant began = clock_now();
    while (instant_diff_us(clock_now(), began) < US_PER_S) {
        assert_int_not_equal(router_driver_call(&f->driver, "rl:k", 5 * US_PER_MS),
                             SEAM_OK);
        (void)ev_run(f->driver.loop, EVRUN_NOWAIT);
        ev_sleep(0.01);
    }
    (void)kill(f->server.pid, SIGCONT);
    recover_within(f, 2 * US_PER_S);
}

static void test_connections_that_are_killed(void **state)
{
    struct fixture *f = *state;
    start(f, plain);
    for (unsigned i = 0; i < 20; i++) {
        recover_within(f, PATIENCE_US);
        tell(f, "client kill type normal skipme yes", ":1");
    }
    recover_within(f, 2 * US_PER_S);
}

static void test_out_of_memory(void **state)
{
    struct fixture *f = *state;
    start(f, plain);
    recover_within(f, PATIENCE_US);
    tell(f, "config set maxmemory 1", "+OK");
    assert_int_equal(router_driver_call(&f->driver, "rl:k", LONG_US), SEAM_ERROR);
    assert_int_equal(f->driver.call.error, SEAM_ERROR_OUT_OF_MEMORY);
    tell(f, "config set maxmemory 0", "+OK");
    assert_int_equal(router_driver_call(&f->driver, "rl:k", LONG_US), SEAM_OK);
}

static void test_a_server_that_is_full(void **state)
{
    struct fixture *f = *state;
    static const char *const options[] = {"--maxclients", "1", NULL};
    start(f, options);
    recover_within(f, PATIENCE_US);
    char reply[128];
    assert_true(redis_process_tell(&f->server, "ping", reply, sizeof(reply)));
    assert_non_null(strstr(reply, "max number of clients"));
    struct router_driver second;
    assert_true(router_driver_start(&second, &f->options));
    for (unsigned i = 0; i < 20; i++) {
        assert_int_equal(router_driver_call(&second, "rl:k", LONG_US), SEAM_DOWN);
        (void)ev_run(second.loop, EVRUN_NOWAIT);
        ev_sleep(0.01);
    }
    router_driver_stop(&second);
}

/* ---- TLS ---- */

static char dir[32];
static char ca_path[64];
static char key_path[64];
static char other_path[64];
static char other_key_path[64];
static char fifo_path[64];

static void make_certificate(const char *cert, const char *key, const char *names)
{
    char command[512];
    (void)
        snprintf(command, sizeof(command),
                 "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes "
                 "-keyout %s -out %s -days 2 -subj /CN=test -addext subjectAltName=%s "
                 "2>/dev/null",
                 key, cert, names);
    /* NOLINTNEXTLINE(cert-env33-c,concurrency-mt-unsafe): a command of our own */
    assert_int_equal(system(command), 0);
}

static void make_certificates(void)
{
    memcpy(dir, "/tmp/redis_tls.XXXXXX", sizeof("/tmp/redis_tls.XXXXXX"));
    assert_non_null(mkdtemp(dir));
    (void)snprintf(ca_path, sizeof(ca_path), "%s/ca.pem", dir);
    (void)snprintf(key_path, sizeof(key_path), "%s/key.pem", dir);
    (void)snprintf(other_path, sizeof(other_path), "%s/other.pem", dir);
    (void)snprintf(other_key_path, sizeof(other_key_path), "%s/other_key.pem", dir);
    (void)snprintf(fifo_path, sizeof(fifo_path), "%s/fifo", dir);
    make_certificate(ca_path, key_path, "IP:127.0.0.1,DNS:redis.example");
    make_certificate(other_path, other_key_path, "IP:127.0.0.1");
}

/* The key of the first certificate, under a pass phrase, in place of the other one. */
static void make_secret_key(void)
{
    char command[256];
    (void)snprintf(command, sizeof(command),
                   "openssl pkey -in %s -out %s -aes128 -passout pass:word", key_path,
                   other_key_path);
    /* NOLINTNEXTLINE(cert-env33-c,concurrency-mt-unsafe): a command of our own */
    assert_int_equal(system(command), 0);
}

static void remove_certificates(void)
{
    (void)remove(ca_path);
    (void)remove(key_path);
    (void)remove(other_path);
    (void)remove(other_key_path);
    (void)remove(fifo_path);
    (void)remove(dir);
}

/* Whether a server with the first certificate is taken, and takes us. */
static bool is_taken(struct fixture *f, const struct tls_options *tls_options,
                     const char *server_name)
{
    char error[TLS_ERROR_BYTES_MAX];
    struct router_driver driver;
    struct tls *tls = tls_new(tls_options, error);
    assert_non_null(tls);
    f->options.tls = tls;
    f->options.server_name = server_name;
    assert_true(router_driver_start(&driver, &f->options));
    bool ok = router_driver_recover(&driver, "rl:k", 700 * US_PER_MS) >= 0;
    router_driver_stop(&driver);
    tls_free(tls);
    f->options.tls = NULL;
    return ok;
}

static void start_tls(struct fixture *f, const char *asks_clients)
{
    const char *const options[] = {"--tls-cert-file",    ca_path,
                                   "--tls-key-file",     key_path,
                                   "--tls-ca-cert-file", ca_path,
                                   "--tls-auth-clients", asks_clients,
                                   "--tls-port",         NULL};
    assert_true(redis_process_start(&f->server, options));
    f->endpoint = redis_process_endpoint(&f->server);
}

static void test_tls(void **state)
{
    struct fixture *f = *state;
    make_certificates();
    start_tls(f, "no");
    assert_true(is_taken(f, &(struct tls_options){.ca_file = ca_path}, NULL));
    assert_true(
        is_taken(f, &(struct tls_options){.ca_file = ca_path}, "redis.example"));
    assert_false(
        is_taken(f, &(struct tls_options){.ca_file = ca_path}, "other.example"));
    assert_false(is_taken(f, &(struct tls_options){.ca_file = other_path}, NULL));
    assert_false(is_taken(f, &(struct tls_options){0}, NULL)); /* the system's */
    redis_process_stop(&f->server);
    start_tls(f, "yes");
    assert_false(is_taken(f, &(struct tls_options){.ca_file = ca_path}, NULL));
    assert_true(is_taken(f,
                         &(struct tls_options){.ca_file = ca_path,
                                               .cert_file = ca_path,
                                               .key_file = key_path},
                         NULL));
    remove_certificates();
}

static void test_tls_files_that_are_none(void **state)
{
    char error[TLS_ERROR_BYTES_MAX];
    (void)state;
    make_certificates();
    assert_null(tls_new(&(struct tls_options){.ca_file = "/nowhere"}, error));
    assert_non_null(strstr(error, "/nowhere: No such file"));
    assert_null(tls_new(&(struct tls_options){.ca_file = key_path}, error));
    assert_null(
        tls_new(&(struct tls_options){.ca_file = ca_path, .cert_file = key_path},
                error));
    assert_non_null(strstr(error, "no certificate in PEM form"));
    assert_null(tls_new(&(struct tls_options){.ca_file = ca_path,
                                              .cert_file = ca_path,
                                              .key_file = other_key_path},
                        error));
    assert_non_null(strstr(error, "no private key in PEM form for"));
    /* Neither waited for, nor asked for on a terminal. */
    assert_int_equal(mkfifo(fifo_path, 0600), 0);
    assert_null(tls_new(&(struct tls_options){.ca_file = fifo_path}, error));
    assert_non_null(strstr(error, "is no regular file"));
    make_secret_key();
    assert_null(tls_new(&(struct tls_options){.ca_file = ca_path,
                                              .cert_file = ca_path,
                                              .key_file = other_key_path},
                        error));
    assert_non_null(strstr(error, "has a pass phrase"));
    remove_certificates();
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_counts_as_a_user_with_few_rights),
        TEST(test_a_password_that_becomes_right),
        TEST(test_scripts_that_are_flushed),
        TEST(test_killed_and_started_again),
        TEST(test_stopped_and_continued),
        TEST(test_connections_that_are_killed),
        TEST(test_out_of_memory),
        TEST(test_a_server_that_is_full),
        TEST(test_tls),
        TEST(test_tls_files_that_are_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
