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
 *                     `remote` and `retired` of a slab are only read. In a slice of a cycle they
 *                     change; see locked-shapes and boundary-marks-both.
 *   marks-only-grow   A mark bit goes from 0 to 1, and the marker that changed it scans the
 *                     block. So a block is scanned once. Where several markers may run the change
 *                     is atomic (`shared`). No order is needed: what is scanned was written before
 *                     the stop.
 *   sticky-marks      A minor collection (gc/cycle/generations.h) begins with the marks of all old
 *                     blocks, which nobody follows again but for what may have changed in them
 *                     (mark_changed). Of other slabs than young ones it clears no mark: a live
 *                     block there is old. Which slabs are young a map of granules tells, so that a
 *                     word that names an old block costs a byte of a few pages, and no look at its
 *                     slab's record.
 *   edges-overlap     Of an old block on a dirty page the words are read that lie across an edge of
 *                     the page, too: the half on the dirty one may be what has changed.
 *   locked-shapes     A slice holds the heap's lock, so no slab comes, goes or changes its shape in
 *                     it. Between two slices they may: the stack's words are mere addresses, whose
 *                     slab is looked up when they are taken. Blocks of a page or more wait in
 *                     `pending`, and are looked up again when the world is stopped.
 *   read-by-copy      A slice reads a block of a page or more through /proc/self/mem, since the
 *                     program may unmap or protect a part of it at any moment. What cannot be
 *                     copied is dirty, and left to the stopped world.
 *   boundary-marks-both
 *                     A word that means one past the end of a block in a stopped world, where the
 *                     block that begins there is free, may have meant that block in a slice, and
 *                     the page of the word is clean. So what ends at a boundary is marked, too, if
 *                     the block that begins there was marked and is now free (mark_end_cycle), was
 *                     not live at the cycle's beginning, or begins a granule.
 *   own-stack         A marker's stack, ranges, queue and counters belong to its thread.
 *   pool-under-lock   The pool and its size belong to whoever holds pool_lock. pool_filled is a
 *                     hint that is read without it.
 *   idle-is-empty     A marker counts itself idle only after it found its stack, its ranges and the
 *                     pool empty. Only a marker that is not idle fills the pool. So when idle ==
 *                     working there is nothing left to mark, and nobody may join.
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
#include "gc/mark/young_map.h"
#include "vm/private_memory.h"
#include "vm/kernel/dirty.h"
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
    OLD_QUEUE = 16, /* parts of old blocks that are fetched beforehand; a power of 2 */
    COPY_BYTES = 64 << 10,
    BLOCK_WORK = 32,  /* of mark_some, for a block, besides its bytes */
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

/* A part of an old block, or of several side by side. */
struct old_part {
    uintptr_t start, end;
    size_t block_bytes;
};

