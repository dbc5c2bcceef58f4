#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "spop/bytes.h"
#include "spop/hello.h"
#include "spop/value.h"

#include "tests/support/death.h"
#include "tests/unit/spop/support.h"

#define VERSIONS(text)      "12\"supported-versions\" 08" text
#define SIZE(value)         "0e\"max-frame-size\"" value
#define CAPABILITIES(text)  "0c\"capabilities\" 08" text
#define VERSION_2           VERSIONS("03\"2.0\"")
#define SIZE_16380          SIZE("03fcf006")
#define NO_CAPABILITIES     CAPABILITIES("00")
#define HEALTH_CHECK(value) "0b\"healthcheck\"" value
#define ENGINE_ID           "09\"engine-id\" 0808\"4833f2a5\""
#define UNKNOWN             "01\"x\""
#define AGENT_VERSION       "07\"version\" 0803\"2.0\""

struct hello_case {
    const char *name;
    const char *payload;
    enum spop_code code;
    struct spop_haproxy_hello hello;
};

static const struct hello_case accepted[] = {
    {"HAProxy up to 3.0",
     VERSION_2 SIZE_16380 CAPABILITIES("10\"pipelining,async\"") ENGINE_ID,
     SPOP_CODE_NORMAL,
     {16380, true, false}},
    {"HAProxy from 3.1",
     VERSION_2 SIZE_16380 CAPABILITIES("0a\"pipelining\"") ENGINE_ID,
     SPOP_CODE_NORMAL,
     {16380, true, false}},
    {"health check",
     VERSION_2 SIZE_16380 NO_CAPABILITIES HEALTH_CHECK("11"),
     SPOP_CODE_NORMAL,
     {16380, false, true}},
    {"health check with a false value",
     VERSION_2 SIZE_16380 NO_CAPABILITIES HEALTH_CHECK("01"),
     SPOP_CODE_NORMAL,
     {16380, false, false}},
    {"other order",
     NO_CAPABILITIES SIZE_16380 VERSION_2,
     SPOP_CODE_NORMAL,
     {16380, false, false}},
    {"health check first",
     HEALTH_CHECK("11") SIZE_16380 NO_CAPABILITIES VERSION_2,
     SPOP_CODE_NORMAL,
     {16380, false, true}},
    {"unknown keys of all types",
     UNKNOWN "00" VERSION_2 UNKNOWN "01" UNKNOWN "11" UNKNOWN
             "02f001" SIZE_16380 UNKNOWN "0305" UNKNOWN "04fbf0fefefefefefefe0e" UNKNOWN
             "0500" NO_CAPABILITIES UNKNOWN "0601020304" UNKNOWN
             "07000102030405060708090a0b0c0d0e0f" UNKNOWN "0801\"y\"" UNKNOWN "090100",
     SPOP_CODE_NORMAL,
     {16380, false, false}},
    {"the last of several versions",
     VERSIONS("03\"1.0\"") VERSION_2 SIZE_16380 NO_CAPABILITIES,
     SPOP_CODE_NORMAL,
     {16380, false, false}},
    {"the last of several sizes",
     VERSION_2 SIZE("0300") SIZE("03f001") NO_CAPABILITIES,
     SPOP_CODE_NORMAL,
     {256, false, false}},
    {"the last of several capabilities",
     VERSION_2 SIZE_16380 CAPABILITIES("0a\"pipelining\"") NO_CAPABILITIES,
     SPOP_CODE_NORMAL,
     {16380, false, false}},
    {"the last of several health checks",
     VERSION_2 SIZE_16380 NO_CAPABILITIES HEALTH_CHECK("11") HEALTH_CHECK("01"),
     SPOP_CODE_NORMAL,
     {16380, false, false}},
    {"size as INT32",
     VERSION_2 SIZE("02fcf006") NO_CAPABILITIES,
     SPOP_CODE_NORMAL,
     {16380, false, false}},
    {"size as INT64",
     VERSION_2 SIZE("04fcf006") NO_CAPABILITIES,
     SPOP_CODE_NORMAL,
     {16380, false, false}},
    {"size as UINT64",
     VERSION_2 SIZE("05fcf006") NO_CAPABILITIES,
     SPOP_CODE_NORMAL,
     {16380, false, false}},
    {"size of 2^30",
     VERSION_2 SIZE("03f0f1fefe1e") NO_CAPABILITIES,
     SPOP_CODE_NORMAL,
     {1073741824, false, false}},
    {"size of 2^64-1",
     VERSION_2 SIZE("05fff0fefefefefefefe0e") NO_CAPABILITIES,
     SPOP_CODE_NORMAL,
     {UINT64_MAX, false, false}},
};

