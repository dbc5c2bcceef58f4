/**
 * @file rules/path.h  The normal form of a request path, and patterns over segments.
 *
 * Model:     one pass over bytes. The normal form: cut at ? or #; escapes of unreserved
 *            characters (RFC 3986) undone, others kept with upper-case hex; repeated
 *            slashes, "." and ".." folded after that, ".." above the root stays at the
 *            root; one trailing slash dropped; case and all other bytes kept.
 * Ownership: views in, bytes out into the caller's room.
 * Threads:   no shared state.
 * Errors:    false for what has no normal form: it then matches as it stands.
 * Limits:    RULES_PATH_BYTES_MAX before ? or #; RULES_PATTERN_SEGMENTS_MAX.
 */
#ifndef RULES_PATH_H
#define RULES_PATH_H

#include <string.h>

#include "rules/rules.h"

enum {
    RULES_PATTERN_SEGMENTS_MAX = 64, /* bounds the stack of the pattern search */
};

/**
 * Bring a path into normal form. Never longer than the path; idempotent.
 *
 * @param out  room for path.len or RULES_PATH_BYTES_MAX bytes, whichever is less; holds
 *             rubbish after false
 * @return false: no leading slash, an ill-formed escape, or too long
 */
RULES_MUST_USE bool rules_path_normalise(struct rules_bytes path, uint8_t *out,
                                         size_t *out_len);

/** @return whether a path is in normal form for sure; most are, and need no second look */
bool rules_path_is_normal(struct rules_bytes path);

/** Walks what lies between slashes; "/a" is an empty segment and "a". */
struct rules_segments {
    struct rules_bytes text;
    size_t off; /* of the next segment; text.len + 1 after the last */
};

/** @return false after the last segment */
static inline bool rules_segments_next(struct rules_segments *it,
                                       struct rules_bytes *seg)
{
    size_t len = it->text.len;
    size_t off = it->off;

    if (off > len) {
        return false;
    }

    const uint8_t *start = it->text.ptr + off;
    const uint8_t *slash = memchr(start, '/', len - off);

    seg->ptr = start;
    seg->len = slash != NULL ? (size_t)(slash - start) : len - off;
    it->off = off + seg->len + 1;
    return true;
}

enum rules_segment_kind {
    RULES_SEGMENT_LITERAL = 0,
    RULES_SEGMENT_ONE,  /* "*": one segment that is not empty */
    RULES_SEGMENT_REST, /* "**": any number of segments, also none */
};

enum rules_segment_kind rules_segment_kind(struct rules_bytes seg);

enum rules_pattern_kind {
    RULES_PATTERN_LITERAL = 0, /* no wildcard: compares as bytes */
    RULES_PATTERN_WILD,
    RULES_PATTERN_BAD_STAR, /* a star beside other characters */
    RULES_PATTERN_BAD_REST, /* ** before the end */
    RULES_PATTERN_TOO_LONG, /* more than RULES_PATTERN_SEGMENTS_MAX segments */
};

enum rules_pattern_kind rules_pattern_kind(struct rules_bytes pattern);

/** Compare a checked pattern with a path. The segments of ** may be none at all. */
bool rules_pattern_matches(struct rules_bytes pattern, struct rules_bytes path);

#endif
