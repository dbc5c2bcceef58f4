#define _POSIX_C_SOURCE 200809L /* strdup */

#include <stdlib.h>

#include "rules/code.h"

#include "tests/unit/rules/support.h"

/* A rule is wrong in one place; the place is what the table says. */
#define HEAD         "version: 1\ndomain: d\nrules:\n"
#define RULE(body)   HEAD "- name: a\n" body
#define WITH(line)   RULE("  key: [ip]\n  limit: {requests: 1, per: 1s}\n" line)
#define LIMIT(body)  RULE("  key: [ip]\n  limit: " body "\n")
#define LIMITS(body) RULE("  key: [ip]\n  limits: " body "\n")
#define TIER(name)   "{name: " name ", requests: 1, per: 1s}, "
#define LISTS(body)  "version: 1\ndomain: d\nlists: " body "\n"
#define MATCH(body)  WITH("  match: " body "\n")
#define KEY(body)    RULE("  limit: {requests: 1, per: 1s}\n  key: " body "\n")

struct fault {
    const char *text;
    const char *code;
    uint32_t line;
    uint32_t column;
};

static const struct fault faults[] = {
    /* file */
    {"[1]", "bad-type", 1, 1},
    {"domain: d\nrules: [{}]", "missing-field", 1, 1},
    {"version: 2\ndomain: d", "bad-version", 1, 10},
    {"version: [1]\ndomain: d", "bad-version", 1, 10},
    {"version: 1\ndomain: D", "bad-name", 2, 9},
    {"version: 1\ndomain: [d]", "bad-type", 2, 9},
    {"version: 1\ndomain: d\nrules: []", "no-rules", 3, 8},
    {"version: 1\ndomain: d\nrules: {}", "bad-type", 3, 8},
    {"version: 1\nrulez: []", "unknown-field", 2, 1},
    {"version: 1\nrequire: owner", "bad-type", 2, 10},
    {"version: 1\nrequire: [[owner]]", "bad-type", 2, 11},
    {"version: 1\nrequire: [colour]", "bad-choice", 2, 11},
    {"version: 1\nrequire: [tags]", "bad-choice", 2, 11},
    {"version: 1\nrequire: [owner, mode, owner]", "duplicate-value", 2, 24},
    {"require: [owner]\n" WITH(""), "missing-field", 5, 3},
    {"require: [mode]\ndefaults: {owner: a}\n" WITH(""), "missing-field", 6, 3},
    {"version: 1\ndefaults: [a]", "bad-type", 2, 11},
    {"version: 1\ndefaults: {limit: {}}", "unknown-field", 2, 12},
    {"version: 1\ndefaults: {expires: 2027-01-01}", "unknown-field", 2, 12},
    {"version: 1\ndefaults: {mode: on}", "bad-choice", 2, 18},
    {"version: 1\ndefaults: {tag: t}", "bad-type", 2, 17},
    {"version: 1\ndefaults: {cost: 1, costs: []}", "one-of-two", 2, 21},
    {"version: 1\ninclude: x.yaml", "bad-type", 2, 10},
    {"version: 1\ninclude: [a.yaml, [b.yaml]]", "bad-type", 2, 19},
    {"version: 1\ninclude: [a.yaml, '']", "bad-text", 2, 19},
    {"version: 1\ninclude: [a.yaml, \"b\\t\"]", "bad-text", 2, 19},
    {"version: 1\ninclude: [a.yaml, b.yaml, a.yaml]", "duplicate-value", 2, 27},
    {"version: 1\ninclude: [a.yaml]", "include-unreadable", 2, 11},
    {"version: 1\ndomain: d\ninclude: []", "no-rules", 3, 10},
    {"version: 1\nlists: []", "bad-type", 2, 8},
    {LISTS("{deny: {}}"), "unknown-field", 3, 9},
    {LISTS("{block: [x]}"), "bad-type", 3, 16},
    {LISTS("{block: {ip: 10.0.0.1}}"), "bad-type", 3, 21},
    {LISTS("{block: {Ip: [10.0.0.1]}}"), "bad-descriptor", 3, 17},
    {LISTS("{block: {ip: [x]}}"), "bad-address", 3, 22},
    {LISTS("{block: {ip: [10.0.0.1/8]}}"), "bad-address", 3, 22},
    {LISTS("{block: {ip: ['::1', {value: '::1'}]}}"), "duplicate-value", 3, 37},
    {LISTS("{block: {k: [{reason: leaked}]}}"), "missing-field", 3, 21},
    {LISTS("{block: {k: [{value: [a]}]}}"), "bad-type", 3, 29},
    {LISTS("{block: {k: [{value: a, reason: ''}]}}"), "bad-text", 3, 40},
    {LISTS("{block: {k: [{value: a, owner: [b]}]}}"), "bad-type", 3, 39},
    {LISTS("{block: {k: [{value: a, expires: 2027}]}}"), "bad-time", 3, 41},
    {LISTS("{block: {k: ['']}}"), "empty-value", 3, 21},
    {WITH("clients: [x]"), "bad-type", 7, 10},
    {WITH("clients: ''"), "bad-text", 7, 10},
    {WITH("clients: {by: key}"), "missing-field", 7, 10},
    {WITH("clients: {file: a, by: [key]}"), "bad-type", 7, 24},
    {WITH("clients: {file: a, by: path}"), "bad-descriptor", 7, 24},
    {WITH("clients: {file: a, by: plan}"), "bad-descriptor", 7, 24},
    {WITH("clients: {file: a, by: Key}"), "bad-descriptor", 7, 24},
    {WITH("clients: {file: a, from: key}"), "unknown-field", 7, 20},
    /* rule */
    {HEAD "- a", "bad-type", 4, 3},
    {HEAD "- key: [ip]", "missing-field", 4, 3},
    {HEAD "- name: 1a", "bad-name", 4, 9},
    {HEAD "- name: a.b", "bad-name", 4, 9},
    {HEAD "- name: ''", "bad-name", 4, 9},
    {WITH("  owner: ''\n"), "bad-text", 7, 10},
    {WITH("  owner: \"a\\nb\"\n"), "bad-text", 7, 10},
    {WITH("  owner: [a]\n"), "bad-type", 7, 10},
    {WITH("  mode: on\n"), "bad-choice", 7, 9},
    {WITH("  mode: {enforce: 5}\n"), "bad-share", 7, 19},
    {WITH("  mode: {enforce: 101%}\n"), "bad-share", 7, 19},
    {WITH("  mode: {enforce: [5%]}\n"), "bad-type", 7, 19},
    {WITH("  mode: {}\n"), "missing-field", 7, 9},
    {WITH("  mode: {shadow: 5%}\n"), "unknown-field", 7, 10},
    {KEY("[]\n  mode: {enforce: 5%}"), "share-without-key", 6, 8},
    {WITH("  mode: [shadow]\n"), "bad-type", 7, 9},
    {WITH("  advertise: yes\n"), "bad-choice", 7, 14},
    {WITH("  store: disk\n"), "bad-choice", 7, 10},
    {WITH("  review_by: soon\n"), "bad-time", 7, 14},
    {WITH("  expires: 2027-02-30\n"), "bad-time", 7, 12},
    {WITH("  expires: [2027-01-01]\n"), "bad-type", 7, 12},
    {WITH("  no_key: drop\n"), "bad-choice", 7, 11},
    {WITH("  ip_prefix: 24\n"), "bad-type", 7, 14},
    {WITH("  ip_prefix: {v4: 0}\n"), "bad-amount", 7, 19},
    {WITH("  ip_prefix: {v4: 33}\n"), "bad-amount", 7, 19},
    {WITH("  ip_prefix: {v6: 129}\n"), "bad-amount", 7, 19},
    {WITH("  ip_prefix: {v6: [1]}\n"), "bad-type", 7, 19},
    {WITH("  ip_prefix: {v5: 1}\n"), "unknown-field", 7, 15},
    {WITH("  limits: [{name: a, requests: 1, per: 1s}]\n"), "one-of-two", 7, 3},
    {RULE("  key: [ip]\n"), "missing-field", 4, 3},
    {LIMITS("{}"), "bad-type", 6, 11},
    {LIMITS("[]"), "too-many-limits", 6, 11},
    {LIMITS("[" TIER("a") TIER("b") TIER("c") TIER("d") TIER("e") "]"),
     "too-many-limits", 6, 11},
    {LIMITS("[{requests: 1, per: 1s}]"), "missing-field", 6, 12},
    {LIMITS("[{name: A, requests: 1, per: 1s}]"), "bad-name", 6, 19},
    {LIMITS("[" TIER("a") TIER("a") "]"), "duplicate-name", 6, 52},
    {LIMITS("[5]"), "bad-type", 6, 12},
    {LIMIT("{name: a, requests: 1, per: 1s}"), "unknown-field", 6, 11},
    {WITH("  plans: [a]\n"), "bad-type", 7, 10},
    {WITH("  plans: {A: 5}\n"), "bad-name", 7, 11},
    {WITH("  plans: {a: ten}\n"), "bad-plan", 7, 14},
    {WITH("  plans: {a: 0}\n"), "bad-plan", 7, 14},
    {WITH("  plans: {a: 0.5x}\n"), "bad-plan", 7, 14},
    {WITH("  plans: {a: 1000000001}\n"), "bad-plan", 7, 14},
    {WITH("  plans: {a: [5]}\n"), "bad-type", 7, 14},
    {WITH("  plans: {a: {b: 5}}\n"), "bad-plan", 7, 15},
    {LIMITS("[" TIER("a") TIER("b") "]\n  plans: {p: 5}"), "bad-plan", 7, 14},
    {LIMITS("[" TIER("a") TIER("b") "]\n  plans: {p: {a: 5, b: x}}"), "bad-plan", 7,
     24},
    {LIMITS("[" TIER("a") "]\n  plans: {p: {a: [5]}}"), "bad-type", 7, 18},
    {WITH("  cost: -1\n"), "bad-amount", 7, 9},
    {WITH("  cost: 1000000001\n"), "bad-amount", 7, 9},
    {WITH("  cost: [1]\n"), "bad-type", 7, 9},
    {WITH("  cost: {from: rows}\n"), "missing-field", 7, 9},
    {WITH("  cost: {max: 5}\n"), "missing-field", 7, 9},
    {WITH("  cost: {from: Rows, max: 5}\n"), "bad-descriptor", 7, 16},
    {WITH("  cost: {from: rows, min: 6, max: 5}\n"), "bad-amount", 7, 9},
    {WITH("  cost: {from: rows, max: x}\n"), "bad-amount", 7, 27},
    {WITH("  cost: 1\n  costs: []\n"), "one-of-two", 8, 3},
    {WITH("  costs: {}\n"), "bad-type", 7, 10},
    {WITH("  costs: [{cost: 1}]\n"), "missing-field", 7, 11},
    {WITH("  costs: [{match: {a: b}}]\n"), "missing-field", 7, 11},
    {WITH("  costs: [{match: {a: ''}, cost: 1}]\n"), "empty-value", 7, 23},
    {WITH("  charge: {}\n"), "missing-field", 7, 11},
    {WITH("  charge: request\n"), "bad-type", 7, 11},
    {WITH("  charge: {after: request, when: {s: a}}\n"), "bad-choice", 7, 19},
    {WITH("  charge: {after: [response], when: {s: a}}\n"), "bad-type", 7, 19},
    {WITH("  charge: {after: response, when: [s]}\n"), "bad-type", 7, 35},
    {WITH("  charge: {after: response, reserve: 0}\n"), "bad-amount", 7, 38},
    {WITH("  charge: {after: response, reserve: [1]}\n"), "bad-type", 7, 38},
    {WITH("  charge: {after: response, before: 1}\n"), "unknown-field", 7, 29},
    {WITH("  charge: {after: response}\n"), "nothing-to-settle", 7, 11},
    {WITH("  charge: {after: response, when: {}}\n"), "nothing-to-settle", 7, 11},
    {WITH("  charge: {after: response, reserve: 1}\n"), "nothing-to-settle", 7, 11},
    {WITH("  charge: {after: response}\n  costs: [{match: {s: a}, cost: 2}]\n"),
     "nothing-to-settle", 7, 11},
    {WITH("  charge: {after: response, when: {s: a}}\n  cost: 0\n"), "nothing-reserved",
     7, 11},
    {WITH("  charge: {after: response}\n  cost: {from: r, min: 0, max: 9}\n"),
     "nothing-reserved", 7, 11},
    {WITH("  charge: {after: response, reserve: 2, when: {s: a}}\n"
          "  costs: [{match: {s: a}, cost: 2}]\n"),
     "one-of-two", 7, 11},
    {"defaults: {charge: {after: response, when: {s: a}}, cost: 0}\n" WITH(""),
     "nothing-reserved", 1, 20},
    {WITH("  soft: 80\n"), "bad-share", 7, 9},
    {WITH("  soft: [80%]\n"), "bad-type", 7, 9},
    {WITH("  action: deny\n"), "bad-choice", 7, 11},
    {WITH("  overrides: b\n"), "unknown-rule", 7, 14},
    {WITH("  overrides: [[b]]\n"), "bad-type", 7, 15},
    {WITH("  overrides: {b: c}\n"), "bad-type", 7, 14},
    {WITH("  overrides: a\n"), "override-cycle", 7, 14},
    {WITH("  overrides: [b]\n- {name: b, overrides: c}\n"
          "- {name: c, overrides: [b, a]}\n"),
     "override-cycle", 9, 28},
    {WITH("  on_store_failure: shut\n"), "bad-choice", 7, 21},
    {WITH("  on_store_failure: [open]\n"), "bad-type", 7, 21},
    {WITH("  on_store_failure: {open: 5%}\n"), "unknown-field", 7, 22},
    {WITH("  on_store_failure: {local: 101%}\n"), "bad-share", 7, 29},
    {WITH("  on_store_failure: {local: 0%}\n"), "bad-share", 7, 29},
    {WITH("  tag: [ip, [ip]]\n"), "bad-type", 7, 13},
    {WITH("  tag: [Ip]\n"), "bad-descriptor", 7, 9},
    {WITH("  tag: [ip, ip]\n"), "duplicate-value", 7, 13},
    {WITH("  tag: [ip, user]\n"), "tag-not-in-key", 7, 8},
    {KEY("[a | b]\n  tag: [a]"), "tag-not-in-key", 7, 8},
    {WITH("  tag: [a, b, c, d, e, f, g]\n"), "too-many-key-parts", 7, 8},
    {WITH("  shards: 65\n"), "bad-amount", 7, 11},
    {WITH("  shards: 0\n"), "bad-amount", 7, 11},
    {WITH("  shards: [1]\n"), "bad-type", 7, 11},
    {LIMIT("{requests: 9, per: 1s, algorithm: sliding_log}\n  store: lease"),
     "algorithm-not-allowed", 6, 44},
    {LIMIT("{requests: 9, per: 1s, algorithm: leaky_bucket}\n  store: lease"),
     "algorithm-not-allowed", 6, 44},
    {LIMIT("{requests: 9, per: 1s, algorithm: sliding_log}\n  store: sync"),
     "algorithm-not-allowed", 6, 44},
    {LIMIT("{requests: 9, per: 1s, algorithm: leaky_bucket}\n  store: sync"),
     "algorithm-not-allowed", 6, 44},
    {LIMIT("{requests: 9, per: minute}\n  store: lease"), "calendar-not-allowed", 6,
     29},
    {LIMIT(
         "{requests: 9, per: 1s}\n  store: sync\n  charge: {after: response, when: {status: 401}}"),
     "settling-not-allowed", 8, 11},
    {LIMIT("{requests: 900, per: 1s}\n  store: local\n  shards: 2"),
     "shards-not-allowed", 8, 11},
    {LIMIT("{requests: 900, per: 1s}\n  store: lease\n  shards: 2"),
     "shards-not-allowed", 8, 11},
    {LIMIT("{requests: 900, per: 1s}\n  store: sync\n  shards: 2"),
     "shards-not-allowed", 8, 11},
    {LIMIT("{requests: 900, per: 1s}\n  store: redis\n  tag: [ip]\n  shards: 2"),
     "shards-not-allowed", 9, 11},
    {LIMIT(
         "{requests: 900, per: 1s, algorithm: sliding_log}\n  store: redis\n  shards: 2"),
     "shards-not-allowed", 8, 11},
    {LIMIT("{requests: 399, per: 1s}\n  store: redis\n  shards: 4"), "shards-too-small",
     8, 11},
    {LIMIT("{requests: 9999, per: 1s, burst: 399}\n  store: redis\n  shards: 4"),
     "shards-too-small", 8, 11},
    {LIMIT("{requests: 399, per: 1s, burst: 9999}\n  store: redis\n  shards: 4"),
     "shards-too-small", 8, 11},
    {LIMIT(
         "{requests: 4000, per: 1s}\n  store: redis\n  plans: {a: 5x, b: 399}\n  shards: 4"),
     "shards-too-small", 9, 11},
    {LIMIT("{requests: 999, per: 1s}\n  store: redis\n  cost: 250\n  shards: 2"),
     "shards-too-small", 9, 11},
    {LIMIT(
         "{requests: 999, per: 1s}\n  store: redis\n  costs: [{match: , cost: 250}]\n  shards: 2"),
     "shards-too-small", 9, 11},
    {LIMIT(
         "{requests: 999, per: 1s}\n  store: redis\n  charge: {after: response, reserve: 250}\n  shards: 2"),
     "shards-too-small", 9, 11},
    {LIMIT(
         "{requests: 1000000000, per: 1s}\n  store: redis\n  cost: {from: rows, max: 1000000000}\n  shards: 64"),
     "shards-too-small", 9, 11},
    {WITH("  key_text: secret\n"), "bad-choice", 7, 13},
    {WITH("  lmit: {}\n"), "unknown-field", 7, 3},
    {WITH("- name: a\n"), "duplicate-name", 7, 9},
    /* limit */
    {LIMIT("5"), "bad-type", 6, 10},
    {LIMIT("{per: 1s}"), "missing-field", 6, 10},
    {LIMIT("{requests: 1}"), "missing-field", 6, 10},
    {LIMIT("{requests: 0, per: 1s}"), "zero-without-end", 6, 21},
    {LIMIT("{requests: 0, per: 1s, burst: 5}\n  expires: 2030-01-01"),
     "burst-not-allowed", 6, 33},
    {LIMIT("{requests: 0, per: 1s}\n  expires: 2030-01-01\n  plans: {a: 2x}"),
     "bad-plan", 8, 14},
    {LIMIT("{requests: 5, per: 1s}\n  expires: 2030-01-01\n  plans: {a: 0}"),
     "bad-plan", 8, 14},
    {LIMIT("{requests: 1000000001, per: 1s}"), "bad-amount", 6, 21},
    {LIMIT("{requests: ten, per: 1s}"), "bad-amount", 6, 21},
    {LIMIT("{requests: [1], per: 1s}"), "bad-type", 6, 21},
    {LIMIT("{requests: 1, per: 60}"), "bad-per", 6, 29},
    {LIMIT("{requests: 1, per: 32d}"), "bad-per", 6, 29},
    {LIMIT("{requests: 1, per: 1.5s}"), "bad-per", 6, 29},
    {LIMIT("{requests: 1, per: [1s]}"), "bad-type", 6, 29},
    {LIMIT("{requests: 1, per: year}"), "bad-per", 6, 29},
    {LIMIT("{requests: 1, per: day, algorithm: sliding_window}"),
     "calendar-not-allowed", 6, 29},
    {LIMIT("{requests: 1, per: day, burst: 2}"), "calendar-not-allowed", 6, 29},
    {LIMIT("{requests: 1, per: day, timezone: Mars/Base}"), "unknown-timezone", 6, 44},
    {LIMIT("{requests: 1, per: day, timezone: /etc/passwd}"), "unknown-timezone", 6,
     44},
    {LIMIT("{requests: 1, per: day, timezone: zone.tab}"), "unknown-timezone", 6, 44},
    {LIMIT("{requests: 1, per: day, timezone: []}"), "bad-type", 6, 44},
    {LIMIT("{requests: 1, per: 1000001ms}"), "per-not-whole-ticks", 6, 29},
    {LIMIT("{requests: 1, per: 1s, burst: 0}"), "bad-amount", 6, 40},
    {LIMIT("{requests: 1, per: 1s, burst: 2, algorithm: sliding_window}"),
     "burst-not-allowed", 6, 33},
    {LIMIT("{requests: 1001, per: 1s, algorithm: sliding_log}"), "log-too-large", 6,
     21},
    {LIMIT("{requests: 1, per: day, algorithm: sliding_log}"), "calendar-not-allowed",
     6, 29},
    {LIMIT("{requests: 101, per: 1s, algorithm: sliding_log}\n  plans: {a: 10x}"),
     "log-too-large", 7, 14},
    {LIMIT("{requests: 1, per: 1s, burst: 2, algorithm: fixed_window}"),
     "burst-not-allowed", 6, 33},
    {LIMIT("{requests: 1, per: 1s, burst: 2, algorithm: leaky_bucket}"),
     "burst-not-allowed", 6, 33},
    {LIMIT("{requests: 1, per: 1s, algorithm: leaky_bucket, max_delay: 2s}"),
     "bad-delay", 6, 69},
    {LIMIT("{requests: 1, per: 1s, algorithm: leaky_bucket, max_delay: 0s}"),
     "bad-delay", 6, 69},
    {LIMIT("{requests: 1, per: 1h, algorithm: leaky_bucket, max_delay: 15ms}"),
     "per-not-whole-ticks", 6, 69},
    {LIMIT("{requests: 1, per: 1s, algorithm: leaky_bucket, max_delay: {}}"),
     "bad-type", 6, 69},
    {LIMIT("{requests: 1, per: 1s, algorithm: leaky_bucket}\n  action: warn"),
     "action-not-allowed", 7, 11},
    {WITH("  action: delay\n"), "action-not-allowed", 7, 11},
    {LIMITS("[{name: a, requests: 1, per: 1s, algorithm: leaky_bucket},\n"
            "    {name: b, requests: 1, per: 1s}]\n  action: delay"),
     "action-not-allowed", 8, 11},
    {LIMIT("{requests: 1, per: 1s, algorithm: gcra}"), "bad-choice", 6, 44},
    {LIMIT("{requests: 1, per: 1s, algorithm: []}"), "bad-type", 6, 44},
    {LIMIT("{requests: 1, per: 1s, name: n}"), "unknown-field", 6, 33},
    {LIMIT("{requests: 1, per: 1s, timezone: UTC}"), "calendar-not-allowed", 6, 33},
    {LIMIT("{requests: 1, per: 1s, max_delay: 1s}"), "bad-delay", 6, 33},
    /* match */
    {MATCH("[a]"), "bad-type", 7, 10},
    {MATCH("everything"), "bad-type", 7, 10},
    {MATCH("''"), "bad-type", 7, 10},
    {MATCH("{Auth: x}"), "bad-descriptor", 7, 11},
    {MATCH("{auth: ''}"), "empty-value", 7, 17},
    {MATCH("{auth: }"), "empty-value", 7, 17},
    {MATCH("{auth: []}"), "empty-value", 7, 17},
    {MATCH("{auth: [[a]]}"), "bad-type", 7, 18},
    {MATCH("{auth: {nt: x}}"), "bad-condition", 7, 17},
    {MATCH("{auth: {not: x, a: b}}"), "bad-condition", 7, 17},
    {MATCH("{auth: {not: {not: x}}}"), "bad-type", 7, 23},
    {MATCH("{auth: {not: ''}}"), "empty-value", 7, 23},
    {MATCH("{not: {auth: x}}"), "bad-condition", 7, 11},
    {MATCH("{auth: '*'}"), "bad-pattern", 7, 17},
    {MATCH("{src: 10.0.0.0/33}"), "bad-address", 7, 16},
    {MATCH("{src: 10.0.0.1/8}"), "bad-address", 7, 16},
    {MATCH("{ip: '2001:db8::1/32'}"), "bad-address", 7, 15},
    {MATCH("{ip: '::ffff:0.0.0.0/90'}"), "bad-address", 7, 15},
    {MATCH("{ip: 192.0.2.0/x}"), "bad-address", 7, 15},
    {MATCH("{ip: [192.0.2.0/24, '::ffff:192.0.2.0/120']}"), "duplicate-value", 7, 30},
    {MATCH("{auth: [ab*, b, ab*]}"), "duplicate-value", 7, 26},
    {MATCH("{ip: localhost}"), "bad-address", 7, 15},
    {MATCH("{auth: [a, b, a]}"), "duplicate-value", 7, 24},
    {MATCH("{path: [/a, /b/../a]}"), "duplicate-value", 7, 22},
    {MATCH("{ip: ['::1', '0::1']}"), "duplicate-value", 7, 23},
    {MATCH("{path: a}"), "bad-path", 7, 17},
    {MATCH("{path: '/a?b'}"), "bad-path", 7, 17},
    {MATCH("{path: /%zz}"), "bad-path", 7, 17},
    {MATCH("{path: /a*}"), "bad-pattern", 7, 17},
    {MATCH("{path: /**/a}"), "bad-pattern", 7, 17},
    {MATCH("{route: a/**/b}"), "bad-pattern", 7, 18},
    /* key */
    {KEY("ip"), "bad-type", 6, 8},
    {KEY("[[ip]]"), "bad-type", 6, 9},
    {KEY("[IP]"), "bad-descriptor", 6, 9},
    {KEY("['']"), "bad-descriptor", 6, 9},
    {KEY("[api_key | ]"), "bad-descriptor", 6, 9},
    {KEY("[a || b]"), "bad-descriptor", 6, 9},
    {KEY("[a | b | a]"), "duplicate-key-part", 6, 9},
    {KEY("[a | b, a, b | a, a|b]"), "duplicate-key-part", 6, 26},
    {KEY("[a|b|c|d|e|f|g|h|i]"), "too-many-key-parts", 6, 9},
    {KEY("[ip, user, ip]"), "duplicate-key-part", 6, 19},
    {KEY("[a, b, c, d, e, f, g]"), "too-many-key-parts", 6, 8},
    /* YAML */
    {"a: [1", "yaml-syntax", 1, 6},
    {"a: [1\n", "yaml-syntax", 2, 1},
    {"a: b\n c: d: e", "yaml-syntax", 2, 3},
    {"a: \x01", "yaml-syntax", 1, 1},
    {"a: \xff", "yaml-encoding", 1, 4},
    {"a: 1\nb: \xc0\x80", "yaml-encoding", 2, 4},
    {"a: \"\\0\"", "yaml-encoding", 1, 4},
    {"\xef\xbb\xbf"
     "a: 1",
     "yaml-encoding", 1, 1},
    {"a: &x 1", "yaml-anchor", 1, 4},
    {"a: &x [1]", "yaml-anchor", 1, 4},
    {"a: *x", "yaml-alias", 1, 4},
    {"a: !!str 1", "yaml-tag", 1, 4},
    {"a: !x {}", "yaml-tag", 1, 4},
    {"%YAML 1.1\n---\na: 1", "yaml-tag", 1, 1},
    {"<<: {a: 1}", "yaml-merge", 1, 1},
    {"a: 1\n---\nb: 1", "yaml-documents", 2, 1},
    {"a: 1\nb: 2\na: 3", "yaml-duplicate-key", 3, 1},
    {"a: 1\n'': 2", "yaml-key", 2, 1},
    {"? [a]\n: 1", "yaml-key", 1, 3},
    {"", "yaml-empty", 0, 0},
    {"# nothing\n", "yaml-empty", 0, 0},
};

