/* SPDX-License-Identifier: MIT
 *
 * mark.c: marking.
 *
 * A marker keeps a mark stack of candidate pointers (candidates.h). A heap is larger than any
 * cache, and the processor cannot guess the order of its pointers. So a short queue stands between
 * taking a word from the stack and touching what it refers to; what the second step needs is
 * prefetched at the first:
 *
 *     block --scan--> mark stack --take--> prefetch queue --mark--> block --scan--> ...
 *                                  \ finds the slab, prefetches the mark bit and the block
 *
 * The mark bit is in the slab's record (slab.h), so dead blocks are not touched. The words of a
 * large block do not go on the mark stack: the block goes on a stack of ranges, and is scanned a
 * piece at a time.
 *
 * A pointer to one past the end keeps the block.
 *     small blocks    have an extra byte (gc.c), so such a pointer is an interior one
 *     from a root     keeps the block that the word refers to and the block that ends there
 *     from a block    keeps the block that ends there only where no live block begins: without the
 *                     extra byte the two neighbours cannot be told apart, and what programs keep in
 *                     memory beside such a pointer is one to the block itself
 *
 * Mark stack overflow: a stack that is full is made larger, up to a bound. Candidates that find it
 * full then are dropped. At the end the heap is searched for marked blocks, which are scanned
 * again, until no candidate was dropped.
 *
 * Parallel marking: helpers are threads that are made for one collection, by clone, in the stopped
 * world. A marker with much on its stack puts the older half of it into the shared pool when
 * another is idle. Nobody waits for a helper that the processor has no time for: it joins when it
 * runs, and ends at once if the marking is over.
 *
 * Invariants while markers run
 *   stopped-bits      The world is stopped, so which blocks are live does not change: `free`,
 *                     `remote` and `retired` of a slab are only read.
 *   marks-only-grow   A mark bit goes from 0 to 1, and the marker that changed it scans the
 *                     block. So a block is scanned once. Where several markers may run the change
 *                     is atomic (`shared`). No order is needed: what is scanned was written before
 *                     the stop.
 *   sticky-marks      A minor collection (gc/cycle/generations.h) begins with the marks of all old
 *                     blocks, which are scanned again on dirty pages only (mark_old). Of other
 * slabs than young ones it clears no mark: a live block there is old. edges-overlap     Words of an
 * old block that lie across the edge of a dirty page are read too: the half on the dirty page may
 * have changed. own-stack         A marker's stack, ranges, queue and counters belong to its
 * thread. pool-under-lock   The pool and its size belong to whoever holds pool_lock. pool_filled is
 * a hint that is read without it. idle-is-empty     A marker counts itself idle only after it found
 * its stack, its ranges and the pool empty. Only a marker that is not idle fills the pool. So when
 * idle == working there is nothing left to mark, and nobody may join.
 *
 * Sources: Boehm & Weiser 1988; Cher, Hosking, Vitek, "Software prefetching for mark-sweep garbage
 * collection", ASPLOS 2004 (the prefetch queue); Boehm, "Reducing garbage collector cache misses",
 * ISMM 2000; Jones, Hosking, Moss, "The Garbage Collection Handbook", 2012, chapter 14 (sharing
 * work, and its termination).
 */
#include "gc/mark/mark.h"

#include <linux/futex.h>
#include <sched.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

#include "alloc/blocks/blocks.h"
#include "gc/mark/candidates.h"
#include "vm/private_memory.h"
#include "vm/kernel/process.h"
#include "vm/kernel/resident.h"
#include "gc/world/recorder.h"
#include "vm/granule_map.h"
#include "vm/pages.h"
#include "vm/syscall.h"

enum {
    PREFETCH_QUEUE = 16,
    MOST_MARKERS = 16,
    MOSTLY_IN_A_LINE = 32,   /* bytes of a block */
    PIECE_BYTES = 4096,      /* of a block scanned at a time */
    LARGE_BYTES = 256 << 10, /* from which only pages that were touched are scanned */
    SHARE_LEAST = 16,        /* words on a stack of which half may be shared */
    SHARE_MOST = 8192,       /* words put into the pool at once */
    TAKE_MOST = 1024,        /* words taken from it at once */
    POOL_WORDS = 2 * SHARE_MOST,
    MOST_RANGES = 4096,
    FIRST_STACK_BYTES = 1 << 20,
    HELPER_STACK_BYTES = 64 << 10,
    SPARE_WORDS = 64, /* at a stack's end: more than are pushed between two looks at the room */
};

