#include "agent/command/spoe_conf.h"

#include <stdlib.h>
#include <string.h>

#include "rules/code.h"

#include "agent/clock.h"
#include "agent/command/check_code.h"
#include "agent/command/spoe_line.h"

/* The section that lines belong to. */
enum section {
    SECTION_NONE = 0,
    SECTION_AGENT,
    SECTION_MESSAGE,
    SECTION_GROUP,
    SECTION_UNKNOWN, /* of another kind: not looked at */
};

struct reader {
    const struct rules_text *text;
    struct rules_arena *arena;
    struct rules_diags *diags;
    struct spoe_conf *conf;
    struct spoe_engine *engine;
    enum section section;
    struct spoe_message *message; /* in SECTION_MESSAGE */
    struct spoe_group *group;     /* in SECTION_GROUP */
    uint32_t line;                /* number of the line that is read */
    bool is_memory_short;
    struct spoe_line words;
};

static void refuse(struct reader *r, uint32_t column, const char *what)
{
    struct rules_mark mark = {.line = r->line, .column = column};
    rules_diags_add(r->diags, RULES_ERROR, mark, r->text, check_code_spoe_syntax, "%s",
                    what);
}

static void *allocate(struct reader *r, size_t size)
{
    void *object = rules_arena_array(r->arena, 1, size);
    r->is_memory_short = r->is_memory_short || object == NULL;
    return object;
}

static const char *copy(struct reader *r, const char *text, size_t len)
{
    const char *string = rules_arena_dup(r->arena, text, len);
    r->is_memory_short = r->is_memory_short || string == NULL;
    return string;
}

static const char *copy_word(struct reader *r, unsigned word)
{
    return copy(r, r->words.words[word].text, strlen(r->words.words[word].text));
}

static struct rules_mark word_mark(const struct reader *r, unsigned word)
{
    return (struct rules_mark){.line = r->line, .column = r->words.words[word].column};
}

static bool word_is(const struct reader *r, unsigned word, const char *text)
{
    return word < r->words.n_words && strcmp(r->words.words[word].text, text) == 0;
}

/* Go on with the engine of that scope, which may have begun before. */
static void enter_scope(struct reader *r, const char *scope, size_t len)
{
    struct spoe_engine **at = &r->conf->engines;
    while (*at != NULL
           && (strlen((*at)->scope) != len || memcmp((*at)->scope, scope, len) != 0)) {
        at = &(*at)->next;
    }
    if (*at == NULL) {
        struct spoe_engine *engine = allocate(r, sizeof(*engine));
        const char *name = copy(r, scope, len);
        if (engine == NULL || name == NULL) {
            return;
        }
        *engine = (struct spoe_engine){.scope = name, .processing_us = -1};
        *at = engine;
    }
    r->engine = *at;
    r->section = SECTION_NONE;
}

static void read_scope(struct reader *r, const char *line, size_t len)
{
    const char *end = memchr(line, ']', len);
    if (end == NULL || end == line + 1) {
        refuse(r, 1, "want the name of an engine between brackets");
        return;
    }
    enter_scope(r, line + 1, (size_t)(end - line) - 1);
}

/* Add the words from `from` on to the end of a list. */
static void add_names(struct reader *r, unsigned from, struct spoe_name **list)
{
    while (*list != NULL) {
        list = &(*list)->next;
    }
    for (unsigned i = from; i < r->words.n_words && !r->is_memory_short; i++) {
        struct spoe_name *name = allocate(r, sizeof(*name));
        if (name != NULL) {
            *name = (struct spoe_name){.text = copy_word(r, i),
                                       .mark = word_mark(r, i)};
            *list = name;
            list = &name->next;
        }
    }
}