static const struct hello_case refused[] = {
    {"nothing", "", SPOP_CODE_NO_VERSION, {0}},
    {"no versions", SIZE_16380 NO_CAPABILITIES, SPOP_CODE_NO_VERSION, {0}},
    {"no size", VERSION_2 NO_CAPABILITIES, SPOP_CODE_NO_FRAME_SIZE, {0}},
    {"no capabilities", VERSION_2 SIZE_16380, SPOP_CODE_NO_CAPABILITIES, {0}},
    {"versions before size", NO_CAPABILITIES, SPOP_CODE_NO_VERSION, {0}},
    {"keys in upper case",
     "12\"SUPPORTED-VERSIONS\" 0803\"2.0\"" SIZE_16380 NO_CAPABILITIES,
     SPOP_CODE_NO_VERSION,
     {0}},
    {"missing before unsupported",
     VERSIONS("03\"1.0\"") SIZE("0300"),
     SPOP_CODE_NO_CAPABILITIES,
     {0}},
    {"version before size",
     VERSIONS("03\"1.0\"") SIZE("0300") NO_CAPABILITIES,
     SPOP_CODE_BAD_VERSION,
     {0}},
    {"size 0", VERSION_2 SIZE("0300") NO_CAPABILITIES, SPOP_CODE_BAD_FRAME_SIZE, {0}},
    {"size 255",
     VERSION_2 SIZE("03ff00") NO_CAPABILITIES,
     SPOP_CODE_BAD_FRAME_SIZE,
     {0}},
    {"size -1",
     VERSION_2 SIZE("04fff0fefefefefefefe0e") NO_CAPABILITIES,
     SPOP_CODE_BAD_FRAME_SIZE,
     {0}},
    {"size as STRING",
     VERSION_2 SIZE("0805\"16380\"") NO_CAPABILITIES,
     SPOP_CODE_INVALID,
     {0}},
    {"size as NULL", VERSION_2 SIZE("00") NO_CAPABILITIES, SPOP_CODE_INVALID, {0}},
    {"versions as UINT32",
     "12\"supported-versions\" 0302" SIZE_16380 NO_CAPABILITIES,
     SPOP_CODE_INVALID,
     {0}},
    {"capabilities as BOOL",
     VERSION_2 SIZE_16380 "0c\"capabilities\" 11",
     SPOP_CODE_INVALID,
     {0}},
    {"health check as UINT32",
     VERSION_2 SIZE_16380 NO_CAPABILITIES HEALTH_CHECK("0301"),
     SPOP_CODE_INVALID,
     {0}},
    {"a wrong type is not mended by a second value",
     SIZE("0801\"1\"") VERSION_2 SIZE_16380 NO_CAPABILITIES,
     SPOP_CODE_INVALID,
     {0}},
    {"empty key", VERSION_2 SIZE_16380 NO_CAPABILITIES "00 11", SPOP_CODE_INVALID, {0}},
    {"reserved type",
     VERSION_2 SIZE_16380 NO_CAPABILITIES UNKNOWN "0a",
     SPOP_CODE_INVALID,
     {0}},
    {"string past the end",
     VERSION_2 SIZE_16380 NO_CAPABILITIES UNKNOWN "0805\"four\"",
     SPOP_CODE_INVALID,
     {0}},
    {"key past the end",
     VERSION_2 SIZE_16380 NO_CAPABILITIES "05\"a\"",
     SPOP_CODE_INVALID,
     {0}},
    {"value missing",
     VERSION_2 SIZE_16380 NO_CAPABILITIES UNKNOWN,
     SPOP_CODE_INVALID,
     {0}},
    {"varint of ten bytes over 64 bits",
     VERSION_2 SIZE("05 ff f0 fe fe fe fe fe fe fe 0f") NO_CAPABILITIES,
     SPOP_CODE_INVALID,
     {0}},
    {"varint of eleven bytes",
     VERSION_2 SIZE("05 ff ff ff ff ff ff ff ff ff ff 7f") NO_CAPABILITIES,
     SPOP_CODE_INVALID,
     {0}},
    {"malformed before missing", UNKNOWN "0a", SPOP_CODE_INVALID, {0}},
};

