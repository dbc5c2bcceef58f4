/**
 * @file agent/decide/name.h  Names of counters: the keys of what is not counted on this host.
 *
 * Model:     PREFIX:DOMAIN:{TAG}:RULE[.LIMIT]:WINDOW[:KEY], as in
 *            rl:public_api:{ip=203.0.113.7}:anon_per_ip:s60s. A window is the algorithm's
 *            letter (s, t, f, g, l as limits name them) and `per`. The tag, which says where
 *            a Redis Cluster keeps the counter, is the whole key, and KEY is then left out;
 *            of `key: []` it is the rule's name. Keys are text (rules/key_text.h), so names
 *            can be read in redis-cli; of one over NAME_KEY_BYTES_MAX the first
 *            NAME_KEY_HEAD_BYTES stand there, "!", and a digest of the whole. No two
 *            counters have one name.
 * Ownership: writes into the caller's room.
 * Threads:   no shared state.
 * Errors:    none.
 * Limits:    DECIDE_NAME_BYTES_MAX.
 */
#ifndef AGENT_DECIDE_NAME_H
#define AGENT_DECIDE_NAME_H

#include "rules/rules.h"

#include "agent/store/store.h"

enum {
    NAME_PREFIX_BYTES_MAX = 32,
    NAME_KEY_BYTES_MAX = 200,
    NAME_KEY_HEAD_BYTES = 64,
    NAME_SECRET_BYTES = 16, /* of the digest: the same for the whole fleet */
    NAME_TAIL_BYTES_MAX = 384,
};

struct name_options {
    char prefix[NAME_PREFIX_BYTES_MAX + 1];
    uint8_t secret[NAME_SECRET_BYTES];
};

/** What all counters of a limit have behind their tag. @return its length */
size_t name_print_tail(const struct rules_limit *limit, char out[NAME_TAIL_BYTES_MAX]);

/**
 * Write the name of a counter.
 *
 * @param rule  the rule's name
 * @param tail  as name_print_tail wrote it
 * @param key   as rules_eval made it
 * @param out   room for STORE_NAME_BYTES_MAX
 * @return its length
 */
size_t name_print(const struct name_options *options, const char *domain,
                  const char *rule, const char *tail, struct rules_bytes key,
                  char *out);

#endif
