/* service.c, with the test as the service manager. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sys/socket.h>
#include <sys/un.h>

#include <cmocka.h>

#include "agent/control/service.h"

#define READY "READY=1\nWATCHDOG=1\nSTATUS="

/* NOLINTBEGIN(concurrency-mt-unsafe): one thread, and its environment */

static struct {
    char dir[32];
    char path[64];
    int fd; /* the manager's end */
    struct ev_loop *loop;
    struct service service;
    bool is_alive;
    int asks_left; /* then the loop ends */
    char said[SERVICE_STATUS_BYTES_MAX + 64];
} f;

static bool is_alive(void *context)
{
    assert_ptr_equal(context, &f);
    if (--f.asks_left == 0) {
        ev_break(f.loop, EVBREAK_ALL);
    }
    return f.is_alive;
}

static int set_up(void **context)
{
    (void)context;
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    memset(&f, 0, sizeof(f));
    (void)snprintf(f.dir, sizeof(f.dir), "/tmp/test_service.XXXXXX");
    if (mkdtemp(f.dir) == NULL) {
        return 1;
    }
    (void)snprintf(f.path, sizeof(f.path), "%s/notify", f.dir);
    (void)snprintf(un.sun_path, sizeof(un.sun_path), "%s", f.path);
    f.fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    f.loop = ev_loop_new(0);
    f.is_alive = true;
    return f.fd < 0 || f.loop == NULL
           || bind(f.fd, (const struct sockaddr *)&un, sizeof(un)) != 0
           || setenv("NOTIFY_SOCKET", f.path, 1) != 0 || unsetenv("WATCHDOG_PID") != 0
           || unsetenv("WATCHDOG_USEC") != 0;
}

static int tear_down(void **context)
{
    (void)context;
    ev_loop_destroy(f.loop);
    (void)close(f.fd);
    (void)unlink(f.path);
    return rmdir(f.dir);
}

static void begin(void)
{
    service_init(&f.service, f.loop, is_alive, &f);
}

/* What was said next; an empty text when nothing was. */
static const char *hear(void)
{
    ssize_t n = recv(f.fd, f.said, sizeof(f.said) - 1, MSG_DONTWAIT);
    f.said[n < 0 ? 0 : n] = '\0';
    return f.said;
}

static void run_until_asked(int times)
{
    f.asks_left = times;
    ev_run(f.loop, 0);
}

static void says_ready_and_what_is_served(void **context)
{
    (void)context;
    begin();
    assert_string_equal(hear(), "");
    service_ready(&f.service, "domain api, 3 rules");
    assert_string_equal(hear(), READY "domain api, 3 rules");
    service_stopping(&f.service);
    assert_ptr_equal(strstr(hear(), "STOPPING=1\n"), f.said);
    assert_string_equal(hear(), "");
    service_fini(&f.service);
}

static void another_status_is_told_once_it_is_ready(void **context)
{
    (void)context;
    begin();
    service_tell(&f.service, "too early");
    assert_string_equal(hear(), "");
    service_ready(&f.service, "3 rules");
    (void)hear();
    service_tell(&f.service, "4 rules");
    assert_string_equal(hear(), "STATUS=4 rules");
    service_hand_over(&f.service, 42);
    (void)hear();
    service_tell(&f.service, "too late");
    assert_string_equal(hear(), "");
}

static void long_status_is_cut(void **context)
{
    (void)context;
    static char status[SERVICE_STATUS_BYTES_MAX * 2];
    memset(status, 'x', sizeof(status) - 1);
    begin();
    service_ready(&f.service, status);
    assert_ptr_equal(strstr(hear(), READY "xxx"), f.said);
    assert_true(strlen(f.said) < sizeof(READY) + SERVICE_STATUS_BYTES_MAX);
    service_fini(&f.service);
}

