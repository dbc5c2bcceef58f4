/*
 * Laws of fragments. However a payload is cut, the NOTIFY has the same payload. Every
 * NOTIFY gets one answer: an event, an ACK without room, or none where HAProxy gave it up.
 * After every short sequence of frames the session is where a small model of it is.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "spop/frame.h"
#include "spop/session.h"

#include "tests/support/prng.h"
#include "tests/unit/spop/support.h"

enum {
    N_CASES = 400,
    FRAME_BYTES_MAX = 16380,
    PART_BYTES_MAX = FRAME_BYTES_MAX - 25, /* two ids, the longest */
    PAYLOAD_BYTES_MAX = SPOP_REASSEMBLY_BYTES_MAX + 2000,
    OUT_CAP = 4096,
    DEPTH = 7,  /* of the sequences tried without exception */
    LENT = 12,  /* lent in these */
    SMALL = 4,  /* three times what is lent */
    LARGE = 13, /* too much at once */
};

static const char hello[] =
    "0000004e 01 00000001 00 00 12\"supported-versions\" 0803\"2.0\""
    " 0e\"max-frame-size\" 03fcf006 0c\"capabilities\" 080a\"pipelining\" 01\"x\" 00";

static uint64_t seed;
static uint8_t payload[PAYLOAD_BYTES_MAX];
static uint8_t lent[SPOP_REASSEMBLY_BYTES_MAX];
static uint8_t out_buf[OUT_CAP];

static void case_fail(unsigned n, const char *why)
{
    fail_msg("SEED=%llu, case %u: %s", (unsigned long long)seed, n, why);
}

/* What became of one frame: the last event, and the output it left. */
struct outcome {
    struct spop_event event;
    struct spop_writer out;
};

/* Offer one whole frame; a buffer of `cap` bytes is lent when it is asked for. */
static struct outcome frame_offer(struct spop_session *s, struct spop_bytes frame,
                                  size_t cap)
{
    struct outcome outcome;
    spop_writer_init(&outcome.out, out_buf, sizeof(out_buf));
    size_t taken = spop_session_next(s, frame, &outcome.out, &outcome.event);
    if (outcome.event.type == SPOP_EVENT_FRAGMENTED) {
        assert_int_equal(taken, 0);
        assert_int_equal(outcome.out.len, 0);
        spop_session_lend(s, lent, cap);
        taken = spop_session_next(s, frame, &outcome.out, &outcome.event);
    }
    assert_int_equal(taken, frame.len);
    return outcome;
}

static void session_open(struct spop_session *s)
{
    struct wire wire;
    spop_session_init(s);
    struct outcome outcome = frame_offer(s, wire_bytes(&wire, hello), 0);
    assert_int_equal(outcome.event.type, SPOP_EVENT_HELLO);
}

/* Offer a part of the payload as a fragment. */
static struct outcome part_offer(struct spop_session *s, const uint64_t ids[2],
                                 bool is_first, bool is_last, struct spop_bytes part)
{
    static uint8_t buf[SPOP_PREFIX_BYTES + FRAME_BYTES_MAX];
    struct spop_writer w;
    spop_writer_init(&w, buf, sizeof(buf));
    wire_frame(&w, is_first ? SPOP_FRAME_NOTIFY : SPOP_FRAME_UNSET,
               is_last ? SPOP_FLAG_FIN : 0, ids, part);
    return frame_offer(s, written(&w), sizeof(lent));
}

static bool is_payload(const struct outcome *outcome, const uint64_t ids[2], size_t len)
{
    const struct spop_event *event = &outcome->event;
    return event->type == SPOP_EVENT_NOTIFY && event->stream_id == ids[0]
           && event->frame_id == ids[1] && event->payload.len == len
           && memcmp(event->payload.ptr, payload, len) == 0 && outcome->out.len == 0;
}

/* The first `len` bytes of the payload in three fragments, cut at `first` and `second`. */
static struct outcome three_offer(struct spop_session *s, const uint64_t ids[2],
                                  size_t first, size_t second, size_t len)
{
    const size_t ends[4] = {0, first, second, len};
    struct outcome outcome;
    for (unsigned i = 0; i < 3; i++) {
        struct spop_bytes part = {.ptr = payload + ends[i],
                                  .len = ends[i + 1] - ends[i]};
        outcome = part_offer(s, ids, i == 0, i == 2, part);
        assert_true(i == 2 || outcome.event.type == SPOP_EVENT_FRAGMENT);
    }
    return outcome;
}