_Static_assert(sizeof(jmp_buf) / PACKED_BYTES < SPARE_WORDS, "what scan pushes at most");

struct range {
    const char *start, *end;
};

/* The block that a word refers to, ready to be marked and scanned. */
struct referent {
    struct slab_word *bits;
    uint64_t bit; /* 0: the word points to one past the end of a slab's last block */
    const char *start;
    size_t bytes;
    uintptr_t word;
};

/* Whole pages; what is in them may have changed. */
struct old_range {
    uintptr_t start, end;
};

struct marker {
    /* No two markers share a cache line: when their counters and stack tops did, two markers were
     * slower than one. */
    _Alignas(128) uintptr_t *stack;
    uintptr_t *top, *end; /* one past the last word; where SPARE_WORDS begin */
    struct range *ranges;
    size_t range_count;
    struct referent queue[PREFETCH_QUEUE];
    bool overflowed;
    uint64_t blocks, bytes;
    char *thread_stack;
    _Atomic uint32_t running; /* a helper: cleared by the kernel when it has ended */
};

static struct {
    unsigned most_markers;
    size_t most_stack_bytes;
    struct marker *markers;
    struct heap_bounds bounds;
    uintptr_t low, high; /* the bounds (add_to_bounds); a minor collection widens them */
    bool is_minor;
    bool skips_unreadable, only_resident; /* see mark_skip_unreadable */
    bool tells_suspects;
    const void *suspect; /* see struct mark_result */
    size_t suspect_bytes;
    /* What markers share. See pool-under-lock, idle-is-empty. */
    _Atomic uint32_t pool_lock;
    uintptr_t *pool;
    size_t pool_words;
    _Atomic uint32_t pool_filled;
    _Atomic uint32_t idle, working, asleep;
} mark;

static size_t stack_depth(const struct marker *marker)
{
    return (size_t)(marker->top - marker->stack);
}

static size_t stack_bytes(const struct marker *marker)
{
    return (size_t)(marker->end + SPARE_WORDS - marker->stack) * sizeof *marker->stack;
}

static bool allocate_stack(struct marker *marker, size_t bytes)
{
    uintptr_t *stack = private_memory_map(bytes);
    if (!stack)
        return false;
    size_t depth = stack_depth(marker);
    if (marker->stack) {
        memcpy(stack, marker->stack, depth * sizeof *stack);
        private_memory_unmap(marker->stack, stack_bytes(marker));
    }
    marker->stack = stack;
    marker->top = stack + depth;
    marker->end = stack + bytes / sizeof *stack - SPARE_WORDS;
    return true;
}

bool mark_init(unsigned most_markers, size_t most_stack_bytes)
{
    mark.most_markers = most_markers < MOST_MARKERS ? most_markers : MOST_MARKERS;
    mark.most_stack_bytes = most_stack_bytes;
    mark.markers = private_memory_map(mark.most_markers * sizeof *mark.markers);
    mark.pool = private_memory_map(POOL_WORDS * sizeof *mark.pool);
    if (!mark.markers || !mark.pool)
        return false;
    size_t bytes = most_stack_bytes < FIRST_STACK_BYTES ? most_stack_bytes : FIRST_STACK_BYTES;
    for (unsigned i = 0; i < mark.most_markers; i++) {
        struct marker *marker = &mark.markers[i];
        marker->ranges = private_memory_map(MOST_RANGES * sizeof *marker->ranges);
        if (!marker->ranges || !allocate_stack(marker, bytes))
            return false;
    }
    return true;
}

/* Where blocks are, and a byte at either end: these words are roots, so they must be no addresses
 * of the first block, nor of the end of the last one. */
static void add_to_bounds(const struct slab *slab)
{
    uintptr_t base = (uintptr_t)slab->base - 1;
    uintptr_t end = (uintptr_t)slab->base + slab->granules * GRANULE_BYTES + 1;
    mark.low = base < mark.low ? base : mark.low;
    mark.high = end > mark.high ? end : mark.high;
}

/* A block that is not live has a mark that is set: nobody scans it. */
static void clear_marks(void *unused, struct slab *slab)
{
    (void)unused;
    for (size_t i = 0; i < slab_words(slab); i++)
        slab->words[i].mark = ~slab_live(slab, i);
    add_to_bounds(slab);
}

