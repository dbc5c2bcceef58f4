#include "tests/conformance/load.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "agent/clock.h"

enum {
    TURN_PAUSE_US = 500,
    WAIT_PAUSE_US = 1000,
};

#define PATIENCE_US (60 * US_PER_S)

static const char *const policies[LOAD_POLICIES_N] = {"local", "open", "closed"};

const char *load_rules(void)
{
    static char rules[1024];
    int n = snprintf(rules, sizeof(rules), "version: 1\ndomain: load\nrules:\n");
    for (int i = 0; i < LOAD_POLICIES_N; i++) {
        n += snprintf(rules + n, sizeof(rules) - (size_t)n,
                      "  - name: %s\n    match: { route: %s }\n    key: [key]\n"
                      "    limit: { algorithm: fixed_window, requests: %d, per: 31d }\n"
                      "    store: redis\n    on_store_failure: %s\n",
                      policies[i], policies[i], LOAD_LIMIT, policies[i]);
    }
    return rules;
}

/* --- answers, on the thread of the load --- */

static void set_fault(struct load *load, const struct load_key *key, const char *what,
                      int64_t number)
{
    if (load->fault[0] == '\0') {
        (void)snprintf(load->fault, sizeof(load->fault),
                       "%s (%s): %s %lld, counted %u, unsure %u", key->name,
                       policies[key->policy], what, (long long)number, key->n_counted,
                       key->n_unsure);
    }
}

static void check_policy(struct load *load, struct load_key *key,
                         const struct wire_ack *ack)
{
    int64_t deny = wire_ack_number(ack, "deny");
    bool is_refused = deny != 0;
    if (is_refused != (key->policy == LOAD_CLOSED)) {
        set_fault(load, key, "by policy, deny is", deny);
    }
    if (is_refused && wire_ack_number(ack, "status") != 503) {
        set_fault(load, key, "status is", wire_ack_number(ack, "status"));
    }
    key->n_unsure++;
    load->n_by_policy++;
    bool is_late = wire_ack_is(ack, "reason", "deadline");
    load->n_late += is_late;
    load->n_late_ever += is_late;
}

/* All that Redis said it counted is counted, and no more but for what nobody knows of. */
static void check_count(struct load *load, struct load_key *key,
                        const struct wire_ack *ack)
{
    int64_t left = wire_ack_number(ack, "remaining");
    int64_t held = LOAD_LIMIT - left;
    key->n_counted++;
    key->left = left;
    if (wire_ack_number(ack, "deny") != 0) {
        set_fault(load, key, "refused, held", held);
    }
    if (held > (int64_t)key->n_counted + key->n_unsure) {
        set_fault(load, key, "charged too often, held", held);
    }
    if (held < (int64_t)key->n_counted && !load->may_forget) {
        set_fault(load, key, "forgotten, held", held);
    }
}

static bool take_answer(struct load *load, struct instant from)
{
    struct wire_ack ack;
    if (!spop_client_receive(&load->client)) {
        (void)snprintf(load->fault, sizeof(load->fault), "no answer");
        return false;
    }
    const char *fault = wire_read_ack(load->client.frame, load->client.frame_len,
                                      WIRE_SIZE, &ack);
    if (fault != NULL || ack.stream_id < 1 || ack.stream_id > LOAD_KEYS) {
        (void)snprintf(load->fault, sizeof(load->fault), "an answer that is none: %s",
                       fault != NULL ? fault : "of another request");
        return false;
    }
    histogram_add(&load->waits, (uint64_t)instant_diff_us(clock_now(), from));
    struct load_key *key = &load->keys[ack.stream_id - 1];
    if (wire_ack_is_by_policy(&ack)) {
        check_policy(load, key, &ack);
    } else {
        check_count(load, key, &ack);
    }
    return load->fault[0] == '\0';
}

