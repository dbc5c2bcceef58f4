#define _POSIX_C_SOURCE 200809L /* O_CLOEXEC. NOLINT */

#include "rules/zone.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "rules/civil.h"

#define ZONE_FOLDER "/usr/share/zoneinfo/"
#define BEFORE_ALL  INT64_MIN

enum {
    HEADER_BYTES = 44,
    TYPE_BYTES = 6,
    DST_PER_YEAR = 2,
    YEAR_MIN = 1970,
};

/* The rule at the end of a file, as in POSIX's TZ: CET-1CEST,M3.5.0,M10.5.0/3 */
struct turn {
    char kind;     /* M: month, week, day of week; J: day 1 to 365; D: day 0 to 365 */
    int64_t month; /* or the day of kinds J and D */
    int64_t week;  /* 5 is the last */
    int64_t weekday;
    int64_t time_s;
};

struct footer {
    int64_t offset_s;
    int64_t summer_offset_s;
    bool has_summer;
    struct turn to_summer;
    struct turn to_winter;
};

/** A text that is read from its front. */
struct reader {
    const uint8_t *at;
    const uint8_t *end;
    bool is_bad;
};

static bool reader_skip(struct reader *r, char byte)
{
    bool is_there = r->at < r->end && *r->at == (uint8_t)byte;

    r->at += is_there;
    return is_there;
}

static void reader_expect(struct reader *r, char byte)
{
    r->is_bad = !reader_skip(r, byte) || r->is_bad;
}

static bool is_digit(const struct reader *r)
{
    return r->at < r->end && *r->at >= '0' && *r->at <= '9';
}

static int64_t reader_number(struct reader *r, int64_t min, int64_t max)
{
    int64_t value = 0;

    r->is_bad = r->is_bad || !is_digit(r);
    for (; is_digit(r) && value <= max; r->at++) {
        value = value * 10 + (*r->at - '0');
    }
    r->is_bad = r->is_bad || value < min || value > max;
    return value;
}

/** [+-]hh[:mm[:ss]], in seconds. */
static int64_t reader_time(struct reader *r)
{
    bool is_negative = reader_skip(r, '-');
    int64_t s;

    if (!is_negative) {
        (void)reader_skip(r, '+');
    }
    s = reader_number(r, 0, 167) * 3600;
    if (reader_skip(r, ':')) {
        s += reader_number(r, 0, 59) * 60;
        if (reader_skip(r, ':')) {
            s += reader_number(r, 0, 59);
        }
    }
    return is_negative ? -s : s;
}

static bool is_letter(const struct reader *r)
{
    return r->at < r->end
           && ((*r->at >= 'A' && *r->at <= 'Z') || (*r->at >= 'a' && *r->at <= 'z'));
}

/** CET, or <+0330>. */
static void reader_name(struct reader *r)
{
    const uint8_t *from = r->at;

    if (reader_skip(r, '<')) {
        while (r->at < r->end && *r->at != '>') {
            r->at++;
        }
        reader_expect(r, '>');
        return;
    }
    while (is_letter(r)) {
        r->at++;
    }
    r->is_bad = r->is_bad || r->at == from;
}

static struct turn reader_turn(struct reader *r)
{
    struct turn turn = {.kind = 'D', .time_s = INT64_C(2) * 3600};

    reader_expect(r, ',');
    if (reader_skip(r, 'M')) {
        turn.kind = 'M';
        turn.month = reader_number(r, 1, 12);
        reader_expect(r, '.');
        turn.week = reader_number(r, 1, 5);
        reader_expect(r, '.');
        turn.weekday = reader_number(r, 0, 6);
    } else if (reader_skip(r, 'J')) {
        turn.kind = 'J';
        turn.month = reader_number(r, 1, 365);
    } else {
        turn.month = reader_number(r, 0, 365);
    }
    if (reader_skip(r, '/')) {
        turn.time_s = reader_time(r);
    }
    return turn;
}

static struct footer reader_footer(struct reader *r)
{
    struct footer footer = {0};

    reader_name(r);
    footer.offset_s = -reader_time(r); /* POSIX counts west of Greenwich */
    if (r->at == r->end) {
        return footer;
    }
    footer.has_summer = true;
    reader_name(r);
    footer.summer_offset_s = footer.offset_s + 3600;
    if (r->at < r->end && *r->at != ',') {
        footer.summer_offset_s = -reader_time(r);
    }
    footer.to_summer = reader_turn(r);
    footer.to_winter = reader_turn(r);
    r->is_bad = r->is_bad || r->at != r->end;
    return footer;
}