/* [sticky-marks] */
static void clear_young_marks(void *unused, struct slab *slab)
{
    (void)unused;
    for (size_t i = 0; i < slab_words(slab); i++)
        slab->words[i].mark = ~slab_live(slab, i) | *slab_old(slab, i);
    add_to_bounds(slab);
}

void mark_skip_unreadable(bool only_resident)
{
    mark.skips_unreadable = true;
    mark.only_resident = only_resident;
}

bool mark_skips_unreadable(void)
{
    return mark.skips_unreadable;
}

void mark_tell_suspects(bool tell)
{
    mark.tells_suspects = tell;
}

static void make_ready(void)
{
    mark.skips_unreadable = mark.tells_suspects = false;
    mark.suspect = NULL;
    bool any = mark.high > mark.low;
    mark.bounds = heap_bounds_of(mark.low, any ? mark.high - mark.low : 0);
    for (unsigned i = 0; i < mark.most_markers; i++) {
        struct marker *marker = &mark.markers[i];
        marker->top = marker->stack;
        marker->range_count = 0;
        marker->blocks = marker->bytes = 0;
        marker->overflowed = false;
    }
}

void mark_begin(void)
{
    mark.is_minor = false;
    mark.low = UINTPTR_MAX;
    mark.high = 0;
    blocks_each_slab(clear_marks, NULL);
    make_ready();
}

void mark_begin_minor(void)
{
    mark.is_minor = true;
    blocks_each_young(clear_young_marks, NULL);
    make_ready();
}

/* When the mark stack is full. Returns the top; what there is no room for is dropped. */
static __attribute__((noinline)) uintptr_t *grow_stack(struct marker *marker, uintptr_t *top)
{
    marker->top = top;
    size_t bytes = 2 * stack_bytes(marker);
    if (bytes > mark.most_stack_bytes || !allocate_stack(marker, bytes)) {
        marker->overflowed = true;
        marker->top = marker->end;
    }
    return marker->top;
}

/* While a marker works it holds the top of its stack in a register, and puts it into `marker->top`
 * for functions that it calls. To be called before SPARE_WORDS can have been pushed. */
static inline uintptr_t *with_room(struct marker *marker, uintptr_t *top)
{
    return __builtin_expect(top > marker->end, 0) ? grow_stack(marker, top) : top;
}

/* The stack has room for it. */
static inline uintptr_t *push_pointer(uintptr_t *top, const struct heap_bounds *bounds,
                                      uintptr_t word)
{
    *top = word;
    return may_point_to_block(bounds, word) ? top + 1 : top;
}

/* Pushes the words in a vector, or across its start, that point into the heap: from the last to the
 * first, since the last pushed is taken first. found: the halves that may be upper ones. */
static inline uintptr_t *push_found(uintptr_t *top, const struct heap_bounds *bounds,
                                    const char *start, const char *at, unsigned found)
{
    if (found & 8)
        top = push_pointer(top, bounds, word_at(at + 2 * PACKED_BYTES));
    if (__builtin_expect(found & 4, 0))
        top = push_pointer(top, bounds, word_at(at + PACKED_BYTES));
    if (found & 2)
        top = push_pointer(top, bounds, word_at(at));
    if (__builtin_expect(found & 1, 0) && at > start)
        top = push_pointer(top, bounds, word_at(at - PACKED_BYTES));
    return top;
}

/* A block that is too small for a jmp_buf. Pushes at most SPARE_WORDS. */
static inline uintptr_t *scan(uintptr_t *top, const struct heap_bounds *bounds, const char *start,
                              size_t bytes)
{
    for (const char *at = start + bytes - VECTOR_BYTES; at >= start; at -= VECTOR_BYTES) {
        unsigned found = upper_halves(bounds, halves_at(at));
        if (found)
            top = push_found(top, bounds, start, at, found);
    }
    return top;
}

static inline uintptr_t *push_demangled(uintptr_t *top, const struct heap_bounds *bounds,
                                        uintptr_t word)
{
    return push_pointer(top, bounds, demangled(word, bounds->guard));
}