/* The same in a file that `ROOT` includes. */
#define ROOT       "include: [in.yaml]\n" WITH("")
#define IN(fields) "version: 1\ndomain: d\n" fields "\n"
static const struct fault included_faults[] = {
    {"domain: d\nlists: {}", "missing-field", 1, 1},
    {IN("defaults: {}"), "missing-field", 1, 1},
    {"version: 1\ndomain: e\nlists: {}", "other-domain", 2, 9},
    {"[1]", "bad-type", 1, 1},
    {"{", "yaml-syntax", 1, 2},
    {"", "yaml-empty", 0, 0},
    {IN("require: [owner]\nlists: {}"), "main-file-only", 3, 1},
    {IN("include: [x.yaml]\nlists: {}"), "main-file-only", 3, 1},
    {IN("clients: c.csv\nlists: {}"), "main-file-only", 3, 1},
    {IN("rules: []"), "no-rules", 3, 8},
    {IN("rules: [{name: a}]"), "duplicate-name", 3, 16},
    {IN("rules: [{name: b, overrides: c}]"), "unknown-rule", 3, 30},
};

static struct rules_diags diags;

static bool has_fault(const struct fault *fault)
{
    for (uint32_t i = 0; i < diags.n_kept; i++) {
        const struct rules_diag *diag = &diags.kept[i];

        if (strcmp(diag->code, fault->code) == 0 && diag->mark.line == fault->line
            && diag->mark.column == fault->column) {
            return true;
        }
    }
    return false;
}

