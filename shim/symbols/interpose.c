/* SPDX-License-Identifier: MIT
 *
 * interpose.c: every public name of malloc, and nothing else of the program's world.
 *
 * The C, POSIX and GNU names, glibc's own aliases, and the old ones. Not strdup or reallocarray:
 * glibc's call our malloc. The names that only inspect or tune (mallinfo, mallopt, ...) are here
 * so that a call of them does not wake glibc's own, dormant heap. The rules are those of glibc's
 * manual, "Replacing malloc"; the choices that ISO C leaves open are glibc's: malloc(0) is a
 * unique block, realloc(p, 0) frees.
 */
#include <errno.h>
#include <gnu/libc-version.h>
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shim/route/calls.h"
#include "shim/route/next.h"
#include "shim/route/outside.h"
#include "shim/route/start.h"
#include "shim/symbols/foreign.h"
#include "shim/symbols/interpose.h"
#include "shim/symbols/perturb.h"
#include "shim/observers/statistics.h"
#include "vm/pages.h"

EXPORT void *malloc(size_t size)
{
    return call_alloc(size);
}

extern __typeof__(malloc) interposed_malloc __attribute__((alias("malloc"), copy(malloc)));

EXPORT void free(void *block)
{
    if (__builtin_expect(block != NULL, 1))
        call_free(block);
}

static void *or_out_of_memory(void *block)
{
    if (__builtin_expect(!block, 0))
        errno = ENOMEM;
    return block;
}

EXPORT void *calloc(size_t count, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes) || bytes > (size_t)PTRDIFF_MAX)
        return or_out_of_memory(NULL);
    return or_out_of_memory(call_alloc_zeroed(bytes));
}

EXPORT void *realloc(void *block, size_t size)
{
    if (!block)
        return call_alloc(size);
    if (!call_owns(block))
        return foreign_realloc(block, size);
    if (size == 0) {
        call_free(block);
        return NULL;
    }
    if (size > (size_t)PTRDIFF_MAX)
        return or_out_of_memory(NULL);
    return or_out_of_memory(call_resize(block, size));
}

static bool is_power_of_two(size_t number)
{
    return number != 0 && (number & (number - 1)) == 0;
}

static void *alloc_aligned(size_t alignment, size_t size)
{
    if (size > (size_t)PTRDIFF_MAX || alignment > (size_t)PTRDIFF_MAX - size)
        return or_out_of_memory(NULL);
    return or_out_of_memory(call_alloc_aligned(alignment, size));
}

/* As glibc's: an alignment that is no power of two is rounded up to one. */
EXPORT void *memalign(size_t alignment, size_t size)
{
    if (alignment > SIZE_MAX / 2 + 1) {
        errno = EINVAL;
        return NULL;
    }
    size_t power_of_two = BLOCK_ALIGNMENT;
    while (power_of_two < alignment)
        power_of_two *= 2;
    return alloc_aligned(power_of_two, size);
}

OWN(memalign);

/* As the glibc's that is present. */
EXPORT void *aligned_alloc(size_t alignment, size_t size)
{
    if (!is_power_of_two(alignment) && strverscmp(gnu_get_libc_version(), "2.38") >= 0) {
        errno = EINVAL;
        return NULL;
    }
    return own_memalign(alignment, size);
}

/* errno stays, but where there is no memory it says so too, as glibc's does. */
EXPORT int posix_memalign(void **result, size_t alignment, size_t size)
{
    if (!is_power_of_two(alignment) || alignment % sizeof(void *) != 0)
        return EINVAL;
    void *block = alloc_aligned(alignment, size);
    if (!block)
        return ENOMEM;
    *result = block;
    return 0;
}

EXPORT void *valloc(size_t size)
{
    return alloc_aligned(PAGE_BYTES, size);
}

EXPORT void *pvalloc(size_t size)
{
    if (size > (size_t)PTRDIFF_MAX)
        return or_out_of_memory(NULL);
    return alloc_aligned(PAGE_BYTES, round_up(size, PAGE_BYTES));
}

EXPORT size_t malloc_usable_size(void *block)
{
    return block ? call_usable_size(block) : 0;
}

OWN(free);

EXPORT void cfree(void *block)
{
    own_free(block);
}

EXPORT void free_sized(void *block, size_t size)
{
    if (block)
        call_operator(free_sized)(block, size);
}

OWN(free_sized);

EXPORT void free_aligned_sized(void *block, size_t alignment, size_t size)
{
    (void)alignment;
    own_free_sized(block, size);
}

/* Inspection and tuning. The malloc that calls are passed through to does these itself. */

static bool passes_on(void)
{
    return pass_through && route_resolve()->allocator == pass_through;
}

/* Other threads go on between the looks at the one and the other. */
static size_t without(size_t whole, size_t part)
{
    return part < whole ? whole - part : 0;
}

EXPORT struct mallinfo2 mallinfo2(void)
{
    struct allocator_statistics statistics;
    if (passes_on() && next_inspection.mallinfo2)
        return next_inspection.mallinfo2();
    outside_statistics(&statistics);
    size_t mapped = mapped_bytes();
    size_t free_bytes = statistics.heap.free_bytes + statistics.heap.cached_bytes;
    size_t arena = without(mapped, statistics.large_bytes);
    return (struct mallinfo2){.arena = arena,
                              .ordblks = statistics.heap.free_blocks,
                              .smblks = statistics.heap.cached_blocks,
                              .hblks = statistics.large_blocks,
                              .hblkhd = statistics.large_bytes,
                              .fsmblks = statistics.heap.cached_bytes,
                              .uordblks = without(arena, free_bytes),
                              .fordblks = free_bytes};
}