/* A block that is large enough for a jmp_buf. */
static __attribute__((noinline)) void scan_with_jmp_bufs(struct marker *marker, const char *start,
                                                         const char *end)
{
    const struct heap_bounds bounds = mark.bounds;
    uintptr_t *top = marker->top;
    for (const char *at = end; at > start;) {
        const char *stride = at - start >= STRIDE_BYTES ? at - STRIDE_BYTES : start;
        if (at - stride == STRIDE_BYTES && !has_candidates(&bounds, stride))
            at = stride;
        while (at > stride) {
            at -= VECTOR_BYTES;
            __m128i halves = halves_at(at);
            unsigned candidate = candidate_halves(&bounds, halves);
            if (!candidate)
                continue;
            if (candidate & 4)
                top = push_demangled(top, &bounds, word_at(at + 2 * PACKED_BYTES));
            if (candidate & 1)
                top = push_demangled(top, &bounds, word_at(at));
            top = push_found(top, &bounds, start, at, upper_halves(&bounds, halves));
            top = with_room(marker, top);
        }
    }
    marker->top = top;
}

static void push_range(struct marker *marker, const char *start, const char *end)
{
    if (marker->range_count == MOST_RANGES)
        scan_with_jmp_bufs(marker, start, end);
    else
        marker->ranges[marker->range_count++] = (struct range){start, end};
}

/* The part of a block that is to be scanned, and who scans it. */
struct part {
    struct marker *marker;
    uintptr_t start, end;
};

static void push_resident(void *argument, uintptr_t start, uintptr_t end, bool readable)
{
    const struct part *part = argument;
    if (!readable && mark.only_resident)
        return;
    push_range(part->marker, (const char *)(start > part->start ? start : part->start),
               (const char *)(end < part->end ? end : part->end));
}

/* Pages of a large block that were never touched hold nothing, and reading them makes page
 * tables. */
static void push_many_words(struct marker *marker, const char *start, size_t bytes)
{
    struct part part = {marker, (uintptr_t)start, (uintptr_t)start + bytes};
    if ((bytes < LARGE_BYTES && !mark.only_resident) ||
        !resident_each(round_down(part.start, PAGE_BYTES), round_up(part.end, PAGE_BYTES),
                       push_resident, &part))
        push_range(marker, start, start + bytes);
}

/* The first mapping may begin behind `start`: what is before it is not there any more. */
static __attribute__((noinline)) void push_readable(struct marker *marker, const char *start,
                                                    size_t bytes)
{
    const struct mapping *mapping = process_mapping_at((uintptr_t)start);
    for (const char *end = start + bytes; start < end; mapping++) {
        const char *part = (const char *)mapping->start, *part_end = (const char *)mapping->end;
        if (part < start)
            part = start;
        if (part_end > end)
            part_end = end;
        if (part < part_end && process_may_be_touched(mapping))
            push_many_words(marker, part, (size_t)(part_end - part));
        start = part_end;
    }
}

/* Any block; the stack's top is in the marker. */
static __attribute__((noinline)) void scan_block(struct marker *marker, const char *start,
                                                 size_t bytes)
{
    if (bytes >= PAGE_BYTES && __builtin_expect(mark.skips_unreadable, 0))
        push_readable(marker, start, bytes);
    else if (bytes <= PIECE_BYTES)
        scan_with_jmp_bufs(marker, start, start + bytes);
    else
        push_many_words(marker, start, bytes);
}

/* Sets a live block's mark. False: it is set already, or the block is not live. */
static inline bool set_mark(struct slab_word *bits, uint64_t bit, bool shared)
{
    if ((bits->mark & bit) == bit)
        return false;
    if (shared)
        return !(__atomic_fetch_or(&bits->mark, bit, __ATOMIC_RELAXED) & bit);
    bits->mark |= bit;
    return true;
}

static inline struct slab *slab_at(uintptr_t address)
{
    struct owner *owner = granule_map_get((const void *)address);
    return owner && owner->kind == OWNER_SLAB ? (struct slab *)owner : NULL;
}

/* The block that a word refers to. False: there is none. */
static inline bool find_referent(uintptr_t word, struct referent *referent)
{
    struct slab *slab = slab_at(word);
    if (__builtin_expect(!slab, 0))
        return false;
    bool exact;
    size_t index = slab_index(slab, (const void *)word, &exact);
    referent->bits = &slab->words[index / SLAB_WORD_BLOCKS];
    referent->bit = index < slab->capacity ? slab_bit(index) : 0;
    referent->start = slab_block(slab, index);
    referent->bytes = slab->block_bytes;
    referent->word = word;
    return true;
}