static bool turn(struct load *load)
{
    struct instant from = clock_now();
    unsigned n_by_policy = load->n_by_policy;
    load->n_asked += LOAD_KEYS;
    bool ok = spop_client_send(&load->client, load->wire.bytes, load->wire.len);
    for (unsigned i = 0; ok && i < LOAD_KEYS; i++) {
        ok = take_answer(load, from);
    }
    load->n_good = load->n_by_policy == n_by_policy ? load->n_good + 1 : 0;
    load->n_turns++;
    return ok;
}

static void *run(void *arg)
{
    struct load *load = arg;
    bool ok = true;
    while (ok && !load->is_over) {
        load->is_idle = load->is_paused;
        ok = load->is_idle || turn(load);
        (void)usleep(TURN_PAUSE_US);
    }
    load->is_over = true;
    return NULL;
}

/* --- on the thread of the test --- */

static void make_keys(struct load *load)
{
    load->wire.len = 0;
    for (unsigned i = 0; i < LOAD_KEYS; i++) {
        struct load_key *key = &load->keys[i];
        *key = (struct load_key){.policy = (enum load_policy)(i % LOAD_POLICIES_N),
                                 .left = LOAD_LIMIT};
        (void)snprintf(key->name, sizeof(key->name), "k%u", i);
        (void)snprintf(key->redis_name, sizeof(key->redis_name),
                       "rl:load:{key=k%u}:%s:f2678400s", i, policies[key->policy]);
        wire_notify_begin(&load->wire, i + 1, 1, 2);
        wire_arg_text(&load->wire, "route", policies[key->policy]);
        wire_arg_text(&load->wire, "key", key->name);
        wire_end(&load->wire);
    }
}

void load_start(struct load *load, const char *socket_path)
{
    memset(load, 0, sizeof(*load));
    make_keys(load);
    assert_true(spop_client_open(&load->client, socket_path));
    load->is_paused = true;
    assert_int_equal(pthread_create(&load->thread, NULL, run, load), 0);
}

static void check(const struct load *load)
{
    if (load->is_over) {
        fail_msg("%s", load->fault);
    }
}

void load_stop(struct load *load)
{
    if (load->thread != 0) {
        load->is_over = true;
        (void)pthread_join(load->thread, NULL);
        spop_client_close(&load->client);
        load->thread = 0;
    }
}

void load_pause(struct load *load)
{
    load->is_paused = true;
    while (!load->is_idle && !load->is_over) {
        (void)usleep(WAIT_PAUSE_US);
    }
    check(load);
}

void load_resume(struct load *load)
{
    load->n_asked = 0;
    load->n_by_policy = 0;
    load->n_late = 0;
    memset(&load->waits, 0, sizeof(load->waits));
    load->n_good = 0;
    load->is_paused = false;
}

void load_wait(struct load *load, unsigned n_turns)
{
    unsigned until = load->n_turns + n_turns;
    while (!load->is_over && (int)(until - load->n_turns) > 0) {
        (void)usleep(WAIT_PAUSE_US);
    }
    check(load);
}

int64_t load_wait_counted(struct load *load, unsigned n_turns)
{
    struct instant began = clock_now();
    load->n_good = 0;
    while (!load->is_over && load->n_good < n_turns) {
        assert_true(instant_diff_us(clock_now(), began) < PATIENCE_US);
        (void)usleep(WAIT_PAUSE_US);
    }
    check(load);
    return instant_diff_us(clock_now(), began);
}

void load_forget(struct load *load)
{
    for (unsigned i = 0; i < LOAD_KEYS; i++) {
        struct load_key *key = &load->keys[i];
        key->n_counted = (unsigned)(LOAD_LIMIT - key->left);
        key->n_unsure = 0;
    }
    load->n_late_ever = 0;
}

void load_print(const struct load *load, const char *name)
{
    print_message("%-28s %6u answers, %5u by policy, %3u late, p99.9 %.1f ms, slowest "
                  "%.1f ms\n",
                  name, load->n_asked, load->n_by_policy, load->n_late,
                  (double)histogram_quantile(&load->waits, 999000) / US_PER_MS,
                  (double)atomic_load(&load->waits.max) / US_PER_MS);
}
