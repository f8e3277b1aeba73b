/* SPDX-License-Identifier: MIT
 *
 * drain.c: the marker's loops: takes words from the stack, marks the blocks that they refer to and
 * scans them, until nothing is left.
 *
 * Between the two steps of a word stands the prefetch queue; see mark.c.
 */
#include "gc/mark/drain.h"

#include "gc/mark/helpers.h"
#include "gc/mark/referent.h"
#include "gc/mark/scan.h"

static void mark_and_scan(struct marker *marker, const struct referent *referent, bool shared)
{
    if (!set_mark(referent->bits, referent->bit, shared))
        return;
    marker->blocks++;
    marker->bytes += referent->bytes;
    if (!(referent->bits->retired & referent->bit))
        scan_block(marker, referent->start, referent->bytes);
}

/* The word refers to no live block. The block that ends there is kept: the word may point to one
 * past its end. */
static __attribute__((noinline)) void mark_if_one_past_end(struct marker *marker, uintptr_t word,
                                                           bool shared)
{
    struct referent before;
    if (find_referent(word - 1, &before))
        mark_and_scan(marker, &before, shared);
}

/* A piece of what is left of a block of many words. */
static __attribute__((noinline)) void scan_piece(struct marker *marker)
{
    struct range *range = &marker->ranges[marker->range_count - 1];
    const char *piece = range->start;
    const char *end = piece + PIECE_BYTES;
    if (end >= range->end) {
        end = range->end;
        marker->range_count--;
    } else {
        range->start = end - VECTOR_BYTES; /* a word may lie across */
    }
    scan_with_jmp_bufs(marker, piece, end);
}

/* Marks until the stack and the ranges are empty. Words are taken from the stack while the queue
 * has room; then the first block of the queue is marked and scanned; and so on. Counters and bounds
 * are in registers. shared: see [marks only grow]. */
static inline __attribute__((always_inline)) void drain(struct marker *marker, bool shared)
{
    const struct scan scan = {mark.bounds, NULL};
    struct referent *const queue = marker->queue;
    uintptr_t *top = marker->top;
    uint64_t blocks = 0, bytes = 0;
    for (unsigned first = 0, queued = 0;;) {
        while (queued < PREFETCH_QUEUE && top > marker->stack) {
            struct referent *referent = &queue[(first + queued) % PREFETCH_QUEUE];
            uintptr_t word = *--top;
            if (__builtin_expect(find_referent(word, referent), 1)) {
                prefetch(referent);
                queued++;
            } else { /* one past the end of a slab */
                marker->top = top;
                mark_if_one_past_end(marker, word, shared);
                top = marker->top;
            }
        }
        if (queued > 0) {
            const struct referent *referent = &queue[first];
            first = (first + 1) % PREFETCH_QUEUE;
            queued--;
            if (__builtin_expect(set_mark(referent->bits, referent->bit, shared), 1)) {
                blocks++;
                bytes += referent->bytes;
                if (__builtin_expect((referent->bits->retired & referent->bit) != 0, 0))
                    continue;
                if (__builtin_expect(referent->bytes < sizeof(jmp_buf), 1)) {
                    top = scan_small(top, &scan, referent->start, referent->bytes);
                    top = with_room(marker, top);
                } else {
                    marker->top = top;
                    scan_block(marker, referent->start, referent->bytes);
                    top = marker->top;
                }
            } else if (referent->bit == 0 ||
                       (referent->word == (uintptr_t)referent->start && !is_live(referent))) {
                marker->top = top;
                mark_if_one_past_end(marker, referent->word, shared);
                top = marker->top;
            }
        } else if (marker->range_count > 0) {
            marker->top = top;
            scan_piece(marker);
            top = marker->top;
        } else {
            break;
        }
        if (shared) {
            marker->top = top;
            if (should_share(marker))
                helpers_share(marker);
            top = marker->top;
        }
    }
    marker->top = top;
    marker->blocks += blocks;
    marker->bytes += bytes;
}