static void every_pair_of_cuts_gives_the_payload(void **state)
{
    (void)state;
    enum {
        LEN = 90,
        N_CUTS = LEN + 1
    };
    static const uint64_t ids[2] = {0, 1};
    struct spop_session s;
    session_open(&s);
    for (unsigned n = 0; n < N_CUTS * N_CUTS; n++) {
        size_t first = n / N_CUTS;
        size_t second = n % N_CUTS < first ? first : n % N_CUTS;
        struct outcome outcome = three_offer(&s, ids, first, second, LEN);
        if (!is_payload(&outcome, ids, LEN)) {
            case_fail(n, "another payload");
        }
    }
}

/* Cut `len` bytes anywhere; returns the outcome of the last fragment. */
static struct outcome cuts_play(struct prng *p, struct spop_session *s,
                                const uint64_t ids[2], size_t len, unsigned *n_refused)
{
    size_t part_bytes_max = 1 + prng_below(p, PART_BYTES_MAX);
    struct outcome outcome;
    bool is_first = true;
    bool is_last = false;
    *n_refused = 0;
    for (size_t done = 0; !is_last; is_first = false) {
        size_t n = prng_below(p, part_bytes_max + 1);
        n = n < len - done ? n : len - done;
        is_last = done + n == len && prng_below(p, 2) == 0; /* or empty ones follow */
        struct spop_bytes part = {.ptr = payload + done, .len = n};
        outcome = part_offer(s, ids, is_first, is_last, part);
        *n_refused += outcome.event.type == SPOP_EVENT_REFUSED;
        done += n;
    }
    return outcome;
}

static void any_cuts_give_the_payload_or_one_refusal(void **state)
{
    (void)state;
    struct prng p;
    struct spop_session s;
    prng_init(&p, seed);
    session_open(&s);
    for (unsigned n = 0; n < N_CASES; n++) {
        const uint64_t ids[2] = {prng_next(&p) >> prng_below(&p, 64), prng_next(&p)};
        size_t len = prng_below(&p, n % 2 == 0 ? 300 : sizeof(payload));
        if (n % 8 == 1) { /* at the edge */
            len = SPOP_REASSEMBLY_BYTES_MAX + prng_below(&p, 2);
        }
        unsigned n_refused = 0;
        struct outcome outcome = cuts_play(&p, &s, ids, len, &n_refused);
        bool has_room = len <= SPOP_REASSEMBLY_BYTES_MAX;
        if (n_refused != !has_room) {
            case_fail(n, "refused without need, or not refused");
        }
        if (has_room && !is_payload(&outcome, ids, len)) {
            case_fail(n, "another payload");
        }
        assert_false(spop_session_is_assembling(&s));
    }
}

static const struct letter {
    uint8_t type;
    uint32_t flags;
    uint64_t stream_id;
    size_t len;
} letters[] = {
    {SPOP_FRAME_NOTIFY, SPOP_FLAG_FIN, 1, SMALL},
    {SPOP_FRAME_NOTIFY, 0, 1, SMALL},
    {SPOP_FRAME_NOTIFY, SPOP_FLAG_ABORT, 2, 0},
    {SPOP_FRAME_NOTIFY, 0, 1, LARGE},
    {SPOP_FRAME_UNSET, 0, 1, SMALL},
    {SPOP_FRAME_UNSET, SPOP_FLAG_FIN, 1, SMALL},
    {SPOP_FRAME_UNSET, SPOP_FLAG_FIN | SPOP_FLAG_ABORT, 1, SMALL},
    {SPOP_FRAME_UNSET, 0, 1, LARGE},
    {SPOP_FRAME_UNSET, SPOP_FLAG_FIN, 1, LARGE},
    {SPOP_FRAME_UNSET, SPOP_FLAG_FIN, 2, 0},
    {SPOP_FRAME_UNSET, SPOP_FLAG_ABORT, 2, 0},
    {50, SPOP_FLAG_FIN, 1, SMALL},
};

enum {
    N_LETTERS = sizeof(letters) / sizeof(letters[0])
};

/* What the session should be like: of which NOTIFY fragments are coming, and how much. */
struct model {
    bool is_open; /* fragments are coming */
    bool is_refused;
    uint64_t stream_id;
    size_t len;
    unsigned n_begun;    /* NOTIFYs */
    unsigned n_answered; /* events, and ACKs without room */
    unsigned n_given_up;
};

/* What the next frame should give. */
struct expected {
    enum spop_event_type type;
    size_t len;         /* NOTIFY */
    const char *output; /* hex */
};

/* Of the stream-ids 1 and 2. */
static const char *const neutral_ack[] = {
    "0000000c 67 00000001 01 01 02 02 02 01\"_\"",
    "0000000c 67 00000001 02 01 02 02 02 01\"_\""};
static const char *const abort_ack[] = {"00000007 67 00000003 01 01",
                                        "00000007 67 00000003 02 01"};
static const char bye_11[] = "00000038 66 00000001 00 00 0b\"status-code\" 030b"
                             " 07\"message\" 0819\"invalid interlaced frames\"";