/* A time as HAProxy has it: milliseconds, or with a unit. @return -1: it is none */
static int64_t parse_time_us(const char *text)
{
    static const struct {
        const char *unit;
        int64_t us;
    } units[] = {{"us", 1},
                 {"ms", 1000},
                 {"", 1000},
                 {"s", US_PER_S},
                 {"m", 60 * US_PER_S},
                 {"h", 3600 * US_PER_S},
                 {"d", 86400 * US_PER_S}};
    const int64_t number_max = INT64_C(2147483647); /* what HAProxy counts in ms */
    int64_t number = 0;
    const char *p = text;
    for (; *p >= '0' && *p <= '9' && number <= number_max; p++) {
        number = number * 10 + (*p - '0');
    }
    for (size_t i = 0; p > text && i < ARRAY_LEN(units); i++) {
        if (strcmp(p, units[i].unit) == 0
            && number <= number_max * 1000 / units[i].us) {
            return number * units[i].us;
        }
    }
    return -1;
}

static void read_agent_line(struct reader *r)
{
    struct spoe_engine *engine = r->engine;
    if (word_is(r, 0, "messages")) {
        add_names(r, 1, &engine->messages);
    } else if (word_is(r, 0, "groups")) {
        add_names(r, 1, &engine->groups);
    } else if (word_is(r, 0, "option") && word_is(r, 1, "var-prefix")
               && r->words.n_words > 2) {
        engine->var_prefix = copy_word(r, 2);
    } else if (word_is(r, 0, "timeout") && word_is(r, 1, "processing")) {
        engine->processing_mark = word_mark(r, 0);
        engine->processing_us = r->words.n_words > 2
                                    ? parse_time_us(r->words.words[2].text)
                                    : -1;
        if (engine->processing_us < 0) {
            refuse(r, r->words.words[0].column, "want a time such as 20ms");
        }
    }
}

static void add_args(struct reader *r)
{
    struct spoe_arg **list = &r->message->args;
    while (*list != NULL) {
        list = &(*list)->next;
    }
    for (unsigned i = 1; i < r->words.n_words; i++) {
        const char *text = r->words.words[i].text;
        const char *sign = strchr(text, '=');
        const char *sample = sign != NULL ? sign + 1 : text;
        struct spoe_arg *arg = allocate(r, sizeof(*arg));
        if (arg == NULL) {
            return;
        }
        arg->name = copy(r, text, sign != NULL ? (size_t)(sign - text) : 0);
        arg->sample = copy(r, sample, strlen(sample));
        arg->mark = word_mark(r, i);
        *list = arg;
        list = &arg->next;
    }
}

static void read_message_line(struct reader *r)
{
    if (word_is(r, 0, "args")) {
        add_args(r);
    } else if (word_is(r, 0, "event") && r->words.n_words > 1) {
        r->message->event = copy_word(r, 1);
    }
}

static void begin_agent(struct reader *r)
{
    r->section = SECTION_AGENT;
    r->engine->agent = copy_word(r, 1);
    r->engine->mark = word_mark(r, 1);
    if (r->engine->var_prefix == NULL) {
        r->engine->var_prefix = r->engine->agent;
    }
}

static void begin_message(struct reader *r)
{
    struct spoe_message **at = &r->engine->first_message;
    while (*at != NULL) {
        at = &(*at)->next;
    }
    r->section = SECTION_NONE;
    r->message = allocate(r, sizeof(*r->message));
    if (r->message != NULL) {
        r->section = SECTION_MESSAGE;
        r->message->name = copy_word(r, 1);
        r->message->mark = word_mark(r, 1);
        *at = r->message;
    }
}

static void begin_group(struct reader *r)
{
    r->section = SECTION_NONE;
    r->group = allocate(r, sizeof(*r->group));
    if (r->group != NULL) {
        r->section = SECTION_GROUP;
        r->group->name = copy_word(r, 1);
        r->group->next = r->engine->first_group;
        r->engine->first_group = r->group;
    }
}

/* @return whether the line begins a section */
static bool begin_section(struct reader *r)
{
    static const struct {
        const char *word;
        void (*begin)(struct reader *r);
    } sections[] = {{"spoe-agent", begin_agent},
                    {"spoe-message", begin_message},
                    {"spoe-group", begin_group}};
    for (size_t i = 0; i < ARRAY_LEN(sections); i++) {
        if (!word_is(r, 0, sections[i].word)) {
            continue;
        }
        r->section = SECTION_UNKNOWN;
        if (r->words.n_words < 2) {
            refuse(r, r->words.words[0].column, "this section needs a name");
        } else {
            sections[i].begin(r);
        }
        return true;
    }
    return false;
}