static bool is_seen[RULES_CODES_COUNT];

static void codes_note(void)
{
    for (uint32_t i = 0; i < diags.n_kept; i++) {
        for (size_t j = 0; j < RULES_CODES_COUNT; j++) {
            is_seen[j] |= strcmp(rules_codes[j], diags.kept[i].code) == 0;
        }
    }
}

static void load_bad(struct rules_bytes text)
{
    rules_diags_init(&diags, "test.yaml");
    assert_null(
        rules_load(&(struct rules_source){.name = "test.yaml", .text = text}, &diags));
    assert_true(diags.n_errors > 0);
    codes_note();
}

static void test_faults(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        load_bad(bytes_of(faults[i].text));
        if (!has_fault(&faults[i])) {
            rules_diags_print(&diags, stderr);
            fail_msg("case %zu: no %s at %u:%u in\n%s", i, faults[i].code,
                     faults[i].line, faults[i].column, faults[i].text);
        }
    }
}

/** A text that is grown piece by piece. */
struct text {
    char *buf;
    size_t len;
    size_t cap;
};

static void text_add(struct text *text, const char *piece)
{
    size_t n = strlen(piece);

    assert_true(n <= text->cap - text->len);
    memcpy(text->buf + text->len, piece, n);
    text->len += n;
}

