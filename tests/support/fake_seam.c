#include "tests/support/fake_seam.h"

#include <string.h>

static struct fake_seam *fake_of(struct seam *seam)
{
    return CONTAINER_OF(seam, struct fake_seam, seam);
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static unsigned slot(struct seam *seam, struct seam_bytes key)
{
    const char *text = key.ptr;
    const char *colon = memchr(text, ':', key.len);
    unsigned slot = 0;
    (void)seam;
    for (unsigned ten = 1; colon != NULL && colon > text && is_digit(colon[-1]);
         ten *= 10) {
        slot += ten * (unsigned)(*--colon - '0');
    }
    return slot % SEAM_SLOTS_MAX;
}

static unsigned node(struct seam *seam, unsigned slot_idx)
{
    (void)seam;
    return slot_idx % FAKE_SEAM_NODES;
}

static struct instant now(struct seam *seam)
{
    return fake_of(seam)->now;
}

static void timer_stop(struct seam *seam, struct seam_timer *timer)
{
    struct seam_timer **at = &fake_of(seam)->timers;
    while (*at != NULL && *at != timer) {
        at = &(*at)->next;
    }
    if (*at != NULL) {
        *at = timer->next;
    }
}

static void timer_set(struct seam *seam, struct seam_timer *timer)
{
    timer_stop(seam, timer);
    timer->next = fake_of(seam)->timers;
    fake_of(seam)->timers = timer;
}

static uint64_t draw(struct seam *seam)
{
    return fake_of(seam)->random;
}

static void run(struct seam *seam, struct seam_call *call)
{
    struct fake_seam *fake = fake_of(seam);
    ENSURE(fake->n_begun < FAKE_SEAM_CALLS_MAX && call->n_keys > 0);
    for (unsigned i = 1; i < call->n_keys; i++) {
        ENSURE(slot(seam, call->keys[i]) == slot(seam, call->keys[0]));
    }
    call->error = SEAM_ERROR_NONE;
    call->is_over = false;
    call->node = node(seam, slot(seam, call->keys[0]));
    fake->calls[fake->n_begun++] = call;
    fake->n_open++;
    if (fake->is_down) {
        fake_seam_end(fake, fake->n_begun - 1, SEAM_DOWN);
    }
}

static void reject(struct seam *seam, const struct seam_call *call)
{
    (void)call;
    fake_of(seam)->n_rejected++;
}

void fake_seam_init(struct fake_seam *fake, struct instant at)
{
    static const struct seam_ops ops = {
        .run = run,
        .reject = reject,
        .slot = slot,
        .node = node,
        .now = now,
        .timer_set = timer_set,
        .timer_stop = timer_stop,
        .random = draw,
    };
    *fake = (struct fake_seam){.seam = {&ops}, .now = at};
}

static struct seam_timer *first_timer(const struct fake_seam *fake)
{
    struct seam_timer *first = fake->timers;
    for (struct seam_timer *timer = first; timer != NULL; timer = timer->next) {
        first = instant_diff_us(timer->at, first->at) < 0 ? timer : first;
    }
    return first;
}

void fake_seam_pass(struct fake_seam *fake, int64_t us)
{
    struct instant until = instant_add_us(fake->now, us);
    struct seam_timer *timer = NULL;
    while ((timer = first_timer(fake)) != NULL
           && instant_diff_us(until, timer->at) >= 0) {
        if (instant_diff_us(timer->at, fake->now) > 0) {
            fake->now = timer->at;
        }
        timer_stop(&fake->seam, timer);
        timer->fire(timer);
    }
    fake->now = until;
}

struct seam_call *fake_seam_call(struct fake_seam *fake, unsigned idx)
{
    ENSURE(idx < fake->n_begun && fake->calls[idx] != NULL);
    return fake->calls[idx];
}

/* Its memory is the caller's afterwards. */
static void tell(struct fake_seam *fake, unsigned idx, enum seam_outcome outcome,
                 const struct seam_reply *reply)
{
    struct seam_call *call = fake_seam_call(fake, idx);
    bool is_late = call->is_over;
    call->outcome = outcome;
    call->is_over = true;
    if (outcome != SEAM_TIMEOUT) {
        fake->calls[idx] = NULL;
        fake->n_open--;
    }
    (is_late ? call->late : call->done)(call, reply);
}

void fake_seam_answer(struct fake_seam *fake, unsigned idx, const int64_t *numbers,
                      unsigned n)
{
    struct seam_value values[1 + FAKE_SEAM_VALUES_MAX];
    const struct seam_reply reply = {values, n + 1};
    ENSURE(n <= FAKE_SEAM_VALUES_MAX);
    values[0] = (struct seam_value){.type = SEAM_ARRAY, .integer = n};
    for (unsigned i = 0; i < n; i++) {
        values[i + 1] = (struct seam_value){.type = SEAM_INTEGER,
                                            .integer = numbers[i]};
    }
    tell(fake, idx, SEAM_OK, &reply);
}

void fake_seam_end(struct fake_seam *fake, unsigned idx, enum seam_outcome outcome)
{
    tell(fake, idx, outcome, NULL);
}
