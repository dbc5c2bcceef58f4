#include "agent/net/reassembly.h"

#include <stdatomic.h>
#include <stddef.h>

#include <sys/mman.h>

struct reassembly {
    _Atomic uint64_t used; /* a bit a buffer */
    uint8_t buffers[REASSEMBLY_BUFFERS_MAX][SPOP_REASSEMBLY_BYTES_MAX];
};

struct reassembly *reassembly_new(void)
{
    void *memory = mmap(NULL, sizeof(struct reassembly), PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return memory != MAP_FAILED ? memory : NULL; /* all zero: none is used */
}

void reassembly_free(struct reassembly *r)
{
    if (r != NULL) {
        ENSURE(atomic_load_explicit(&r->used, memory_order_relaxed) == 0);
        (void)munmap(r, sizeof(*r));
    }
}

uint8_t *reassembly_take(struct reassembly *r)
{
    uint64_t used = atomic_load_explicit(&r->used, memory_order_relaxed);
    while (used != UINT64_MAX) {
        unsigned idx = (unsigned)__builtin_ctzll(~used);
        /* Acquire: what the last owner wrote comes before what the next one does. */
        if (atomic_compare_exchange_weak_explicit(&r->used, &used,
                                                  used | UINT64_C(1) << idx,
                                                  memory_order_acquire,
                                                  memory_order_relaxed)) {
            return r->buffers[idx];
        }
    }
    return NULL;
}

void reassembly_give(struct reassembly *r, const uint8_t *buffer)
{
    ptrdiff_t off = buffer - r->buffers[0];
    ENSURE(off >= 0 && (size_t)off < sizeof(r->buffers));
    ENSURE(off % SPOP_REASSEMBLY_BYTES_MAX == 0);
    uint64_t bit = UINT64_C(1) << (off / SPOP_REASSEMBLY_BYTES_MAX);
    uint64_t used = atomic_fetch_and_explicit(&r->used, ~bit, memory_order_release);
    ENSURE((used & bit) != 0);
}