static struct text text_new(void)
{
    struct text text = {malloc(8 << 20), 0, 8 << 20};

    assert_non_null(text.buf);
    return text;
}

static void text_expect(struct text *text, const char *code)
{
    load_bad((struct rules_bytes){(const uint8_t *)text->buf, text->len});
    assert_string_equal(diags.kept[0].code, code);
    free(text->buf);
}

static char *read_included(void *context, const char *path, size_t bytes_max,
                           size_t *len, const char **error)
{
    (void)error;
    assert_string_equal(path, "in.yaml");
    *len = strlen(context);
    assert_true(*len <= bytes_max);
    return strdup(context);
}

static void test_included_faults(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof included_faults / sizeof included_faults[0]; i++) {
        struct rules_source source = {
            .name = "test.yaml",
            .text = bytes_of(ROOT),
            .read = read_included,
            .context = (void *)(uintptr_t)included_faults[i].text};

        rules_diags_init(&diags, "test.yaml");
        assert_null(rules_load(&source, &diags));
        codes_note();
        if (!has_fault(&included_faults[i])) {
            rules_diags_print(&diags, stderr);
            fail_msg("included case %zu: no %s", i, included_faults[i].code);
        }
        assert_string_equal(rules_diag_file(&diags, &diags.kept[0]), "in.yaml");
        assert_int_equal(diags.kept[0].mark.file, 1);
    }
}

