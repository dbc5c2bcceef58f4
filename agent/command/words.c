#include "agent/command/words.h"

#include <inttypes.h>
#include <string.h>

#include "rules/civil.h"
#include "rules/slot.h"
#include "rules/units.h"
#include "rules/zone.h"

const char *words_algorithm(enum rules_algorithm algorithm)
{
    static const char *const words[] = {
        [RULES_SLIDING_WINDOW] = "sliding_window",
        [RULES_TOKEN_BUCKET] = "token_bucket",
        [RULES_FIXED_WINDOW] = "fixed_window",
        [RULES_LEAKY_BUCKET] = "leaky_bucket",
        [RULES_SLIDING_LOG] = "sliding_log",
    };
    return words[algorithm];
}

const char *words_action(enum rules_action action)
{
    static const char *const words[] = {
        [RULES_REJECT] = "reject", [RULES_WARN] = "warn",   [RULES_DEGRADE] = "degrade",
        [RULES_BLOCK] = "block",   [RULES_DELAY] = "delay",
    };
    return words[action];
}

const char *words_no_key(enum rules_no_key no_key)
{
    static const char *const words[] = {
        [RULES_NO_KEY_IP] = "ip",
        [RULES_NO_KEY_SKIP] = "skip",
        [RULES_NO_KEY_REJECT] = "reject",
    };
    return words[no_key];
}

const char *words_unit(enum rules_unit unit)
{
    static const char *const words[] = {
        [RULES_MINUTE] = "minute", [RULES_HOUR] = "hour",   [RULES_DAY] = "day",
        [RULES_WEEK] = "week",     [RULES_MONTH] = "month",
    };
    return words[unit];
}

void words_moment(int64_t at_s, char text[WORDS_MOMENT_BYTES_MAX])
{
    if (at_s == RULES_NEVER_S) {
        text[0] = '\0';
        return;
    }
    int64_t days = rules_days_of_s(at_s);
    int s = (int)(at_s - days * RULES_DAY_S);
    struct rules_date date = rules_date_of_days(days);
    int n = snprintf(text, WORDS_MOMENT_BYTES_MAX, "%04d-%02d-%02d", (int)date.year,
                     (int)date.month, (int)date.day);
    if (s != 0) {
        (void)snprintf(text + n, (size_t)(WORDS_MOMENT_BYTES_MAX - n),
                       "T%02d:%02d:%02dZ", s / 3600, s / 60 % 60, s % 60);
    }
}

/* Whether YAML takes a text as it is wherever a value may stand, and people do too. */
static bool is_plain(struct rules_bytes text)
{
    static const char also[] = "/._*:%+-@=~";
    bool is_word = (text.len == 7 && memcmp(text.ptr, "present", 7) == 0)
                   || (text.len == 6 && memcmp(text.ptr, "absent", 6) == 0);
    for (size_t i = 0; i < text.len; i++) {
        uint8_t c = text.ptr[i];
        bool is_alnum = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')
                        || (c >= '0' && c <= '9');
        if (!is_alnum && (c == '\0' || strchr(also, c) == NULL)) {
            return false;
        }
    }
    return text.len > 0 && !is_word && strchr("*%@=~-", text.ptr[0]) == NULL
           && text.ptr[text.len - 1] != ':';
}

static void write_text(struct rules_bytes text, FILE *out)
{
    if (is_plain(text)) {
        (void)fprintf(out, "%.*s", (int)text.len, (const char *)text.ptr);
        return;
    }
    (void)fputc('"', out);
    for (size_t i = 0; i < text.len; i++) {
        uint8_t c = text.ptr[i];
        if (c < 0x20 || c >= 0x7f) {
            (void)fprintf(out, "\\x%02x", (unsigned)c);
        } else {
            (void)fprintf(out, "%s%c", c == '"' || c == '\\' ? "\\" : "", c);
        }
    }
    (void)fputc('"', out);
}

static void write_slot(const struct rules_ast *ast, uint32_t slot, FILE *out)
{
    (void)fprintf(out, "%.*s", (int)ast->slots[slot].len,
                  (const char *)ast->slots[slot].ptr);
}

void words_value(const struct rules_ast_value *value, FILE *out)
{
    write_text(value->text, out);
}

static void write_values(const struct rules_ast_condition *condition, FILE *out)
{
    bool is_list = condition->n_values != 1;
    (void)fputs(is_list ? "[" : "", out);
    for (uint32_t i = 0; i < condition->n_values; i++) {
        (void)fputs(i > 0 ? ", " : "", out);
        words_value(&condition->values[i], out);
    }
    (void)fputs(is_list ? "]" : "", out);
}

static void write_condition(const struct rules_ast_condition *condition, FILE *out)
{
    if (condition->n_values == 0) {
        (void)fputs(condition->is_negated ? "absent" : "present", out);
        return;
    }
    (void)fputs(condition->is_negated ? "{not: " : "", out);
    write_values(condition, out);
    (void)fputs(condition->is_negated ? "}" : "", out);
}

void words_match(const struct rules_ast *ast, const struct rules_ast_match *match,
                 FILE *out)
{
    for (uint32_t i = 0; i < match->n_conditions; i++) {
        (void)fputs(i > 0 ? ", " : "", out);
        write_slot(ast, match->conditions[i].slot, out);
        (void)fputs(": ", out);
        write_condition(&match->conditions[i], out);
    }
}

