#include "tests/support/twin.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum {
    STATE_BYTES_MAX = 17,
    WORDS = 4, /* EVALSHA, the script, the number of keys, the argument */
};

static const struct script *const scripts[2][TWIN_SCRIPTS_N] = {
    [TWIN_SERVER] = {&script_take, &script_settle, &script_lease, &script_sync},
    [TWIN_TEST] = {&script_take_at, &script_settle_at, &script_lease_at,
                   &script_sync_at},
};

/* What a server calls a script is what the build said. */
static void load(struct twin *twin, const struct script *script)
{
    redisReply *reply = redis_server_ask(&twin->server, "SCRIPT LOAD %b", script->text,
                                         script->text_bytes);
    if (reply->type != REDIS_REPLY_STRING) {
        fail_msg("%s", reply->str);
    }
    assert_string_equal(reply->str, script->sha1);
    freeReplyObject(reply);
}

void twin_start(struct twin *twin)
{
    *twin = (struct twin){0};
    redis_server_start(&twin->server);
    for (int i = 0; i < 2 * TWIN_SCRIPTS_N; i++) {
        load(twin, scripts[i / TWIN_SCRIPTS_N][i % TWIN_SCRIPTS_N]);
    }
}

void twin_stop(struct twin *twin)
{
    redis_server_stop(&twin->server);
}

void twin_send(struct twin *twin, enum twin_clock clock, const struct twin_call *call)
{
    const char *sha1 = scripts[clock][call->script]->sha1;
    const char *words[WORDS + TWIN_KEYS_MAX + 1] = {"EVALSHA", sha1};
    size_t lengths[WORDS + TWIN_KEYS_MAX + 1] = {7, strlen(sha1)};
    char number[8];
    char time[24];
    int n = 2;
    words[n] = number;
    lengths[n++] = (size_t)snprintf(number, sizeof(number), "%u", call->n_keys);
    for (unsigned i = 0; i < call->n_keys; i++) {
        words[n] = call->keys[i].text;
        lengths[n++] = call->keys[i].len;
    }
    words[n] = call->argument.text;
    lengths[n++] = call->argument.len;
    if (clock == TWIN_TEST) { /* its time goes with it */
        words[n] = time;
        lengths[n++] = (size_t)snprintf(time, sizeof(time), "%lld",
                                        (long long)call->now.us);
    }
    assert_int_equal(redisAppendCommandArgv(twin->server.context, n, words, lengths),
                     REDIS_OK);
}

void twin_send_take(struct twin *twin, enum twin_clock clock,
                    const struct store_take *take, const struct twin_key *keys)
{
    uint8_t bytes[SCRIPT_TAKE_BYTES_MAX];
    size_t len = script_encode_take(take, bytes);
    assert_in_range(len, 1, sizeof(bytes));
    const struct twin_call call = {
        TWIN_TAKE, keys, take->n_charges, {(const char *)bytes, len}, take->now};
    twin_send(twin, clock, &call);
}

void twin_send_settlement(struct twin *twin, enum twin_clock clock,
                          const struct store_settlement *settlement,
                          const struct twin_key *key)
{
    uint8_t bytes[SCRIPT_SETTLEMENT_BYTES_MAX];
    size_t len = script_encode_settlement(settlement, bytes);
    const struct twin_call call = {
        TWIN_SETTLE, key, 1, {(const char *)bytes, len}, settlement->now};
    twin_send(twin, clock, &call);
}

size_t twin_get(struct twin *twin, int64_t *numbers)
{
    redisReply *reply = redis_server_next_reply(&twin->server);
    if (reply->type != REDIS_REPLY_ARRAY) {
        fail_msg("%s", reply->str);
    }
    assert_in_range(reply->elements, 1, TWIN_NUMBERS_MAX);
    for (size_t i = 0; i < reply->elements; i++) {
        assert_int_equal(reply->element[i]->type, REDIS_REPLY_INTEGER);
        numbers[i] = reply->element[i]->integer;
    }
    size_t n = reply->elements;
    freeReplyObject(reply);
    return n;
}

void twin_get_take(struct twin *twin, struct store_take *take)
{
    int64_t numbers[TWIN_NUMBERS_MAX];
    size_t n = twin_get(twin, numbers);
    assert_int_equal(script_decode_take(numbers, n, take, &twin->repairs), SCRIPT_OK);
}

bool twin_get_settled(struct twin *twin)
{
    int64_t numbers[TWIN_NUMBERS_MAX];
    unsigned n_changed = 0;
    size_t n = twin_get(twin, numbers);
    assert_int_equal(script_decode_settlements(numbers, n, 1, &n_changed,
                                               &twin->repairs),
                     SCRIPT_OK);
    return n_changed == 1;
}

void twin_send_lease(struct twin *twin, enum twin_clock clock, struct twin_from from,
                     const struct script_lease_order *orders, unsigned n_orders,
                     const struct twin_key *keys)
{
    uint8_t bytes[SCRIPT_LEASE_BYTES_MAX];
    size_t len = script_encode_lease(from.host, from.kept_ms, from.now, orders,
                                     n_orders, bytes);
    const struct twin_call call = {
        TWIN_LEASE, keys, n_orders, {(const char *)bytes, len}, from.now};
    twin_send(twin, clock, &call);
}

void twin_get_lease(struct twin *twin, const struct script_lease_order *orders,
                    unsigned n_orders, struct script_lease_reply *replies)
{
    int64_t numbers[TWIN_NUMBERS_MAX];
    size_t n = twin_get(twin, numbers);
    assert_int_equal(script_decode_lease(numbers, n, orders, n_orders, replies,
                                         &twin->repairs),
                     SCRIPT_OK);
}

