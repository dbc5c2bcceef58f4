/*
 * What a person types at the runtime socket. The first byte says in what pieces it comes,
 * and whether the writing side is closed behind it.
 *
 * Laws:      a whole line gets one whole answer of printable lines, then the end; half a
 *            line gets nothing. The agent goes on.
 * Must reach: every command of show.c, with arguments right and wrong, help, an unknown one,
 *            a line that is too long, too many words, blanks of all kinds around and between
 *            words, bytes behind a backslash, values that are no printable ASCII.
 */
#include <errno.h>
#include <unistd.h>

#include <sys/socket.h>
#include <sys/un.h>

#include "agent/control/runtime.h"
#include "agent/control/show.h"
#include "agent/file.h"
#include "agent/store/local.h"

#include "tests/fuzz/fuzz.h"
#include "tests/support/decider.h"

enum {
    INPUT_BYTES_MAX = 3 * RUNTIME_LINE_BYTES_MAX,
    ANSWER_BYTES_MAX = 1 << 16,
    TURNS_MAX = 1000,
};

static const char rules_text[] =
    "version: 1\n"
    "domain: fuzz\n"
    "rules:\n"
    "  - {name: all, key: [], limit: {requests: 1, per: 1s}}\n"
    "  - {name: user, match: {method: [GET, 'P*'], path: /a/**}, key: [user | ip, src],\n"
    "     limits: [{name: a, requests: 5, per: 1s}, {name: b, requests: 9, per: day}],\n"
    "     plans: {gold: 2x, staff: unlimited}, cost: {from: size, max: 3}}\n"
    "  - {name: log, match: {path: {not: /b}}, key: [ip], mode: {enforce: 50%},\n"
    "     limit: {requests: 5, per: 1s, algorithm: sliding_log}, overrides: user}\n"
    "  - {name: need, match: {tenant: present}, key: [user], no_key: reject,\n"
    "     limit: {requests: 5, per: 1s, algorithm: leaky_bucket}}\n"
    "lists: {block: {user: [bad]}, allow: {ip: [192.0.2.0/24]}}\n";

static struct {
    struct decider decider; /* a store and options */
    struct rulebook *book;
    char rules_path[64];
    struct ev_loop *loop;
    struct stores stores; /* without Redis */
    struct show_source shown;
    struct sockaddr_un un;
    char dir[32];
    char answer[ANSWER_BYTES_MAX];
} f;

static void remove_files(void)
{
    (void)unlink(f.un.sun_path);
    (void)unlink(f.rules_path);
    (void)rmdir(f.dir);
}

static void start_server(void)
{
    struct server_options options = {
        .n_workers = 1,
        .connections_max = 1,
        .set = rulebook_set(f.book),
        .store = f.decider.decide.store,
        .decide_options = &f.decider.options,
        .counters = rulebook_counters(f.book),
    };
    f.shown = (struct show_source){
        .rulebook = f.book,
        .store = f.decider.decide.store,
        .stores = &f.stores,
        .options = &f.decider.options,
        .server = server_start(f.loop, &options),
        .n_workers = options.n_workers,
        .started_at = clock_now(),
    };
    FUZZ_CHECK(f.shown.server != NULL);
}

static void load_rules(void)
{
    const char *error = NULL;
    (void)snprintf(f.dir, sizeof(f.dir), "/tmp/fuzz_runtime.XXXXXX");
    FUZZ_CHECK(mkdtemp(f.dir) != NULL);
    (void)snprintf(f.rules_path, sizeof(f.rules_path), "%s/rules.yaml", f.dir);
    FUZZ_CHECK(
        file_replace(f.rules_path, rules_text, strlen(rules_text), 0600, &error));
    f.book = rulebook_open(f.rules_path, NULL, 1, NULL);
    FUZZ_CHECK(f.book != NULL);
}

static void open_door(void)
{
    char text[ADDRESS_TEXT_BYTES_MAX];
    char error[ADDRESS_ERROR_BYTES_MAX];
    struct address address;
    (void)snprintf(text, sizeof(text), "unix@%s/s", f.dir);
    FUZZ_CHECK(address_parse(&address, text, error));
    memcpy(&f.un, &address.sockaddr, sizeof(f.un));
    FUZZ_CHECK(runtime_start(f.loop, &address, NULL, show_commands, &f.shown) != NULL);
    FUZZ_CHECK(atexit(remove_files) == 0);
}

