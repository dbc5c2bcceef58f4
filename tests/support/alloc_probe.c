#include "tests/support/alloc_probe.h"

#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>

/* glibc's own entry points. */
/* NOLINTBEGIN(readability-identifier-naming) */
extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t n, size_t size);
extern void *__libc_realloc(void *ptr, size_t size);
extern void *__libc_memalign(size_t alignment, size_t size);
extern void __libc_free(void *ptr);
/* NOLINTEND(readability-identifier-naming) */

void *malloc(size_t size);
void *calloc(size_t n, size_t size);
void *realloc(void *ptr, size_t size);
void *aligned_alloc(size_t alignment, size_t size);
int posix_memalign(void **ptr, size_t alignment, size_t size);
void free(void *ptr);

static _Atomic unsigned long n_calls;
static _Atomic long n_live;
static _Atomic unsigned long fails_at; /* of n_calls; 0: never */
static _Atomic bool has_failed;

unsigned long alloc_count(void)
{
    return n_calls;
}

long alloc_live(void)
{
    return n_live;
}

void alloc_fail_at(unsigned long n)
{
    has_failed = false;
    fails_at = n > 0 ? n_calls + n : 0;
}

bool alloc_has_failed(void)
{
    return has_failed;
}

/* Count an allocation; true when it is the one to fail. */
static bool fails(void)
{
    if (atomic_fetch_add(&n_calls, 1) + 1 != fails_at) {
        return false;
    }
    has_failed = true;
    errno = ENOMEM;
    return true;
}

static void *counted(void *ptr)
{
    n_live += ptr != NULL;
    return ptr;
}

void *malloc(size_t size)
{
    return fails() ? NULL : counted(__libc_malloc(size));
}

void *calloc(size_t n, size_t size)
{
    return fails() ? NULL : counted(__libc_calloc(n, size));
}

void *realloc(void *ptr, size_t size)
{
    if (ptr == NULL) {
        return malloc(size);
    }
    return fails() ? NULL : __libc_realloc(ptr, size);
}

void *aligned_alloc(size_t alignment, size_t size)
{
    return fails() ? NULL : counted(__libc_memalign(alignment, size));
}

int posix_memalign(void **ptr, size_t alignment, size_t size)
{
    *ptr = aligned_alloc(alignment, size);
    return *ptr != NULL ? 0 : ENOMEM;
}

void free(void *ptr)
{
    n_live -= ptr != NULL;
    __libc_free(ptr);
}

void *alloc_spared(void *ptr, long size)
{
    if (size > 0) {
        return __libc_realloc(ptr, (size_t)size);
    }
    __libc_free(ptr);
    return NULL;
}