static void test_large_faults(void **state)
{
    struct text text = text_new();

    (void)state;
    text_add(&text, "a: '");
    for (int i = 0; i < 65537; i++) {
        text_add(&text, "x");
    }
    text_add(&text, "'\n");
    text_expect(&text, "yaml-scalar");

    text = text_new();
    text_add(&text, WITH("  overrides:\n"));
    for (int i = 0; i <= RULES_OVERRIDES_MAX; i++) {
        text_add(&text, "  - b\n");
    }
    text_expect(&text, "too-many-overrides");

    text = text_new();
    text_add(&text, HEAD "include: [");
    for (int i = 0; i <= RULES_INCLUDES_MAX; i++) {
        text_add(&text, "a, ");
    }
    text_add(&text, "a]\n");
    text_expect(&text, "too-many-includes");

    text = text_new();
    text_add(&text, WITH("  plans:\n"));
    for (int i = 0; i <= RULES_PLANS_MAX; i++) {
        char plan[32];

        (void)snprintf(plan, sizeof plan, "    p%d: 5\n", i);
        text_add(&text, plan);
    }
    text_expect(&text, "too-many-plans");

    text = text_new();
    text_add(&text, HEAD);
    for (int i = 0; i < 5000; i++) {
        char rule[96];

        (void)snprintf(rule, sizeof rule,
                       "- {name: r%d, key: [], limit: {requests: 1, per: 1s}}\n", i);
        text_add(&text, rule);
    }
    text_add(&text, "defaults: {plans: {a: 2x, b: 2x, c: 2x, d: 2x, e: 2x, f: 2x, "
                    "g: 2x, h: 2x, i: 2x, j: 2x}}\n");
    text_expect(&text, "too-many-plans");

    text = text_new();
    text_add(&text, WITH("  costs:\n"));
    for (int i = 0; i <= RULES_COSTS_MAX; i++) {
        text_add(&text, "  - {match: {}, cost: 1}\n");
    }
    text_expect(&text, "too-many-costs");

    text = text_new();
    for (int i = 0; i < 100001; i++) {
        text_add(&text, "- 1\n- 2\n");
    }
    text_expect(&text, "yaml-events");

    text = text_new();
    for (int i = 0; i < 33; i++) {
        text_add(&text, "[");
    }
    text_expect(&text, "yaml-depth");

    text = text_new();
    text.len = RULES_FILE_BYTES_MAX + 1;
    memset(text.buf, '#', text.len);
    text_expect(&text, "file-too-large");

    text = text_new();
    text_add(&text, "version: 1\ndomain: d\nrules:\n");
    for (int i = 0; i < RULES_RULES_MAX + 1; i++) {
        text_add(&text, "- 1\n");
    }
    text_expect(&text, "too-many-rules");

    text = text_new();
    text_add(&text, WITH("  match:\n"));
    for (int i = 0; i < RULES_SLOTS_MAX + 2; i++) {
        char line[32];

        (void)snprintf(line, sizeof line, "    d%d: x\n", i);
        text_add(&text, line);
    }
    text_expect(&text, "too-many-descriptors");
    assert_int_equal(diags.n_errors, 1);
}