struct marker {
    /* No two markers share a cache line: when their counters and stack tops did, two markers were
     * slower than one. */
    _Alignas(128) uintptr_t *stack;
    uintptr_t *top, *end; /* one past the last word; where SPARE_WORDS begin */
    struct range *ranges;
    size_t range_count;
    struct referent queue[PREFETCH_QUEUE];
    struct old_part old_parts[OLD_QUEUE]; /* of the first marker; see queue_old */
    unsigned first_old_part, old_part_count;
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
    uintptr_t low, high;    /* the bounds (add_to_bounds); a minor collection widens them */
    struct young_map young; /* of a minor collection */
    bool is_minor;
    bool skips_unreadable, only_resident; /* see mark_skip_unreadable */
    bool tells_suspects;
    bool defers_roots;
    bool in_slice;         /* of a cycle: the program runs */
    int memory_file;       /* of a slice */
    struct range *pending; /* parts of blocks of a page or more, to be read by copy */
    size_t pending_count, work;
    char *copy;
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

bool mark_init_minor(void)
{
    return young_map_init(&mark.young);
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

static void enter_young_map(void *unused, struct slab *slab)
{
    (void)unused;
    young_map_enter(&mark.young, (uintptr_t)slab->base, slab->granules);
}

bool mark_was_young(uintptr_t address)
{
    return young_map_has(&mark.young, address);
}

/* [sticky-marks] */
static void clear_young_marks(void *unused, struct slab *slab)
{
    (void)unused;
    for (size_t i = 0; i < slab_words(slab); i++)
        slab->words[i].mark = ~slab_live(slab, i) | *slab_old(slab, i);
    enter_young_map(NULL, slab);
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

static void set_bounds(void)
{
    bool any = mark.high > mark.low;
    mark.bounds = heap_bounds_of(mark.low, any ? mark.high - mark.low : 0);
}

static void begin_roots(void)
{
    mark.skips_unreadable = mark.tells_suspects = mark.defers_roots = false;
    mark.suspect = NULL;
    set_bounds();
}

static void make_ready(void)
{
    begin_roots();
    mark.pending_count = 0;
    for (unsigned i = 0; i < mark.most_markers; i++) {
        struct marker *marker = &mark.markers[i];
        marker->top = marker->stack;
        marker->range_count = 0;
        marker->blocks = marker->bytes = 0;
        marker->overflowed = false;
    }
}

/* Of a full collection. */
static void visit_slabs(void (*visit)(void *unused, struct slab *slab))
{
    mark.is_minor = false;
    mark.low = UINTPTR_MAX;
    mark.high = 0;
    blocks_each_slab(visit, NULL);
    if (mark.young.granules) {
        young_map_begin(&mark.young);
        blocks_each_young(enter_young_map, NULL);
    }
}

void mark_begin(void)
{
    visit_slabs(clear_marks);
    make_ready();
}

void mark_begin_minor(void)
{
    mark.is_minor = true;
    young_map_begin(&mark.young);
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

/* What the words of a block are compared with. young: of a minor collection; NULL: of a full one.
 * [sticky-marks] */
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

/* Pushes the words in a vector, or across its start, that point into the heap: from the last to the
 * first, since the last pushed is taken first. found: the halves that may be upper ones. */
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

static __attribute__((noinline)) void scan_with_jmp_bufs(struct marker *marker, const char *start,
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
 * shared: see marks-only-grow. */
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
                share_work(marker);
            top = marker->top;
        }
    }
    marker->top = top;
    marker->blocks += blocks;
    marker->bytes += bytes;
}

/* Of a minor collection. Nearly all that is reached is old, and needs no look but that at its mark.
 * So a block is fetched only when it has been marked, and waits in a second queue until it has
 * come. */

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
            share_work(marker);
    }
}

static __attribute__((noinline)) void drain_alone_full(struct marker *marker)
{
    drain(marker, false);
}

static void drain_alone(struct marker *marker)
{
    if (mark.is_minor)
        drain_minor(marker, false);
    else
        drain_alone_full(marker);
}

static __attribute__((noinline)) void drain_shared(struct marker *marker)
{
    if (mark.is_minor)
        drain_minor(marker, true);
    else
        drain(marker, true);
}

