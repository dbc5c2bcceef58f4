#include "rules/path.h"

#include <string.h>

#include "rules/hex.h"

/** A path being written. out[0] is the root's slash; a segment is open from seg_off. */
struct folder {
    uint8_t *out;
    size_t len;
    size_t seg_off;
};

static bool is_unreserved(uint8_t c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9')
           || c == '-' || c == '.' || c == '_' || c == '~';
}

/** Take the escape at `p`. @return false when it is none */
static bool escape_fold(struct folder *f, const uint8_t *p, size_t left)
{
    static const char hex[] = "0123456789ABCDEF";
    int high = left >= 3 ? rules_hex_value(p[1]) : -1;
    int low = left >= 3 ? rules_hex_value(p[2]) : -1;

    if (high < 0 || low < 0) {
        return false;
    }

    uint8_t byte = (uint8_t)(high * 16 + low);

    if (is_unreserved(byte)) {
        f->out[f->len++] = byte;
        return true;
    }
    f->out[f->len++] = '%';
    f->out[f->len++] = (uint8_t)hex[high];
    f->out[f->len++] = (uint8_t)hex[low];
    return true;
}

static void parent_fold(struct folder *f)
{
    f->len = f->seg_off;
    if (f->len > 1) {
        f->len--;
        while (f->out[f->len - 1] != '/') {
            f->len--;
        }
    }
    f->seg_off = f->len;
}

/** End the open segment. @return true when it stays */
static bool segment_fold(struct folder *f)
{
    const uint8_t *seg = f->out + f->seg_off;
    size_t len = f->len - f->seg_off;

    if (len == 0) {
        return false;
    }
    if (len == 1 && seg[0] == '.') {
        f->len = f->seg_off;
        return false;
    }
    if (len == 2 && seg[0] == '.' && seg[1] == '.') {
        parent_fold(f);
        return false;
    }
    return true;
}

/** Copy up to the next character that means something. @return how many */
static size_t plain_copy(const uint8_t *restrict p, size_t len, uint8_t *restrict out)
{
    size_t n = 0;

    while (n < len && p[n] != '/' && p[n] != '%' && p[n] != '?' && p[n] != '#') {
        out[n] = p[n];
        n++;
    }
    return n;
}

/** Take a slash or an escape. @return how many bytes, or 0 for an ill-formed escape */
static size_t special_fold(struct folder *f, const uint8_t *p, size_t left)
{
    if (p[0] == '%') {
        return escape_fold(f, p, left) ? 3 : 0;
    }
    if (segment_fold(f)) {
        f->out[f->len++] = '/';
        f->seg_off = f->len;
    }
    return 1;
}

static bool is_end(uint8_t c)
{
    return c == '?' || c == '#';
}

bool rules_path_normalise(struct rules_bytes path, uint8_t *out, size_t *out_len)
{
    struct folder f = {.out = out, .len = 1, .seg_off = 1};
    size_t len = path.len < RULES_PATH_BYTES_MAX ? path.len : RULES_PATH_BYTES_MAX;
    size_t i = 1;

    if (path.len == 0 || path.ptr[0] != '/') {
        return false;
    }
    out[0] = '/';
    for (;;) {
        size_t n = plain_copy(path.ptr + i, len - i, out + f.len);

        f.len += n;
        i += n;
        if (i == len || is_end(path.ptr[i])) {
            break;
        }
        n = special_fold(&f, path.ptr + i, len - i);
        if (n == 0) {
            return false;
        }
        i += n;
    }
    if (i < path.len && !is_end(path.ptr[i])) {
        return false; /* too long */
    }
    if (!segment_fold(&f) && f.len > 1) {
        f.len--; /* the slash before a segment that went away */
    }
    *out_len = f.len;
    return true;
}

typedef uint8_t lanes __attribute__((vector_size(16)));

static lanes lanes_load(const uint8_t *p)
{
    lanes bytes;

    memcpy(&bytes, p, sizeof bytes);
    return bytes;
}

