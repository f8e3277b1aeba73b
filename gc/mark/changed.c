/* SPDX-License-Identifier: MIT
 *
 * changed.c: follows blocks again whose contents may have changed: in a minor collection the old
 * blocks, in a cycle those with a mark. Both are called old here. The caller knows which pages were
 * written; of blocks that were made during a fork nobody knows it. Retired blocks are not followed,
 * here as everywhere.
 *
 * Invariant
 * [edges overlap]     Of a block on a dirty page, words that lie across an edge of the page are
 *                     read, too: the half that lies on the dirty page may have changed.
 */
#include "alloc/blocks/blocks.h"
#include "gc/mark/drain.h"
#include "gc/mark/mark.h"
#include "gc/mark/referent.h"
#include "gc/mark/scan.h"
#include "gc/mark/slices.h"
#include "vm/pages.h"

/* Whole pages; what is in them may have changed. */
struct old_range {
    uintptr_t start, end;
};

static __attribute__((noinline)) void scan_large_old(struct marker *marker,
                                                     const struct old_part *part)
{
    size_t bytes = part->end - part->start;
    const char *from = (const char *)part->start;
    bool lacks_pages = may_lack_pages(part->block_bytes);
    if (lacks_pages && mark.in_slice)
        slices_push(from, bytes);
    else if (lacks_pages && mark.skips_unreadable)
        scan_push_readable(marker, from, bytes);
    else if (mark.in_slice || bytes <= PIECE_BYTES + 2 * VECTOR_BYTES)
        scan_with_jmp_bufs(marker, from, (const char *)part->end);
    else
        scan_push_words(marker, from, bytes);
}

static void scan_first_old(struct marker *marker)
{
    const struct old_part *part = &marker->old_parts[marker->first_old_part];
    size_t bytes = part->end - part->start;
    marker->first_old_part = (marker->first_old_part + 1) % OLD_QUEUE;
    marker->old_part_count--;
    if (part->block_bytes < sizeof(jmp_buf) && bytes < sizeof(jmp_buf) && !mark.skips_small) {
        const struct scan scan = {mark.bounds, mark.is_minor ? &mark.young : NULL};
        marker->top = scan_small(marker->top, &scan, (const char *)part->start, bytes);
    } else {
        scan_large_old(marker, part);
    }
    pushed_roots(marker, 0);
}

/* Prefetches the first and the last line of a part, and puts the part into a queue. The part is
 * scanned when the lines have had time to come. The processor fetches the lines between by
 * itself. */
static void queue_old(const struct old_part *part)
{
    struct marker *marker = &mark.markers[0];
    if (marker->old_part_count == OLD_QUEUE)
        scan_first_old(marker);
    __builtin_prefetch((const void *)part->start);
    __builtin_prefetch((const void *)(part->end - 1));
    marker->old_parts[(marker->first_old_part + marker->old_part_count++) % OLD_QUEUE] = *part;
}

/* A word that has changed may lie across either end of the range: [edges overlap]. */
static uint64_t scan_old_part(const struct slab *slab, uintptr_t first, uintptr_t last,
                              const struct old_range *range)
{
    uintptr_t start = range->start - VECTOR_BYTES, end = range->end + VECTOR_BYTES;
    start = first > start ? first : start;
    end = last < end ? last : end;
    queue_old(&(struct old_part){start, end, slab->block_bytes});
    return end - start;
}

/* The old blocks of a slab that the range has a part of; those side by side in one go. */
static uint64_t scan_old_of_slab(struct slab *slab, const struct old_range *range)
{
    uintptr_t base = (uintptr_t)slab->base;
    size_t bytes = slab->block_bytes;
    size_t index = (range->start - base) / bytes;
    size_t behind = (range->end - base + bytes - 1) / bytes;
    behind = behind < slab->capacity ? behind : slab->capacity;
    uint64_t scanned = 0;
    for (size_t word = index / SLAB_WORD_BLOCKS; word * SLAB_WORD_BLOCKS < behind; word++) {
        uint64_t old = mark.is_minor ? *slab_old(slab, word) : slab->words[word].mark;
        old &= slab_live(slab, word) & ~slab->words[word].retired &
               slab_bits_within(word, index, behind);
        uintptr_t start = base + word * SLAB_WORD_BLOCKS * bytes;
        while (old) {
            uint64_t others = old & (old + (old & -old)); /* without the first that lie together */
            size_t first = (size_t)__builtin_ctzl(old);
            size_t count = count_bits(old ^ others);
            scanned +=
                scan_old_part(slab, start + first * bytes, start + (first + count) * bytes, range);
            old = others;
        }
    }
    return scanned;
}

void mark_changed_done(void)
{
    struct marker *marker = &mark.markers[0];
    while (marker->old_part_count > 0)
        scan_first_old(marker);
}

static void scan_fork_block(void *unused, struct slab *slab)
{
    (void)unused;
    if (slab->words[0].mark & slab_live(slab, 0) & ~slab->words[0].retired & 1)
        scan_block(&mark.markers[0], slab->base, slab->block_bytes);
}

void mark_of_fork(void)
{
    blocks_each_of_fork(scan_fork_block, NULL);
}

uint64_t mark_changed(uintptr_t start, uintptr_t end)
{
    uint64_t scanned = 0;
    while (start < end) {
        struct slab *slab = slab_at((const void *)start);
        uintptr_t part_end = slab ? (uintptr_t)slab->base + slab->granules * GRANULE_BYTES
                                  : round_down(start, GRANULE_BYTES) + GRANULE_BYTES;
        struct old_range range = {start, part_end < end ? part_end : end};
        if (slab)
            scanned += scan_old_of_slab(slab, &range);
        start = part_end;
    }
    mark.work += scanned;
    return scanned;
}
