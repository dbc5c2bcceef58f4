#include "rules/clients.h"

#include <stdlib.h>

#include <sodium.h>

#include "rules/address.h"
#include "rules/code.h"
#include "rules/fields.h"
#include "rules/program.h"

/* An entry: the low bits say where the client's record is, the high ones are of its hash.
 * No record is at 0: that is no entry. */
enum {
    OFF_BITS = 27,
    OFF_MASK = (1 << OFF_BITS) - 1,
};

/* A record: plan, length, client. */
enum {
    PLAN_BYTES = 2,
    HEAD_BYTES = PLAN_BYTES + 1,
    RECORDS_BEGIN = 1,
    ADDRESS_BYTES_MAX = 16,
};

_Static_assert(RULES_CLIENTS_PLANS_MAX <= UINT16_MAX, "a plan is 16 bits");
_Static_assert(RULES_CLIENT_BYTES_MAX <= UINT8_MAX, "a length is 8 bits");
/* A line has a client, a comma, a plan and, but for the last, an end. */
_Static_assert(RULES_CLIENTS_BYTES_MAX + RECORDS_BEGIN + 1 <= OFF_MASK
                   && RULES_CLIENTS_MAX * (HEAD_BYTES + ADDRESS_BYTES_MAX) <= OFF_MASK,
               "there are offsets for all records");

struct rules_clients {
    enum rules_clients_kind kind;
    uint32_t n_clients;
    uint32_t mask;
    uint64_t secret[2];
    uint32_t *entries;
    uint8_t *records;
    uint32_t n_plans;
    struct rules_bytes plans[RULES_CLIENTS_PLANS_MAX];
    struct rules_arena arena; /* of the plans' names */
};

/* A table while it is filled, and the line that is read. */
struct loading {
    struct rules_clients *clients;
    struct rules_diags *diags;
    uint32_t records_bytes; /* used */
    uint32_t *lines;        /* of the entries */
    struct rules_table plans;
    bool is_full;
    uint32_t line;
    const uint8_t *begin;
    const uint8_t *end; /* without what ends it */
    const uint8_t *at;
};

/* Where the bytes of a client are put that it does not have itself. */
struct client_room {
    struct rules_address address;
    uint8_t group[RULES_NETWORK_KEY_BYTES_MAX];
    char text[RULES_ADDRESS_PRINT_BYTES];
};

static struct rules_mark mark_of(const struct loading *loading, const uint8_t *at)
{
    struct rules_mark mark = {.line = loading->line, .column = 1};

    for (const uint8_t *p = loading->begin; p < at; p++) {
        mark.column += (*p & 0xc0) != 0x80; /* a character begins */
    }
    return mark;
}

/** Report an error at a place of the line. */
#define FAIL(loading, at, code, ...)                                                   \
    rules_diags_add_line((loading)->diags, RULES_ERROR, mark_of(loading, at),          \
                         &(struct rules_text){.bytes = (const char *)(loading)->begin, \
                                              .len = (size_t)((loading)->end           \
                                                              - (loading)->begin)},    \
                         code, __VA_ARGS__)

static void memory_tell(struct rules_diags *diags)
{
    rules_diags_add(diags, RULES_ERROR, (struct rules_mark){0}, NULL,
                    rules_code_out_of_memory, "out of memory");
}

static bool record_is(const uint8_t *record, struct rules_bytes client)
{
    struct rules_bytes bytes = {record + HEAD_BYTES, record[PLAN_BYTES]};

    return rules_bytes_equal(bytes, client);
}

/** @return the entry of a client, or the free one where it belongs */
static uint32_t *entry_find(const struct rules_clients *clients, uint32_t hash,
                            struct rules_bytes client)
{
    for (uint32_t i = hash & clients->mask;; i = (i + 1) & clients->mask) {
        uint32_t *entry = &clients->entries[i];

        if (*entry == 0
            || ((*entry ^ hash) >> OFF_BITS == 0
                && record_is(clients->records + (*entry & OFF_MASK), client))) {
            return entry;
        }
    }
}

static void record_add(struct loading *loading, uint32_t *entry, uint32_t hash,
                       struct rules_bytes client, uint32_t plan)
{
    struct rules_clients *clients = loading->clients;
    uint32_t off = loading->records_bytes;
    uint8_t *record = clients->records + off;
    uint16_t plan_idx = (uint16_t)plan;

    memcpy(record, &plan_idx, PLAN_BYTES);
    record[PLAN_BYTES] = (uint8_t)client.len;
    memcpy(record + HEAD_BYTES, client.ptr, client.len);
    *entry = (hash & ~(uint32_t)OFF_MASK) | off;
    loading->lines[entry - clients->entries] = loading->line;
    loading->records_bytes += (uint32_t)(HEAD_BYTES + client.len);
    clients->n_clients++;
}