static void feeds_the_watchdog_while_alive(void **context)
{
    (void)context;
    assert_int_equal(setenv("WATCHDOG_USEC", "20000", 1), 0);
    begin();
    assert_false(ev_is_active(&f.service.watchdog)); /* not before it is ready */
    service_ready(&f.service, "");
    (void)hear();
    run_until_asked(2);
    assert_string_equal(hear(), "WATCHDOG=1");
    assert_string_equal(hear(), "WATCHDOG=1");
    f.is_alive = false;
    run_until_asked(3);
    assert_string_equal(hear(), "");
    f.is_alive = true;
    run_until_asked(1);
    assert_string_equal(hear(), "WATCHDOG=1");
    service_fini(&f.service);
    assert_false(ev_is_active(&f.service.watchdog));
}

static void feeds_without_the_loop_when_it_is_due(void **context)
{
    (void)context;
    f.is_alive = true;
    assert_int_equal(setenv("WATCHDOG_USEC", "600000000", 1), 0);
    begin();
    service_feed(&f.service);
    assert_string_equal(hear(), ""); /* not ready */
    service_ready(&f.service, "");
    (void)hear();
    service_feed(&f.service);
    assert_string_equal(hear(), ""); /* not due */
    service_fini(&f.service);

    assert_int_equal(setenv("WATCHDOG_USEC", "20000", 1), 0);
    begin();
    service_ready(&f.service, "");
    (void)hear();
    (void)usleep(20000);
    service_feed(&f.service);
    assert_string_equal(hear(), "WATCHDOG=1");
    service_fini(&f.service);
}

static void watchdog_of_another_process_is_not_ours(void **context)
{
    (void)context;
    assert_int_equal(setenv("WATCHDOG_USEC", "20000", 1), 0);
    assert_int_equal(setenv("WATCHDOG_PID", "1", 1), 0);
    begin();
    service_ready(&f.service, "");
    assert_false(ev_is_active(&f.service.watchdog));
    service_fini(&f.service);
}

static void hands_over_and_says_no_more(void **context)
{
    (void)context;
    char own_pid[16];
    (void)snprintf(own_pid, sizeof(own_pid), "%d", (int)getpid());
    assert_int_equal(setenv("WATCHDOG_USEC", "20000", 1), 0);
    assert_int_equal(setenv("WATCHDOG_PID", own_pid, 1), 0);
    begin();
    service_ready(&f.service, "");
    (void)hear();
    assert_true(ev_is_active(&f.service.watchdog));
    service_hand_over(&f.service, 4711);
    assert_string_equal(hear(), "MAINPID=4711");
    assert_false(ev_is_active(&f.service.watchdog));
    service_stopping(&f.service);
    assert_string_equal(hear(), "");
    service_fini(&f.service);

    /* What a successor finds in its environment makes the watchdog its own. */
    begin();
    service_ready(&f.service, "");
    assert_ptr_equal(strstr(hear(), READY), f.said);
    assert_true(ev_is_active(&f.service.watchdog));
    service_fini(&f.service);
}

static void without_a_manager_nothing_happens(void **context)
{
    (void)context;
    assert_int_equal(unsetenv("NOTIFY_SOCKET"), 0);
    begin();
    service_ready(&f.service, "");
    assert_false(ev_is_active(&f.service.watchdog));
    service_hand_over(&f.service, 4711);
    service_stopping(&f.service);
    service_fini(&f.service);
    assert_string_equal(hear(), "");
}

static void manager_that_is_gone_stops_nobody(void **context)
{
    (void)context;
    assert_int_equal(setenv("NOTIFY_SOCKET", "/nowhere/notify", 1), 0);
    begin();
    service_ready(&f.service, "");
    service_stopping(&f.service);
    service_fini(&f.service);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(says_ready_and_what_is_served),
        TEST(another_status_is_told_once_it_is_ready),
        TEST(long_status_is_cut),
        TEST(feeds_the_watchdog_while_alive),
        TEST(feeds_without_the_loop_when_it_is_due),
        TEST(watchdog_of_another_process_is_not_ours),
        TEST(hands_over_and_says_no_more),
        TEST(without_a_manager_nothing_happens),
        TEST(manager_that_is_gone_stops_nobody),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* NOLINTEND(concurrency-mt-unsafe) */
