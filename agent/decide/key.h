/**
 * @file agent/decide/key.h  The names of counters in Redis.
 *
 * Model:     <prefix>:<domain>:{<tag>}:<rule>[.<limit>]:<algorithm><per>[:<key>], as in
 *            rl:public_api:{ip=203.0.113.7}:anon_per_ip:s60s. The tag says in which slot of
 *            a cluster it lies: the whole key, or what of it a rule names; then the key
 *            stands at the end, too. Where a rule has no key the tag is its name. The
 *            algorithm is s, t, g (sliding_log), f or l; per is in s, or in ms where that is
 *            no whole number of them; of a calendar its unit and zone: fday.Europe%2FBerlin.
 *
 *            Keys come as rules/key_text.h writes them: no byte that is special here is in
 *            them. Over KEY_TEXT_BYTES the first KEY_SHOWN_BYTES, "*" and a keyed digest of
 *            all stand for the text; where keys are secrets "*" and the digest alone. No two
 *            counters have one name.
 * Ownership: writes into the caller's room; keeps nothing.
 * Threads:   no shared state.
 * Errors:    none; names were checked when rules and configuration were loaded.
 * Limits:    KEY_BYTES_MAX.
 */
#ifndef AGENT_DECIDE_KEY_H
#define AGENT_DECIDE_KEY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/store/store.h"

enum {
    KEY_PREFIX_BYTES_MAX = 32,
    KEY_NAME_BYTES_MAX = 64, /* of domains, rules and limits */
    KEY_CALENDAR_BYTES_MAX = 8 + 3 * 64,
    KEY_TEXT_BYTES = 200, /* longer ones are cut ... */
    KEY_SHOWN_BYTES = 64, /* ... to this, and a digest */
    KEY_DIGEST_BYTES = 16,
    KEY_SECRET_BYTES = 32,
    KEY_HEAD_BYTES_MAX = KEY_PREFIX_BYTES_MAX + 1 + KEY_NAME_BYTES_MAX + 2,
    KEY_TAIL_BYTES_MAX = 2 + 2 * KEY_NAME_BYTES_MAX + 3 + KEY_CALENDAR_BYTES_MAX + 1,
    KEY_BYTES_MAX = KEY_HEAD_BYTES_MAX + KEY_TAIL_BYTES_MAX + 2 * KEY_TEXT_BYTES,
};

/** What names a limit. */
struct key_name {
    const char *prefix; /* of [A-Za-z0-9_.-] */
    const char *domain;
    const char *rule;
    const char *limit; /* of a rule with several; NULL: none */
    enum limit_algorithm algorithm;
    int64_t per_us;
    const char
        *calendar; /* as rules/calendar.h writes it, day.Europe%2FBerlin; NULL: none */
};

/** What all counters of a limit have in common, written once. */
struct key_form {
    size_t head_bytes;
    size_t tail_bytes;
    size_t rule_bytes;
    char rule[KEY_NAME_BYTES_MAX];
    char head[KEY_HEAD_BYTES_MAX]; /* to the brace */
    char tail[KEY_TAIL_BYTES_MAX]; /* from the brace */
};

/** How texts of keys are shown. */
struct key_style {
    bool is_hashed;        /* they are secrets */
    const uint8_t *secret; /* of the digests: KEY_SECRET_BYTES */
};

struct key_text {
    const char *ptr;
    size_t len;
};

_Static_assert((int)KEY_BYTES_MAX <= (int)STORE_NAME_BYTES_MAX, "a name always fits");

/** Put together what all names of a limit have, once for all requests. Names are copied. */
void key_form_init(struct key_form *form, const struct key_name *name);

/**
 * Write the name of a counter.
 *
 * @param key  empty: the rule has none
 * @param tag  the part of it that says where it lies; NULL: all of it
 * @param out  room for KEY_BYTES_MAX
 * @return bytes written
 */
size_t key_write(const struct key_form *form, const struct key_style *style,
                 struct key_text key, const struct key_text *tag, char *out);

#endif