static uint32_t shards_of(const char *text)
{
    struct rules_set *set = load_good(text);
    uint32_t n = rules_set_rule(set, 0)->n_shards;

    rules_set_free(set);
    return n;
}

/** Shards of `defaults` are for the rules that can have them. */
static void test_shards_by_default(void **state)
{
    (void)state;
    assert_int_equal(shards_of(WITH("")), 1);
    assert_int_equal(shards_of(LIMIT("{requests: 400, per: 1s}\n  store: redis\n"
                                     "  shards: 3")),
                     3);
    assert_int_equal(shards_of(LIMIT("{requests: 400, per: 1s}\n"
                                     "defaults: {store: redis, shards: 4}")),
                     4);
    assert_int_equal(shards_of(LIMIT("{requests: 400, per: 1s}\n  shards: 1\n"
                                     "defaults: {store: redis, shards: 4}")),
                     1);
    assert_int_equal(shards_of(LIMIT("{requests: 399, per: 1s}\n"
                                     "defaults: {store: redis, shards: 4}")),
                     1);
    assert_int_equal(shards_of(LIMIT("{requests: 400, per: 1s}\n  tag: [ip]\n"
                                     "defaults: {store: redis, shards: 4}")),
                     1);
    assert_int_equal(shards_of(LIMIT("{requests: 400, per: 1s}\n  store: lease\n"
                                     "defaults: {shards: 4}")),
                     1);
}

