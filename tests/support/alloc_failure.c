#include "tests/support/alloc_failure.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/support/alloc_probe.h"

enum {
    ALLOCATIONS_MAX = 100000
};

void alloc_failure_judge(unsigned n, bool ok, bool has_failed, long n_leaked)
{
    if (ok == has_failed || n_leaked != 0) {
        fail_msg("allocation %u: %s, %ld blocks leaked", n,
                 ok ? "went on" : "did not work", n_leaked);
    }
}

void alloc_failure_each(bool (*works)(void), unsigned least)
{
    unsigned n = 0;
    bool has_failed = true;
    while (has_failed) {
        n++;
        long live = alloc_live();
        alloc_fail_at(n);
        bool ok = works();
        has_failed = alloc_has_failed();
        alloc_fail_at(0);
        alloc_failure_judge(n, ok, has_failed, alloc_live() - live);
    }
    assert_in_range(n, least + 1, ALLOCATIONS_MAX);
}
