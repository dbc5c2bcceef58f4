#include "rules/key_text.h"

#include "tests/unit/rules/support.h"

static const char rules_text[] =
    "version: 1\n"
    "domain: api\n"
    "rules:\n"
    "- {name: ip, key: [ip], limit: {requests: 1, per: 1s}}\n"
    "- {name: user, key: [user | api_key, ip], limit: {requests: 1, per: 1s}}\n"
    "- {name: all, key: [], limit: {requests: 1, per: 1s}}\n"
    "- {name: peer, key: [peer], limit: {requests: 1, per: 1s}, ip_prefix: {v4: 20}}\n";

enum rule {
    RULE_IP = 0,
    RULE_USER,
    RULE_ALL,
    RULE_PEER,
};

static struct rules_set *set;

static int set_up(void **state)
{
    (void)state;
    set = load_good(rules_text);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    rules_set_free(set);
    return 0;
}

static struct rules_bytes key_of(enum rule rule, const char *user, const char *ip)
{
    static struct rules_request request;
    static struct rules_result result;

    memset(&request, 0, sizeof request);
    request_text(set, &request, "user", user);
    request_text(set, &request, "ip", ip);
    rules_eval(set, &request, &result);
    for (uint32_t i = 0; i < result.n_hits; i++) {
        if (result.hits[i].rule->idx == rule) {
            return result.hits[i].key;
        }
    }
    return (struct rules_bytes){NULL, 0};
}

static void assert_text(enum rule rule, const char *user, const char *ip,
                        const char *wanted)
{
    char text[RULES_KEY_TEXT_BYTES_MAX];
    uint8_t key[RULES_KEY_BYTES_MAX];
    size_t len = 0;
    struct rules_bytes made = key_of(rule, user, ip);

    assert_int_equal(rules_key_text(made, text), strlen(wanted));
    assert_string_equal(text, wanted);
    assert_int_equal(rules_key_text_read(set, rules_set_rule(set, rule), bytes_of(text),
                                         false, key, &len),
                     RULES_KEY_TEXT_OK);
    assert_int_equal(len, made.len);
    assert_memory_equal(key, made.ptr, len);
}

static void test_texts(void **state)
{
    char value[200];

    (void)state;
    assert_text(RULE_IP, "", "192.0.2.7", "ip=192.0.2.7");
    assert_text(RULE_IP, "", "::ffff:192.0.2.7", "ip=192.0.2.7");
    assert_text(RULE_IP, "", "2001:db8:1:2:3::4", "ip=2001%3Adb8%3A1%3A2%3A%3A");
    assert_text(RULE_USER, "Az09_.~-", "192.0.2.7", "user=Az09_.~-,ip=192.0.2.7");
    assert_text(RULE_USER, "a b,c=d%\x80!", "192.0.2.7",
                "user=a%20b%2Cc%3Dd%25%80%21,ip=192.0.2.7");
    assert_text(RULE_USER, "", "192.0.2.7", "!ip=192.0.2.7,ip=192.0.2.7");
    assert_text(RULE_ALL, "", "192.0.2.7", "");
    /* A long value that looks like the text of one, and one that is. */
    memset(value, '!', sizeof value);
    value[sizeof value - 1] = '\0';
    assert_text(RULE_USER, value, "192.0.2.7",
                "user="
                "%21%21%21%21%21%21%21%21%21%21%21%21%21%21%21%21%21%21%21%21%21%21%21"
                "%21%21%21%21%21%21%21%21%21%21%21%21%21%21%21%21%21%21%21%21%21%21%21"
                "%21%21%21%21%21%21%21%21%21%21%21%21%21%21%21%21%21%21!"
                "75C4E6D138453B7F71E5B57DEA5EA859B8990E1F38C874826C949B1D813CEA0D"
                ",ip=192.0.2.7");
}

static enum rules_key_text_status status_of(enum rule rule, const char *text)
{
    uint8_t key[RULES_KEY_BYTES_MAX];
    size_t len = 0;

    return rules_key_text_read(set, rules_set_rule(set, rule), bytes_of(text), false,
                               key, &len);
}

static void assert_reads_as(enum rule rule, const char *text, bool is_address,
                            const char *wanted)
{
    char back[RULES_KEY_TEXT_BYTES_MAX];
    uint8_t key[RULES_KEY_BYTES_MAX];
    size_t len = 0;

    assert_int_equal(rules_key_text_read(set, rules_set_rule(set, rule), bytes_of(text),
                                         is_address, key, &len),
                     RULES_KEY_TEXT_OK);
    (void)rules_key_text((struct rules_bytes){key, len}, back);
    assert_string_equal(back, wanted);
}

static void test_lenient_reading(void **state)
{
    (void)state;
    assert_reads_as(RULE_IP, "ip=2001:db8::1", false, "ip=2001%3Adb8%3A%3A");
    assert_reads_as(RULE_IP, "ip=[2001:DB8::1]:443", false, "ip=2001%3Adb8%3A%3A");
    assert_reads_as(RULE_USER, "api_key=a/b c,ip=192.0.2.7", false,
                    "api_key=a%2Fb%20c,ip=192.0.2.7");
    assert_reads_as(RULE_USER, "user=a=b,ip=192.0.2.7", false,
                    "user=a%3Db,ip=192.0.2.7");
    assert_reads_as(RULE_USER, "user=%c3%A4,ip=192.0.2.7", false,
                    "user=%C3%A4,ip=192.0.2.7");
    /* As text it is what it is; as an address it is in its group. */
    assert_reads_as(RULE_PEER, "peer=192.0.2.7", false, "peer=192.0.2.7");
    assert_reads_as(RULE_PEER, "peer=192.0.2.7", true, "peer=192.0.0.0");
    assert_reads_as(RULE_PEER, "peer=abc", true, "peer=abc");
}

static void test_what_is_no_key(void **state)
{
    static const char *const malformed[] = {"ip",
                                            "ip=",
                                            "=192.0.2.7",
                                            "ip=192.0.2.7,",
                                            ",ip=192.0.2.7",
                                            "ip=%",
                                            "ip=%1",
                                            "ip=%1g",
                                            "ip=192.0.2",
                                            "!ip=x",
                                            "ip=%zz7,x",
                                            "ip=1.2.3.4,,x=1"};

    (void)state;
    for (size_t i = 0; i < sizeof malformed / sizeof malformed[0]; i++) {
        assert_int_equal(status_of(RULE_IP, malformed[i]), RULES_KEY_TEXT_MALFORMED);
    }
    assert_int_equal(status_of(RULE_IP, ""), RULES_KEY_TEXT_FOREIGN);
    assert_int_equal(status_of(RULE_ALL, "ip=192.0.2.7"), RULES_KEY_TEXT_FOREIGN);
    assert_int_equal(status_of(RULE_USER, "user=a"), RULES_KEY_TEXT_FOREIGN);
    assert_int_equal(status_of(RULE_USER, "ip=192.0.2.7,user=a"),
                     RULES_KEY_TEXT_FOREIGN);
    assert_int_equal(status_of(RULE_USER, "user=a,ip=192.0.2.7,x=1"),
                     RULES_KEY_TEXT_FOREIGN);
    assert_int_equal(status_of(RULE_USER, "host=a,ip=192.0.2.7"),
                     RULES_KEY_TEXT_FOREIGN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_texts),
        cmocka_unit_test(test_lenient_reading),
        cmocka_unit_test(test_what_is_no_key),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