static struct expected model_add(struct model *m, const struct letter *letter)
{
    bool is_final = (letter->flags & SPOP_FLAG_FIN) != 0;
    m->len += letter->len;
    m->is_open = !is_final;
    if (m->len > LENT) {
        m->is_refused = true;
        m->n_answered++;
        const char *const *acks = is_final ? neutral_ack : abort_ack;
        return (struct expected){SPOP_EVENT_REFUSED, 0, acks[m->stream_id == 2]};
    }
    m->n_answered += is_final;
    return (struct expected){is_final ? SPOP_EVENT_NOTIFY : SPOP_EVENT_FRAGMENT, m->len,
                             ""};
}

static struct expected model_notify(struct model *m, const struct letter *letter)
{
    m->n_begun++;
    m->is_refused = false;
    m->stream_id = letter->stream_id;
    m->len = 0;
    return model_add(m, letter);
}

static struct expected model_unset(struct model *m, const struct letter *letter)
{
    uint32_t given_up = SPOP_FLAG_FIN | SPOP_FLAG_ABORT;
    bool is_given_up = (letter->flags & given_up) == given_up;
    if (!m->is_refused && !is_given_up) {
        return model_add(m, letter);
    }
    m->is_open = (letter->flags & SPOP_FLAG_FIN) == 0;
    m->n_given_up += !m->is_refused;
    return (struct expected){m->is_refused ? SPOP_EVENT_FRAGMENT : SPOP_EVENT_ABORTED,
                             0, ""};
}

static struct expected model_next(struct model *m, const struct letter *letter)
{
    if (letter->type != SPOP_FRAME_NOTIFY && letter->type != SPOP_FRAME_UNSET) {
        return (struct expected){SPOP_EVENT_IGNORED, 0, ""};
    }
    bool is_notify = letter->type == SPOP_FRAME_NOTIFY;
    if (is_notify == m->is_open || (!is_notify && letter->stream_id != m->stream_id)) {
        m->is_open = false;
        return (struct expected){SPOP_EVENT_CLOSE, 0, bye_11};
    }
    return is_notify ? model_notify(m, letter) : model_unset(m, letter);
}

/* Sessions and their models after the first letters of a sequence. */
struct level {
    struct spop_session s;
    struct model m;
    unsigned next_letter; /* to be tried after these */
};

static void model_check(const struct level *after)
{
    const struct model *m = &after->m;
    bool is_assembling = m->is_open && !m->is_refused;
    expect_equal("assembling", spop_session_is_assembling(&after->s), is_assembling);
    expect_equal("answers", m->n_answered + m->n_given_up, m->n_begun - is_assembling);
}

/* Offer a letter to a copy of `from`; true when the conversation goes on. */
static bool letter_try(const struct level *from, const struct letter *letter,
                       struct level *after)
{
    const uint64_t ids[2] = {letter->stream_id, 1};
    uint8_t buf[64];
    struct spop_writer w;
    spop_writer_init(&w, buf, sizeof(buf));
    wire_frame(&w, letter->type, letter->flags, ids,
               (struct spop_bytes){.ptr = payload, .len = letter->len});
    *after = (struct level){.s = from->s, .m = from->m};
    struct expected expected = model_next(&after->m, letter);
    struct outcome outcome = frame_offer(&after->s, written(&w), LENT);
    expect_equal("event", outcome.event.type, expected.type);
    expect_bytes("output", written(&outcome.out), expected.output);
    if (expected.type == SPOP_EVENT_NOTIFY) {
        expect_equal("payload", (long long)outcome.event.payload.len,
                     (long long)expected.len);
    }
    if (expected.type == SPOP_EVENT_CLOSE) {
        return false;
    }
    model_check(after);
    return true;
}

static void every_short_sequence_is_as_the_model_says(void **state)
{
    (void)state;
    static struct level levels[DEPTH + 1];
    unsigned n_tried = 0;
    unsigned depth = 0;
    session_open(&levels[0].s);
    while (depth > 0 || levels[0].next_letter < N_LETTERS) {
        struct level *at = &levels[depth];
        if (depth == DEPTH || at->next_letter == N_LETTERS) {
            depth--;
            continue;
        }
        n_tried++;
        depth += letter_try(at, &letters[at->next_letter++], &levels[depth + 1]);
    }
    assert_true(n_tried > 100000); /* most end early, with code 11 */
}

int main(void)
{
    struct prng p;
    seed = prng_seed(20261130);
    prng_init(&p, seed);
    prng_fill(&p, payload, sizeof(payload));
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_pair_of_cuts_gives_the_payload),
        cmocka_unit_test(any_cuts_give_the_payload_or_one_refusal),
        cmocka_unit_test(every_short_sequence_is_as_the_model_says),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
