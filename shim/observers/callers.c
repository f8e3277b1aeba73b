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
#include <sys/auxv.h>

#include "shim/observers/unwind.h"
#include "shim/route/observer.h"

enum { MOST_FRAMES_OF_LIBC = 16, MOST_FRAMES_OF_US = 4, MOST_FRAMES_TOLD = 16 };

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
    bool is_whole;
    for (uint32_t most = 2; most <= MOST_FRAMES_OF_LIBC; most *= 2) {
        uint32_t count = unwind(first, sites, NULL, most, &is_whole);
        for (uint32_t i = 0; i < count; i++)
            if (!is_of_libc((uintptr_t)sites[i]))
                return sites[i];
        if (count < most)
            return NULL;
    }
    return NULL;
}

uint32_t callers_call_stack(uintptr_t rip, uintptr_t rsp, uintptr_t rbp, const void **sites,
                            uint32_t most)
{
    const void *found[MOST_FRAMES_OF_US + MOST_FRAMES_TOLD];
    uint32_t wanted = most < MOST_FRAMES_TOLD ? most : MOST_FRAMES_TOLD, own = 0;
    bool is_whole;
    uint32_t count = unwind((struct unwind_frame){rip, rsp, rbp}, found, NULL,
                            MOST_FRAMES_OF_US + wanted, &is_whole);
    while (own < count && (const char *)found[own] >= own_text.start &&
           (const char *)found[own] < own_text.end)
        own++;
    for (uint32_t i = own; i < count && i - own < wanted; i++)
        sites[i - own] = found[i];
    return count - own < wanted ? count - own : wanted;
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

/* Its own code and ours lie in one text: where the program begins nobody can tell. So nobody tells
 * the allocator, though allocator_needs_sites() was answered with true: it knows no sites then. */
static bool is_static_program(void)
{
    extern const char __ehdr_start[] __attribute__((visibility("hidden")));
    extern const char etext[] __attribute__((visibility("hidden")));
    uintptr_t headers = getauxval(AT_PHDR);
    return headers >= (uintptr_t)__ehdr_start && headers < (uintptr_t)etext;
}

static void find_libc(void)
{
    struct dl_find_object libc;
    if (_dl_find_object && _dl_find_object((void *)strdup, &libc) == 0) {
        callers.libc_start = (uintptr_t)libc.dlfo_map_start;
        callers.libc_bytes = (uintptr_t)libc.dlfo_map_end - callers.libc_start;
    }
}

struct route callers_route(struct route inner)
{
    if (is_static_program())
        return inner;
    find_libc();
    struct route told = callers.inner = inner;
    told.alloc = told_alloc;
    told.alloc_zeroed = told_alloc_zeroed;
    told.alloc_aligned = told_alloc_aligned;
    told.resize = told_resize;
    return told;
}
