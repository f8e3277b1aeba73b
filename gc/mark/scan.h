/* SPDX-License-Identifier: MIT
 *
 * scan.h: pushes the words of a block that may be pointers onto the mark stack; see scan.c.
 */
#ifndef ALLOTROPE_GC_MARK_SCAN_H
#define ALLOTROPE_GC_MARK_SCAN_H

#include <stddef.h>
#include <stdint.h>

#include "gc/mark/marker.h"

/* What the words of a block are compared with. young: of a minor collection; NULL: of a full one.
 * [sticky marks] */
struct scan {
    struct heap_bounds bounds;
    const struct young_map *young;
};

/* The stack has room for it. */
static inline uintptr_t *push_pointer(uintptr_t *top, const struct scan *scan, uintptr_t word)
{
    *top = word;
    if (!scan->young)
        return may_point_to_block(&scan->bounds, word) ? top + 1 : top;
    return top + (may_point_to_block(&scan->bounds, word) & young_map_named(scan->young, word));
}

/* Pushes the words that point into the heap and whose upper half lies in the vector: so a word may
 * also begin before the vector. The last word is pushed first, since the stack returns the last
 * pushed first. found: a bit for each half that may be an upper one. */
static inline uintptr_t *push_found(uintptr_t *top, const struct scan *scan, const char *start,
                                    const char *at, unsigned found)
{
    if (found & 8)
        top = push_pointer(top, scan, word_at(at + 2 * PACKED_BYTES));
    if (__builtin_expect(found & 4, 0))
        top = push_pointer(top, scan, word_at(at + PACKED_BYTES));
    if (found & 2)
        top = push_pointer(top, scan, word_at(at));
    if (__builtin_expect(found & 1, 0) && at > start)
        top = push_pointer(top, scan, word_at(at - PACKED_BYTES));
    return top;
}

/* A block that is too small for a jmp_buf. Pushes at most SPARE_WORDS. */
static inline uintptr_t *scan_small(uintptr_t *top, const struct scan *scan, const char *start,
                                    size_t bytes)
{
    for (const char *at = start + bytes - VECTOR_BYTES; at >= start; at -= VECTOR_BYTES) {
        unsigned found = upper_halves(&scan->bounds, halves_at(at));
        if (found)
            top = push_found(top, scan, start, at, found);
    }
    return top;
}

/* Any block; the stack's top is in the marker. */
void scan_block(struct marker *marker, const char *start, size_t bytes);

/* What is large enough for a jmp_buf, at once. */
void scan_with_jmp_bufs(struct marker *marker, const char *start, const char *end);

/* Pushes a large block as ranges, which are scanned later a piece at a time. From LARGE_BYTES on
 * only its pages that were touched are pushed. */
void scan_push_words(struct marker *marker, const char *start, size_t bytes);

/* Like scan_push_words(), but for a block whose pages the program may have protected or unmapped:
 * pushes only what may be touched. Of what only the kernel may read the words are pushed at once.
 */
void scan_push_readable(struct marker *marker, const char *start, size_t bytes);

#endif