static enum spop_code hello_judge(const char *payload, struct spop_haproxy_hello *hello)
{
    struct wire wire;
    struct spop_frame frame = {
        .type = SPOP_FRAME_HAPROXY_HELLO,
        .flags = SPOP_FLAG_FIN,
        .payload = wire_bytes(&wire, payload),
    };
    return spop_hello_decode(&frame, hello);
}

static void good_hellos_are_accepted(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(accepted) / sizeof(accepted[0]); i++) {
        const struct hello_case *c = &accepted[i];
        struct spop_haproxy_hello hello = {0};
        expect_equal(c->name, hello_judge(c->payload, &hello), c->code);
        assert_int_equal(hello.frame_bytes_max, c->hello.frame_bytes_max);
        expect_equal(c->name, hello.is_pipelining, c->hello.is_pipelining);
        expect_equal(c->name, hello.is_health_check, c->hello.is_health_check);
    }
}

static void bad_hellos_are_refused_with_their_code(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
        const struct hello_case *c = &refused[i];
        struct spop_haproxy_hello hello = {.frame_bytes_max = 99};
        expect_equal(c->name, hello_judge(c->payload, &hello), c->code);
        assert_int_equal(hello.frame_bytes_max, 99);
    }
}

static const struct list_case {
    const char *text;
    bool is_ours;
} versions[] = {
    {"2.0", true},
    {"1.0,2.0", true},
    {"2.0, 1.5", true},
    {" 2.0 ", true},
    {"2.0,3.0", true},
    {"3.0,2.0", true},
    {"2.5", true},
    {"2", true},
    {"\t2.0\t,", true},
    {",,2.0", true},
    {"abc,2.0", true},
    {"2.999", true},
    {"02.0", true},
    {"1.0", false},
    {"3.0", false},
    {"", false},
    {"abc", false},
    {"2.x", false},
    {"20", false},
    {"20.0", false},
    {"2.", false},
    {".0", false},
    {"2.0.0", false},
    {"2 .0", false},
    {"-2.0", false},
    {"+2.0", false},
    {"2.1000", false},
    {",", false},
    {" , ", false},
    {"0.0", false},
    {"2.0x", false},
    {"x2.0", false},
    {"4294967298", false},
    {"2.4294967296", false},
    {"18446744073709551618.0", false},
};

static void text_append(struct spop_writer *w, const char *key, const char *text)
{
    struct spop_value value = {.type = SPOP_VALUE_STRING,
                               .bytes = spop_bytes_view(text)};
    spop_write_string(w, spop_bytes_view(key));
    spop_value_encode(w, &value);
}

static enum spop_code lists_judge(const char *version_list, const char *capability_list,
                                  struct spop_haproxy_hello *hello)
{
    uint8_t buf[512];
    struct wire wire;
    struct spop_writer w;
    spop_writer_init(&w, buf, sizeof(buf));
    text_append(&w, "supported-versions", version_list);
    text_append(&w, "capabilities", capability_list);
    spop_write_bytes(&w, wire_bytes(&wire, SIZE_16380));
    struct spop_frame frame = {.flags = SPOP_FLAG_FIN, .payload = written(&w)};
    return spop_hello_decode(&frame, hello);
}

static void any_version_two_will_do(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(versions) / sizeof(versions[0]); i++) {
        struct spop_haproxy_hello hello;
        enum spop_code want = versions[i].is_ours ? SPOP_CODE_NORMAL
                                                  : SPOP_CODE_BAD_VERSION;
        enum spop_code got = lists_judge(versions[i].text, "", &hello);
        expect_equal(versions[i].text, got, want);
    }
}

static const struct list_case capabilities[] = {
    {"", false},
    {"async", false},
    {"pipelining,async", true},
    {" pipelining , foo ", true},
    {"\tasync,\tpipelining\t", true},
    {"PIPELINING", false},
    {"pipelining2", false},
    {"xpipelining", false},
    {",,pipelining", true},
    {"pipe lining", false},
};

static void pipelining_is_found_by_its_name(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(capabilities) / sizeof(capabilities[0]); i++) {
        struct spop_haproxy_hello hello = {0};
        const char *text = capabilities[i].text;
        expect_equal(text, lists_judge("2.0", text, &hello), SPOP_CODE_NORMAL);
        expect_equal(text, hello.is_pipelining, capabilities[i].is_ours);
    }
}

