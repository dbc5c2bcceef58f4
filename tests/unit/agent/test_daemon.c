/* The daemon as a whole, in a process of its own: what no part of it can be asked. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "agent/config.h"
#include "agent/control/daemon.h"
#include "agent/log.h"

static const char rules[] = "tests/golden/rules/readme.yaml";

static char dir[] = "/tmp/test_daemon.XXXXXX";
static struct config config;
static rlim_t n_allowed; /* descriptors; 0: as many as there are */
static int raised;       /* in the middle of the start; 0: none */

/* In the place of the library's: the start comes by here, and goes on for long. */
int getrlimit(__rlimit_resource_t resource, struct rlimit *limit)
{
    if (raised != 0) {
        assert_int_equal(raise(raised), 0);
    }
    int rc = (int)syscall(SYS_getrlimit, resource, limit);
    limit->rlim_max = n_allowed != 0 ? n_allowed : limit->rlim_max;
    return rc;
}

static int set_up(void **context)
{
    char text[64];
    char error[ADDRESS_ERROR_BYTES_MAX];
    (void)context;
    if (mkdtemp(dir) == NULL) {
        return 1;
    }
    config_init(&config);
    (void)snprintf(config.rules_path, sizeof(config.rules_path), "%s", rules);
    (void)snprintf(text, sizeof(text), "unix@%s/s", dir);
    config.n_listen = 1;
    return !address_parse(&config.listen[0], text, error);
}

static int tear_down(void **context)
{
    (void)context;
    return rmdir(dir);
}

static void be_daemon(int out_fd, int error_fd)
{
    (void)dup2(out_fd, STDOUT_FILENO);
    (void)dup2(error_fd, STDERR_FILENO);
    log_start(LOG_LEVEL_INFO);
    _exit(daemon_run(&config) ? EXIT_SUCCESS : EXIT_FAILURE);
}

/* Start it, end it once it is ready; answers its status, and what it logged. */
static int run_daemon(char *logged, size_t size)
{
    int out[2];
    int errors[2];
    int status = 0;
    char byte = 0;
    assert_int_equal(pipe(out), 0);
    assert_int_equal(pipe(errors), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        be_daemon(out[1], errors[1]);
    }
    (void)close(out[1]);
    (void)close(errors[1]);
    if (read(out[0], &byte, 1) == 1) {
        assert_int_equal(kill(child, SIGTERM), 0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    ssize_t n = read(errors[0], logged, size - 1);
    logged[n > 0 ? n : 0] = '\0';
    (void)close(out[0]);
    (void)close(errors[0]);
    return status;
}

static void expect_connections(const char *how_many)
{
    static char logged[8192];
    assert_int_equal(run_daemon(logged, sizeof(logged)), EXIT_SUCCESS);
    if (strstr(logged, how_many) == NULL) {
        fail_msg("no \"%s\" in: %s", how_many, logged);
    }
}

static void what_redis_needs_is_not_for_connections(void **context)
{
    (void)context;
    n_allowed = 100;
    expect_connections("no more than 60 connections");
    config.redis.is_given = true;
    config.redis.n_endpoints = 1;
    assert_true(endpoint_parse(&config.redis.endpoints[0], "127.0.0.1:1"));
    expect_connections("no more than 57 connections");
    config.redis.mode = REDIS_CLUSTER;
    expect_connections("no more than 27 connections");
    config.redis = (struct config_redis){.is_given = false};
    n_allowed = 0;
}

static void signals_during_the_start_end_nobody(void **context)
{
    (void)context;
    static char logged[8192];
    raised = SIGHUP;
    assert_int_equal(run_daemon(logged, sizeof(logged)), EXIT_SUCCESS);
    raised = SIGUSR1;
    assert_int_equal(run_daemon(logged, sizeof(logged)), EXIT_SUCCESS);
    assert_non_null(strstr(logged, "SIGUSR1 is ignored")); /* it waited */
    raised = 0;
}

static void sigterm_during_the_start_ends_it(void **context)
{
    (void)context;
    static char logged[8192];
    raised = SIGTERM;
    int status = run_daemon(logged, sizeof(logged));
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
    raised = 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_redis_needs_is_not_for_connections),
        cmocka_unit_test(signals_during_the_start_end_nobody),
        cmocka_unit_test(sigterm_during_the_start_ends_it),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
