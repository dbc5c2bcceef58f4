#include "agent/store/courier.h"

#include <string.h>

_Static_assert(COURIER_ITEMS_MAX < 32, "a bit for each");
_Static_assert(COURIER_CALLS >= COURIER_ROOM + COURIER_ITEMS_MAX,
               "one for each that waits");

/* The draw that passes before all others when a node is back: what is carried saves it
 * calls, of which there are too many else. */
enum {
    FIRST = 0
};

static struct instant courier_now(const struct courier *courier)
{
    return seam_now(courier->seam);
}

/* --- answers --- */

static void call_put(struct courier_call *call)
{
    struct courier *courier = call->courier;
    call->next_free = courier->free;
    courier->free = call;
    courier->n_under_way--;
}

static bool call_answer(struct courier_call *call, const struct seam_reply *reply)
{
    UNCLEARED int64_t numbers[COURIER_NUMBERS_MAX];
    struct courier *courier = call->courier;
    size_t n = 0;
    return seam_read_numbers(reply, numbers, COURIER_NUMBERS_MAX, &n)
           && courier->ops->answer(courier, call->items, call->n, numbers, n,
                                   call->sent_at);
}

static void call_end(struct courier_call *call)
{
    struct courier *courier = call->courier;
    enum seam_outcome outcome = call->seam.outcome;
    bool is_unsent = outcome == SEAM_DOWN || outcome == SEAM_FULL;
    for (unsigned i = 0; i < call->n; i++) {
        courier->ops->end(courier, call->items[i],
                          is_unsent ? COURIER_NOT_DONE : COURIER_UNHEARD);
    }
}

static void on_ended_late(struct seam_call *seam, const struct seam_reply *reply)
{
    struct courier_call *call = CONTAINER_OF(seam, struct courier_call, seam);
    (void)reply; /* its items have ended */
    call->courier->n_late--;
    call_put(call);
}

static void on_ended(struct seam_call *seam, const struct seam_reply *reply)
{
    struct courier_call *call = CONTAINER_OF(seam, struct courier_call, seam);
    struct courier *courier = call->courier;
    if (seam->outcome == SEAM_OK && !call_answer(call, reply)) {
        seam_reject(courier->seam, seam);
    }
    health_report(courier->health, seam, courier_now(courier));
    if (seam->outcome != SEAM_OK) {
        call_end(call);
    }
    if (seam->outcome == SEAM_TIMEOUT) {
        courier->n_late++;
    } else {
        call_put(call);
    }
}

/* --- calls --- */

/* A call to the node of a slot; NULL: it takes none now. */
static struct courier_call *call_take(struct courier *courier, unsigned slot)
{
    struct courier_call *call = courier->free;
    unsigned node = seam_node(courier->seam, slot);
    if (call == NULL
        || !health_passes(courier->health, node, courier_now(courier), FIRST)) {
        return NULL;
    }
    courier->free = call->next_free;
    courier->n_under_way++;
    call->n = 0;
    return call;
}

static void call_run(struct courier_call *call)
{
    struct courier *courier = call->courier;
    call->sent_at = courier_now(courier);
    call->arg.ptr = call->arg_buf;
    call->arg.len = courier->ops->encode(courier, call->items, call->n, call->arg_buf);
    ENSURE(call->arg.len <= sizeof(call->arg_buf));
    call->seam = (struct seam_call){
        .script = courier->ops->script,
        .keys = call->keys,
        .n_keys = call->n,
        .args = &call->arg,
        .n_args = 1,
        .deadline = instant_add_us(call->sent_at, courier->ops->limit_us),
        .done = on_ended,
        .late = on_ended_late,
    };
    seam_run(courier->seam, &call->seam);
}

/* What waits, taken off: its items may come back while they go. */
struct load {
    unsigned n;
    uint32_t items[COURIER_ITEMS_MAX];
    struct seam_bytes keys[COURIER_ITEMS_MAX];
    unsigned slots[COURIER_ITEMS_MAX];
};

static void take_load(struct courier *courier, struct load *load)
{
    load->n = courier->n_waiting;
    for (unsigned i = 0; i < load->n; i++) {
        load->items[i] = courier->waiting[i];
        load->keys[i] = courier->keys[i];
        load->slots[i] = seam_slot(courier->seam, load->keys[i]);
    }
    courier->n_waiting = 0;
    seam_timer_stop(courier->seam, &courier->flush);
}

static bool call_has(const struct courier_call *call, struct seam_bytes key)
{
    for (unsigned i = 0; i < call->n; i++) {
        if (call->keys[i].len == key.len
            && memcmp(call->keys[i].ptr, key.ptr, key.len) == 0) {
            return true;
        }
    }
    return false;
}

/* Carry those of `left` that are in the slot of its first, each of another counter.
 * @return the rest */
static uint32_t carry_slot(struct courier *courier, const struct load *load,
                           uint32_t left)
{
    uint32_t rest = 0;
    unsigned slot = load->slots[__builtin_ctz(left)];
    struct courier_call *call = call_take(courier, slot);
    for (; left != 0; left &= left - 1) {
        unsigned i = (unsigned)__builtin_ctz(left);
        if (load->slots[i] != slot || (call != NULL && call_has(call, load->keys[i]))) {
            rest |= UINT32_C(1) << i;
        } else if (call != NULL) {
            call->keys[call->n] = load->keys[i];
            call->items[call->n++] = load->items[i];
        } else {
            courier->ops->end(courier, load->items[i], COURIER_NOT_DONE);
        }
    }
    if (call != NULL) {
        call_run(call);
    }
    return rest;
}

void courier_go(struct courier *courier)
{
    UNCLEARED struct load load;
    take_load(courier, &load);
    uint32_t left = (UINT32_C(1) << load.n) - 1;
    while (left != 0) {
        left = carry_slot(courier, &load, left);
    }
}

void courier_add(struct courier *courier, uint32_t item, struct seam_bytes key)
{
    if (courier->n_waiting == 0) {
        courier->flush.at = instant_add_us(courier_now(courier), COURIER_WAIT_US);
        seam_timer_set(courier->seam, &courier->flush);
    }
    courier->waiting[courier->n_waiting] = item;
    courier->keys[courier->n_waiting++] = key;
    if (courier->n_waiting == COURIER_ITEMS_MAX) {
        courier_go(courier);
    }
}

static void on_flush(struct seam_timer *timer)
{
    courier_go(CONTAINER_OF(timer, struct courier, flush));
}

void courier_init(struct courier *courier, const struct courier_ops *ops,
                  struct seam *seam, struct health *health)
{
    courier->ops = ops;
    courier->seam = seam;
    courier->health = health;
    courier->flush.fire = on_flush;
    for (unsigned i = 0; i < COURIER_CALLS; i++) {
        courier->calls[i].courier = courier;
        courier->calls[i].next_free = courier->free;
        courier->free = &courier->calls[i];
    }
}
