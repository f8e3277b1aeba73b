/* SPDX-License-Identifier: MIT
 *
 * callers.c: tells the allocator for which code each block was allocated, once it needs to know
 * (allocator_needs_sites).
 *
 * It stands in front of the observers. Until it is needed it is not in the route, and costs
 * nothing.
 *
 * What libc allocates for its caller, strdup's copies for one, is the caller's: then the stack is
 * unwound to the first return address outside libc. Where that fails the site is NULL.
 */
#include <dlfcn.h>
#include <string.h>

#include "shim/observers/unwind.h"
#include "shim/route/observer.h"

enum { MOST_FRAMES_OF_LIBC = 16 };

extern __typeof__(_dl_find_object) _dl_find_object __attribute__((weak));

static struct {
    struct route inner;
    uintptr_t libc_start, libc_bytes;
} callers;

static inline bool is_of_libc(uintptr_t site)
{
    return site - callers.libc_start < callers.libc_bytes;
}

static __attribute__((noinline)) const void *caller_of_libc(const uintptr_t *frame)
{
    const struct unwind_frame first = {
        .rip = frame[1], .rsp = (uintptr_t)(frame + 2), .rbp = frame[0]};
    const void *sites[MOST_FRAMES_OF_LIBC];
    for (uint32_t most = 2; most <= MOST_FRAMES_OF_LIBC; most *= 2) {
        uint32_t count = unwind(first, sites, NULL, most);
        for (uint32_t i = 0; i < count; i++)
            if (!is_of_libc((uintptr_t)sites[i]))
                return sites[i];
        if (count < most)
            return NULL;
    }
    return NULL;
}

static inline __attribute__((always_inline)) void *tell(void *block, const uintptr_t *frame)
{
    if (block)
        callers.inner.allocator->allocated_by(block, is_of_libc(frame[1]) ? caller_of_libc(frame)
                                                                          : (const void *)frame[1]);
    return block;
}

static void *told_alloc(size_t size)
{
    return tell(callers.inner.alloc(size), observer_frame());
}

static void *told_alloc_zeroed(size_t size)
{
    return tell(callers.inner.alloc_zeroed(size), observer_frame());
}

static void *told_alloc_aligned(size_t alignment, size_t size)
{
    return tell(callers.inner.alloc_aligned(alignment, size), observer_frame());
}

static void *told_resize(void *block, size_t size)
{
    return tell(callers.inner.resize(block, size), observer_frame());
}

/* In a static program libc is the program, and nobody has been told yet what lies where. */
static void find_libc(void)
{
#ifdef PIC
    struct dl_find_object libc;
    if (_dl_find_object && _dl_find_object((void *)strdup, &libc) == 0) {
        callers.libc_start = (uintptr_t)libc.dlfo_map_start;
        callers.libc_bytes = (uintptr_t)libc.dlfo_map_end - callers.libc_start;
    }
#endif
}

struct route callers_route(struct route inner)
{
    find_libc();
    struct route told = callers.inner = inner;
    told.alloc = told_alloc;
    told.alloc_zeroed = told_alloc_zeroed;
    told.alloc_aligned = told_alloc_aligned;
    told.resize = told_resize;
    return told;
}