/* Whether all that the word can name is old, so that its mark need not be looked at:
 * [sticky-marks]. What begins a slab may be named by its end, which is another slab's. */
static inline bool names_old(uintptr_t word)
{
    const struct slab *slab = slab_at(word);
    return slab && !atomic_load_explicit(&slab->young, memory_order_relaxed) &&
           word != (uintptr_t)slab->base && !slab->is_of_fork;
}

static inline bool is_live(const struct referent *referent)
{
    const struct slab_word *bits = referent->bits;
    return (~(bits->free | atomic_load_explicit(&bits->remote, memory_order_relaxed)) &
            referent->bit) != 0;
}

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

static void share_work(struct marker *marker);

static inline bool should_share(const struct marker *marker)
{
    return marker->top - marker->stack >= SHARE_LEAST &&
           atomic_load_explicit(&mark.idle, memory_order_relaxed) > 0;
}

static inline void prefetch(const struct referent *referent)
{
    __builtin_prefetch(referent->bits, 1);
    __builtin_prefetch(referent->start);
    if (referent->bytes > MOSTLY_IN_A_LINE)
        __builtin_prefetch(referent->start + referent->bytes - 1);
}

/* Empties the stack and the ranges: the first step for words of the stack while the queue has room,
 * the second step for the first in the queue, and so on. Counters and bounds are in registers.
 * shared: see marks-only-grow. minor: of a minor collection. */
static inline __attribute__((always_inline)) void drain(struct marker *marker, bool shared,
                                                        bool minor)
{
    const struct heap_bounds bounds = mark.bounds;
    struct referent *const queue = marker->queue;
    uintptr_t *top = marker->top;
    uint64_t blocks = 0, bytes = 0;
    for (unsigned first = 0, queued = 0;;) {
        while (queued < PREFETCH_QUEUE && top > marker->stack) {
            struct referent *referent = &queue[(first + queued) % PREFETCH_QUEUE];
            uintptr_t word = *--top;
            if (minor && names_old(word))
                continue;
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
                    top = with_room(marker, scan(top, &bounds, referent->start, referent->bytes));
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
                share_work(marker);
            top = marker->top;
        }
    }
    marker->top = top;
    marker->blocks += blocks;
    marker->bytes += bytes;
}

static __attribute__((noinline)) void drain_alone_full(struct marker *marker)
{
    drain(marker, false, false);
}

static __attribute__((noinline)) void drain_alone(struct marker *marker)
{
    if (mark.is_minor)
        drain(marker, false, true);
    else
        drain_alone_full(marker);
}

static inline void pushed_roots(struct marker *marker, size_t count)
{
    marker->top = with_room(marker, marker->top + count);
    if (marker->top - marker->stack > (marker->end - marker->stack) / 2)
        drain_alone(marker);
}