static inline void pushed_roots(struct marker *marker, size_t count)
{
    marker->top = with_room(marker, marker->top + count);
    if (!mark.defers_roots && marker->top - marker->stack > (marker->end - marker->stack) / 2)
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

/* What has changed of blocks that were followed: old ones in a minor collection, marked ones in a
 * cycle. */

static void push_pending(const char *start, size_t bytes);

static __attribute__((noinline)) void scan_large_old(struct marker *marker,
                                                     const struct old_part *part)
{
    size_t bytes = part->end - part->start;
    const char *from = (const char *)part->start;
    if (part->block_bytes >= PAGE_BYTES && mark.in_slice)
        push_pending(from, bytes);
    else if (part->block_bytes >= PAGE_BYTES && mark.skips_unreadable)
        push_readable(marker, from, bytes);
    else if (mark.in_slice || bytes <= PIECE_BYTES + 2 * VECTOR_BYTES)
        scan_with_jmp_bufs(marker, from, (const char *)part->end);
    else
        push_many_words(marker, from, bytes);
}

static void scan_first_old(struct marker *marker)
{
    const struct old_part *part = &marker->old_parts[marker->first_old_part];
    size_t bytes = part->end - part->start;
    marker->first_old_part = (marker->first_old_part + 1) % OLD_QUEUE;
    marker->old_part_count--;
    if (part->block_bytes < sizeof(jmp_buf) && bytes < sizeof(jmp_buf)) {
        const struct scan scan = {mark.bounds, mark.is_minor ? &mark.young : NULL};
        marker->top = scan_small(marker->top, &scan, (const char *)part->start, bytes);
    } else {
        scan_large_old(marker, part);
    }
    pushed_roots(marker, 0);
}

/* It is scanned when it has had time to be fetched; what is behind its first lines the processor
 * fetches by itself. */
static void queue_old(const struct old_part *part)
{
    struct marker *marker = &mark.markers[0];
    if (marker->old_part_count == OLD_QUEUE)
        scan_first_old(marker);
    __builtin_prefetch((const void *)part->start);
    __builtin_prefetch((const void *)(part->end - 1));
    marker->old_parts[(marker->first_old_part + marker->old_part_count++) % OLD_QUEUE] = *part;
}

/* A word that has changed may lie across either end of the range: [edges-overlap]. */
static uint64_t scan_old_part(const struct slab *slab, uintptr_t first, uintptr_t last,
                              const struct old_range *range)
{
    uintptr_t start = range->start - VECTOR_BYTES, end = range->end + VECTOR_BYTES;
    start = first > start ? first : start;
    end = last < end ? last : end;
    queue_old(&(struct old_part){start, end, slab->block_bytes});
    return end - start;
}

/* Of a word's blocks those from `index` up to `behind`. */
static inline uint64_t bits_within(size_t word, size_t index, size_t behind)
{
    size_t first = word * SLAB_WORD_BLOCKS;
    uint64_t bits = ~UINT64_C(0);
    if (index > first)
        bits <<= index - first;
    if (behind < first + SLAB_WORD_BLOCKS)
        bits &= ~(~UINT64_C(0) << (behind - first));
    return bits;
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
        old &=
            slab_live(slab, word) & ~slab->words[word].retired & bits_within(word, index, behind);
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

uint64_t mark_changed(uintptr_t start, uintptr_t end)
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
    mark.work += scanned;
    return scanned;
}

/* A cycle. */

bool mark_init_cycle(void)
{
    mark.pending = private_memory_map(MOST_RANGES * sizeof *mark.pending);
    mark.copy = private_memory_map(COPY_BYTES);
    return mark.pending && mark.copy;
}

static void clear_marks_for_cycle(void *unused, struct slab *slab)
{
    clear_marks(unused, slab);
    for (size_t i = 0; i < slab_words(slab); i++)
        *slab_unborn(slab, i) = slab->words[i].mark;
}

void mark_begin_cycle(void)
{
    visit_slabs(clear_marks_for_cycle);
    make_ready();
    mark.defers_roots = true;
}

void mark_defer_roots(bool defer)
{
    mark.defers_roots = defer;
}

/* The bounds of all that blocks may lie in now. */

static void add_range(void *unused, const char *start, const char *end, const struct slab *mapping)
{
    (void)unused, (void)mapping;
    uintptr_t low = (uintptr_t)start - 1, high = (uintptr_t)end + 1;
    mark.low = low < mark.low ? low : mark.low;
    mark.high = high > mark.high ? high : mark.high;
}

static void add_slab(void *unused, struct slab *slab)
{
    (void)unused;
    add_to_bounds(slab);
}

static void widen_bounds(void)
{
    blocks_each_range(add_range, NULL);
    blocks_each_of_fork(add_slab, NULL);
    set_bounds();
}

/* What is read by copy. */

static void scan_copy(uintptr_t start, uintptr_t end)
{
    size_t bytes = end - start;
    mark.work += bytes;
    long copied = mark.memory_file < 0
                      ? -1
                      : SYSCALL_4(SYS_pread64, mark.memory_file, mark.copy, bytes, start);
    if (copied == (long)bytes)
        scan_with_jmp_bufs(&mark.markers[0], mark.copy, mark.copy + bytes);
    else
        dirty_set(round_down(start, PAGE_BYTES), round_up(end, PAGE_BYTES)); /* [read-by-copy] */
}

static void scan_pending_piece(void)
{
    struct range *range = &mark.pending[mark.pending_count - 1];
    const char *piece = range->start, *end = piece + COPY_BYTES;
    if (end >= range->end) {
        end = range->end;
        mark.pending_count--;
    } else {
        range->start = end - VECTOR_BYTES; /* a word may lie across */
    }
    scan_copy((uintptr_t)piece, (uintptr_t)end);
}

static void push_pending_range(void *argument, uintptr_t start, uintptr_t end, bool readable)
{
    const struct part *part = argument;
    (void)readable;
    if (mark.pending_count == MOST_RANGES)
        scan_pending_piece();
    if (mark.pending_count == MOST_RANGES) { /* a long one: the stopped world reads this */
        dirty_set(round_down(start, PAGE_BYTES), round_up(end, PAGE_BYTES));
        return;
    }
    mark.pending[mark.pending_count++] =
        (struct range){(const char *)(start > part->start ? start : part->start),
                       (const char *)(end < part->end ? end : part->end)};
}

static void push_pending(const char *start, size_t bytes)
{
    struct part part = {NULL, (uintptr_t)start, (uintptr_t)start + bytes};
    if (bytes < LARGE_BYTES ||
        !resident_each(round_down(part.start, PAGE_BYTES), round_up(part.end, PAGE_BYTES),
                       push_pending_range, &part))
        push_pending_range(&part, part.start, part.end, true);
}

/* Returns whether the block had no mark. */
static bool mark_in_slice(struct marker *marker, const struct scan *scan,
                          const struct referent *referent)
{
    if (!set_mark(referent->bits, referent->bit, false))
        return false;
    marker->blocks++;
    marker->bytes += referent->bytes;
    mark.work += BLOCK_WORK;
    if (referent->bits->retired & referent->bit)
        return true;
    if (referent->bytes >= PAGE_BYTES) {
        push_pending(referent->start, referent->bytes);
        return true;
    }
    mark.work += referent->bytes;
    if (referent->bytes < sizeof(jmp_buf))
        marker->top =
            with_room(marker, scan_small(marker->top, scan, referent->start, referent->bytes));
    else
        scan_with_jmp_bufs(marker, referent->start, referent->start + referent->bytes);
    return true;
}

static void mark_before_in_slice(struct marker *marker, const struct scan *scan, uintptr_t word)
{
    struct referent before;
    if (find_referent(word - 1, &before))
        mark_in_slice(marker, scan, &before);
}

static bool is_unborn(const struct referent *referent)
{
    struct slab *slab = slab_at(referent->word);
    return (*slab_unborn(slab, (size_t)(referent->bits - slab->words)) & referent->bit) != 0;
}

/* Whether the word may mean the block that ends there: [boundary-marks-both]. */
static bool may_mean_end(const struct referent *referent, bool had_mark)
{
    if (referent->bit == 0)
        return true;
    if (referent->word != (uintptr_t)referent->start)
        return false;
    return referent->word % GRANULE_BYTES == 0 ||
           (had_mark &&
            (!is_live(referent) || (referent->bytes > MARK_PADDED_BYTES && is_unborn(referent))));
}

/* As drain, until there is nothing left or enough is done. What is in the queue then is marked. */
static __attribute__((noinline)) void drain_some(struct marker *marker, size_t work)
{
    const struct scan scan = {mark.bounds, NULL};
    for (unsigned first = 0, queued = 0;;) {
        while (queued < PREFETCH_QUEUE && marker->top > marker->stack && mark.work < work) {
            struct referent *referent = &marker->queue[(first + queued) % PREFETCH_QUEUE];
            uintptr_t word = *--marker->top;
            if (find_referent(word, referent)) {
                prefetch(referent);
                queued++;
            } else {
                mark_before_in_slice(marker, &scan, word);
            }
        }
        if (queued > 0) {
            const struct referent referent = marker->queue[first];
            first = (first + 1) % PREFETCH_QUEUE;
            queued--;
            bool had_mark = !mark_in_slice(marker, &scan, &referent);
            if (may_mean_end(&referent, had_mark))
                mark_before_in_slice(marker, &scan, referent.word);
        } else if (mark.pending_count > 0 && mark.work < work) {
            scan_pending_piece();
        } else {
            return;
        }
    }
}

void mark_begin_slice(int memory_file)
{
    mark.in_slice = mark.defers_roots = true;
    mark.memory_file = memory_file;
    mark.work = 0;
    widen_bounds();
}

void mark_end_slice(void)
{
    mark.in_slice = false;
}

size_t mark_work_of_slice(void)
{
    return mark.work;
}

bool mark_some(size_t work)
{
    struct marker *marker = &mark.markers[0];
    mark_changed_done();
    drain_some(marker, work);
    return marker->top == marker->stack && mark.pending_count == 0;
}

/* The world is stopped. */

/* What is free by now and had been marked: a word may have meant the block before it. */
static void push_ends(const struct slab *slab, size_t word, uint64_t freed)
{
    struct marker *marker = &mark.markers[0];
    for (; freed; freed &= freed - 1) {
        size_t index = word * SLAB_WORD_BLOCKS + (size_t)__builtin_ctzl(freed);
        *marker->top = (uintptr_t)slab_block(slab, index) - 1;
        marker->top = with_room(marker, marker->top + 1);
    }
}

/* A block that is not live has a mark that is set, as in mark_begin. */
static void complete_marks(void *unused, struct slab *slab)
{
    (void)unused;
    for (size_t i = 0; i < slab_words(slab); i++) {
        uint64_t dead = ~slab_live(slab, i), *mark_bits = &slab->words[i].mark;
        uint64_t freed = dead & *mark_bits & ~*slab_unborn(slab, i) & slab_word_mask(slab, i);
        if (slab->block_bytes > MARK_PADDED_BYTES)
            push_ends(slab, i, freed);
        *mark_bits |= dead;
    }
    add_to_bounds(slab);
}

void mark_end_cycle(void)
{
    visit_slabs(complete_marks);
    begin_roots();
    mark.defers_roots = true;
}

/* A block that was not read to its end, if it is there still: [locked-shapes]. */
static void scan_rest(struct marker *marker, const struct range *range)
{
    struct referent referent;
    if (!find_referent((uintptr_t)range->start, &referent) || !is_live(&referent))
        return;
    const char *end = referent.start + referent.bytes;
    end = range->end < end ? range->end : end;
    if (end > range->start)
        scan_block(marker, range->start, (size_t)(end - range->start));
}

static void scan_fork_block(void *unused, struct slab *slab)
{
    (void)unused;
    if (slab->words[0].mark & slab_live(slab, 0) & ~slab->words[0].retired & 1)
        scan_block(&mark.markers[0], slab->base, slab->block_bytes);
}

void mark_untracked(void)
{
    for (size_t i = 0; i < mark.pending_count; i++)
        scan_rest(&mark.markers[0], &mark.pending[i]);
    mark.pending_count = 0;
    blocks_each_of_fork(scan_fork_block, NULL);
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
        drain_shared(marker);
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
