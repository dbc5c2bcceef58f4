#include <string.h>

#include "rules/yamltree.h"

enum {
    WORD_BYTES_MAX = 64
};

static uint8_t least(uint8_t a, uint8_t b)
{
    return a < b ? a : b;
}

/**
 * Edits from one word to another: a letter more, less, other, or two swapped. Three rows
 * of the usual table are enough. Both words are at most WORD_BYTES_MAX long.
 */
static uint8_t distance(const char *a, size_t a_len, const char *b, size_t b_len)
{
    uint8_t rows[3][WORD_BYTES_MAX + 1];

    for (size_t j = 0; j <= b_len; j++) {
        rows[0][j] = (uint8_t)j;
    }
    for (size_t i = 1; i <= a_len; i++) {
        uint8_t *row = rows[i % 3];
        const uint8_t *above = rows[(i + 2) % 3];
        const uint8_t *above2 = rows[(i + 1) % 3];

        row[0] = (uint8_t)i;
        for (size_t j = 1; j <= b_len; j++) {
            uint8_t same = a[i - 1] == b[j - 1] ? 0 : 1;
            bool is_swap = i > 1 && j > 1 && a[i - 1] == b[j - 2]
                           && a[i - 2] == b[j - 1];
            uint8_t cost = (uint8_t)(above[j - 1] + same);
            uint8_t swap = is_swap ? (uint8_t)(above2[j - 2] + 1) : UINT8_MAX;

            cost = least(cost, (uint8_t)(least(above[j], row[j - 1]) + 1));
            row[j] = least(cost, swap);
        }
    }
    return rows[a_len % 3][b_len];
}

const char *yamltree_nearest(const char *text, const char *const *names, size_t n)
{
    size_t len = strlen(text);
    /* One edit in a short word, two in a longer one: more is a guess, not a help. */
    uint8_t best = len < 5 ? 2 : 3;
    const char *found = NULL;

    if (len == 0 || len > WORD_BYTES_MAX) {
        return NULL;
    }
    for (size_t i = 0; i < n; i++) {
        size_t name_len = strlen(names[i]);
        size_t edits_least = name_len > len ? name_len - len : len - name_len;

        if (name_len > WORD_BYTES_MAX || edits_least >= best) {
            continue;
        }

        uint8_t edits = distance(text, len, names[i], name_len);

        if (edits < best) {
            best = edits;
            found = names[i];
        }
    }
    return found;
}