static __attribute__((noinline)) void note_if_suspect(uintptr_t word)
{
    struct slab *slab = slab_at(word);
    bool exact;
    size_t index = slab ? slab_index(slab, (const void *)word, &exact) : 0;
    if (!slab || !exact || index >= slab->capacity ||
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

void mark_roots(const void *start, const void *end)
{
    const struct heap_bounds bounds = mark.bounds;
    const char *first = (const char *)round_up((uintptr_t)start, sizeof(uintptr_t)), *at = first;
    for (; at + STRIDE_BYTES <= (const char *)end; at += STRIDE_BYTES)
        if (__builtin_expect(has_candidates(&bounds, at), 0))
            mark_roots_singly(first, at, at + STRIDE_BYTES);
    mark_roots_singly(first, at, end);
}

void mark_roots_in_code(const void *start, const void *end)
{
    for (const char *at = start; at + sizeof(uintptr_t) <= (const char *)end; at++)
        mark_root(&mark.markers[0], word_at(at));
}

/* Pinned blocks. */

/* Whether a live block begins at the address. */
static bool is_block_start(uintptr_t address)
{
    struct referent referent;
    return may_point_to_block(&mark.bounds, address) && find_referent(address, &referent) &&
           (uintptr_t)referent.start == address && is_live(&referent);
}

/* A block's start is a multiple of 16, which leaves most numbers out at once. */
static inline void mark_at_distance(struct marker *marker, uintptr_t from, uintptr_t distance)
{
    uintptr_t address = from + distance;
    if (address % VECTOR_BYTES == 0 && distance != 0 && is_block_start(address)) {
        *marker->top = address;
        pushed_roots(marker, 1);
    }
}

static void mark_distances(struct marker *marker, uintptr_t block, uintptr_t start, uintptr_t end)
{
    for (uintptr_t at = start; at + sizeof(uintptr_t) <= end; at += sizeof(uintptr_t)) {
        uintptr_t distance = *(const uintptr_t *)at;
        if (distance + mark.bounds.span < 2 * mark.bounds.span) {
            mark_at_distance(marker, block, distance);
            mark_at_distance(marker, at, distance);
        }
    }
}

static void mark_resident_distances(void *block, uintptr_t start, uintptr_t end, bool readable)
{
    (void)readable;
    mark_distances(&mark.markers[0], *(const uintptr_t *)block, start, end);
}

static void mark_pinned_block(struct marker *marker, uintptr_t block, size_t bytes)
{
    *marker->top = block;
    pushed_roots(marker, 1);
    if (bytes >= PAGE_BYTES && mark.skips_unreadable)
        return; /* it may have pages without the right to be read */
    if (bytes < LARGE_BYTES ||
        !resident_each(block, block + bytes, mark_resident_distances, &block))
        mark_distances(marker, block, block, block + bytes);
}

static void mark_pinned_of_slab(void *count, struct slab *slab)
{
    for (size_t i = 0; slab->has_pins && i < slab_words(slab); i++) {
        uint64_t pinned = *slab_pinned(slab, i) & slab_live(slab, i) & ~slab->words[i].retired;
        *(uint64_t *)count += count_bits(pinned);
        for (; pinned; pinned &= pinned - 1) {
            size_t index = i * SLAB_WORD_BLOCKS + (size_t)__builtin_ctzl(pinned);
            mark_pinned_block(&mark.markers[0], (uintptr_t)slab_block(slab, index),
                              slab->block_bytes);
        }
    }
}

uint64_t mark_pinned(void)
{
    uint64_t count = 0;
    if (mark.is_minor)
        blocks_each_young(mark_pinned_of_slab, &count);
    else
        blocks_each_slab(mark_pinned_of_slab, &count);
    return count;
}

/* Old blocks. */

/* A part of a block, or of blocks that lie side by side. */
static void scan_old(uintptr_t start, uintptr_t end, size_t block_bytes)
{
    struct marker *marker = &mark.markers[0];
    const char *from = (const char *)start;
    if (block_bytes >= PAGE_BYTES && mark.skips_unreadable)
        push_readable(marker, from, end - start);
    else if (block_bytes < sizeof(jmp_buf) && end - start < sizeof(jmp_buf))
        marker->top = with_room(marker, scan(marker->top, &mark.bounds, from, end - start));
    else if (end - start <= PIECE_BYTES + 2 * VECTOR_BYTES)
        scan_with_jmp_bufs(marker, from, (const char *)end);
    else
        push_many_words(marker, from, end - start);
    pushed_roots(marker, 0);
}

/* A word that has changed may lie across either end of the range: [edges-overlap]. */
static uint64_t scan_old_part(const struct slab *slab, uintptr_t first, uintptr_t last,
                              const struct old_range *range)
{
    uintptr_t start = range->start - VECTOR_BYTES, end = range->end + VECTOR_BYTES;
    start = first > start ? first : start;
    end = last < end ? last : end;
    scan_old(start, end, slab->block_bytes);
    return end - start;
}

/* The blocks of a word that are followed, from `index` on; its bit is the lowest. */
static uint64_t followed_from(struct slab *slab, size_t index)
{
    size_t word = index / SLAB_WORD_BLOCKS;
    uint64_t old = *slab_old(slab, word) & slab_live(slab, word) & ~slab->words[word].retired;
    return old >> index % SLAB_WORD_BLOCKS;
}

/* The first block from `index` on that is followed, or is not; `behind` if there is none. */
static size_t find_block(struct slab *slab, bool is_followed, size_t index, size_t behind)
{
    while (index < behind) {
        uint64_t bits = followed_from(slab, index);
        size_t left = SLAB_WORD_BLOCKS - index % SLAB_WORD_BLOCKS;
        if (!is_followed)
            bits = ~bits;
        size_t skipped = bits ? (size_t)__builtin_ctzl(bits) : SLAB_WORD_BLOCKS;
        index += skipped < left ? skipped : left;
        if (skipped < left)
            break;
    }
    return index < behind ? index : behind;
}

/* The old blocks of a slab that the range has a part of; those side by side in one go. */
static uint64_t scan_old_of_slab(struct slab *slab, const struct old_range *range)
{
    uintptr_t base = (uintptr_t)slab->base;
    size_t bytes = slab->block_bytes;
    size_t index = (range->start - base) / bytes;
    size_t behind = (range->end - base + bytes - 1) / bytes;
    uint64_t scanned = 0;
    behind = behind < slab->capacity ? behind : slab->capacity;
    while ((index = find_block(slab, true, index, behind)) < behind) {
        size_t first = index;
        index = find_block(slab, false, index, behind);
        scanned += scan_old_part(slab, base + first * bytes, base + index * bytes, range);
    }
    return scanned;
}

uint64_t mark_old(uintptr_t start, uintptr_t end)
{
    uint64_t scanned = 0;
    while (start < end) {
        struct slab *slab = slab_at(start);
        uintptr_t part_end = slab ? (uintptr_t)slab->base + slab->granules * GRANULE_BYTES
                                  : round_down(start, GRANULE_BYTES) + GRANULE_BYTES;
        struct old_range range = {start, part_end < end ? part_end : end};
        if (slab)
            scanned += scan_old_of_slab(slab, &range);
        start = part_end;
    }
    return scanned;
}

/* Several markers. */

static void lock_pool(void)
{
    while (atomic_exchange_explicit(&mark.pool_lock, 1, memory_order_acquire))
        __builtin_ia32_pause();
}

static void unlock_pool(void)
{
    atomic_store_explicit(&mark.pool_lock, 0, memory_order_release);
}

/* Shares the older half of the stack, which leads to more than the newer: in a tree that is marked
 * depth first a stack of twenty words is a million blocks. */
static void share_work(struct marker *marker)
{
    size_t depth = stack_depth(marker), count = depth / 2 < SHARE_MOST ? depth / 2 : SHARE_MOST;
    if (atomic_load_explicit(&mark.pool_filled, memory_order_relaxed))
        return; /* what was shared last is still there */
    lock_pool();
    if (mark.pool_words + count <= POOL_WORDS) {
        memcpy(mark.pool + mark.pool_words, marker->stack, count * sizeof *mark.pool);
        mark.pool_words += count;
        depth -= count;
        size_t moved = depth < count ? depth : count;
        memmove(marker->stack, marker->stack + depth + count - moved,
                moved * sizeof *marker->stack);
        marker->top = marker->stack + depth;
        atomic_store_explicit(&mark.pool_filled, 1, memory_order_release);
    }
    unlock_pool();
    if (atomic_load_explicit(&mark.asleep, memory_order_relaxed) > 0)
        SYSCALL_3(SYS_futex, &mark.pool_filled, FUTEX_WAKE_PRIVATE, INT32_MAX);
}

static bool take_work(struct marker *marker)
{
    lock_pool();
    size_t count = mark.pool_words < TAKE_MOST ? mark.pool_words : TAKE_MOST;
    mark.pool_words -= count;
    memcpy(marker->top, mark.pool + mark.pool_words, count * sizeof *marker->stack);
    marker->top += count;
    if (mark.pool_words == 0)
        atomic_store_explicit(&mark.pool_filled, 0, memory_order_relaxed);
    unlock_pool();
    return count > 0;
}

/* One turn of waiting for the pool: at first without giving the processor up. */
static void wait_for_work(unsigned turn)
{
    enum { SPINS = 1000 };
    static const struct timespec nap = {.tv_nsec = 50000};
    if (turn < SPINS) {
        __builtin_ia32_pause();
        return;
    }
    atomic_fetch_add(&mark.asleep, 1);
    SYSCALL_4(SYS_futex, &mark.pool_filled, FUTEX_WAIT_PRIVATE, 0, &nap);
    atomic_fetch_sub(&mark.asleep, 1);
}

/* Until all markers are idle (idle-is-empty). */
static void drain_in_parallel(struct marker *marker)
{
    for (;;) {
        drain(marker, true, mark.is_minor);
        if (take_work(marker))
            continue;
        atomic_fetch_add(&mark.idle, 1);
        for (unsigned turn = 0; !atomic_load(&mark.pool_filled); turn++) {
            if (atomic_load(&mark.idle) == atomic_load(&mark.working))
                return;
            wait_for_work(turn);
        }
        atomic_fetch_sub(&mark.idle, 1);
    }
}

/* False: all are idle, so the marking is over. */
static bool join_marking(void)
{
    uint32_t working = atomic_load(&mark.working);
    do
        if (working == 0 || atomic_load(&mark.idle) >= working)
            return false;
    while (!atomic_compare_exchange_weak(&mark.working, &working, working + 1));
    return true;
}

static void helper_main(struct marker *marker)
{
    doorbell_enter_mark();
    if (join_marking())
        drain_in_parallel(marker);
    for (;;)
        SYSCALL_1(SYS_exit, 0);
}

/* Starts a thread with nothing but a stack; the kernel clears `running` when it has ended. It has
 * its creator's signal mask, which blocks all. */
static bool start_helper(struct marker *marker)
{
    if (!marker->thread_stack)
        marker->thread_stack = private_memory_map(HELPER_STACK_BYTES);
    if (!marker->thread_stack)
        return false;
    uintptr_t *top = (uintptr_t *)(marker->thread_stack + HELPER_STACK_BYTES) - 2;
    top[0] = (uintptr_t)marker;
    top[1] = (uintptr_t)helper_main;
    atomic_store(&marker->running, 1);
    long flags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM |
                 CLONE_CHILD_CLEARTID;
    register void *child_thread_id __asm__("r10") = (void *)&marker->running;
    long result;
    __asm__ volatile("syscall\n\t"
                     "test %%rax, %%rax\n\t"
                     "jnz 1f\n\t"
                     "xor %%ebp, %%ebp\n\t"
                     "pop %%rdi\n\t"
                     "pop %%rax\n\t"
                     "call *%%rax\n\t"
                     "1:"
                     : "=a"(result)
                     : "a"((long)SYS_clone), "D"(flags), "S"(top), "d"(0L), "r"(child_thread_id)
                     : "rcx", "r11", "memory");
    if (syscall_failed(result))
        atomic_store(&marker->running, 0);
    return !syscall_failed(result);
}

void mark_prepare(void)
{
    for (unsigned i = 0; i < mark.most_markers; i++) {
        uint32_t running;
        while ((running = atomic_load(&mark.markers[i].running)) != 0)
            SYSCALL_4(SYS_futex, &mark.markers[i].running, FUTEX_WAIT, running, NULL);
    }
}

void mark_forget_helpers(void)
{
    for (unsigned i = 0; i < mark.most_markers; i++)
        atomic_store(&mark.markers[i].running, 0);
}

/* Returns how many markers worked. */
static unsigned drain_with_helpers(unsigned helpers)
{
    if (helpers > mark.most_markers - 1)
        helpers = mark.most_markers - 1;
    atomic_store(&mark.idle, 0);
    atomic_store(&mark.working, 1);
    for (unsigned i = 1; i <= helpers && start_helper(&mark.markers[i]); i++)
        ;
    drain_in_parallel(&mark.markers[0]);
    return atomic_load(&mark.working);
}

/* Overflow. */

static void scan_marked(void *argument, struct slab *slab)
{
    struct marker *marker = argument;
    for (size_t i = 0; i < slab->capacity; i++) {
        size_t word = i / SLAB_WORD_BLOCKS;
        const struct slab_word *bits = &slab->words[word];
        if (!(bits->mark & ~bits->retired & slab_live(slab, word) & slab_bit(i)))
            continue;
        scan_block(marker, slab_block(slab, i), slab->block_bytes);
        drain_alone(marker);
    }
}

static bool take_overflow(void)
{
    bool any = false;
    for (unsigned i = 0; i < mark.most_markers; i++) {
        any = any || mark.markers[i].overflowed;
        mark.markers[i].overflowed = false;
    }
    return any;
}

void mark_finish(unsigned helpers, struct mark_result *result)
{
    *result = (struct mark_result){
        .markers = 1, .suspect = mark.suspect, .suspect_bytes = mark.suspect_bytes};
    if (helpers > 0)
        result->markers = drain_with_helpers(helpers);
    else
        drain_alone(&mark.markers[0]);
    while (take_overflow()) {
        result->overflows++;
        blocks_each_slab(scan_marked, &mark.markers[0]);
    }
    for (unsigned i = 0; i < mark.most_markers; i++) {
        result->blocks += mark.markers[i].blocks;
        result->bytes += mark.markers[i].bytes;
    }
}