static void read_words(struct reader *r)
{
    if (r->words.words[0].text[0] == '.' || begin_section(r)) {
        return;
    }
    switch (r->section) {
    case SECTION_NONE:
        refuse(r, r->words.words[0].column,
               "want spoe-agent, spoe-message or spoe-group before anything else");
        r->section = SECTION_UNKNOWN; /* said once */
        break;
    case SECTION_AGENT:
        read_agent_line(r);
        break;
    case SECTION_MESSAGE:
        read_message_line(r);
        break;
    case SECTION_GROUP:
        if (word_is(r, 0, "messages")) {
            add_names(r, 1, &r->group->messages);
        }
        break;
    case SECTION_UNKNOWN:
        break;
    }
}

static void read_line(struct reader *r, const char *line, size_t len)
{
    size_t indent = 0;
    while (indent < len && (line[indent] == ' ' || line[indent] == '\t')) {
        indent++;
    }
    if (indent < len && line[indent] == '[') {
        read_scope(r, line + indent, len - indent);
    } else if (!spoe_line_split(&r->words, line, len)) {
        refuse(r, r->words.fault_column, r->words.fault);
    } else if (r->words.n_words > 0) {
        read_words(r);
    }
}

static bool has_name(const struct spoe_name *list, const char *text)
{
    while (list != NULL && strcmp(list->text, text) != 0) {
        list = list->next;
    }
    return list != NULL;
}

/* The messages that a group has go with it. */
static void mark_group(struct spoe_engine *engine, const struct spoe_group *group)
{
    for (const struct spoe_name *n = group->messages; n != NULL; n = n->next) {
        for (struct spoe_message *m = engine->first_message; m != NULL; m = m->next) {
            m->is_sent = m->is_sent || strcmp(m->name, n->text) == 0;
        }
    }
}

static void mark_sent(struct spoe_engine *engine)
{
    for (struct spoe_message *m = engine->first_message; m != NULL; m = m->next) {
        m->is_sent = m->event != NULL && has_name(engine->messages, m->name);
    }
    for (const struct spoe_group *g = engine->first_group; g != NULL; g = g->next) {
        if (has_name(engine->groups, g->name)) {
            mark_group(engine, g);
        }
    }
}

static void read_lines(struct reader *r)
{
    const char *end = r->text->bytes + r->text->len;
    enter_scope(r, "", 0);
    for (const char *line = r->text->bytes; line < end && !r->is_memory_short;) {
        const char *stop = memchr(line, '\n', (size_t)(end - line));
        size_t len = (size_t)((stop != NULL ? stop : end) - line);
        r->line++;
        read_line(r, line, len);
        line += len + 1;
    }
}

void spoe_conf_read(const struct rules_text *text, struct rules_arena *arena,
                    struct rules_diags *diags, struct spoe_conf *conf)
{
    *conf = (struct spoe_conf){NULL};
    if (memchr(text->bytes, '\0', text->len) != NULL) {
        rules_diags_add(diags, RULES_ERROR, (struct rules_mark){0}, NULL,
                        check_code_spoe_syntax, "this is no text: it has a NUL byte");
        return;
    }
    struct reader *r = calloc(1, sizeof(*r)); /* large */
    if (r != NULL) {
        r->text = text;
        r->arena = arena;
        r->diags = diags;
        r->conf = conf;
        read_lines(r);
    }
    if (r == NULL || r->is_memory_short) {
        rules_diags_add(diags, RULES_ERROR, (struct rules_mark){0}, NULL,
                        rules_code_out_of_memory, "out of memory");
        *conf = (struct spoe_conf){NULL};
    }
    for (struct spoe_engine *e = conf->engines; e != NULL; e = e->next) {
        mark_sent(e);
    }
    free(r);
}