/** @return the bytes by which a client is compared; empty: it is no address */
static struct rules_bytes client_bytes(enum rules_clients_kind kind,
                                       struct rules_value client,
                                       struct client_room *room)
{
    struct rules_bytes bytes = client.bytes;

    if (kind == RULES_CLIENTS_TEXT && client.type == RULES_TEXT) {
        return bytes;
    }
    if (client.type == RULES_TEXT) {
        room->address = rules_address_parse(bytes);
        bytes = rules_address_bytes(&room->address);
    }
    bytes = rules_address_canonical(bytes);
    if (bytes.len == 0) {
        return bytes;
    }
    if (kind == RULES_CLIENTS_ADDRESS) {
        return rules_address_group(bytes, RULES_IP_PREFIX_DEFAULT, room->group);
    }
    room->address.len = (uint8_t)bytes.len;
    memcpy(room->address.bytes, bytes.ptr, bytes.len);
    rules_address_print(&room->address, room->text);
    return (struct rules_bytes){(const uint8_t *)room->text, strlen(room->text)};
}

static bool plain_read(struct loading *loading, struct rules_bytes *field)
{
    const uint8_t *from = loading->at;

    while (loading->at < loading->end && *loading->at != ',') {
        if (*loading->at == '"') {
            FAIL(loading, loading->at, rules_code_bad_client,
                 "a quote inside a field: put the field in quotes, and this one twice");
            return false;
        }
        loading->at++;
    }
    *field = (struct rules_bytes){from, (size_t)(loading->at - from)};
    return true;
}

/** Read a field in quotes; what is longer than any client is as long as `room`. */
static bool quoted_read(struct loading *loading, struct rules_bytes *field,
                        uint8_t room[RULES_CLIENT_BYTES_MAX + 1])
{
    const uint8_t *from = loading->at++;
    size_t n = 0;

    for (; loading->at < loading->end; loading->at++) {
        bool is_quote = *loading->at == '"';

        loading->at += is_quote;
        if (is_quote && (loading->at == loading->end || *loading->at != '"')) {
            *field = (struct rules_bytes){room, n};
            return true;
        }
        if (n <= RULES_CLIENT_BYTES_MAX) {
            room[n++] = *loading->at;
        }
    }
    FAIL(loading, from, rules_code_bad_client, "these quotes do not end in this line");
    return false;
}

/** Read up to a comma or the end of the line. */
static bool field_read(struct loading *loading, struct rules_bytes *field,
                       uint8_t room[RULES_CLIENT_BYTES_MAX + 1])
{
    if (loading->at == loading->end || *loading->at != '"') {
        return plain_read(loading, field);
    }
    if (!quoted_read(loading, field, room)) {
        return false;
    }
    if (loading->at < loading->end && *loading->at != ',') {
        FAIL(loading, loading->at, rules_code_bad_client,
             "behind a field in quotes comes a comma, or the end of the line");
        return false;
    }
    return true;
}

static bool client_check(struct loading *loading, struct rules_bytes field)
{
    if (field.len == 0) {
        FAIL(loading, loading->begin, rules_code_bad_client,
             "a client comes first, as in: client,plan");
    } else if (field.len > RULES_CLIENT_BYTES_MAX) {
        FAIL(loading, loading->begin, rules_code_bad_client,
             "a client has at most %d bytes", RULES_CLIENT_BYTES_MAX);
    } else if (loading->at == loading->end) {
        FAIL(loading, loading->end, rules_code_bad_client,
             "a comma and a plan are missing, as in: client,plan");
    } else {
        return true;
    }
    return false;
}

/** Find or add a plan. @return its number, or RULES_NONE (reported) */
static uint32_t plan_number(struct loading *loading, const uint8_t *at,
                            struct rules_bytes name)
{
    struct rules_clients *clients = loading->clients;
    uint32_t idx = rules_table_find(&loading->plans, 0, name);

    if (idx != RULES_NONE) {
        return idx;
    }
    if (clients->n_plans == RULES_CLIENTS_PLANS_MAX) {
        FAIL(loading, at, rules_code_too_many_plans,
             "the clients have more than %d different plans", RULES_CLIENTS_PLANS_MAX);
        return RULES_NONE;
    }
    name.ptr = (const uint8_t *)rules_arena_dup(&clients->arena, name.ptr, name.len);
    if (name.ptr == NULL) {
        memory_tell(loading->diags);
        return RULES_NONE;
    }
    clients->plans[clients->n_plans] = name;
    return *rules_table_put(&loading->plans, 0, name, clients->n_plans++);
}