/** Who splits too finely is told how far it goes. */
static void test_shards_mend(void **state)
{
    (void)state;
    load_bad(bytes_of(LIMIT("{requests: 350, per: 1s}\n  store: redis\n  shards: 4")));
    assert_string_equal(diags.kept[0].text,
                        "the limit is 350, and each shard needs 100: at most 3 shards");
    load_bad(bytes_of(LIMIT("{requests: 900, per: 1s}\n  store: redis\n"
                            "  cost: 400\n  plans: {a: 1599}\n  shards: 2")));
    assert_string_equal(diags.kept[0].text,
                        "the limit is 900, and each shard needs 800: leave shards out");
    load_bad(bytes_of(LIMIT("{requests: 9000, per: 1s}\n  store: redis\n"
                            "  cost: 400\n  plans: {a: 1599}\n  shards: 2")));
    assert_string_equal(diags.kept[0].text,
                        "plan a is 1599, and each shard needs 800: leave shards out");
}

/** Out of memory is in test_set.c, files of clients in test_clients.c, stores in
 *  test_rulebook.c; every other code is provoked here. */
static void test_every_code(void **state)
{
    (void)state;
    for (size_t i = 0; i < RULES_CODES_COUNT; i++) {
        bool is_elsewhere = strcmp(rules_codes[i], "out-of-memory") == 0
                            || strcmp(rules_codes[i], "store-not-there") == 0
                            || strstr(rules_codes[i], "-client") != NULL;

        if (!is_seen[i] && !is_elsewhere) {
            fail_msg("never provoked: %s", rules_codes[i]);
        }
    }
}

static void test_all_at_once(void **state)
{
    (void)state;
    load_bad(
        bytes_of("version: 7\nrules:\n- {name: A, kee: 1, limit: {requests: x}}\n"));
    assert_int_equal(diags.n_errors, 7);
    assert_non_null(strstr(diags.kept[4].text, "did you mean 'key'?"));
}

static void test_nearest_spans(void **state)
{
    (void)state;
    load_bad(bytes_of(LIMIT("{requests: 1, per: 1000001ms}")));
    assert_non_null(strstr(diags.kept[0].text, "1000s and 1000010ms"));
}

