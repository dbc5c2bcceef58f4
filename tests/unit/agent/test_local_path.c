/* From the first byte of a NOTIFY to its ACK nothing is allocated and the kernel is asked
 * for nothing, so no line is logged either: on requests that two rules allow and on ones
 * that are refused. A system call would end the child that decides. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "spop/session.h"

#include "agent/log.h"

#include "tests/support/alloc_probe.h"
#include "tests/support/decider.h"

#define START_US (INT64_C(1800000000) * US_PER_S)

enum {
    N_NOTIFIES = 100000,
    N_KEYS = 1000
};

static const char rules_text[] =
    "version: 1\n"
    "domain: api\n"
    "rules:\n"
    "  - name: per_key\n"
    "    match: { path: /v1/** }\n"
    "    key: [key, path]\n"
    "    limit: { requests: 20, per: 60s }\n"
    "    plans: { more: 30 }\n"
    "  - name: per_address\n"
    "    key: [ip]\n"
    "    limit: { requests: 100000000, per: 1s, burst: 10 }\n"
    "clients: { file: clients.csv, by: key }\n";

static struct decider d;

static int set_up(void **context)
{
    (void)context;
    log_start(LOG_LEVEL_DEBUG);
    return !decider_init(&d, rules_text)
           || !decider_clients(&d, "kaa,more\nkbb,other\n");
}

static int tear_down(void **context)
{
    (void)context;
    decider_fini(&d);
    return 0;
}

static size_t frame_notify(uint8_t *frame, size_t cap)
{
    struct spop_writer w;
    spop_writer_init(&w, frame, cap);
    spop_write_be32(&w, (uint32_t)(SPOP_FRAME_BYTES_MIN + d.payload.len));
    spop_write_u8(&w, SPOP_FRAME_NOTIFY);
    spop_write_be32(&w, 1);
    spop_write_varint(&w, 1);
    spop_write_varint(&w, 1);
    spop_write_bytes(&w, (struct spop_bytes){d.payload_buf, d.payload.len});
    return w.status == SPOP_OK ? w.len : 0;
}

/* Decide N_NOTIFIES of them; false when one was not decided, or all the same way. */
static bool decide_all(void)
{
    static const uint8_t client[4] = {192, 0, 2, 1};
    struct spop_session session;
    spop_session_init(&session);
    session.state = SPOP_SESSION_OPEN;
    session.frame_bytes_max = SPOP_FRAME_SIZE_MAX;
    session.receive_bytes_max = SPOP_FRAME_SIZE_MAX;
    uint8_t frame[512];
    uint8_t out_buf[SPOP_SESSION_ROOM_MIN];
    struct spop_writer out;
    spop_writer_init(&out, out_buf, sizeof(out_buf));
    unsigned n_refused = 0;
    for (int i = 0; i < N_NOTIFIES; i++) {
        char key[] = {'k', (char)('a' + i % N_KEYS % 26), (char)('a' + i % N_KEYS / 40),
                      '\0'};
        decider_begin(&d);
        decider_message(&d, "ratelimit-check");
        decider_text(&d, "path", "//v1/./a/%62/../c");
        decider_text(&d, "key", key);
        decider_ipv4(&d, "ip", client);
        struct spop_bytes in = {.ptr = frame,
                                .len = frame_notify(frame, sizeof(frame))};
        struct spop_event event;
        if (spop_session_next(&session, in, &out, &event) != in.len
            || event.type != SPOP_EVENT_NOTIFY || !decider_run(&d, START_US + i)) {
            return false;
        }
        n_refused += d.request.verdict.is_denied;
    }
    return d.n_done == N_NOTIFIES && n_refused > 0 && n_refused < N_NOTIFIES;
}

static void local_path_does_not_allocate(void **context)
{
    (void)context;
    unsigned long before = alloc_count();
    assert_true(before > 0); /* the count itself works */
    assert_true(decide_all());
    assert_int_equal(alloc_count() - before, 0);
}

/* From here on any system call but the end of the process is its end. */
static bool allow_only_exit(void)
{
    struct sock_filter only_exit[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
    };
    struct sock_fprog program = {.len = ARRAY_LEN(only_exit), .filter = only_exit};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
           && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

enum {
    EXIT_DONE = 10,
    EXIT_WRONG,
    EXIT_NO_FILTER,
};

/* Run in a child that may ask the kernel for nothing; answers its wait status. */
static int run_confined(bool (*run)(void))
{
    int status = 0;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        if (!allow_only_exit()) {
            _exit(EXIT_NO_FILTER);
        }
        _exit(run() ? EXIT_DONE : EXIT_WRONG);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

static bool ask_the_kernel(void)
{
    return getppid() != 0;
}

static void local_path_asks_nobody(void **context)
{
    (void)context;
    int status = run_confined(ask_the_kernel); /* the filter itself works */
    assert_true(WIFSIGNALED(status));
    status = run_confined(decide_all);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), EXIT_DONE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(local_path_does_not_allocate, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(local_path_asks_nobody, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
