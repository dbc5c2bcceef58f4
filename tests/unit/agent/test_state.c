/* state.c and snapshot.c. */
#include <errno.h>
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

#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "agent/control/state.h"
#include "agent/store/local.h"

#include "tests/support/loop_thread.h"

static const uint8_t secret[LOCAL_SECRET_BYTES] = {1, 2, 3};
static const uint8_t limit_id[STORE_LIMIT_ID_BYTES] = {9};

/* 10 an hour. */
static const struct limit ten = {.algorithm = LIMIT_SLIDING_WINDOW,
                                 .requests = 10,
                                 .size = 10,
                                 .per_ticks = 360000,
                                 .tick_us = 10000};

static struct {
    char dir[32];
    char path[64];
    char aside[64];
    struct store *store;
    struct counters *counters;
    char error[SNAPSHOT_ERROR_BYTES_MAX];
    uint64_t n_records;
} f;

static int set_up(void **context)
{
    (void)context;
    clock_start();
    (void)snprintf(f.dir, sizeof(f.dir), "/tmp/test_state.XXXXXX");
    if (mkdtemp(f.dir) == NULL) {
        return 1;
    }
    (void)snprintf(f.path, sizeof(f.path), "%s/" SNAPSHOT_FILE, f.dir);
    (void)snprintf(f.aside, sizeof(f.aside), "%s/" SNAPSHOT_FILE ".new", f.dir);
    f.store = local_new(LOCAL_MEMORY_BYTES_MIN, LOCAL_LOG_BYTES_MIN, secret);
    f.counters = counters_new(0);
    return f.store == NULL || f.counters == NULL;
}

static int tear_down(void **context)
{
    (void)context;
    store_free(f.store);
    counters_free(f.counters);
    (void)unlink(f.path);
    (void)unlink(f.aside);
    return rmdir(f.dir);
}

static void on_done(struct store_take *take)
{
    (void)take;
}

static bool take_one(struct store *store, const char *key)
{
    struct store_take take = {
        .now = clock_now(),
        .counters = f.counters,
        .done = on_done,
        .n_charges = 1,
        .charges = {{
            .limit = &ten,
            .limit_id = limit_id,
            .key = (const uint8_t *)key,
            .key_bytes = strlen(key),
            .cost = 1,
        }},
    };
    store_take(store, &take);
    return take.is_allowed;
}

static void use_up(const char *key)
{
    while (take_one(f.store, key)) {
    }
}

/* A new process: another table, with the secret and clock of the snapshot. */
static struct store *restart(void)
{
    struct state *state = state_open(f.dir, true);
    assert_non_null(state);
    const struct image_origin *origin = state_origin(state);
    struct store *store = local_new(LOCAL_MEMORY_BYTES_MIN * 3, LOCAL_LOG_BYTES_MIN,
                                    origin != NULL ? origin->secret : secret);
    assert_non_null(store);
    if (origin != NULL) {
        clock_continue(origin->agent_at, origin->wall_us);
    }
    state_restore(state, store, f.counters);
    assert_null(state_origin(state));
    state_free(state);
    return store;
}

