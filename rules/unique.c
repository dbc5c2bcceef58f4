#include "rules/unique.h"

#include <stdlib.h>

#include "rules/bytes.h"

static int item_compare(const void *left, const void *right)
{
    const struct rules_unique_item *a = left;
    const struct rules_unique_item *b = right;
    int order = rules_bytes_compare(a->text, b->text);

    return order != 0 ? order : rules_mark_compare(a->mark, b->mark);
}

void rules_unique_check(struct rules_unique_item *items, size_t n,
                        rules_unique_fn *found, void *context)
{
    size_t first = 0;

    if (n > 1) {
        qsort(items, n, sizeof *items, item_compare);
    }
    for (size_t i = 1; i < n; i++) {
        if (rules_bytes_compare(items[first].text, items[i].text) == 0) {
            found(context, &items[first], &items[i]);
        } else {
            first = i;
        }
    }
}