/** Read what stands behind the comma. @return the number of the plan, or RULES_NONE */
static uint32_t plan_read(struct loading *loading)
{
    RULES_UNCLEARED uint8_t room[RULES_CLIENT_BYTES_MAX + 1];
    const uint8_t *from = ++loading->at;
    struct rules_bytes name;

    if (!field_read(loading, &name, room)) {
        return RULES_NONE;
    }
    if (loading->at < loading->end) {
        FAIL(loading, loading->at, rules_code_bad_client,
             "more than a client and a plan: put a client that has a comma in quotes");
        return RULES_NONE;
    }
    if (!rules_name_is_valid(name)) {
        FAIL(loading, from, rules_code_bad_name,
             "'%.*s' is no name of a plan: a small letter, then up to 63 of a-z 0-9 _ "
             "-, and no blanks around it",
             (int)(name.len < 64 ? name.len : 64), (const char *)name.ptr);
        return RULES_NONE;
    }
    return plan_number(loading, from, name);
}

static void entry_add(struct loading *loading, struct rules_bytes client, uint32_t plan)
{
    struct rules_clients *clients = loading->clients;
    uint32_t hash = rules_hash(clients->secret, 0, client);
    uint32_t *entry = entry_find(clients, hash, client);

    if (*entry != 0) {
        FAIL(loading, loading->begin, rules_code_duplicate_client,
             "the same client already stands in line %u",
             loading->lines[entry - clients->entries]);
    } else if (clients->n_clients == RULES_CLIENTS_MAX) {
        FAIL(loading, loading->begin, rules_code_too_many_clients,
             "more than %d clients", RULES_CLIENTS_MAX);
        loading->is_full = true;
    } else {
        record_add(loading, entry, hash, client, plan);
    }
}

/** Read a line that is neither empty nor a comment. */
static void line_read(struct loading *loading)
{
    RULES_UNCLEARED uint8_t room[RULES_CLIENT_BYTES_MAX + 1];
    RULES_UNCLEARED struct client_room address_room;
    struct rules_value client = {.type = RULES_TEXT};
    struct rules_bytes bytes;
    uint32_t plan;

    loading->at = loading->begin;
    if (!field_read(loading, &client.bytes, room)
        || !client_check(loading, client.bytes)) {
        return;
    }
    plan = plan_read(loading);
    if (plan == RULES_NONE) {
        return;
    }
    bytes = client_bytes(loading->clients->kind, client, &address_room);
    if (bytes.len == 0) {
        FAIL(loading, loading->begin, rules_code_bad_address,
             "no address; networks are for 'match' and 'lists' of the rules");
        return;
    }
    entry_add(loading, bytes, plan);
}

static bool is_skipped(const struct loading *loading)
{
    return loading->begin == loading->end || *loading->begin == '#';
}

/** Read lines to the end, or until there are enough errors. */
static void text_read(struct loading *loading, struct rules_bytes text)
{
    const uint8_t *end = text.ptr + text.len;
    const uint8_t *next = text.ptr;

    while (next < end && !loading->is_full
           && loading->diags->n_errors < RULES_DIAGS_MAX) {
        const uint8_t *feed = memchr(next, '\n', (size_t)(end - next));

        loading->line++;
        loading->begin = next;
        loading->end = feed != NULL ? feed : end;
        next = feed != NULL ? feed + 1 : end;
        if (loading->end > loading->begin && loading->end[-1] == '\r') {
            loading->end--;
        }
        if (!is_skipped(loading)) {
            line_read(loading);
        }
    }
}

/** Some editors put one before the first character: it would be part of a client. */
static bool has_byte_order_mark(struct rules_bytes text)
{
    static const uint8_t bom[] = {0xef, 0xbb, 0xbf};

    return text.len >= sizeof bom && memcmp(text.ptr, bom, sizeof bom) == 0;
}

static uint32_t lines_count(struct rules_bytes text)
{
    uint32_t n = 1;

    for (size_t i = 0; i < text.len; i++) {
        n += text.ptr[i] == '\n';
    }
    return n;
}

