/* From the first byte of a NOTIFY to its ACK nothing is allocated, on a request that two
 * rules allow and on one that is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "spop/session.h"

#include "tests/support/alloc_count.h"
#include "tests/support/decider.h"

#define START_US (INT64_C(1800000000) * US_PER_S)

enum {
    N_NOTIFIES = 100000,
    N_KEYS = 1000
};

static const char RULES[] = "version: 1\n"
                            "domain: api\n"
                            "rules:\n"
                            "  - name: per_key\n"
                            "    match: { path: /v1/** }\n"
                            "    key: [key, path]\n"
                            "    limit: { requests: 20, per: 60s }\n"
                            "  - name: per_address\n"
                            "    key: [ip]\n"
                            "    limit: { requests: 100000000, per: 1s, burst: 10 }\n";

static size_t frame_notify(uint8_t *frame, size_t cap, const struct decider *d)
{
    struct spop_writer w;
    spop_writer_init(&w, frame, cap);
    spop_write_be32(&w, (uint32_t)(SPOP_FRAME_BYTES_MIN + d->payload.len));
    spop_write_u8(&w, SPOP_FRAME_NOTIFY);
    spop_write_be32(&w, 1);
    spop_write_varint(&w, 1);
    spop_write_varint(&w, 1);
    spop_write_bytes(&w, (struct spop_bytes){d->payload_buf, d->payload.len});
    return w.status == SPOP_OK ? w.len : 0;
}

static void local_path_does_not_allocate(void **context)
{
    (void)context;
    static struct decider d;
    static const uint8_t CLIENT[4] = {192, 0, 2, 1};
    assert_true(decider_init(&d, RULES));
    struct spop_session session;
    spop_session_init(&session);
    session.state = SPOP_SESSION_OPEN;
    session.frame_bytes_max = SPOP_FRAME_SIZE_MAX;
    session.receive_bytes_max = SPOP_FRAME_SIZE_MAX;
    uint8_t frame[512];
    uint8_t out_buf[SPOP_SESSION_ROOM_MIN];
    struct spop_writer out;
    spop_writer_init(&out, out_buf, sizeof(out_buf));
    unsigned n_refused = 0;
    unsigned long before = alloc_count();
    for (int i = 0; i < N_NOTIFIES; i++) {
        char key[] = {'k', (char)('a' + i % N_KEYS % 26), (char)('a' + i % N_KEYS / 40),
                      '\0'};
        decider_begin(&d);
        decider_message(&d, "ratelimit-check");
        decider_text(&d, "path", "//v1/./a/%62/../c");
        decider_text(&d, "key", key);
        decider_ipv4(&d, "ip", CLIENT);
        struct spop_bytes in = {.ptr = frame, .len = 0};
        in.len = frame_notify(frame, sizeof(frame), &d);
        struct spop_event event;
        if (spop_session_next(&session, in, &out, &event) != in.len
            || event.type != SPOP_EVENT_NOTIFY || !decider_run(&d, START_US + i)) {
            fail();
        }
        n_refused += d.request.verdict.is_denied;
    }
    unsigned long n_allocations = alloc_count() - before;
    assert_int_equal(n_allocations, 0);
    assert_int_equal(d.n_done, N_NOTIFIES);
    assert_in_range(n_refused, 1, N_NOTIFIES - 1);
    decider_fini(&d);
    assert_true(alloc_count() > 0); /* the count itself works */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(local_path_does_not_allocate),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
