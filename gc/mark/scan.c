/* SPDX-License-Identifier: MIT
 *
 * scan.c: the words of blocks.
 *
 *     up to a jmp_buf    scan_small, in the caller's loop (scan.h)
 *     up to PIECE_BYTES  scan_with_jmp_bufs, at once
 *     larger             as ranges, which drain.c scans a piece at a time
 */
#include "gc/mark/scan.h"

#include "vm/kernel/process.h"
#include "vm/kernel/resident.h"
#include "vm/pages.h"
#include "vm/syscall.h"

static inline uintptr_t *push_demangled(uintptr_t *top, const struct scan *scan, uintptr_t word)
{
    return push_pointer(top, scan, demangled(word, scan->bounds.guard));
}

/* A block that is large enough for a jmp_buf. */
static inline __attribute__((always_inline)) void scan_large(struct marker *marker,
                                                             const char *start, const char *end,
                                                             const struct young_map *young)
{
    const struct scan scan = {mark.bounds, young};
    uintptr_t *top = marker->top;
    for (const char *at = end; at > start;) {
        const char *stride = at - start >= STRIDE_BYTES ? at - STRIDE_BYTES : start;
        if (at - stride == STRIDE_BYTES && !has_candidates(&scan.bounds, stride))
            at = stride;
        while (at > stride) {
            at -= VECTOR_BYTES;
            __m128i halves = halves_at(at);
            unsigned candidate = candidate_halves(&scan.bounds, halves);
            if (!candidate)
                continue;
            if (candidate & 4)
                top = push_demangled(top, &scan, word_at(at + 2 * PACKED_BYTES));
            if (candidate & 1)
                top = push_demangled(top, &scan, word_at(at));
            top = push_found(top, &scan, start, at, upper_halves(&scan.bounds, halves));
            top = with_room(marker, top);
        }
    }
    marker->top = top;
}

static __attribute__((noinline)) void scan_large_for_young(struct marker *marker, const char *start,
                                                           const char *end)
{
    const struct young_map young = mark.young;
    scan_large(marker, start, end, &young);
}

__attribute__((noinline)) void scan_with_jmp_bufs(struct marker *marker, const char *start,
                                                  const char *end)
{
    if (mark.is_minor)
        scan_large_for_young(marker, start, end);
    else
        scan_large(marker, start, end, NULL);
}

static void push_range(struct marker *marker, const char *start, const char *end)
{
    if (marker->range_count == MOST_RANGES)
        scan_with_jmp_bufs(marker, start, end);
    else
        marker->ranges[marker->range_count++] = (struct range){start, end};
}

/* Scans what must not be touched. The kernel reads it, and answers with an error for a page that
 * cannot be read: a guard, or a page that the program fills itself. Such a page hides no other. */
static void scan_copied(struct marker *marker, uintptr_t start, uintptr_t end)
{
    char copy[PAGE_BYTES + VECTOR_BYTES]; /* a word may lie across two pages */
    for (uintptr_t page_end; start < end; start = page_end) {
        page_end = round_down(start, PAGE_BYTES) + PAGE_BYTES;
        size_t left = end - start, bytes = page_end - start + VECTOR_BYTES;
        bytes = bytes < left ? bytes : left;
        long copied = SYSCALL_4(SYS_pread64, mark.memory_file, copy, bytes, start);
        if (!syscall_failed(copied))
            scan_with_jmp_bufs(marker, copy, copy + copied);
    }
}

/* The part of a block that is to be scanned, and who scans it. */
struct part {
    struct marker *marker;
    uintptr_t start, end;
    uintptr_t last_end; /* of the last run of pages */
};

/* A word may lie across this run and the last one. */
static void push_resident(void *argument, uintptr_t start, uintptr_t end, bool readable)
{
    struct part *part = argument;
    bool joins = start == part->last_end;
    part->last_end = end;
    if (joins && !mark.only_resident)
        start -= VECTOR_BYTES;
    else if (joins)
        scan_copied(part->marker, start - VECTOR_BYTES, start + VECTOR_BYTES);
    start = start > part->start ? start : part->start;
    end = end < part->end ? end : part->end;
    if (readable || !mark.only_resident)
        push_range(part->marker, (const char *)start, (const char *)end);
    else
        scan_copied(part->marker, start, end);
}

/* Pages of a large block that were never touched hold nothing, and reading them makes page
 * tables. */
void scan_push_words(struct marker *marker, const char *start, size_t bytes)
{
    struct part part = {marker, (uintptr_t)start, (uintptr_t)start + bytes, 0};
    if ((bytes < LARGE_BYTES && !mark.only_resident) ||
        !resident_each(round_down(part.start, PAGE_BYTES), round_up(part.end, PAGE_BYTES),
                       push_resident, &part))
        push_resident(&part, part.start, part.end, false);
}

static void push_part(struct marker *marker, const char *start, const char *end)
{
    if (start < end)
        scan_push_words(marker, start, (size_t)(end - start));
}

/* Mappings side by side are pushed as one part, for a word may lie across them. The first mapping
 * may begin behind `start`: what is before it is not there any more. */
__attribute__((noinline)) void scan_push_readable(struct marker *marker, const char *start,
                                                  size_t bytes)
{
    const struct mapping *mapping = process_mapping_at((uintptr_t)start);
    const char *end = start + bytes, *part = start, *part_end = start;
    for (; part_end < end; mapping++) {
        bool may_be_touched = process_may_be_touched(mapping);
        if (!may_be_touched || (const char *)mapping->start > part_end) {
            push_part(marker, part, part_end);
            part = (const char *)(may_be_touched ? mapping->start : mapping->end);
        }
        part_end = (const char *)mapping->end;
    }
    push_part(marker, part, part_end < end ? part_end : end);
}

__attribute__((noinline)) void scan_block(struct marker *marker, const char *start, size_t bytes)
{
    if (__builtin_expect(mark.skips_unreadable, 0) && may_lack_pages(bytes))
        scan_push_readable(marker, start, bytes);
    else if (bytes <= PIECE_BYTES)
        scan_with_jmp_bufs(marker, start, start + bytes);
    else
        scan_push_words(marker, start, bytes);
}