/** Not 0 where a byte may not be in a normal path, behind the byte before it. */
static lanes lanes_suspicious(const uint8_t *p)
{
    lanes bytes = lanes_load(p);
    lanes before = lanes_load(p - 1);

    return (lanes)((bytes == '%') | (bytes == '?') | (bytes == '#')
                   | ((before == '/') & ((bytes == '/') | (bytes == '.'))));
}

static bool lanes_any(lanes bytes)
{
    uint64_t words[2];

    memcpy(words, &bytes, sizeof words);
    return (words[0] | words[1]) != 0;
}

static bool is_suspicious(const uint8_t *p)
{
    return p[0] == '%' || p[0] == '?' || p[0] == '#'
           || (p[-1] == '/' && (p[0] == '/' || p[0] == '.'));
}

/* Of a path longer than the lanes: the last ones lie over those before. */
static bool has_suspicious_lanes(const uint8_t *p, size_t len)
{
    size_t last = len - sizeof(lanes);
    lanes suspicious = lanes_suspicious(p + last);

    for (size_t i = 1; i < last; i += sizeof(lanes)) {
        suspicious |= lanes_suspicious(p + i);
    }
    return lanes_any(suspicious);
}

static bool has_suspicious_byte(const uint8_t *p, size_t len)
{
    for (size_t i = 1; i < len; i++) {
        if (is_suspicious(p + i)) {
            return true;
        }
    }
    return false;
}

bool rules_path_is_normal(struct rules_bytes path)
{
    const uint8_t *p = path.ptr;
    size_t len = path.len;

    if (len == 0 || len > RULES_PATH_BYTES_MAX || p[0] != '/') {
        return false;
    }
    if (len > sizeof(lanes) ? has_suspicious_lanes(p, len)
                            : has_suspicious_byte(p, len)) {
        return false;
    }
    return len == 1 || p[len - 1] != '/';
}

enum rules_segment_kind rules_segment_kind(struct rules_bytes seg)
{
    if (seg.len == 1 && seg.ptr[0] == '*') {
        return RULES_SEGMENT_ONE;
    }
    if (seg.len == 2 && seg.ptr[0] == '*' && seg.ptr[1] == '*') {
        return RULES_SEGMENT_REST;
    }
    return RULES_SEGMENT_LITERAL;
}

enum rules_pattern_kind rules_pattern_kind(struct rules_bytes pattern)
{
    struct rules_segments it = {pattern, 0};
    struct rules_bytes seg;
    enum rules_pattern_kind kind = RULES_PATTERN_LITERAL;
    bool is_rest = false;
    uint32_t n = 0;

    while (rules_segments_next(&it, &seg)) {
        enum rules_segment_kind seg_kind = rules_segment_kind(seg);

        if (is_rest) {
            return RULES_PATTERN_BAD_REST;
        }
        if (seg_kind != RULES_SEGMENT_LITERAL) {
            kind = RULES_PATTERN_WILD;
        } else if (seg.len > 0 && memchr(seg.ptr, '*', seg.len) != NULL) {
            return RULES_PATTERN_BAD_STAR;
        }
        is_rest = seg_kind == RULES_SEGMENT_REST;
        n++;
    }
    if (kind == RULES_PATTERN_WILD && n > RULES_PATTERN_SEGMENTS_MAX) {
        return RULES_PATTERN_TOO_LONG;
    }
    return kind;
}

bool rules_pattern_matches(struct rules_bytes pattern, struct rules_bytes path)
{
    struct rules_segments patterns = {pattern, 0};
    struct rules_segments segs = {path, 0};
    struct rules_bytes want;
    struct rules_bytes seg;

    while (rules_segments_next(&patterns, &want)) {
        enum rules_segment_kind kind = rules_segment_kind(want);

        if (kind == RULES_SEGMENT_REST) {
            return true;
        }
        if (!rules_segments_next(&segs, &seg)) {
            return false;
        }
        if (kind == RULES_SEGMENT_ONE
                ? seg.len == 0
                : seg.len != want.len || memcmp(seg.ptr, want.ptr, seg.len) != 0) {
            return false;
        }
    }
    return !rules_segments_next(&segs, &seg);
}