void twin_send_sync(struct twin *twin, enum twin_clock clock, struct twin_from from,
                    const struct script_sync_order *orders, unsigned n_orders,
                    const struct twin_key *keys)
{
    uint8_t bytes[SCRIPT_SYNC_BYTES_MAX];
    size_t len = script_encode_sync(from.host, from.kept_ms, from.now, orders, n_orders,
                                    bytes);
    const struct twin_call call = {
        TWIN_SYNC, keys, n_orders, {(const char *)bytes, len}, from.now};
    twin_send(twin, clock, &call);
}

void twin_get_sync(struct twin *twin, const struct script_sync_order *orders,
                   unsigned n_orders, struct script_sync_reply *replies)
{
    int64_t numbers[TWIN_NUMBERS_MAX];
    size_t n = twin_get(twin, numbers);
    assert_int_equal(script_decode_sync(numbers, n, orders, n_orders, replies,
                                        &twin->repairs),
                     SCRIPT_OK);
}

static char *put(char *out, int64_t value, int n_bytes)
{
    for (int i = n_bytes - 1; i >= 0; i--) {
        *out++ = (char)(value >> 8 * i);
    }
    return out;
}

static int64_t get(const char **in, int n_bytes)
{
    int64_t value = 0;
    for (int i = 0; i < n_bytes; i++) {
        value = value << 8 | (uint8_t) * (*in)++;
    }
    return value;
}

static size_t encode_state(const struct limit *limit, const struct limit_state *state,
                           char *out)
{
    char *at = out + 1;
    if (limit->algorithm == LIMIT_SLIDING_WINDOW) {
        *out = 's';
        at = put(at, state->sliding.prev, 4);
        at = put(at, state->sliding.curr, 4);
        at = put(at, state->sliding.window, 8);
    } else if (limit->algorithm == LIMIT_FIXED_WINDOW) {
        *out = 'f';
        at = put(at, state->fixed.count, 4);
        at = put(at, state->fixed.window, 8);
    } else {
        *out = 'b';
        at = put(at, state->bucket.level, 8);
        at = put(at, state->bucket.at_ticks, 8);
    }
    return (size_t)(at - out);
}

static void decode_state(const struct limit *limit, struct limit_state *state,
                         const char *in)
{
    *state = (struct limit_state){0};
    in++;
    if (limit->algorithm == LIMIT_SLIDING_WINDOW) {
        state->sliding.prev = (uint32_t)get(&in, 4);
        state->sliding.curr = (uint32_t)get(&in, 4);
        state->sliding.window = get(&in, 8);
    } else if (limit->algorithm == LIMIT_FIXED_WINDOW) {
        state->fixed.count = (uint32_t)get(&in, 4);
        state->fixed.window = get(&in, 8);
    } else {
        state->bucket.level = get(&in, 8);
        state->bucket.at_ticks = get(&in, 8);
    }
}

static struct twin group;
static const struct twin_key group_key = {"state", 5};

int twin_group_start(void **context)
{
    (void)context;
    twin_start(&group);
    return 0;
}

int twin_group_stop(void **context)
{
    (void)context;
    assert_int_equal(group.repairs.n_values, 0);
    twin_stop(&group);
    return 0;
}

static void send_state(const struct limit *limit, const struct limit_state *state)
{
    static const struct limit_state untouched;
    redisContext *context = group.server.context;
    if (memcmp(state, &untouched, sizeof(untouched)) == 0) {
        assert_int_equal(redisAppendCommand(context, "DEL state"), REDIS_OK);
        return;
    }
    char text[STATE_BYTES_MAX];
    size_t len = encode_state(limit, state, text);
    assert_int_equal(redisAppendCommand(context, "SET state %b EX 3600", text, len),
                     REDIS_OK);
}

static void get_state(const struct limit *limit, struct limit_state *state)
{
    redisReply *reply = redis_server_next_reply(&group.server);
    if (reply->type == REDIS_REPLY_NIL) {
        *state = (struct limit_state){0};
    } else {
        assert_int_equal(reply->type, REDIS_REPLY_STRING);
        decode_state(limit, state, reply->str);
    }
    freeReplyObject(reply);
}

static void skip_reply(void)
{
    freeReplyObject(redis_server_next_reply(&group.server));
}

bool twin_take(const struct limit *limit, struct limit_state *state, struct instant now,
               int64_t cost, struct limit_answer *answer)
{
    struct store_take taken = {.now = now, .n_charges = 1};
    taken.charges[0] = (struct store_charge){.limit = limit, .cost = cost};
    send_state(limit, state);
    twin_send_take(&group, TWIN_TEST, &taken, &group_key);
    (void)redisAppendCommand(group.server.context, "GET state");
    skip_reply();
    twin_get_take(&group, &taken);
    get_state(limit, state);
    *answer = taken.charges[0].answer;
    return taken.is_allowed;
}

bool twin_settle(const struct limit *limit, struct limit_state *state,
                 struct instant now, const struct limit_correction *correction)
{
    const struct store_settlement settlement = {.limit = limit,
                                                .now = now,
                                                .correction = *correction};
    send_state(limit, state);
    twin_send_settlement(&group, TWIN_TEST, &settlement, &group_key);
    (void)redisAppendCommand(group.server.context, "GET state");
    skip_reply();
    bool is_changed = twin_get_settled(&group);
    get_state(limit, state);
    return is_changed;
}