OWN(mallinfo2);

/* The old structure of ints, which wraps as glibc's does. */
EXPORT struct mallinfo mallinfo(void)
{
    struct mallinfo2 info = own_mallinfo2();
    return (struct mallinfo){.arena = (int)info.arena,
                             .ordblks = (int)info.ordblks,
                             .smblks = (int)info.smblks,
                             .hblks = (int)info.hblks,
                             .hblkhd = (int)info.hblkhd,
                             .fsmblks = (int)info.fsmblks,
                             .uordblks = (int)info.uordblks,
                             .fordblks = (int)info.fordblks};
}

/* Negative numbers are very large ones to glibc. */
static size_t very_large(int value)
{
    return value < 0 ? SIZE_MAX : (size_t)value;
}

/* Sets the parameters that have a meaning here, and accepts all others, as glibc accepts what it
 * does not know. Returns 1; 0 if the value was refused. */
EXPORT int mallopt(int parameter, int value)
{
    enum { MXFAST_MOST = 80 * sizeof(size_t) / 4 }; /* glibc's */
    if (passes_on() && next_inspection.mallopt)
        return next_inspection.mallopt(parameter, value);
    switch (parameter) {
    case M_MXFAST:
        return value >= 0 && value <= MXFAST_MOST;
    case M_MMAP_THRESHOLD:
        outside_tune(TUNE_LARGE_BYTES, very_large(value));
        return 1;
    case M_MMAP_MAX: /* only 0 has an effect, which lasts until a threshold is set */
        if (value == 0)
            outside_tune(TUNE_LARGE_BYTES, SIZE_MAX);
        return 1;
    case M_TRIM_THRESHOLD:
        outside_tune(TUNE_FREE_BYTES, very_large(value));
        return 1;
    case M_ARENA_MAX:
        outside_tune(TUNE_ARENAS, very_large(value));
        return 1;
    case M_PERTURB:
        return perturb(value);
    default:
        return 1;
    }
}

EXPORT int malloc_trim(size_t pad)
{
    if (passes_on() && next_inspection.malloc_trim)
        return next_inspection.malloc_trim(pad);
    return route_resolve()->allocator->trim() > 0;
}

EXPORT void malloc_stats(void)
{
    if (passes_on() && next_inspection.malloc_stats)
        next_inspection.malloc_stats();
    else
        statistics_write_table(route_resolve(), 2);
}

EXPORT int malloc_info(int options, FILE *stream)
{
    if (passes_on() && next_inspection.malloc_info)
        return next_inspection.malloc_info(options, stream);
    if (options != 0) {
        errno = EINVAL;
        return -1;
    }
    struct mallinfo2 info = own_mallinfo2();
    return fprintf(stream,
                   "<malloc version=\"1\">\n"
                   "<total type=\"rest\" count=\"%zu\" size=\"%zu\"/>\n"
                   "<total type=\"mmap\" count=\"%zu\" size=\"%zu\"/>\n"
                   "<system type=\"current\" size=\"%zu\"/>\n"
                   "<system type=\"max\" size=\"%zu\"/>\n"
                   "</malloc>\n",
                   info.ordblks + info.smblks, info.fordblks, info.hblks, info.hblkhd,
                   mapped_bytes(), mapped_peak_bytes()) < 0
               ? -1
               : 0;
}

/* glibc's aliases, which some programs call by name. */

#define ALIAS(name, target) \
    EXPORT __typeof__(target) name __attribute__((alias(#target), copy(target)))

#ifdef ALLOTROPE_SINGLE
ALIAS(__libc_malloc, malloc);
ALIAS(__libc_free, free);
ALIAS(__libc_calloc, calloc);
ALIAS(__libc_realloc, realloc);
ALIAS(__libc_memalign, memalign);
#else
/* A library that we stand in front of may be built on glibc's functions, by these names: its calls
 * must not come back to it. */

OWN(calloc);
OWN(realloc);

EXPORT void *__libc_malloc(size_t size)
{
    return next_libc.malloc ? next_libc.malloc(size) : interposed_malloc(size);
}

EXPORT void __libc_free(void *block)
{
    if (next_libc.malloc)
        next_libc.free(block);
    else
        own_free(block);
}

EXPORT void *__libc_calloc(size_t count, size_t size)
{
    return next_libc.malloc ? next_libc.calloc(count, size) : own_calloc(count, size);
}

EXPORT void *__libc_realloc(void *block, size_t size)
{
    return next_libc.malloc ? next_libc.realloc(block, size) : own_realloc(block, size);
}

EXPORT void *__libc_memalign(size_t alignment, size_t size)
{
    return next_libc.malloc ? next_libc.memalign(alignment, size) : own_memalign(alignment, size);
}
#endif
ALIAS(__libc_valloc, valloc);
ALIAS(__libc_pvalloc, pvalloc);
ALIAS(__posix_memalign, posix_memalign);
ALIAS(__libc_mallopt, mallopt);
EXPORT struct mallinfo __libc_mallinfo(void) __attribute__((alias("mallinfo"))); /* deprecated */
