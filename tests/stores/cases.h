/**
 * @file tests/stores/cases.h  What every store does, case by case. Tests whose state is a bed.
 */
#ifndef TESTS_STORES_CASES_H
#define TESTS_STORES_CASES_H

#define STORE_CASE_TABLE(X)                         \
    X(each_take_is_done_once)                       \
    X(what_has_no_time_is_done_before_take_returns) \
    X(a_refusal_charges_nothing)                    \
    X(sixteen_charges_are_all_or_nothing)           \
    X(lenient_charges_refuse_nobody)                \
    X(tied_charges_are_made_together)               \
    X(shadows_refuse_nobody_and_are_counted)        \
    X(a_peek_answers_as_a_take_and_changes_nothing) \
    X(no_cost_passes_and_size_0_refuses)            \
    X(a_counter_is_a_limit_and_a_key)               \
    X(keys_are_any_bytes)                           \
    X(long_keys_that_end_differently)               \
    X(takes_under_way_on_one_counter_are_exact)     \
    X(one_call_whatever_the_number_of_charges)      \
    X(settled_to_nothing_less_and_more)             \
    X(settled_after_its_window)                     \
    X(settled_twice_gives_no_more_than_is_used)     \
    X(this_host_and_elsewhere_are_all_or_nothing)   \
    X(slots_are_all_or_nothing)                     \
    X(counters_of_the_thread_may_go)                \
    X(a_late_answer_changes_none_and_stays_charged) \
    X(a_late_answer_to_a_refusal_is_given_back)     \
    X(what_is_counted_ahead_waits_for_nobody)

enum {
/* NOLINTNEXTLINE(bugprone-macro-parentheses): a sum */
#define X(name) +1
    STORE_CASES_N = 0 STORE_CASE_TABLE(X),
#undef X
};

#define X(name) void name(void **state);
STORE_CASE_TABLE(X)
#undef X

#endif
