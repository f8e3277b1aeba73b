/* SPDX-License-Identifier: MIT
 *
 * marker.h: what the files of the marker share: a marker's stack and queues, and the state of the
 * marking.
 *
 *     mark.c          begins and ends a marking
 *     mark_roots.c    words of roots       pinned.c    blocks that are roots
 *     changed.c       what may have changed in blocks that were followed before
 *          | words
 *          v
 *     drain.c         takes words, marks blocks       helpers.c     several markers
 *          ^ words                                    slices.c      beside the program
 *          |
 *     scan.c          finds the words of a block that may be pointers
 *     referent.h      from a word to its block, and to that one's mark
 *     candidates.h, young_map.h    which words are worth that
 */
#ifndef ALLOTROPE_GC_MARK_MARKER_H
#define ALLOTROPE_GC_MARK_MARKER_H

#include <setjmp.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "alloc/blocks/slab.h"
#include "gc/mark/candidates.h"
#include "gc/mark/young_map.h"
#include "vm/pages.h"

enum {
    PREFETCH_QUEUE = 16,
    PIECE_BYTES = 4096,      /* of a block scanned at a time */
    LARGE_BYTES = 256 << 10, /* from which only pages that were touched are scanned */
    MOST_RANGES = 4096,
    OLD_QUEUE = 16,   /* parts of old blocks that are fetched beforehand; a power of 2 */
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

/* A part of an old block, or of several side by side. */
struct old_part {
    uintptr_t start, end;
    size_t block_bytes;
};

/* Who writes: its thread ([own stack], mark.c), but for `running`. */
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
    _Atomic int32_t thread;   /* its number; 0: none, or one that is gone for sure */
};

/* Who writes: the thread that has stopped the world, or has the slice ([one collection],
 * gc/world/collection.h). While several markers run nobody writes it, except the words that they
 * share. */
extern struct marking {
    unsigned most_markers;
    size_t most_stack_bytes;
    struct marker *markers;
    struct heap_bounds bounds;
    uintptr_t low, high;    /* the bounds (mark_add_to_bounds); a minor collection widens them */
    struct young_map young; /* of a minor collection */
    bool is_minor;
    bool skips_unreadable, only_resident; /* see mark_skip_unreadable */
    bool skips_small;                     /* see mark_skip_part */
    bool tells_suspects;
    bool defers_roots;
    bool in_slice;         /* of a cycle: the program runs */
    int memory_file;       /* of /proc/self/mem, in a slice and where only_resident is set */
    struct range *pending; /* parts of blocks of a page or more, to be read by copy */
    size_t pending_count, work;
    char *copy;
    const void *suspect; /* see struct mark_result */
    size_t suspect_bytes;
    /* What markers share. See [pool under lock], [idle is empty] in helpers.c. */
    _Atomic uint32_t pool_lock;
    uintptr_t *pool;
    size_t pool_words;
    _Atomic uint32_t pool_filled;
    _Atomic uint32_t idle, working, asleep;
} mark;

/* Whether a block of this size may have pages that cannot be read. */
static inline bool may_lack_pages(size_t block_bytes)
{
    return block_bytes >= PAGE_BYTES || mark.skips_small;
}

static inline size_t stack_depth(const struct marker *marker)
{
    return (size_t)(marker->top - marker->stack);
}

static inline size_t stack_bytes(const struct marker *marker)
{
    return (size_t)(marker->end + SPARE_WORDS - marker->stack) * sizeof *marker->stack;
}

/* False: without memory. */
bool marker_allocate_stack(struct marker *marker, size_t bytes);

/* When the mark stack is full. Returns the top; what there is no room for is dropped. */
uintptr_t *marker_grow_stack(struct marker *marker, uintptr_t *top);

/* While a marker works it holds the top of its stack in a register, and puts it into `marker->top`
 * for functions that it calls. To be called before SPARE_WORDS can have been pushed. */
static inline uintptr_t *with_room(struct marker *marker, uintptr_t *top)
{
    return __builtin_expect(top > marker->end, 0) ? marker_grow_stack(marker, top) : top;
}

/* Steps of a beginning, of which slices.c makes those of a cycle. */
void mark_add_to_bounds(const struct slab *slab);
void mark_set_bounds(void);
void mark_clear_marks(void *unused, struct slab *slab);
void mark_visit_slabs(void (*visit)(void *unused, struct slab *slab));
void mark_begin_roots(void);
void mark_make_ready(void);

#endif