static void prepare(void)
{
    if (f.loop != NULL) {
        return;
    }
    clock_start();
    f.loop = ev_loop_new(EVFLAG_NOENV);
    FUZZ_CHECK(f.loop != NULL && decider_init(&f.decider, rules_text));
    load_rules();
    start_server();
    open_door();
}

/* Send in pieces; the agent may be done before all of it is sent. */
static void type_in(int fd, const uint8_t *text, size_t len, size_t piece)
{
    for (size_t off = 0; off < len; off += piece) {
        size_t n = piece < len - off ? piece : len - off;
        if (send(fd, text + off, n, MSG_NOSIGNAL) < 0) {
            return;
        }
        ev_run(f.loop, EVRUN_NOWAIT);
    }
}

/* All that comes back; `is_ended` says whether the agent closed. */
static size_t read_answer(int fd, bool *is_ended)
{
    size_t len = 0;
    *is_ended = false;
    for (int i = 0; i < TURNS_MAX && !*is_ended; i++) {
        ev_run(f.loop, EVRUN_NOWAIT);
        ssize_t n = recv(fd, f.answer + len, ANSWER_BYTES_MAX - 1 - len, MSG_DONTWAIT);
        len += n > 0 ? (size_t)n : 0;
        *is_ended = n == 0 || (n < 0 && errno == ECONNRESET);
    }
    f.answer[len] = '\0';
    return len;
}

static bool begins(const char *with)
{
    return strncmp(f.answer, with, strlen(with)) == 0;
}

static void check_answer(size_t len)
{
    FUZZ_CHECK(len > 0 && len < ANSWER_BYTES_MAX - 1 && f.answer[len - 1] == '\n');
    for (size_t i = 0; i < len; i++) {
        FUZZ_CHECK(f.answer[i] == '\n' || (f.answer[i] >= 0x20 && f.answer[i] < 0x7f));
    }
    static const char *const beginnings[] = {"help ",
                                             "Unknown command.",
                                             "The line ",
                                             "Name: ",
                                             "# HELP ",
                                             "rule=all ",
                                             "limit=",
                                             "show counter: ",
                                             "explain: ",
                                             "Verdict: ",
                                             "{",
                                             "show info takes no ",
                                             "show rules t",
                                             "show metrics takes no "};
    bool is_known = false;
    for (size_t i = 0; i < ARRAY_LEN(beginnings); i++) {
        is_known = is_known || begins(beginnings[i]);
    }
    FUZZ_CHECK(is_known);
}

static bool has_newline(const uint8_t *text, size_t len)
{
    size_t seen = len < RUNTIME_LINE_BYTES_MAX ? len : RUNTIME_LINE_BYTES_MAX;
    return seen > 0 && memchr(text, '\n', seen) != NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    if (len < 1 || len > INPUT_BYTES_MAX) {
        return 0;
    }
    prepare();
    bool is_closed = data[0] % 2 == 1;
    size_t piece = 1 + (size_t)data[0] * data[0] / 4;
    uint8_t *text = fuzz_copy(data + 1, len - 1);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    FUZZ_CHECK(fd >= 0 && connect(fd, (struct sockaddr *)&f.un, sizeof(f.un)) == 0);
    type_in(fd, text, len - 1, piece);
    if (is_closed) {
        (void)shutdown(fd, SHUT_WR);
    }
    bool is_ended = false;
    bool is_too_long = len > RUNTIME_LINE_BYTES_MAX && !has_newline(text, len - 1);
    bool has_line = has_newline(text, len - 1) || is_too_long || (is_closed && len > 1);
    size_t answer_len = read_answer(fd, &is_ended);
    FUZZ_CHECK(is_ended == (has_line || is_closed));
    if (has_line) {
        check_answer(answer_len);
        FUZZ_CHECK(is_too_long == begins("The line is"));
    } else {
        FUZZ_CHECK(answer_len == 0);
    }
    (void)close(fd);
    ev_run(f.loop, EVRUN_NOWAIT); /* a client that goes away leaves */
    free(text);
    return 0;
}
