/* HAProxy's SPOE file as check reads it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "agent/base.h"
#include "agent/command/spoe_conf.h"
#include "agent/command/spoe_line.h"
#include "agent/file.h"

static struct spoe_line line;

/* The words with a bar between them, or the fault and its column. */
static const char *split(const char *text)
{
    static char out[1024];
    size_t n = 0;
    out[0] = '\0';
    if (!spoe_line_split(&line, text, strlen(text))) {
        (void)snprintf(out, sizeof(out), "%u: %s", line.fault_column, line.fault);
        return out;
    }
    for (unsigned i = 0; i < line.n_words; i++) {
        n += (size_t)snprintf(out + n, sizeof(out) - n, "%s%s", i > 0 ? "|" : "",
                              line.words[i].text);
    }
    return out;
}

static void words(void **context)
{
    (void)context;
    assert_string_equal(split(""), "");
    assert_string_equal(split(" \t "), "");
    assert_string_equal(split("# nothing"), "");
    assert_string_equal(split("args ip=src\tpath=path # both"),
                        "args|ip=src|path=path");
    assert_string_equal(split("a\r"), "a");
    assert_string_equal(split("a\\ b c\\#d e\\\\f"), "a b|c#d|e\\f");
    assert_string_equal(split("\"a b\"c 'd \"e' ''"), "a bc|d \"e|");
    assert_string_equal(split("'a\\x' \"b'c\" \\\"d\\'"), "a\\x|b'c|\"d'");
    assert_string_equal(split("\\x41\\x6a \\1 a\\"), "Aj|\\1|a\\");
    assert_string_equal(split("$HOME '$HOME'"), "$HOME|$HOME");
    assert_int_equal(line.words[1].column, 7);
    assert_string_equal(split("\xc3\xa9 b"), "\xc3\xa9|b");
    assert_int_equal(line.words[1].column, 3);
}

static void variables(void **context)
{
    (void)context;
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): there are no threads */
    assert_int_equal(setenv("SPOE_TEST", "x y", 1), 0);
    assert_string_equal(split("\"$SPOE_TEST\" b"), "x y|b");
    assert_string_equal(split("a\"${SPOE_TEST}\"b"), "ax yb");
    assert_string_equal(split("\"${SPOE_TEST[*]}\""), "x|y");
    assert_string_equal(split("\"${SPOE_UNSET-20ms}\""), "20ms");
    assert_string_equal(split("\"${SPOE_TEST-20ms}\""), "x y");
    assert_string_equal(split("\"a${SPOE_UNSET}\""), "a");
    assert_string_equal(split("\"\\$SPOE_TEST\""), "$SPOE_TEST");
    assert_string_equal(split("\"${.LINE-1}\""), "1");
}

static void faults_of_lines(void **context)
{
    (void)context;
    char many[512] = "";
    for (unsigned i = 0; i < SPOE_WORDS_MAX; i++) {
        (void)strcat(many, "a ");
    }
    assert_string_equal(split("a 'b"), "3: this quote is not closed");
    assert_string_equal(split("\""), "1: this quote is not closed");
    assert_string_equal(split("a \\x4"), "3: \\x needs two hexadecimal digits");
    assert_string_equal(split("\"$\""),
                        "3: a variable's name has to begin with a letter or _");
    assert_string_equal(split("\"${A\""),
                        "2: the brace of this variable is not closed");
    assert_string_equal(split("\"${A+b}\""),
                        "2: the brace of this variable is not closed");
    split(many);
    assert_null(line.fault);
    (void)strcat(many, "b");
    assert_string_equal(split(many), "129: the line has more than 64 words");
}

static void long_lines(void **context)
{
    (void)context;
    static char text[SPOE_LINE_BYTES_MAX + 1];
    memset(text, 'a', sizeof(text));
    assert_true(spoe_line_split(&line, text, SPOE_LINE_BYTES_MAX - 1));
    assert_false(spoe_line_split(&line, text, SPOE_LINE_BYTES_MAX));
    assert_string_equal(line.fault, "the line is too long");
    memset(text, 'A', sizeof(text));
    text[0] = '"';
    text[1] = '$';
    assert_string_equal(split("\"$A\""), "");
    assert_false(spoe_line_split(&line, text, 1000));
    assert_string_equal(line.fault, "the name of the variable is too long");
}

static struct rules_arena arena;
static struct rules_diags diags;
static struct spoe_conf conf;

static void read_text(const char *text, size_t len)
{
    rules_arena_fini(&arena);
    arena = (struct rules_arena){NULL};
    rules_diags_init(&diags, "spoe.conf");
    struct rules_text bytes = {.bytes = text, .len = len};
    spoe_conf_read(&bytes, &arena, &diags, &conf);
}

static const struct spoe_engine *engine_find(const char *scope)
{
    const struct spoe_engine *e = conf.engines;
    while (e != NULL && strcmp(e->scope, scope) != 0) {
        e = e->next;
    }
    ENSURE(e != NULL);
    return e;
}

static const struct spoe_message *message_find(const struct spoe_engine *engine,
                                               const char *name)
{
    const struct spoe_message *m = engine->first_message;
    while (m != NULL && strcmp(m->name, name) != 0) {
        m = m->next;
    }
    ENSURE(m != NULL);
    return m;
}