static const struct header_case {
    uint32_t flags;
    enum spop_code code;
    uint64_t stream_id;
    uint64_t frame_id;
} headers[] = {
    {0, SPOP_CODE_NO_FRAGMENTATION, 0, 0},
    {SPOP_FLAG_ABORT, SPOP_CODE_NO_FRAGMENTATION, 0, 0},
    {0x01000000, SPOP_CODE_NO_FRAGMENTATION, 0, 0},
    {0, SPOP_CODE_NO_FRAGMENTATION, 1, 0},
    {SPOP_FLAG_FIN, SPOP_CODE_INVALID, 1, 0},
    {SPOP_FLAG_FIN, SPOP_CODE_INVALID, 0, 1},
    {SPOP_FLAG_FIN | SPOP_FLAG_ABORT, SPOP_CODE_NORMAL, 0, 0},
    {0xfffffffd, SPOP_CODE_NORMAL, 0, 0},
};

static void the_header_is_judged_first(void **state)
{
    (void)state;
    struct wire wire;
    struct spop_bytes payload = wire_bytes(&wire, VERSION_2 SIZE_16380 NO_CAPABILITIES);
    for (size_t i = 0; i < sizeof(headers) / sizeof(headers[0]); i++) {
        const struct header_case *c = &headers[i];
        struct spop_haproxy_hello hello;
        struct spop_frame frame = {.flags = c->flags,
                                   .stream_id = c->stream_id,
                                   .frame_id = c->frame_id,
                                   .payload = payload};
        assert_int_equal(spop_hello_decode(&frame, &hello), c->code);
    }
}

static void a_long_engine_id_is_accepted(void **state)
{
    (void)state;
    uint8_t buf[8192];
    static const uint8_t id[4096] = {0};
    struct wire wire;
    struct spop_writer w;
    spop_writer_init(&w, buf, sizeof(buf));
    spop_write_bytes(&w, wire_bytes(&wire, VERSION_2 SIZE_16380 NO_CAPABILITIES));
    spop_write_bytes(&w, wire_bytes(&wire, "09\"engine-id\" 08"));
    spop_write_string(&w, (struct spop_bytes){id, sizeof(id)});
    struct spop_haproxy_hello hello;
    struct spop_frame frame = {.flags = SPOP_FLAG_FIN, .payload = written(&w)};
    assert_int_equal(spop_hello_decode(&frame, &hello), SPOP_CODE_NORMAL);
}

static const struct encode_case {
    const char *name;
    struct spop_agent_hello hello;
    const char *hex;
} encode_cases[] = {
    {"pipelining",
     {16380, true, false},
     "00000040650000000100000776657273696f6e0803322e300e6d61782d6672616d652d73697a65"
     "03fcf0060c6361706162696c6974696573080a706970656c696e696e67"},
    {"pipelining and fragmentation",
     {16380, true, true},
     "0000004e 65 00000001 00 00 07\"version\" 0803\"2.0\" 0e\"max-frame-size\""
     " 03fcf006 0c\"capabilities\" 0818\"pipelining,fragmentation\""},
    {"fragmentation",
     {16380, false, true},
     "00000043 65 00000001 00 00 07\"version\" 0803\"2.0\" 0e\"max-frame-size\""
     " 03fcf006 0c\"capabilities\" 080d\"fragmentation\""},
    {"health check",
     {256, false, false},
     "00000035650000000100000776657273696f6e0803322e300e6d61782d6672616d652d73697a65"
     "03f0010c6361706162696c69746965730800"},
};

static void our_hello_is_byte_exact(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(encode_cases) / sizeof(encode_cases[0]); i++) {
        uint8_t buf[128];
        struct spop_writer w;
        spop_writer_init(&w, buf, sizeof(buf));
        spop_hello_encode(&w, &encode_cases[i].hello);
        expect_bytes(encode_cases[i].name, written(&w), encode_cases[i].hex);
    }
}

