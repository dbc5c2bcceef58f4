/**
 * @file rules/code_table.h  Every diagnostic code of the rules language, once.
 *
 * Model:     an X-macro of name and text. Texts are stable: people search for them and
 *            scripts compare them. rules/README.md explains each; a test compares both.
 */
#ifndef RULES_CODE_TABLE_H
#define RULES_CODE_TABLE_H

#define RULES_CODE_TABLE(X)                           \
    X(action_not_allowed, "action-not-allowed")       \
    X(algorithm_not_allowed, "algorithm-not-allowed") \
    X(bad_address, "bad-address")                     \
    X(bad_amount, "bad-amount")                       \
    X(bad_choice, "bad-choice")                       \
    X(bad_client, "bad-client")                       \
    X(bad_condition, "bad-condition")                 \
    X(bad_delay, "bad-delay")                         \
    X(bad_descriptor, "bad-descriptor")               \
    X(bad_name, "bad-name")                           \
    X(bad_path, "bad-path")                           \
    X(bad_pattern, "bad-pattern")                     \
    X(bad_per, "bad-per")                             \
    X(bad_plan, "bad-plan")                           \
    X(bad_share, "bad-share")                         \
    X(bad_text, "bad-text")                           \
    X(bad_time, "bad-time")                           \
    X(bad_type, "bad-type")                           \
    X(bad_version, "bad-version")                     \
    X(burst_not_allowed, "burst-not-allowed")         \
    X(calendar_not_allowed, "calendar-not-allowed")   \
    X(duplicate_client, "duplicate-client")           \
    X(duplicate_key_part, "duplicate-key-part")       \
    X(duplicate_name, "duplicate-name")               \
    X(duplicate_value, "duplicate-value")             \
    X(empty_value, "empty-value")                     \
    X(file_too_large, "file-too-large")               \
    X(include_unreadable, "include-unreadable")       \
    X(log_too_large, "log-too-large")                 \
    X(main_file_only, "main-file-only")               \
    X(missing_field, "missing-field")                 \
    X(no_clients, "no-clients")                       \
    X(no_rules, "no-rules")                           \
    X(nothing_reserved, "nothing-reserved")           \
    X(nothing_to_settle, "nothing-to-settle")         \
    X(one_of_two, "one-of-two")                       \
    X(other_domain, "other-domain")                   \
    X(out_of_memory, "out-of-memory")                 \
    X(override_cycle, "override-cycle")               \
    X(per_not_whole_ticks, "per-not-whole-ticks")     \
    X(settling_not_allowed, "settling-not-allowed")   \
    X(shards_not_allowed, "shards-not-allowed")       \
    X(shards_too_small, "shards-too-small")           \
    X(share_without_key, "share-without-key")         \
    X(too_many_clients, "too-many-clients")           \
    X(store_not_there, "store-not-there")             \
    X(tag_not_in_key, "tag-not-in-key")               \
    X(too_many_costs, "too-many-costs")               \
    X(too_many_descriptors, "too-many-descriptors")   \
    X(too_many_includes, "too-many-includes")         \
    X(too_many_key_parts, "too-many-key-parts")       \
    X(too_many_limits, "too-many-limits")             \
    X(too_many_overrides, "too-many-overrides")       \
    X(too_many_plans, "too-many-plans")               \
    X(too_many_rules, "too-many-rules")               \
    X(unknown_field, "unknown-field")                 \
    X(unknown_rule, "unknown-rule")                   \
    X(unknown_timezone, "unknown-timezone")           \
    X(yaml_alias, "yaml-alias")                       \
    X(yaml_anchor, "yaml-anchor")                     \
    X(yaml_depth, "yaml-depth")                       \
    X(yaml_documents, "yaml-documents")               \
    X(yaml_duplicate_key, "yaml-duplicate-key")       \
    X(yaml_empty, "yaml-empty")                       \
    X(yaml_encoding, "yaml-encoding")                 \
    X(yaml_events, "yaml-events")                     \
    X(yaml_key, "yaml-key")                           \
    X(yaml_merge, "yaml-merge")                       \
    X(yaml_scalar, "yaml-scalar")                     \
    X(yaml_syntax, "yaml-syntax")                     \
    X(yaml_tag, "yaml-tag")                           \
    X(zero_without_end, "zero-without-end")

/* The same of warnings (warn.h). */
#define RULES_WARNING_TABLE(X)                \
    X(already_ended, "already-ended")         \
    X(calendar_on_local, "calendar-on-local") \
    X(calendar_on_sync, "calendar-on-sync")   \
    X(claimed_key, "claimed-key")             \
    X(ends_soon, "ends-soon")                 \
    X(local_in_fleet, "local-in-fleet")       \
    X(no_end, "no-end")                       \
    X(only_addresses, "only-addresses")       \
    X(open_on_login, "open-on-login")         \
    X(policy_unused, "policy-unused")         \
    X(review_overdue, "review-overdue")       \
    X(shadowed_rule, "shadowed-rule")         \
    X(slots_apart, "slots-apart")             \
    X(small_window, "small-window")           \
    X(store_overshoot, "store-overshoot")     \
    X(too_many_at_once, "too-many-at-once")

#endif