/* Draining in a minor collection. Nearly all words lead to old blocks, of which at most the mark is
 * read. So a block is prefetched only once it has been marked. It then waits in a second queue
 * until the cache has it. */

struct grey_queue {
    const struct scan *scan;
    struct {
        const char *start;
        size_t bytes;
    } blocks[PREFETCH_QUEUE];
    unsigned first, count;
};

static void scan_first_grey(struct marker *marker, struct grey_queue *grey)
{
    const char *start = grey->blocks[grey->first].start;
    size_t bytes = grey->blocks[grey->first].bytes;
    grey->first = (grey->first + 1) % PREFETCH_QUEUE;
    grey->count--;
    if (bytes < sizeof(jmp_buf))
        marker->top = with_room(marker, scan_small(marker->top, grey->scan, start, bytes));
    else
        scan_block(marker, start, bytes);
}

static inline void queue_grey(struct marker *marker, struct grey_queue *grey,
                              const struct referent *referent)
{
    if (grey->count == PREFETCH_QUEUE)
        scan_first_grey(marker, grey);
    unsigned last = (grey->first + grey->count++) % PREFETCH_QUEUE;
    grey->blocks[last].start = referent->start;
    grey->blocks[last].bytes = referent->bytes;
    __builtin_prefetch(referent->start);
    __builtin_prefetch(referent->start + referent->bytes - 1);
}

/* The second step of a word. */
static inline void mark_young(struct marker *marker, struct grey_queue *grey,
                              const struct referent *referent, bool shared)
{
    if (set_mark(referent->bits, referent->bit, shared)) {
        marker->blocks++;
        marker->bytes += referent->bytes;
        if (!(referent->bits->retired & referent->bit))
            queue_grey(marker, grey, referent);
    } else if (referent->bit == 0 ||
               (referent->word == (uintptr_t)referent->start && !is_live(referent))) {
        mark_if_one_past_end(marker, referent->word, shared);
    }
}

/* The first step, for words of the stack while the queue has room. */
static inline void queue_young(struct marker *marker, const struct young_map *young, unsigned first,
                               unsigned *queued, bool shared)
{
    while (*queued < PREFETCH_QUEUE && marker->top > marker->stack) {
        struct referent *referent = &marker->queue[(first + *queued) % PREFETCH_QUEUE];
        uintptr_t word = *--marker->top;
        if (!young_map_named(young, word))
            continue;
        if (find_referent(word, referent)) {
            __builtin_prefetch(referent->bits, 1);
            ++*queued;
        } else {
            mark_if_one_past_end(marker, word, shared);
        }
    }
}

static __attribute__((noinline)) void drain_minor(struct marker *marker, bool shared)
{
    const struct young_map young = mark.young;
    const struct scan scan = {mark.bounds, &young};
    struct grey_queue grey = {.scan = &scan};
    for (unsigned first = 0, queued = 0;;) {
        queue_young(marker, &young, first, &queued, shared);
        if (queued > 0) {
            const struct referent *referent = &marker->queue[first];
            first = (first + 1) % PREFETCH_QUEUE;
            queued--;
            mark_young(marker, &grey, referent, shared);
        } else if (grey.count > 0) {
            scan_first_grey(marker, &grey);
        } else if (marker->range_count > 0) {
            scan_piece(marker);
        } else {
            break;
        }
        if (shared && should_share(marker))
            helpers_share(marker);
    }
}

static __attribute__((noinline)) void drain_alone_full(struct marker *marker)
{
    drain(marker, false);
}

void drain_alone(struct marker *marker)
{
    if (mark.is_minor)
        drain_minor(marker, false);
    else
        drain_alone_full(marker);
}

__attribute__((noinline)) void drain_shared(struct marker *marker)
{
    if (mark.is_minor)
        drain_minor(marker, true);
    else
        drain(marker, true);
}