/* The parts of a key that are marked, bit by bit. */
static void write_parts(const struct rules_ast *ast, const struct rules_ast_rule *rule,
                        uint32_t parts, FILE *out)
{
    bool is_first = true;
    (void)fputc('[', out);
    for (uint32_t i = 0; i < rule->n_key_parts; i++) {
        for (uint32_t j = 0; (parts >> i & 1) == 1 && j < rule->key[i].n_links; j++) {
            (void)fputs(j > 0 ? " | " : is_first ? "" : ", ", out);
            write_slot(ast, rule->key[i].slots[j], out);
            is_first = false;
        }
    }
    (void)fputc(']', out);
}

void words_key(const struct rules_ast *ast, const struct rules_ast_rule *rule,
               FILE *out)
{
    write_parts(ast, rule, UINT32_MAX, out);
}

void words_slot(const struct rules_ast *ast, const struct rules_ast_rule *rule,
                FILE *out)
{
    write_parts(ast, rule, rules_slot_parts(ast, rule), out);
}

static void write_costs(const struct rules_ast *ast, const struct rules_ast_rule *rule,
                        FILE *out)
{
    (void)fputc('[', out);
    for (uint32_t i = 0; i < rule->n_costs; i++) {
        (void)fputs(i > 0 ? ", {match: {" : "{match: {", out);
        words_match(ast, &rule->costs[i].match, out);
        (void)fprintf(out, "}, cost: %" PRId64 "}", rule->costs[i].cost);
    }
    (void)fputc(']', out);
}

void words_cost(const struct rules_ast *ast, const struct rules_ast_rule *rule,
                FILE *out)
{
    const struct rules_ast_cost *cost = &rule->cost;
    if (rule->n_costs > 0) {
        write_costs(ast, rule, out);
    } else if (cost->is_from_slot) {
        (void)fputs("{from: ", out);
        write_slot(ast, cost->slot, out);
        (void)fprintf(out, ", min: %" PRId64 ", max: %" PRId64 "}", cost->min,
                      cost->max);
    } else {
        (void)fprintf(out, "%" PRId64, cost->min);
    }
}

void words_charge(const struct rules_ast *ast, const struct rules_ast_rule *rule,
                  FILE *out)
{
    const struct rules_ast_charge *charge = &rule->charge;
    if (!charge->is_settled) {
        (void)fputs("at the request", out);
        return;
    }
    (void)fputs("{after: response", out);
    if (charge->has_reserve) {
        (void)fprintf(out, ", reserve: %" PRId64, charge->reserve);
    }
    if (charge->when.n_conditions > 0) {
        (void)fputs(", when: {", out);
        words_match(ast, &charge->when, out);
        (void)fputc('}', out);
    }
    (void)fputc('}', out);
}

void words_share(int32_t permyriad, FILE *out)
{
    int32_t rest = permyriad % 100;
    (void)fprintf(out, "%" PRId32, permyriad / 100);
    if (rest % 10 != 0) {
        (void)fprintf(out, ".%02" PRId32, rest);
    } else if (rest != 0) {
        (void)fprintf(out, ".%" PRId32, rest / 10);
    }
    (void)fputc('%', out);
}

void words_mode(const struct rules_ast_rule *rule, FILE *out)
{
    if (rule->mode == RULES_PERCENT) {
        (void)fputs("{enforce: ", out);
        words_share(rule->enforced_permyriad, out);
        (void)fputc('}', out);
    } else {
        (void)fputs(rule->mode == RULES_SHADOW ? "shadow" : "enforce", out);
    }
}

void words_per(const struct rules_ast_limit *limit, FILE *out)
{
    char span[RULES_SPAN_TEXT_BYTES_MAX];
    if (limit->calendar.zone != NULL) {
        (void)fprintf(out, "%s in %s", words_unit(limit->calendar.unit),
                      limit->calendar.zone->name);
    } else {
        rules_span_print(limit->per_us, span);
        (void)fputs(span, out);
    }
}

void words_plan(const struct rules_ast_rule *rule, const struct rules_ast_plan *plan,
                FILE *out)
{
    if (plan->is_unlimited) {
        (void)fputs("unlimited", out);
        return;
    }
    if (rule->limits[0].name[0] == '\0') {
        (void)fprintf(out, "%" PRId64, plan->numbers[0].requests);
        return;
    }
    for (uint32_t i = 0; i < rule->n_limits; i++) {
        (void)fprintf(out, "%s%s: %" PRId64, i > 0 ? ", " : "{", rule->limits[i].name,
                      plan->numbers[i].requests);
    }
    (void)fputc('}', out);
}

void words_failure(const struct rules_failure *failure, FILE *out)
{
    switch (failure->policy) {
    case RULES_FAILURE_LOCAL:
        if (failure->share_permyriad == 10000) {
            (void)fputs("local", out); /* all of it */
        } else {
            (void)fputs("{local: ", out);
            words_share(failure->share_permyriad, out);
            (void)fputc('}', out);
        }
        break;
    case RULES_FAILURE_OPEN:
        (void)fputs("open", out);
        break;
    case RULES_FAILURE_CLOSED:
        (void)fputs("closed", out);
        break;
    }
}
