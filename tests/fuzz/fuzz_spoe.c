/*
 * HAProxy's SPOE file, read and compared with rules that use most of what can be sent.
 *
 * Laws:      every diagnostic points into the file and has a code; what is read is text;
 *            a message that is sent has a group or an event.
 * Must reach: each section, each kind of quoting, variables, each finding of check_spoe.c.
 */
#include <sodium.h>

#include "rules/file.h"

#include "agent/command/check_spoe.h"

#include "tests/fuzz/fuzz.h"

static const char rules[] =
    "version: 1\n"
    "domain: d\n"
    "lists: {block: {country: [x]}}\n"
    "rules:\n"
    "- {name: a, match: {path: /a}, key: [user], limit: {requests: 10, per: 1s},\n"
    "   plans: {p: 2x}, charge: {after: response, when: {status: 401}}}\n"
    "- {name: b, key: [host], limit: {requests: 10, per: 1s}, cost: {from: c, max: 9}}\n";

static struct rules_file *file;
static struct rules_diags diags;

static void start(void)
{
    struct rules_source source = {
        .name = "rules.yaml",
        .text = {.ptr = (const uint8_t *)rules, .len = sizeof(rules) - 1},
    };
    FUZZ_CHECK(sodium_init() >= 0);
    rules_diags_init(&diags, "rules.yaml");
    file = rules_file_read(&source, &diags);
    FUZZ_CHECK(file != NULL);
}

static void check_diags(size_t len)
{
    for (uint32_t i = 0; i < diags.n_kept; i++) {
        const struct rules_diag *diag = &diags.kept[i];
        FUZZ_CHECK(diag->code != NULL && diag->text[0] != '\0');
        FUZZ_CHECK(diag->mark.line <= len + 1);
        FUZZ_CHECK(diag->caret_off <= strlen(diag->source));
    }
}

static void check_conf(const struct spoe_conf *conf)
{
    for (const struct spoe_engine *e = conf->engines; e != NULL; e = e->next) {
        for (const struct spoe_message *m = e->first_message; m != NULL; m = m->next) {
            FUZZ_CHECK(!m->is_sent || e->groups != NULL || m->event != NULL);
            for (const struct spoe_arg *arg = m->args; arg != NULL; arg = arg->next) {
                FUZZ_CHECK(strchr(arg->name, '=') == NULL);
                FUZZ_CHECK(arg->mark.line > 0 && arg->mark.column > 0);
            }
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct rules_arena arena = {NULL};
    struct spoe_conf conf;
    if (file == NULL) {
        start();
    }
    if (len > SPOE_CONF_BYTES_MAX) {
        return 0;
    }
    uint8_t *bytes = fuzz_copy(data, len);
    struct rules_text text = {.bytes = (const char *)bytes, .len = len};
    rules_diags_init(&diags, "spoe.conf");
    spoe_conf_read(&text, &arena, &diags, &conf);
    check_conf(&conf);
    struct check_spoe spoe = {.text = &text, .conf = &conf};
    check_spoe_find(&spoe, rules_file_ast(file), 5000, &diags);
    check_diags(len);
    rules_arena_fini(&arena);
    free(bytes);
    return 0;
}
