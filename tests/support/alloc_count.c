#define _GNU_SOURCE

#include "tests/support/alloc_count.h"

#include <stdatomic.h>
#include <stddef.h>

/* glibc's own entry points; defining malloc here makes every library use ours. */
extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t n, size_t size);
extern void *__libc_realloc(void *ptr, size_t size);
extern void *__libc_memalign(size_t alignment, size_t size);

void *malloc(size_t size);
void *calloc(size_t n, size_t size);
void *realloc(void *ptr, size_t size);
void *aligned_alloc(size_t alignment, size_t size);

static _Atomic unsigned long n_calls;

unsigned long alloc_count(void)
{
    return n_calls;
}

void *malloc(size_t size)
{
    n_calls++;
    return __libc_malloc(size);
}

void *calloc(size_t n, size_t size)
{
    n_calls++;
    return __libc_calloc(n, size);
}

void *realloc(void *ptr, size_t size)
{
    n_calls++;
    return __libc_realloc(ptr, size);
}

void *aligned_alloc(size_t alignment, size_t size)
{
    n_calls++;
    return __libc_memalign(alignment, size);
}