/** The local midnight of the day a turn falls on in a year, in days. */
static int64_t turn_day(const struct turn *turn, int64_t year)
{
    int64_t first = rules_date_to_days((struct rules_date){year, 1, 1});
    int64_t march = rules_date_to_days((struct rules_date){year, 3, 1});
    bool is_leap = march - first == 60;
    struct rules_date next = {turn->month == 12 ? year + 1 : year,
                              turn->month == 12 ? 1 : turn->month + 1, 1};
    int64_t day;

    if (turn->kind == 'D') {
        return first + turn->month;
    }
    if (turn->kind == 'J') {
        return first + turn->month - 1 + (is_leap && turn->month >= 60);
    }
    day = rules_date_to_days((struct rules_date){year, turn->month, 1});
    day += (turn->weekday - rules_weekday_of_days(day) + 7) % 7 + (turn->week - 1) * 7;
    return day >= rules_date_to_days(next) ? day - 7 : day;
}

static void change_add(struct rules_zone *zone, int64_t at_s, int64_t offset_s)
{
    struct rules_zone_change *last = &zone->changes[zone->n_changes - 1];

    if (at_s == last->at_s) {
        last->offset_s = offset_s; /* summer all the year */
    } else if (at_s > last->at_s && offset_s != last->offset_s) {
        zone->changes[zone->n_changes++] = (struct rules_zone_change){at_s, offset_s};
    }
}

/** The changes of one year, in order. */
static void footer_apply_year(const struct footer *footer, int64_t year,
                              struct rules_zone *zone)
{
    int64_t summer_s = turn_day(&footer->to_summer, year) * RULES_DAY_S
                       + footer->to_summer.time_s - footer->offset_s;
    int64_t winter_s = turn_day(&footer->to_winter, year) * RULES_DAY_S
                       + footer->to_winter.time_s - footer->summer_offset_s;

    if (summer_s < winter_s) {
        change_add(zone, summer_s, footer->summer_offset_s);
        change_add(zone, winter_s, footer->offset_s);
    } else {
        change_add(zone, winter_s, footer->offset_s);
        change_add(zone, summer_s, footer->summer_offset_s);
    }
}

static void footer_apply(const struct footer *footer, struct rules_zone *zone)
{
    int64_t last_s = zone->changes[zone->n_changes - 1].at_s;
    int64_t year = YEAR_MIN;

    if (!footer->has_summer) {
        change_add(zone, last_s == BEFORE_ALL ? BEFORE_ALL + 1 : last_s + 1,
                   footer->offset_s);
        return;
    }
    if (last_s > 0) {
        year = rules_date_of_days(last_s / RULES_DAY_S).year;
    }
    for (; year <= RULES_ZONE_YEAR_MAX; year++) {
        footer_apply_year(footer, year, zone);
    }
}

/* The counts of a header, and where its data lies. */
struct block {
    const uint8_t *header;
    uint32_t n_utc;
    uint32_t n_std;
    uint32_t n_leaps;
    uint32_t n_times;
    uint32_t n_types;
    uint32_t n_chars;
};