/* As HAProxy sends them, but for its engine-id. */
static const struct haproxy_encode_case {
    const char *name;
    struct spop_haproxy_hello hello;
    const char *hex;
} haproxy_encode_cases[] = {
    {"pipelining",
     {16380, true, false},
     "0000004b01000000010000" VERSION_2 SIZE_16380 CAPABILITIES("0a\"pipelining\"")},
    {"health check",
     {16380, false, true},
     "0000004e01000000010000" VERSION_2 SIZE_16380 NO_CAPABILITIES HEALTH_CHECK("11")},
};

static void haproxys_hello_is_byte_exact(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(haproxy_encode_cases) / sizeof(*haproxy_encode_cases);
         i++) {
        const struct haproxy_encode_case *c = &haproxy_encode_cases[i];
        uint8_t buf[128];
        struct spop_writer w;
        struct spop_frame frame;
        struct spop_haproxy_hello hello;
        spop_writer_init(&w, buf, sizeof(buf));
        spop_haproxy_hello_encode(&w, &c->hello);
        expect_bytes(c->name, written(&w), c->hex);
        expect_equal(c->name, spop_frame_decode(written(&w), 256, &frame), SPOP_OK);
        expect_equal(c->name, spop_hello_decode(&frame, &hello), SPOP_CODE_NORMAL);
        expect_equal(c->name, (long long)hello.frame_bytes_max,
                     (long long)c->hello.frame_bytes_max);
        expect_equal(c->name, hello.is_pipelining, c->hello.is_pipelining);
        expect_equal(c->name, hello.is_health_check, c->hello.is_health_check);
    }
}

static const struct agent_case {
    const char *name;
    const char *payload;
    enum spop_code code;
    struct spop_agent_hello hello;
    bool is_health_check; /* what was asked */
} agent_cases[] = {
    {"as ours",
     AGENT_VERSION SIZE_16380 CAPABILITIES("0a\"pipelining\""),
     SPOP_CODE_NORMAL,
     {16380, true, false},
     false},
    {"other order, all capabilities, an unknown key",
     CAPABILITIES("1f\"fragmentation, async,pipelining\"") UNKNOWN "0305" SIZE("03f001")
         AGENT_VERSION,
     SPOP_CODE_NORMAL,
     {256, true, true},
     false},
    {"no capabilities",
     AGENT_VERSION SIZE_16380,
     SPOP_CODE_NORMAL,
     {16380, false, false},
     false},
    {"blanks around the version",
     "07\"version\" 0805\" 2.0 \"" SIZE_16380,
     SPOP_CODE_NORMAL,
     {16380, false, false},
     false},
    {"health check",
     AGENT_VERSION SIZE("03f001") NO_CAPABILITIES,
     SPOP_CODE_NORMAL,
     {256, false, false},
     true},
    {"health check without capabilities",
     AGENT_VERSION SIZE_16380,
     SPOP_CODE_NO_CAPABILITIES,
     {0, false, false},
     true},
    {"no version", SIZE_16380, SPOP_CODE_NO_VERSION, {0, false, false}, false},
    {"no size", AGENT_VERSION, SPOP_CODE_NO_FRAME_SIZE, {0, false, false}, false},
    {"nothing", "", SPOP_CODE_NO_VERSION, {0, false, false}, false},
    {"version 1.0",
     "07\"version\" 0803\"1.0\"" SIZE_16380,
     SPOP_CODE_BAD_VERSION,
     {0, false, false},
     false},
    {"version 2.1",
     "07\"version\" 0803\"2.1\"" SIZE_16380,
     SPOP_CODE_BAD_VERSION,
     {0, false, false},
     false},
    {"two versions",
     "07\"version\" 0807\"2.0,2.0\"" SIZE_16380,
     SPOP_CODE_BAD_VERSION,
     {0, false, false},
     false},
    {"no version at all",
     "07\"version\" 0800" SIZE_16380,
     SPOP_CODE_BAD_VERSION,
     {0, false, false},
     false},
    {"size of 255",
     AGENT_VERSION SIZE("03ff00"),
     SPOP_CODE_BAD_FRAME_SIZE,
     {0, false, false},
     false},
    {"one more than announced",
     AGENT_VERSION SIZE("03fdf006"),
     SPOP_CODE_BAD_FRAME_SIZE,
     {0, false, false},
     false},
    {"negative size",
     AGENT_VERSION SIZE("04fff0fefefefefefefe0e"),
     SPOP_CODE_BAD_FRAME_SIZE,
     {0, false, false},
     false},
    {"version as binary",
     "07\"version\" 0903\"2.0\"" SIZE_16380,
     SPOP_CODE_INVALID,
     {0, false, false},
     false},
    {"size as text",
     AGENT_VERSION SIZE("0803\"256\""),
     SPOP_CODE_INVALID,
     {0, false, false},
     false},
    {"capabilities as a number",
     AGENT_VERSION SIZE_16380 "0c\"capabilities\" 0301",
     SPOP_CODE_INVALID,
     {0, false, false},
     false},
    {"a value cut short",
     AGENT_VERSION SIZE_16380 UNKNOWN "0805\"y\"",
     SPOP_CODE_INVALID,
     {0, false, false},
     false},
};

