#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "agent/control/counter.h"

#include "tests/support/decider.h"

#define START_US (INT64_C(1800000000) * US_PER_S)

static const char rules_text[] =
    "version: 1\n"
    "domain: api\n"
    "rules:\n"
    "  - name: user\n"
    "    key: [user, ip]\n"
    "    limits:\n"
    "      - { name: burst, requests: 2, per: 10s, burst: 3 }\n"
    "      - { name: log, requests: 9, per: 1h, algorithm: sliding_log }\n"
    "  - { name: ip, key: [ip], limit: { requests: 1, per: 1s } }\n"
    "  - { name: other, key: [user, ip], limit: { requests: 7, per: 1h } }\n"
    "  - { name: all, key: [], limit: { requests: 5, per: 1s, algorithm: leaky_bucket } }\n"
    "  - { name: peer, key: [peer], no_key: skip,\n"
    "      limit: { requests: 4, per: 1h, algorithm: fixed_window } }\n";

struct fixture {
    struct decider decider;
    char *answer;
    size_t answer_len;
};

static int set_up(void **context)
{
    static struct fixture f;
    f.answer = NULL;
    *context = &f;
    return decider_init(&f.decider, rules_text) ? 0 : 1;
}

static int tear_down(void **context)
{
    struct fixture *f = *context;
    free(f->answer);
    decider_fini(&f->decider);
    return 0;
}

static const char *show(struct fixture *f, unsigned n, const char *first,
                        const char *second)
{
    const char *const words[] = {first, second};
    free(f->answer);
    FILE *out = open_memstream(&f->answer, &f->answer_len);
    assert_non_null(out);
    counter_print(f->decider.decide.set, f->decider.decide.store,
                  (struct instant){.us = START_US}, n, words, out);
    assert_int_equal(fclose(out), 0);
    return f->answer;
}

static void charge(struct fixture *f, const char *user)
{
    static const uint8_t client[4] = {192, 0, 2, 7};
    static const uint8_t peer[4] = {192, 0, 2, 9};
    struct decider *d = &f->decider;
    decider_begin(d);
    decider_message(d, "ratelimit-check");
    decider_text(d, "user", user);
    decider_ipv4(d, "peer", peer);
    decider_ipv4(d, "ip", client);
    assert_true(decider_decide(d, START_US));
}

static void shows_what_the_counters_of_a_key_hold(void **context)
{
    struct fixture *f = *context;
    assert_string_equal(show(f, 1, "user=a b,ip=192.0.2.7", NULL),
                        "limit=user.burst algorithm=token_bucket size=3 used=0 "
                        "remaining=3 reset_ms=0 key=user=a%20b,ip=192.0.2.7\n"
                        "limit=user.log algorithm=sliding_log size=9 used=0 "
                        "remaining=9 reset_ms=0 key=user=a%20b,ip=192.0.2.7\n"
                        "limit=other algorithm=sliding_window size=7 used=0 "
                        "remaining=7 reset_ms=0 key=user=a%20b,ip=192.0.2.7\n");
    assert_string_equal(show(f, 2, "user", "user=a,ip=::ffff:192.0.2.7"),
                        "limit=user.burst algorithm=token_bucket size=3 used=0 "
                        "remaining=3 reset_ms=0 key=user=a,ip=192.0.2.7\n"
                        "limit=user.log algorithm=sliding_log size=9 used=0 "
                        "remaining=9 reset_ms=0 key=user=a,ip=192.0.2.7\n");
    assert_string_equal(show(f, 1, "ip=192.0.2.7", NULL),
                        "limit=ip algorithm=sliding_window size=1 used=0 remaining=1 "
                        "reset_ms=0 key=ip=192.0.2.7\n");
    assert_string_equal(show(f, 1, "all", NULL),
                        "limit=all algorithm=leaky_bucket size=6 used=0 remaining=6 "
                        "reset_ms=0 key=\n");
}

static void what_is_in_redis_is_only_named(void **context)
{
    struct fixture *f = *context;
    decider_fini(&f->decider);
    assert_true(
        decider_init(&f->decider,
                     "version: 1\ndomain: d\nrules:\n"
                     "  - {name: a, key: [user], limit: {requests: 5, per: 60s}, "
                     "store: sync}\n"));
    assert_string_equal(show(f, 1, "user=ann", NULL),
                        "limit=a algorithm=sliding_window size=5 store=sync "
                        "key=user=ann\n");
}

static const char allowing[] =
    "version: 1\n"
    "domain: api\n"
    "rules:\n"
    "  - { name: user, key: [user], no_key: skip, limit: { requests: 2, per: 10s, burst: 3 } }\n"
    "  - { name: peer, key: [peer], limit: { requests: 4, per: 1h, algorithm: fixed_window } }\n";

static void shows_what_was_charged(void **context)
{
    struct fixture *f = *context;
    decider_fini(&f->decider);
    assert_true(decider_init(&f->decider, allowing));
    charge(f, "u");
    charge(f, "u");
    for (int i = 0; i < 2; i++) {
        assert_string_equal(show(f, 2, "user", "user=u"),
                            "limit=user algorithm=token_bucket size=3 used=2 "
                            "remaining=1 reset_ms=10000 key=user=u\n");
        /* It came as an address. */
        assert_string_equal(show(f, 1, "peer=192.0.2.9", NULL),
                            "limit=peer algorithm=fixed_window size=4 used=2 "
                            "remaining=2 reset_ms=3600000 key=peer=192.0.2.9\n");
    }
}

static void says_what_is_wrong(void **context)
{
    struct fixture *f = *context;
    static const char usage[] =
        "show counter: want [RULE[.LIMIT]] KEY, where KEY is NAME=VALUE[,NAME=VALUE]\n";
    static const char none[] = "show counter: no such limit has a key of these parts\n";
    assert_string_equal(show(f, 0, NULL, NULL), usage);
    assert_string_equal(show(f, 2, "user", "other"), usage);
    assert_string_equal(show(f, 2, "nobody", "ip=192.0.2.7"), none);
    assert_string_equal(show(f, 1, "user", NULL), none);
    assert_string_equal(show(f, 1, "ip=x", NULL), none);
    assert_string_equal(show(f, 2, "all", "ip=192.0.2.7"), none);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(shows_what_the_counters_of_a_key_hold),
        TEST(what_is_in_redis_is_only_named),
        TEST(shows_what_was_charged),
        TEST(says_what_is_wrong),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
