/* SPDX-License-Identifier: MIT
 *
 * mark_roots.c: words of roots, onto the first marker's stack.
 */
#include "gc/mark/drain.h"
#include "gc/mark/mark.h"
#include "gc/mark/referent.h"
#include "vm/pages.h"

static __attribute__((noinline)) void note_if_suspect(uintptr_t word)
{
    struct slab *slab = slab_at((const void *)word);
    size_t index;
    if (!slab || !slab_find(slab, (const void *)word, &index) ||
        !(*slab_suspects(slab, index / SLAB_WORD_BLOCKS) & slab_bit(index)))
        return;
    mark.suspect = (const void *)word;
    mark.suspect_bytes = slab->block_bytes;
}

static inline void mark_root(struct marker *marker, uintptr_t word)
{
    if (__builtin_expect(!may_point_to_block(&mark.bounds, word), 1))
        return;
    if (__builtin_expect(mark.tells_suspects, 0))
        note_if_suspect(word);
    marker->top[0] = word;
    marker->top[1] = word - 1;
    pushed_roots(marker, 2);
}

/* Every word in [at, end), and the one that lies across `at` if that is behind the start. */
static __attribute__((noinline)) void mark_roots_singly(const char *start, const char *at,
                                                        const char *end)
{
    for (at -= at > start ? PACKED_BYTES : 0; at + sizeof(uintptr_t) <= end; at += PACKED_BYTES) {
        mark_root(&mark.markers[0], word_at(at));
        mark_root(&mark.markers[0], demangled(word_at(at), mark.bounds.guard));
    }
}

/* The words of [start, end) of which a candidate half in a stride is the upper one, or, of a
 * mangled word, the lower one. */
static __attribute__((noinline)) void mark_roots_of_stride(const char *start, const char *stride,
                                                           const char *end)
{
    for (const char *at = stride; at < stride + STRIDE_BYTES; at += VECTOR_BYTES)
        for (unsigned found = candidate_halves(&mark.bounds, halves_at(at)); found;
             found &= found - 1) {
            const char *half = at + PACKED_BYTES * (unsigned)__builtin_ctz(found);
            if (half > start)
                mark_root(&mark.markers[0], word_at(half - PACKED_BYTES));
            if (half + sizeof(uintptr_t) <= end)
                mark_root(&mark.markers[0], demangled(word_at(half), mark.bounds.guard));
        }
}

void mark_roots(const void *start, const void *end)
{
    const struct heap_bounds bounds = mark.bounds;
    const char *first = (const char *)round_up((uintptr_t)start, sizeof(uintptr_t)), *at = first;
    for (; at + STRIDE_BYTES <= (const char *)end; at += STRIDE_BYTES)
        if (__builtin_expect(has_candidates(&bounds, at), 0))
            mark_roots_of_stride(first, at, end);
    mark_roots_singly(first, at, end);
}

/* Every word that begins in [start, behind), at any byte. */
static __attribute__((noinline)) void mark_code_singly(const char *start, const char *behind)
{
    for (const char *at = start; at < behind; at++)
        mark_root(&mark.markers[0], word_at(at));
}

void mark_roots_in_code(const void *start, const void *end)
{
    const struct heap_bounds bounds = mark.bounds;
    const char *at = start;
    for (; (const char *)end - at >= ANYWHERE_BYTES; at += VECTOR_BYTES)
        if (__builtin_expect(has_candidates_anywhere(&bounds, at), 0))
            mark_code_singly(at, at + VECTOR_BYTES);
    mark_code_singly(at, (const char *)end - (sizeof(uintptr_t) - 1));
}
