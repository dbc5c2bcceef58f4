/*
 * One NOTIFY payload against a fixed rule set. The first two bytes choose how often it
 * is decided and how large an ACK may be.
 *
 * Laws:      a payload that notify.h can walk gets exactly one well-formed ACK with its
 *            ids, the decision first, any other payload none; every text is printable;
 *            every receipt is one.
 * Must reach: every value type as every kind of descriptor, all messages, foreign
 *            domains, limits that refuse, keys that are missing, paths without a normal
 *            form, variables left out for want of room.
 */
#include <sodium.h>

#include "spop/notify.h"
#include "spop/session.h"

#include "agent/decide/receipt.h"
#include "agent/store/local.h"

#include "tests/fuzz/fuzz.h"
#include "tests/support/decider.h"

enum {
    TAKES_MAX = 4,
    STORE_BYTES = 1 << 20,
    STREAM_ID = 240, /* two bytes on the wire */
    FRAME_ID = 1,
};

static const char rules_text[] =
    "version: 1\n"
    "domain: fuzz\n"
    "rules:\n"
    "  - {name: all, key: [], limit: {requests: 1000000000, per: 31d}}\n"
    "  - {name: by_ip, key: [ip], limit: {requests: 2, per: 1s}}\n"
    "  - {name: by_key, key: [key, tenant], limit: {requests: 1, per: 1h}}\n"
    "  - {name: shadow, key: [key], limit: {requests: 1, per: 1d}, mode: shadow}\n"
    "  - {name: secret, key: [ip], limit: {requests: 3, per: 1m}, advertise: false}\n"
    "  - name: settled\n"
    "    match: {status: absent}\n"
    "    key: [key]\n"
    "    limits:\n"
    "      - {name: window, requests: 5, per: 1s}\n"
    "      - {name: bucket, requests: 9, per: 1s, algorithm: token_bucket}\n"
    "    cost: {from: rows, max: 20}\n"
    "    charge: {after: response, reserve: 2, when: {status: [401, 5*]}}\n"
    "  - name: bucket\n"
    "    match: {path: [/a/**, '/b/*/c'], method: [GET, POST], auth: [true, 7]}\n"
    "    key: [ip, path]\n"
    "    limit: {requests: 10, per: 1s, burst: 1}\n"
    "  - name: route\n"
    "    match: {route: '*', ip: [127.0.0.1, '::1']}\n"
    "    key: [route]\n"
    "    limit: {requests: 1, per: 1ms, algorithm: token_bucket}\n";

struct target {
    struct decider decider;
    struct decoded_ack ack;
    size_t frame_bytes_max;
    unsigned n_done;
    size_t out_len;
    uint8_t out_buf[DECIDE_ACK_BYTES_MAX];
};

static struct target target;

/* A new table each time: an input gives the same whatever came before it. */
static void renew_store(struct decide *decide)
{
    static const uint8_t secret[LOCAL_SECRET_BYTES] = {42};
    store_free(decide->store);
    decide->store = local_new(STORE_BYTES, LOCAL_LOG_BYTES_MIN, secret);
    FUZZ_CHECK(decide->store != NULL);
}

static void prepare(void)
{
    static bool is_ready;
    if (is_ready) {
        renew_store(&target.decider.decide);
        return;
    }
    is_ready = sodium_init() >= 0 && decider_init(&target.decider, rules_text);
    FUZZ_CHECK(is_ready);
}

static void on_done(struct decide_request *request)
{
    struct target *t = request->context;
    struct spop_writer out;
    spop_writer_init(&out, t->out_buf, sizeof(t->out_buf));
    decide_answer(request, &out, t->frame_bytes_max);
    FUZZ_CHECK(out.status == SPOP_OK);
    t->out_len = out.len;
    t->n_done++;
}

static bool is_walkable(struct spop_bytes payload)
{
    struct spop_notify it;
    struct spop_message message;
    enum spop_status status = SPOP_OK;
    spop_notify_init(&it, payload);
    while (status == SPOP_OK) {
        status = spop_notify_next_message(&it, &message);
    }
    return status == SPOP_END;
}

/* Printable ASCII, as names of rules and numbers are. */
static void check_text(const char *text)
{
    for (const char *p = text; *p != '\0'; p++) {
        FUZZ_CHECK(*p >= 0x20 && *p < 0x7f);
    }
}

static void check_ack(struct target *t)
{
    struct decoded_ack *ack = &t->ack;
    struct spop_bytes frame = {.ptr = t->out_buf, .len = t->out_len};
    FUZZ_CHECK(t->out_len <= SPOP_PREFIX_BYTES + t->frame_bytes_max);
    FUZZ_CHECK(decoded_ack_read(ack, frame));
    FUZZ_CHECK(ack->stream_id == STREAM_ID && ack->frame_id == FRAME_ID);
    for (unsigned i = 0; i < ack->n_actions; i++) {
        check_text(ack->actions[i].name);
        check_text(ack->actions[i].text);
    }
    if (ack->actions[0].is_unset) {
        FUZZ_CHECK(ack->n_actions == 1);
        return;
    }
    const char *text = decoded_ack_text(ack, "receipt");
    struct receipt receipt;
    FUZZ_CHECK(*text == '\0'
               || receipt_read((const uint8_t *)text, strlen(text), &receipt));
    FUZZ_CHECK(strcmp(ack->actions[0].name, "action") == 0);
    FUZZ_CHECK(strcmp(ack->actions[1].name, "deny") == 0);
    bool is_denied = decoded_ack_number(ack, "deny") == 1;
    FUZZ_CHECK(is_denied == (strcmp(decoded_ack_text(ack, "action"), "reject") == 0));
    FUZZ_CHECK(decoded_ack_number(ack, "status") == (is_denied ? 429 : -1));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    if (len < 2) {
        return 0;
    }
    prepare();
    struct target *t = &target;
    uint8_t *copy = fuzz_copy(data + 2, len - 2);
    struct spop_event notify = {.type = SPOP_EVENT_NOTIFY,
                                .stream_id = STREAM_ID,
                                .frame_id = FRAME_ID};
    notify.payload = (struct spop_bytes){.ptr = copy, .len = len - 2};
    t->frame_bytes_max = SPOP_FRAME_SIZE_MIN + (size_t)data[1] * 64;
    bool is_good = is_walkable(notify.payload);
    for (unsigned n = data[0] % TAKES_MAX + 1; n > 0; n--) {
        struct instant now = {.us = (int64_t)(data[0] / TAKES_MAX) * n};
        t->n_done = 0;
        bool ok = decide_notify(&t->decider.decide, &t->decider.request, &notify, now,
                                on_done, t);
        FUZZ_CHECK(ok == is_good);
        FUZZ_CHECK(t->n_done == (is_good ? 1 : 0));
        if (ok) {
            check_ack(t);
        }
    }
    free(copy);
    return 0;
}