static void agents_hellos_are_judged_as_haproxy_does(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(agent_cases) / sizeof(agent_cases[0]); i++) {
        const struct agent_case *c = &agent_cases[i];
        struct wire wire;
        struct spop_haproxy_hello ours = {.frame_bytes_max = 16380,
                                          .is_pipelining = true,
                                          .is_health_check = c->is_health_check};
        struct spop_agent_hello hello = {0};
        struct spop_frame frame = {.flags = SPOP_FLAG_FIN,
                                   .payload = wire_bytes(&wire, c->payload)};
        expect_equal(c->name, spop_agent_hello_decode(&frame, &ours, &hello), c->code);
        expect_equal(c->name, (long long)hello.frame_bytes_max,
                     (long long)c->hello.frame_bytes_max);
        expect_equal(c->name, hello.is_pipelining, c->hello.is_pipelining);
        expect_equal(c->name, hello.is_fragmentation, c->hello.is_fragmentation);
    }
}

static void what_was_not_offered_is_not_agreed(void **state)
{
    (void)state;
    struct wire wire;
    struct spop_haproxy_hello ours = {.frame_bytes_max = 16380};
    struct spop_agent_hello hello;
    struct spop_frame frame = {
        .flags = SPOP_FLAG_FIN,
        .payload = wire_bytes(&wire, AGENT_VERSION SIZE_16380 CAPABILITIES(
                                         "0a\"pipelining\""))};
    assert_int_equal(spop_agent_hello_decode(&frame, &ours, &hello), SPOP_CODE_NORMAL);
    assert_false(hello.is_pipelining);
}

static void an_agents_header_is_judged_first(void **state)
{
    (void)state;
    struct wire wire;
    struct spop_bytes payload = wire_bytes(&wire, AGENT_VERSION SIZE_16380);
    for (size_t i = 0; i < sizeof(headers) / sizeof(headers[0]); i++) {
        struct spop_haproxy_hello ours = {.frame_bytes_max = 16380};
        struct spop_agent_hello hello;
        struct spop_frame frame = {.flags = headers[i].flags,
                                   .stream_id = headers[i].stream_id,
                                   .frame_id = headers[i].frame_id,
                                   .payload = payload};
        assert_int_equal(spop_agent_hello_decode(&frame, &ours, &hello),
                         headers[i].code);
    }
}

static void hello_encode(void *arg)
{
    uint8_t buf[128];
    struct spop_writer w;
    spop_writer_init(&w, buf, sizeof(buf));
    spop_hello_encode(&w, arg);
}

static void our_own_mistakes_abort(void **state)
{
    (void)state;
    struct spop_agent_hello small = {.frame_bytes_max = SPOP_FRAME_SIZE_MIN - 1};
    struct spop_agent_hello big = {.frame_bytes_max = SPOP_FRAME_SIZE_MAX + 1};
    assert_true(death_by_abort(hello_encode, &small));
    assert_true(death_by_abort(hello_encode, &big));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good_hellos_are_accepted),
        cmocka_unit_test(bad_hellos_are_refused_with_their_code),
        cmocka_unit_test(any_version_two_will_do),
        cmocka_unit_test(pipelining_is_found_by_its_name),
        cmocka_unit_test(the_header_is_judged_first),
        cmocka_unit_test(a_long_engine_id_is_accepted),
        cmocka_unit_test(our_hello_is_byte_exact),
        cmocka_unit_test(haproxys_hello_is_byte_exact),
        cmocka_unit_test(agents_hellos_are_judged_as_haproxy_does),
        cmocka_unit_test(what_was_not_offered_is_not_agreed),
        cmocka_unit_test(an_agents_header_is_judged_first),
        cmocka_unit_test(our_own_mistakes_abort),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
