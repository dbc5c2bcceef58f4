/**
 * @file agent/command/check_against.h  What changes when one rules file takes another's place.
 *
 * Model:     compares rules by their names, limits by theirs, field by field, as words.h
 *            writes them; and the ids of limits, which say whether counters go on.
 * Ownership: check_changes_fini; rules of changes belong to their files.
 * Threads:   one thread.
 * Errors:    false when memory ran out.
 * Limits:    grows with the two files.
 */
#ifndef AGENT_COMMAND_CHECK_AGAINST_H
#define AGENT_COMMAND_CHECK_AGAINST_H

#include "rules/file.h"

#include "agent/base.h"

enum check_change_kind {
    CHECK_ADDED = 0,
    CHECK_REMOVED,
    CHECK_CHANGED,
    CHECK_STARTS_FULL, /* a limit whose counters are others: all begin anew */
};

struct check_change {
    enum check_change_kind kind;
    const struct rules_ast_rule
        *rule;         /* of the new file, REMOVED of the old; NULL: none */
    bool is_old;       /* the rule is of the old file */
    const char *limit; /* NULL: of no limit; empty: of the only one */
    const char *field; /* NULL: the rule, or the limit, as a whole */
    const char *from;  /* NULL: it was not there */
    const char *to;    /* NULL: it is gone */
    const char *note;  /* what that means; NULL: nothing */
    struct check_change *next;
};

struct check_changes {
    struct rules_arena arena;
    struct check_change *first;
    struct check_change **end;
    bool is_memory_short;
};

/** A file, and what it compiles to. */
struct check_side {
    const struct rules_ast *ast;
    const struct rules_set *set;
};

/** Compare; zeroed changes are filled, in the order of the new file. */
MUST_USE bool check_against(const struct check_side *old_side,
                            const struct check_side *new_side,
                            struct check_changes *changes);
void check_changes_fini(struct check_changes *changes);

#endif