static uint32_t u32_read(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static int64_t i64_read(const uint8_t *p)
{
    return (int64_t)((uint64_t)u32_read(p) << 32 | u32_read(p + 4));
}

/** @return where the block ends, or NULL when it does not lie within the file */
static const uint8_t *block_read(const uint8_t *at, const uint8_t *end,
                                 uint32_t time_bytes, struct block *block)
{
    uint64_t len;

    if (end - at < HEADER_BYTES || memcmp(at, "TZif", 4) != 0 || at[4] < '2') {
        return NULL;
    }
    block->header = at;
    block->n_utc = u32_read(at + 20);
    block->n_std = u32_read(at + 24);
    block->n_leaps = u32_read(at + 28);
    block->n_times = u32_read(at + 32);
    block->n_types = u32_read(at + 36);
    block->n_chars = u32_read(at + 40);
    len = (uint64_t)block->n_times * (time_bytes + 1)
          + (uint64_t)block->n_types * TYPE_BYTES + block->n_chars
          + (uint64_t)block->n_leaps * (time_bytes + 4) + block->n_std + block->n_utc;
    return len <= (uint64_t)(end - at - HEADER_BYTES) ? at + HEADER_BYTES + len : NULL;
}

/** @return the offset of a type; one that is too large when there is none */
static int64_t type_offset_s(const struct block *block, uint32_t type)
{
    const uint8_t *types = block->header + HEADER_BYTES + (size_t)block->n_times * 9;

    return type < block->n_types ? (int32_t)u32_read(types + (size_t)type * TYPE_BYTES)
                                 : RULES_ZONE_OFFSET_S_MAX;
}

static bool is_offset(int64_t offset_s)
{
    return offset_s > -RULES_ZONE_OFFSET_S_MAX && offset_s < RULES_ZONE_OFFSET_S_MAX;
}

/** @return whether all of a block made sense */
static bool block_apply(const struct block *block, struct rules_zone *zone)
{
    const uint8_t *times = block->header + HEADER_BYTES;
    const uint8_t *types = times + (size_t)block->n_times * 8;
    int64_t last_s = BEFORE_ALL;

    zone->changes[0] = (struct rules_zone_change){BEFORE_ALL, type_offset_s(block, 0)};
    zone->n_changes = 1;
    if (!is_offset(zone->changes[0].offset_s) || block->n_leaps > 0) {
        return false;
    }
    for (uint32_t i = 0; i < block->n_times; i++) {
        int64_t at_s = i64_read(times + (size_t)i * 8);
        int64_t offset_s = type_offset_s(block, types[i]);

        if (at_s <= last_s || !is_offset(offset_s)) {
            return false;
        }
        last_s = at_s;
        change_add(zone, at_s, offset_s);
    }
    return true;
}

/** A file says all twice, the second time in 64 bits, then how it goes on. */
static bool file_read(const struct rules_bytes *file, struct block *block,
                      struct footer *footer)
{
    const uint8_t *end = file->ptr + file->len;
    const uint8_t *at = block_read(file->ptr, end, 4, block);
    struct reader r;

    at = at != NULL ? block_read(at, end, 8, block) : NULL;
    if (at == NULL || end - at < 2 || at[0] != '\n' || end[-1] != '\n') {
        return false;
    }
    r = (struct reader){at + 1, end - 1, false};
    *footer = reader_footer(&r);
    return !r.is_bad && is_offset(footer->offset_s)
           && is_offset(footer->summer_offset_s);
}

static struct rules_zone *zone_new(struct rules_bytes name, size_t n_changes,
                                   struct rules_arena *arena)
{
    struct rules_zone *zone = rules_arena_array(arena, 1, sizeof *zone);

    if (zone == NULL) {
        return NULL;
    }
    zone->name = rules_arena_dup(arena, name.ptr, name.len);
    zone->changes = rules_arena_array(arena, n_changes, sizeof *zone->changes);
    return zone->name != NULL && zone->changes != NULL ? zone : NULL;
}

enum rules_zone_status rules_zone_parse(struct rules_bytes name,
                                        struct rules_bytes file,
                                        struct rules_arena *arena,
                                        struct rules_zone **zone)
{
    struct block block;
    struct footer footer;
    struct rules_zone *read;

    if (!file_read(&file, &block, &footer)) {
        return RULES_ZONE_DAMAGED;
    }
    read = zone_new(name,
                    (size_t)block.n_times + 2
                        + (size_t)(RULES_ZONE_YEAR_MAX - YEAR_MIN + 1) * DST_PER_YEAR,
                    arena);
    if (read == NULL) {
        return RULES_ZONE_NO_MEMORY;
    }
    if (!block_apply(&block, read)) {
        return RULES_ZONE_DAMAGED;
    }
    footer_apply(&footer, read);
    *zone = read;
    return RULES_ZONE_OK;
}

/** Parts of letters, digits, + - _, with single slashes between: no way out of the
 * folder. */
static bool is_zone_name(struct rules_bytes name)
{
    uint8_t before = '/';

    for (size_t i = 0; i < name.len; i++) {
        uint8_t c = name.ptr[i];
        bool is_plain = (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z')
                        || (c >= '0' && c <= '9') || c == '+' || c == '-' || c == '_';

        if (!is_plain && (c != '/' || before == '/')) {
            return false;
        }
        before = c;
    }
    return before != '/' && name.len <= RULES_ZONE_NAME_BYTES_MAX;
}

static enum rules_zone_status utc_make(struct rules_bytes name,
                                       struct rules_arena *arena,
                                       struct rules_zone **zone)
{
    struct rules_zone *made = zone_new(name, 1, arena);

    if (made == NULL) {
        return RULES_ZONE_NO_MEMORY;
    }
    made->changes[0] = (struct rules_zone_change){BEFORE_ALL, 0};
    made->n_changes = 1;
    *zone = made;
    return RULES_ZONE_OK;
}

/** @return how many bytes there are, at most RULES_ZONE_BYTES_MAX; of a folder none */
static size_t bytes_read(const char *path, uint8_t *bytes)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    size_t len = 0;
    ssize_t n = 1;

    if (fd < 0) {
        return 0;
    }
    while (n > 0 && len < RULES_ZONE_BYTES_MAX) {
        n = read(fd, bytes + len, RULES_ZONE_BYTES_MAX - len);
        len += n > 0 ? (size_t)n : 0;
    }
    (void)close(fd);
    return len;
}

struct rules_zone *rules_zone_copy(const struct rules_zone *zone,
                                   struct rules_arena *arena)
{
    struct rules_bytes name = {(const uint8_t *)zone->name, strlen(zone->name)};
    struct rules_zone *copy = zone_new(name, zone->n_changes, arena);

    if (copy != NULL) {
        copy->n_changes = zone->n_changes;
        memcpy(copy->changes, zone->changes, zone->n_changes * sizeof *zone->changes);
    }
    return copy;
}

/** Read a zone's file, and what it says, into `scratch`. */
static enum rules_zone_status file_load(struct rules_bytes name,
                                        struct rules_arena *scratch,
                                        struct rules_zone **zone)
{
    char path[sizeof ZONE_FOLDER + RULES_ZONE_NAME_BYTES_MAX];
    uint8_t *bytes = rules_arena_array(scratch, RULES_ZONE_BYTES_MAX, 1);
    size_t len;

    if (bytes == NULL) {
        return RULES_ZONE_NO_MEMORY;
    }
    (void)snprintf(path, sizeof path, ZONE_FOLDER "%.*s", (int)name.len,
                   (const char *)name.ptr);
    len = bytes_read(path, bytes);
    if (len == 0) {
        return RULES_ZONE_UNKNOWN;
    }
    return rules_zone_parse(name, (struct rules_bytes){bytes, len}, scratch, zone);
}

enum rules_zone_status rules_zone_load(struct rules_bytes name,
                                       struct rules_arena *arena,
                                       struct rules_zone **zone)
{
    static const char utc[] = "UTC";
    struct rules_arena scratch = {NULL};
    struct rules_zone *read = NULL;
    enum rules_zone_status status;

    if (name.len == sizeof utc - 1 && memcmp(name.ptr, utc, name.len) == 0) {
        return utc_make(name, arena, zone);
    }
    if (!is_zone_name(name)) {
        return RULES_ZONE_UNKNOWN;
    }
    status = file_load(name, &scratch, &read);
    if (status == RULES_ZONE_OK) {
        *zone = rules_zone_copy(read, arena);
        status = *zone != NULL ? RULES_ZONE_OK : RULES_ZONE_NO_MEMORY;
    }
    rules_arena_fini(&scratch);
    return status;
}

const struct rules_zone_change *rules_zone_at(const struct rules_zone *zone,
                                              int64_t at_s)
{
    uint32_t holds = 0;
    uint32_t later = zone->n_changes;

    while (later - holds > 1) {
        uint32_t middle = holds + (later - holds) / 2;

        if (zone->changes[middle].at_s <= at_s) {
            holds = middle;
        } else {
            later = middle;
        }
    }
    return &zone->changes[holds];
}

int64_t rules_zone_first_s(const struct rules_zone *zone, int64_t local_s)
{
    const struct rules_zone_change *last = &zone->changes[zone->n_changes - 1];
    const struct rules_zone_change *it = rules_zone_at(zone,
                                                       local_s
                                                           - RULES_ZONE_OFFSET_S_MAX);

    for (;; it++) {
        int64_t at_s = local_s - it->offset_s;

        at_s = at_s > it->at_s ? at_s : it->at_s;
        if (it == last || at_s < it[1].at_s) {
            return at_s;
        }
    }
}
