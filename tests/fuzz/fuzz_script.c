/*
 * Bytes as the numbers that a server replies to a script. The first byte says to which.
 *
 * Laws:      what a decoder lets through is within the bounds that the call sets: no more is
 *            granted than was wanted, nothing is charged that was not asked for, no report
 *            is accepted that was not sent; from a state that is let through the algorithms
 *            go on, with answers within the limit; what is not let through counts no repair.
 * Must reach: each script, whole replies of several counters, each number that is wrong.
 */
#include "agent/redis/script.h"

#include "tests/fuzz/fuzz.h"

enum {
    NUMBERS_MAX = 64,
    COUNTERS = 3,
};

static const struct limit limits[COUNTERS] = {
    {LIMIT_SLIDING_WINDOW, 100, 100, 600000, 100, 0, NULL},
    {LIMIT_TOKEN_BUCKET, 10, 1000000000, 1000000, 1, 0, NULL},
    {LIMIT_FIXED_WINDOW, 1000000000, 1000000000, 86400, 1000000, 0, NULL},
};

static size_t read_numbers(const uint8_t *data, size_t len, int64_t *numbers)
{
    size_t n = len / sizeof(numbers[0]);
    n = n < NUMBERS_MAX ? n : NUMBERS_MAX;
    if (n > 0) {
        memcpy(numbers, data, n * sizeof(numbers[0]));
    }
    return n;
}

static void check_levels(const struct limit *limit, int64_t remaining, int64_t reset,
                         int64_t window_end)
{
    FUZZ_CHECK(remaining >= 0 && remaining <= limit->size);
    FUZZ_CHECK(reset >= 0 && window_end >= 0);
}

static bool read_take(const int64_t *numbers, size_t n, bool is_peek,
                      struct script_repairs *repairs)
{
    struct store_take take = {.n_charges = COUNTERS, .is_peek = is_peek};
    for (unsigned i = 0; i < COUNTERS; i++) {
        take.charges[i] = (struct store_charge){.limit = &limits[i],
                                                .cost = 1,
                                                .is_lenient = i == 1};
    }
    if (script_decode_take(numbers, n, &take, repairs) != SCRIPT_OK) {
        return false;
    }
    for (unsigned i = 0; i < COUNTERS; i++) {
        const struct store_charge *charge = &take.charges[i];
        const struct limit_answer *answer = &charge->answer;
        FUZZ_CHECK(!charge->is_charged || (take.is_allowed && answer->is_allowed));
        FUZZ_CHECK(answer->is_allowed == (answer->retry_us == 0));
        FUZZ_CHECK(answer->retry_us >= 0 && answer->delay_us >= 0);
        check_levels(&limits[i], answer->remaining, answer->reset_us,
                     answer->window_end_us);
    }
    return true;
}

static bool read_settlements(const int64_t *numbers, size_t n,
                             struct script_repairs *repairs)
{
    unsigned n_changed = 0;
    if (script_decode_settlements(numbers, n, COUNTERS, &n_changed, repairs)
        != SCRIPT_OK) {
        return false;
    }
    FUZZ_CHECK(n_changed <= COUNTERS);
    return true;
}

static bool read_leases(const int64_t *numbers, size_t n,
                        struct script_repairs *repairs)
{
    struct script_lease_order orders[COUNTERS];
    struct script_lease_reply replies[COUNTERS];
    for (unsigned i = 0; i < COUNTERS; i++) {
        orders[i] = (struct script_lease_order){.limit = &limits[i],
                                                .want = INT64_C(50) * i,
                                                .cap = 60,
                                                .divisor = 1,
                                                .n_reports = i};
    }
    if (script_decode_lease(numbers, n, orders, COUNTERS, replies, repairs)
        != SCRIPT_OK) {
        return false;
    }
    for (unsigned i = 0; i < COUNTERS; i++) {
        const struct script_lease_reply *reply = &replies[i];
        FUZZ_CHECK(
            reply->grant == 0
            || (reply->grant >= SCRIPT_LEASE_LEAST && reply->grant <= orders[i].want));
        FUZZ_CHECK(reply->place >= 0 && (reply->grant > 0 || reply->place == 0));
        FUZZ_CHECK(reply->out >= reply->grant && reply->accepted >> i == 0);
        check_levels(&limits[i], reply->remaining, reply->reset_us,
                     reply->window_end_us);
    }
    return true;
}

static void go_on(const struct limit *limit, const struct script_sync_reply *reply)
{
    struct limit_state state = reply->state;
    struct limit_answer answer;
    const struct limit_correction more = {0, 0, LIMIT_AMOUNT_MAX};
    limit_align(limit, &state, reply->now);
    FUZZ_CHECK(memcmp(&state, &reply->state, sizeof(state)) == 0);
    (void)limit_take(limit, &state, reply->now, 1, &answer);
    check_levels(limit, answer.remaining, answer.reset_us, answer.window_end_us);
    (void)limit_settle(limit, &state, reply->now, &more);
    (void)limit_take(limit, &state, reply->now, 0, &answer);
    check_levels(limit, answer.remaining, answer.reset_us, answer.window_end_us);
}

static bool read_exchanges(const int64_t *numbers, size_t n,
                           struct script_repairs *repairs)
{
    struct script_sync_order orders[COUNTERS];
    struct script_sync_reply replies[COUNTERS];
    for (unsigned i = 0; i < COUNTERS; i++) {
        orders[i] = (struct script_sync_order){&limits[i], 1, i};
    }
    if (script_decode_sync(numbers, n, orders, COUNTERS, replies, repairs)
        != SCRIPT_OK) {
        return false;
    }
    for (unsigned i = 0; i < COUNTERS; i++) {
        FUZZ_CHECK(!replies[i].is_charged || orders[i].delta > 0);
        FUZZ_CHECK(replies[i].now.us == numbers[0]);
        go_on(&limits[i], &replies[i]);
    }
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    int64_t numbers[NUMBERS_MAX];
    struct script_repairs repairs = {0};
    bool is_reply = false;
    if (len == 0) {
        return 0;
    }
    size_t n = read_numbers(data + 1, len - 1, numbers);
    int64_t *exact = (int64_t *)(void *)fuzz_copy((const uint8_t *)numbers,
                                                  n * sizeof(numbers[0]));
    switch (data[0] % 5) {
    case 0:
    case 1:
        is_reply = read_take(exact, n, data[0] % 5 == 1, &repairs);
        break;
    case 2:
        is_reply = read_settlements(exact, n, &repairs);
        break;
    case 3:
        is_reply = read_leases(exact, n, &repairs);
        break;
    default:
        is_reply = read_exchanges(exact, n, &repairs);
    }
    FUZZ_CHECK(is_reply || repairs.n_values + repairs.n_ttls == 0);
    free(exact);
    return 0;
}