static void shipped_file(void **context)
{
    (void)context;
    size_t len = 0;
    const char *error = NULL;
    char *text = file_read("haproxy/spoe-ratelimit.conf", SPOE_CONF_BYTES_MAX, &len,
                           &error);
    assert_non_null(text);
    read_text(text, len);
    free(text);
    assert_int_equal(diags.n_errors, 0);
    const struct spoe_engine *engine = engine_find("ratelimit");
    assert_string_equal(engine->agent, "ratelimit");
    assert_string_equal(engine->var_prefix, "rl");
    assert_int_equal(engine->processing_us, 20000);
    assert_true(message_find(engine, "ratelimit-check")->is_sent);
    const struct spoe_message *settle = message_find(engine, "ratelimit-settle");
    assert_true(settle->is_sent);
    unsigned n_args = 0;
    for (const struct spoe_arg *arg = settle->args; arg != NULL; arg = arg->next) {
        if (n_args == 7) {
            assert_string_equal(arg->name, "receipt");
            assert_string_equal(arg->sample, "var(txn.rl.receipt)");
        }
        n_args++;
    }
    assert_int_equal(n_args, 10);
}

#define READ(text) read_text(text, strlen(text))

static void sections(void **context)
{
    (void)context;
    READ("spoe-agent plain\n"
         "  messages on-event without-event\n"
         "  messages unnamed\n"
         "  groups g\n"
         "  timeout processing 2s\n"
         "  option continue-on-error\n"
         "spoe-message on-event\n"
         "  args src name='a=b' # unnamed, and a sample with a sign in it\n"
         "  args last=int(1)\n"
         "  event on-client-session\n"
         "  event on-http-response if TRUE\n"
         "spoe-message without-event\n"
         ".if defined(X)\n"
         "spoe-message grouped\n"
         ".endif\n"
         "spoe-message other\n"
         "  event on-http-response\n"
         "spoe-group g\n"
         "  messages grouped\n"
         "spoe-group h\n"
         "  messages other\n"
         "[second] # engine\n"
         "spoe-agent two\n"
         "spoe-message on-event\n");
    assert_int_equal(diags.n_errors, 0);
    const struct spoe_engine *engine = engine_find("");
    assert_string_equal(engine->var_prefix, "plain");
    assert_int_equal(engine->processing_us, 2000000);
    assert_int_equal(engine->processing_mark.line, 5);
    const struct spoe_message *message = message_find(engine, "on-event");
    assert_true(message->is_sent);
    assert_string_equal(message->event, "on-http-response");
    assert_int_equal(message->mark.line, 7);
    assert_int_equal(message->mark.column, 14);
    assert_string_equal(message->args->name, "");
    assert_string_equal(message->args->sample, "src");
    assert_string_equal(message->args->next->name, "name");
    assert_string_equal(message->args->next->sample, "a=b");
    assert_int_equal(message->args->next->mark.column, 12);
    assert_string_equal(message->args->next->next->name, "last");
    assert_false(message_find(engine, "without-event")->is_sent);
    assert_true(message_find(engine, "grouped")->is_sent);
    assert_false(message_find(engine, "other")->is_sent);
    assert_false(message_find(engine_find("second"), "on-event")->is_sent);
    assert_int_equal(engine_find("second")->processing_us, -1);
}

static void times(void **context)
{
    (void)context;
    static const struct {
        const char *text;
        int64_t us;
    } cases[] = {{"20", 20000},
                 {"20ms", 20000},
                 {"500us", 500},
                 {"0", 0},
                 {"2m", 120000000},
                 {"2147483647", INT64_C(2147483647000)},
                 {"2147483648", -1},
                 {"20x", -1},
                 {"ms", -1},
                 {"-5", -1},
                 {"99999999999999999999999", -1},
                 {"30d", -1}};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        char text[128];
        (void)snprintf(text, sizeof(text), "spoe-agent a\n timeout processing %s\n",
                       cases[i].text);
        READ(text);
        assert_int_equal(conf.engines->processing_us, cases[i].us);
        assert_int_equal(diags.n_errors, cases[i].us < 0);
    }
}

static void faults(void **context)
{
    (void)context;
    READ("spoe-agent\n"
         "[]\n"
         "spoe-message m\n"
         "  args a=b 'c\n"
         "[x\n"
         "[y]\n"
         "  args a\n"
         "  args b\n"
         "spoe-agent a\n"
         "  timeout processing\n");
    static const struct {
        uint32_t line;
        uint32_t column;
        const char *text;
    } wanted[] = {{1, 1, "this section needs a name"},
                  {2, 1, "want the name of an engine between brackets"},
                  {4, 12, "this quote is not closed"},
                  {5, 1, "want the name of an engine between brackets"},
                  {7, 3,
                   "want spoe-agent, spoe-message or spoe-group before anything else"},
                  {10, 3, "want a time such as 20ms"}};
    assert_int_equal(diags.n_errors, ARRAY_LEN(wanted));
    for (size_t i = 0; i < ARRAY_LEN(wanted); i++) {
        assert_int_equal(diags.kept[i].mark.line, wanted[i].line);
        assert_int_equal(diags.kept[i].mark.column, wanted[i].column);
        assert_string_equal(diags.kept[i].text, wanted[i].text);
        assert_string_equal(diags.kept[i].code, "spoe-syntax");
    }
    read_text("spoe-agent a\0b\n", 15);
    assert_int_equal(diags.n_errors, 1);
    assert_null(conf.engines);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words),           cmocka_unit_test(variables),
        cmocka_unit_test(faults_of_lines), cmocka_unit_test(long_lines),
        cmocka_unit_test(shipped_file),    cmocka_unit_test(sections),
        cmocka_unit_test(times),           cmocka_unit_test(faults),
    };
    int n_failed = cmocka_run_group_tests(tests, NULL, NULL);
    rules_arena_fini(&arena);
    return n_failed;
}
