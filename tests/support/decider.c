#include "tests/support/decider.h"

#include <string.h>

#include "agent/store/local.h"

static void on_done(struct decide_request *request)
{
    struct decider *d = request->context;
    struct spop_writer out;
    spop_writer_init(&out, d->out_buf, sizeof(d->out_buf));
    decide_answer(request, &out, SPOP_FRAME_SIZE_MAX);
    d->frame = (struct spop_bytes){.ptr = d->out_buf, .len = out.len};
    d->n_done++;
}

bool decider_init(struct decider *d, const char *rules)
{
    static const uint8_t secret[LOCAL_SECRET_BYTES] = {42};
    static struct rules_diags diags;
    memset(d, 0, sizeof(*d));
    rules_diags_init(&diags, "test.yaml");
    struct rules_bytes text = {.ptr = (const uint8_t *)rules, .len = strlen(rules)};
    struct rules_set *set = rules_load(&(struct rules_source){.name = "test.yaml",
                                                              .text = text},
                                       &diags);
    rules_diags_print(&diags, stderr);
    if (set == NULL) {
        return false;
    }
    decide_options_init(&d->options, VARIABLE_BIT(VARIABLES_N) - 1);
    d->decide.options = &d->options;
    d->decide.set = decide_set_new(set, "rl");
    d->decide.store = local_new((size_t)1 << 20, LOCAL_LOG_BYTES_MIN, secret);
    d->decide.counters = counters_new(d->decide.set->n_limits);
    return d->decide.store != NULL && d->decide.counters != NULL;
}

bool decider_clients(struct decider *d, const char *text)
{
    static struct rules_diags diags;
    struct rules_bytes bytes = {.ptr = (const uint8_t *)text, .len = strlen(text)};
    rules_diags_init(&diags, "clients.csv");
    d->decide.clients = rules_clients_load(
        bytes, rules_set_clients(d->decide.set->rules)->kind, &diags);
    rules_diags_print(&diags, stderr);
    return d->decide.clients != NULL;
}

void decider_fini(struct decider *d)
{
    struct rules_clients *clients = NULL;
    memcpy(&clients, &d->decide.clients, sizeof(clients)); /* ours, as the set below */
    rules_clients_free(clients);
    store_free(d->decide.store);
    counters_free(d->decide.counters);
    struct decide_set *set = NULL;
    memcpy(&set, &d->decide.set, sizeof(set)); /* ours: decide only reads it */
    decide_set_free(set);
}

void decider_begin(struct decider *d)
{
    spop_writer_init(&d->payload, d->payload_buf, sizeof(d->payload_buf));
}

static struct spop_bytes text_bytes(const char *text)
{
    return (struct spop_bytes){.ptr = (const uint8_t *)text, .len = strlen(text)};
}

void decider_message(struct decider *d, const char *name)
{
    spop_write_string(&d->payload, text_bytes(name));
    d->n_args_off = d->payload.len;
    spop_write_u8(&d->payload, 0);
}

void decider_arg(struct decider *d, const char *name, const struct spop_value *value)
{
    spop_write_string(&d->payload, text_bytes(name));
    spop_value_encode(&d->payload, value);
    d->payload_buf[d->n_args_off]++;
}

void decider_text(struct decider *d, const char *name, const char *text)
{
    struct spop_value value = {.type = SPOP_VALUE_STRING};
    value.bytes = text_bytes(text);
    decider_arg(d, name, &value);
}

void decider_ipv4(struct decider *d, const char *name, const uint8_t *address)
{
    struct spop_value value = {.type = SPOP_VALUE_IPV4};
    value.bytes = (struct spop_bytes){.ptr = address, .len = 4};
    decider_arg(d, name, &value);
}

bool decider_run(struct decider *d, int64_t now_us)
{
    struct spop_event notify = {.type = SPOP_EVENT_NOTIFY,
                                .stream_id = 7,
                                .frame_id = 1};
    notify.payload = (struct spop_bytes){.ptr = d->payload_buf, .len = d->payload.len};
    struct instant now = {.us = now_us};
    return decide_notify(&d->decide, &d->request, &notify, now, on_done, d);
}

bool decider_decide(struct decider *d, int64_t now_us)
{
    unsigned before = d->n_done;
    return decider_run(d, now_us) && d->n_done == before + 1
           && decoded_ack_read(&d->ack, d->frame);
}