/** Make room for all that a text can hold. */
static bool room_make(struct loading *loading, struct rules_bytes text)
{
    struct rules_clients *clients = loading->clients;
    uint32_t n_lines = lines_count(text);
    size_t n_max = n_lines < RULES_CLIENTS_MAX ? n_lines : RULES_CLIENTS_MAX;
    size_t n_entries = 2;
    size_t records_bytes = text.len + RECORDS_BEGIN + 1;

    while (n_entries < 2 * n_max) {
        n_entries *= 2;
    }
    if (clients->kind == RULES_CLIENTS_ADDRESS) {
        records_bytes = RECORDS_BEGIN + n_max * (HEAD_BYTES + ADDRESS_BYTES_MAX);
    }
    clients->mask = (uint32_t)(n_entries - 1);
    randombytes_buf(clients->secret, sizeof clients->secret);
    clients->secret[1] |= 1;
    clients->entries = calloc(n_entries, sizeof *clients->entries);
    clients->records = malloc(records_bytes);
    loading->lines = malloc(n_entries * sizeof *loading->lines);
    loading->records_bytes = RECORDS_BEGIN;
    return clients->entries != NULL && clients->records != NULL
           && loading->lines != NULL
           && rules_table_init(&loading->plans, &clients->arena,
                               RULES_CLIENTS_PLANS_MAX);
}

/** Give back the room that was for more than the text held. */
static void room_cut(struct loading *loading)
{
    struct rules_clients *clients = loading->clients;
    uint8_t *cut = realloc(clients->records, loading->records_bytes);

    if (cut == NULL) {
        memory_tell(loading->diags);
        return;
    }
    clients->records = cut;
}

static void clients_read(struct loading *loading, struct rules_bytes text)
{
    if (!room_make(loading, text)) {
        memory_tell(loading->diags);
        return;
    }
    text_read(loading, text);
    if (loading->clients->n_clients == 0 && loading->diags->n_errors == 0) {
        rules_diags_add(loading->diags, RULES_ERROR, (struct rules_mark){0}, NULL,
                        rules_code_no_clients,
                        "no clients: where none has a plan, leave 'clients' out");
    }
    room_cut(loading);
}

/** Report what makes a file none of clients, as a whole. */
static bool text_check(struct rules_bytes text, struct rules_diags *diags)
{
    if (text.len > RULES_CLIENTS_BYTES_MAX) {
        rules_diags_add(diags, RULES_ERROR, (struct rules_mark){0}, NULL,
                        rules_code_file_too_large, "more than %d bytes",
                        RULES_CLIENTS_BYTES_MAX);
        return false;
    }
    if (has_byte_order_mark(text)) {
        rules_diags_add(diags, RULES_ERROR, (struct rules_mark){.line = 1, .column = 1},
                        NULL, rules_code_bad_client,
                        "a byte order mark: save the file without one");
        return false;
    }
    return true;
}

struct rules_clients *rules_clients_load(struct rules_bytes text,
                                         enum rules_clients_kind kind,
                                         struct rules_diags *diags)
{
    uint32_t n_errors = diags->n_errors;
    struct loading loading = {.diags = diags};

    if (!text_check(text, diags)) {
        return NULL;
    }
    loading.clients = calloc(1, sizeof *loading.clients);
    if (loading.clients == NULL) {
        memory_tell(diags);
        return NULL;
    }
    loading.clients->kind = kind;
    clients_read(&loading, text);
    free(loading.lines);
    if (diags->n_errors > n_errors) {
        rules_clients_free(loading.clients);
        return NULL;
    }
    return loading.clients;
}

void rules_clients_free(struct rules_clients *clients)
{
    if (clients != NULL) {
        rules_arena_fini(&clients->arena);
        free(clients->entries);
        free(clients->records);
        free(clients);
    }
}

uint32_t rules_clients_count(const struct rules_clients *clients)
{
    return clients->n_clients;
}

uint32_t rules_clients_n_plans(const struct rules_clients *clients)
{
    return clients->n_plans;
}

struct rules_bytes rules_clients_plan(const struct rules_clients *clients, uint32_t idx)
{
    return clients->plans[idx];
}

struct rules_bytes rules_clients_find(const struct rules_clients *clients,
                                      struct rules_value client)
{
    RULES_UNCLEARED struct client_room room;
    struct rules_bytes bytes = client_bytes(clients->kind, client, &room);
    uint16_t plan_idx;
    uint32_t entry;

    if (bytes.len == 0) {
        return bytes;
    }
    entry = *entry_find(clients, rules_hash(clients->secret, 0, bytes), bytes);
    if (entry == 0) {
        return (struct rules_bytes){NULL, 0};
    }
    memcpy(&plan_idx, clients->records + (entry & OFF_MASK), PLAN_BYTES);
    return clients->plans[plan_idx];
}

void rules_clients_apply(const struct rules_clients *clients,
                         const struct rules_set *set, struct rules_request *request)
{
    struct rules_value *plan = &request->values[set->slot_plan];
    struct rules_bytes found;

    if (plan->bytes.len > 0) {
        return;
    }
    found = rules_clients_find(clients, request->values[set->slot_client]);
    if (found.len > 0) {
        *plan = (struct rules_value){RULES_TEXT, found};
    }
}