static void counters_outlive_the_process(void **context)
{
    (void)context;
    struct stat st;
    use_up("k");
    struct state *state = state_open(f.dir, true);
    struct state_report report;
    assert_non_null(state);
    assert_null(state_origin(state));
    state_restore(state, f.store, f.counters);
    assert_string_equal(state_dir(state), f.dir);
    state_write(state, f.store);
    state_read_report(state, &report);
    assert_int_equal(report.n_written, 1);
    assert_int_equal(report.n_records, 1);
    assert_string_equal(report.error, "");
    state_free(state);
    assert_int_equal(stat(f.path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_int_equal(access(f.aside, F_OK), -1);

    struct store *store = restart();
    assert_false(take_one(store, "k"));
    assert_true(take_one(store, "l"));
    assert_int_equal(counter_get(f.counters, COUNTER_LOCAL_RESTORED), 1);
    store_free(store);
}

/* Not 0600 at any moment: neither a wide umask nor a file that lies there opens it. */
static void nobody_else_can_read_it(void **context)
{
    (void)context;
    struct stat st;
    int fd = open(f.aside, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    assert_true(fd >= 0);
    (void)fchmod(fd, 0666);
    (void)close(fd);
    mode_t old = umask(0);
    assert_true(snapshot_write(f.dir, f.store, &f.n_records, f.error));
    (void)umask(old);
    assert_int_equal(stat(f.path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
}

static enum snapshot_found look(void)
{
    struct snapshot snapshot;
    enum snapshot_found found = snapshot_open(f.dir, &snapshot, f.error);
    if (found == SNAPSHOT_GOOD) {
        snapshot_close(&snapshot);
    }
    return found;
}

static void assert_bad(const char *reason)
{
    assert_int_equal(look(), SNAPSHOT_BAD);
    if (strstr(f.error, reason) == NULL || strstr(f.error, f.dir) == NULL) {
        fail_msg("\"%s\" does not say \"%s\"", f.error, reason);
    }
}

static void write_file(const char *path, const void *bytes, size_t len)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes, len), (ssize_t)len);
    (void)close(fd);
}

static void bad_file_is_refused_and_left(void **context)
{
    (void)context;
    char bytes[4096];
    use_up("k");
    assert_int_equal(look(), SNAPSHOT_NONE);
    assert_string_equal(f.error, "");
    assert_true(snapshot_write(f.dir, f.store, &f.n_records, f.error));
    int fd = open(f.path, O_RDONLY | O_CLOEXEC);
    ssize_t len = read(fd, bytes, sizeof(bytes));
    (void)close(fd);
    assert_int_equal(len, IMAGE_HEAD_BYTES + 64 + 32);

    write_file(f.path, bytes, 0);
    assert_bad("it ends too early");
    write_file(f.path, bytes, (size_t)len - 1);
    assert_bad("it ends too early");
    write_file(f.path, bytes, (size_t)len + 1);
    assert_bad("it goes on after its end");
    write_file(f.path, "#!/bin/sh\nexit 0\n", 17);
    assert_bad("it holds no counters");
    bytes[100] ^= 1;
    write_file(f.path, bytes, (size_t)len);
    assert_bad("damaged");

    struct store *store = restart(); /* with nothing */
    assert_true(take_one(store, "k"));
    store_free(store);
    assert_int_equal(access(f.path, F_OK), 0);
    assert_true(snapshot_write(f.dir, f.store, &f.n_records, f.error));
    assert_int_equal(look(), SNAPSHOT_GOOD);
}

static void what_others_can_write_is_refused(void **context)
{
    (void)context;
    assert_true(snapshot_write(f.dir, f.store, &f.n_records, f.error));
    assert_int_equal(chmod(f.path, 0640), 0);
    assert_int_equal(look(), SNAPSHOT_GOOD);
    assert_non_null(strstr(f.error, "others can read the secret"));
    assert_int_equal(chmod(f.path, 0620), 0);
    assert_bad("others can write it");
    if (geteuid() == 0) {
        assert_int_equal(chmod(f.path, 0600), 0);
        assert_int_equal(chown(f.path, 65534, 65534), 0);
        assert_bad("it belongs to another user");
    }
    assert_int_equal(unlink(f.path), 0);
    assert_int_equal(mkfifo(f.path, 0600), 0); /* held open by nobody: must not wait */
    assert_bad("not a regular file");
    assert_int_equal(unlink(f.path), 0);
    assert_int_equal(symlink("/etc/passwd", f.path), 0);
    assert_bad("symbolic links");
}

static void assert_no_write(const char *reason)
{
    assert_false(snapshot_write(f.dir, f.store, &f.n_records, f.error));
    if (strstr(f.error, reason) == NULL || strstr(f.error, f.dir) == NULL) {
        fail_msg("\"%s\" does not say \"%s\"", f.error, reason);
    }
    assert_int_equal(access(f.aside, F_OK), -1);
}

/* A disk that is full at any byte: a limit on file sizes answers as one does. */
static void full_disk_keeps_the_old_file(void **context)
{
    (void)context;
    struct rlimit old;
    for (int i = 0; i < 500; i++) {
        char key[16];
        (void)snprintf(key, sizeof(key), "%d", i);
        assert_true(take_one(f.store, key));
    }
    assert_true(snapshot_write(f.dir, f.store, &f.n_records, f.error));
    assert_int_equal(f.n_records, 500);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    (void)signal(SIGXFSZ, SIG_IGN);
    for (rlim_t room = 0; room < 16000; room += 1999) {
        struct rlimit limit = {.rlim_cur = room, .rlim_max = old.rlim_max};
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
        bool is_written = snapshot_write(f.dir, f.store, &f.n_records, f.error);
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
        assert_false(is_written);
        assert_non_null(strstr(f.error, "make room"));
        assert_int_equal(access(f.aside, F_OK), -1);
        assert_int_equal(look(), SNAPSHOT_GOOD);
    }
    (void)signal(SIGXFSZ, SIG_DFL);
}

static void no_directory_no_permission_another_writer(void **context)
{
    (void)context;
    int dir_fd = open(f.dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(flock(dir_fd, LOCK_EX), 0);
    assert_no_write("another agent writes there");
    (void)close(dir_fd);
    if (geteuid() == 0) {
        assert_int_equal(mkdir(f.path, 0700),
                         0); /* a rename that fails, also for root */
        assert_no_write("directory");
        assert_int_equal(rmdir(f.path), 0);
    } else {
        assert_int_equal(chmod(f.dir, 0500), 0);
        assert_no_write("let the agent's user write there");
        assert_int_equal(chmod(f.dir, 0700), 0);
    }
    assert_int_equal(rmdir(f.dir), 0);
    assert_no_write("make state_dir a directory");
    assert_bad("make state_dir a directory");
    struct state *state = state_open(f.dir, true); /* goes on without */
    assert_non_null(state);
    struct state_report report;
    state_write(state, f.store);
    assert_int_equal(mkdir(f.dir, 0700), 0);
    state_read_report(state, &report);
    assert_int_equal(report.n_failed, 1);
    assert_non_null(strstr(report.error, "make state_dir a directory"));
    state_write(state, f.store);
    state_read_report(state, &report);
    assert_int_equal(report.n_written, 1);
    assert_string_equal(report.error, "");
    state_free(state);
}

static void wait_for_snapshots(struct state *state, uint64_t n)
{
    struct state_report report = {0};
    for (int i = 0; i < 10000 && report.n_written < n; i++) {
        usleep(1000);
        state_read_report(state, &report);
    }
    assert_true(report.n_written >= n);
}

/* Periodic snapshots are all that a killed process leaves behind. */
static void snapshot_is_written_again_and_again(void **context)
{
    (void)context;
    struct loop_thread main_loop;
    assert_true(loop_thread_init(&main_loop));
    struct state *state = state_open(f.dir, true);
    assert_non_null(state);
    assert_true(state_start(state, main_loop.loop, f.store, 0.01));
    assert_true(loop_thread_start(&main_loop));
    use_up("k");
    wait_for_snapshots(state, 1);
    struct state_report report;
    state_read_report(state, &report);
    wait_for_snapshots(state,
                       report.n_written + 2); /* one began after all was used up */
    loop_thread_stop(&main_loop);
    state_free(state); /* no last one */
    loop_thread_fini(&main_loop);
    struct store *store = restart();
    assert_false(take_one(store, "k"));
    store_free(store);
}

static void clock_goes_on_where_it_stood(void **context)
{
    (void)context;
    int64_t wall_us = clock_wall_us();
    struct instant then = {.us = INT64_C(1700000000) * US_PER_S};
    clock_continue(then, wall_us - 3600 * US_PER_S);
    int64_t passed_us = instant_diff_us(clock_now(), then);
    assert_true(passed_us >= 3600 * US_PER_S && passed_us < 3660 * US_PER_S);
    clock_continue(then,
                   wall_us + 3600 * US_PER_S); /* the wall clock was stepped back */
    passed_us = instant_diff_us(clock_now(), then);
    assert_true(passed_us >= 0 && passed_us < 60 * US_PER_S);
    int64_t offset_us = clock_offset_us();
    clock_start();
    assert_true(instant_diff_us(clock_now(), then) > 3600 * US_PER_S);
    clock_start_at(offset_us);
    passed_us = instant_diff_us(clock_now(), then);
    assert_true(passed_us >= 0 && passed_us < 60 * US_PER_S);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(counters_outlive_the_process),
        TEST(nobody_else_can_read_it),
        TEST(bad_file_is_refused_and_left),
        TEST(what_others_can_write_is_refused),
        TEST(full_disk_keeps_the_old_file),
        TEST(no_directory_no_permission_another_writer),
        TEST(snapshot_is_written_again_and_again),
        TEST(clock_goes_on_where_it_stood),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