static void test_good(void **state)
{
    static const char *const texts[] = {
        WITH(""),
        WITH("  match:\n"),
        MATCH("{}"),
        MATCH("{auth: 'present', status: [401, 403], x: a*b, y: /etc/motd}"),
        MATCH("{auth: present, x: {not: absent}, y: absent, z: {not: [a, b*]}}"),
        MATCH("{auth: [api, api*], ip: ['192.0.2.1', 192.0.2.0/31, '2001:db8::/32']}"),
        MATCH("{path: present, route: {not: '/a/**'}, src: 10.0.0.0/8}"),
        MATCH("{ip: ['192.0.2.1', '2001:db8::1'], route: [search, '**', '*/a']}"),
        MATCH("{path: ['/**', '/*/b', /a/, /%2A]}"),
        WITH("  store: local\n  owner: Team A (x@example.org)\n  advertise: false\n"),
        LIMIT("{requests: 1000000000, per: 31d, burst: 1000000000}"),
        LIMIT("{requests: \"1\", per: '1ms', algorithm: token_bucket}"),
        KEY("[]"),
        KEY("[a, b, c, d, e, ip]"),
        KEY("[a | b | ip, a, a|b]"),
        WITH("  cost: 0\n"),
        WITH("  review_by: 2027-01-31\n  expires: 2027-01-31T12:00:00Z\n"),
        WITH("defaults: {review_by: 2027-06-30}\nrequire: [review_by]\n"),
        WITH("  plans: {a: 5, b: unlimited, c: 2.5x, d: 1000000000}\n"),
        LIMITS("[" TIER("a") TIER("b") "]\n  plans: {p: {a: 5}, q: 10x, r: {}}"),
        WITH("defaults: {plans: {a: 2x}}\n"),
        WITH("  no_key: reject\nlists: {}\n"),
        WITH("lists: {block: {}, allow: {ip: []}}\n"),
        WITH("lists: {block: {ip: [203.0.113.0/24, {value: '2001:db8::/32'}], "
             "api_key: [{value: k_stolen, reason: leaked, owner: sec}, test_*]}, "
             "allow: {ip: [10.0.0.0/8], path: ['/health/**']}}\n"),
        LIMIT("{requests: 0, per: 1s}\n  expires: 2030-01-01\n  plans: {a: 5}"),
        LIMIT("{requests: 0, per: day}\n  expires: 2030-01-01"),
        LIMIT("{requests: 0, per: 1m, algorithm: leaky_bucket}\n  expires: 2030-01-01"),
        WITH("  soft: off\n  action: degrade\n"),
        WITH("  on_store_failure: {local: 50%}\n  key_text: hashed\n  shards: 1\n"),
        WITH("  on_store_failure: open\n  tag: [ip]\n"),
        WITH("defaults: {tag: [user], on_store_failure: closed}\n"),
        LIMIT(
            "{requests: 9, per: 1s}\n  store: lease\n  charge: {after: response, when: {status: 401}}"),
        LIMIT("{requests: 9, per: 1s, burst: 20}\n  store: lease"),
        LIMIT("{requests: 9, per: day}\n  store: sync"),
        LIMIT("{requests: 9, per: 1s, algorithm: fixed_window}\n  store: sync"),
        LIMIT(
            "{requests: 400, per: 1s, burst: 400}\n  store: redis\n  plans: {a: 400, b: unlimited}\n  shards: 4"),
        LIMIT(
            "{requests: 6400, per: 1s, algorithm: leaky_bucket}\n  store: redis\n  shards: 64"),
        LIMIT("{requests: 1000, per: 1s}\n  store: redis\n  cost: 250\n  shards: 2"),
        LIMIT(
            "{requests: 0, per: 1s}\n  store: redis\n  expires: 2030-01-01\n  shards: 2"),
        LIMIT("{requests: 9, per: 1s}\n  store: lease\ndefaults: {shards: 4}"),
        WITH("  costs: []\nrequire: [cost, limits]\n"),
        LIMITS("[{name: a, requests: 1, per: 1s, algorithm: leaky_bucket}, " TIER(
            "b") "]"
                 "\n  action: reject\ndefaults: {action: warn}"),
        WITH("  soft: 80%\n  action: block\n"),
        WITH("  mode: {enforce: 0.01%}\n"),
        WITH("  overrides: [b, c]\n"
             "- {name: b, key: [], limit: {requests: 1, per: 1s}, overrides: c}\n"
             "- {name: c, key: [], limit: {requests: 1, per: 1s}, overrides: []}\n"),
        WITH("  cost: {from: rows, min: 0, max: 1000000000}\n"),
        WITH(
            "  costs: [{match: {path: '/a/**', m: GET}, cost: 0}, {match: , cost: 5}]\n"),
        "require: [owner, mode]\ndefaults: {owner: a}\n" WITH("  mode: shadow\n"),
        WITH("defaults: {mode: shadow, owner: b}\nrequire: [mode, key]\n"),
        "require: []\ndefaults: {}\n" WITH(""),
        LIMITS("[" TIER("a") TIER("b") TIER("c") TIER("d") "]"),
        WITH("  no_key: skip\n  ip_prefix: {v4: 24, v6: 56}\n"),
        WITH("  no_key: ip\n  ip_prefix: {}\n"),
        WITH("clients: clients.csv\n"),
        WITH("clients: {file: /etc/clients.csv, by: ip}\n"),
    };

    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        rules_set_free(load_good(texts[i]));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_faults),       cmocka_unit_test(test_included_faults),
        cmocka_unit_test(test_large_faults), cmocka_unit_test(test_every_code),
        cmocka_unit_test(test_all_at_once),  cmocka_unit_test(test_nearest_spans),
        cmocka_unit_test(test_good),         cmocka_unit_test(test_shards_by_default),
        cmocka_unit_test(test_shards_mend),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
