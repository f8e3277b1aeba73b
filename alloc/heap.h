/* SPDX-License-Identifier: MIT
 *
 * heap.h: the seam below: a policy heap, one algorithm as a pure data structure.
 *
 * A policy heap is handed its state (zeroed memory of heap_bytes) and a page source. It knows no
 * threads, no environment, no errno and no globals, so that it can be tested, fuzzed and held
 * against a model alone; the layers above it (classic.h, layered.h) add locks, arenas and thread
 * caches and are the same for all. Every function here is called by one thread at a time.
 */
#ifndef ALLOTROPE_ALLOC_HEAP_H
#define ALLOTROPE_ALLOC_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "alloc/options.h"

enum { BLOCK_ALIGNMENT = 16 };

/* In place of sbrk. */
struct page_source {
    /* Moves the end of the heap's memory up by `bytes`, a multiple of 8, and returns where it
     * was; NULL when refused. Usually adjoins what came before, but need not: a heap must
     * compare. Memory that does not adjoin is aligned to 64 KiB. Fresh memory is zero; retracted
     * memory that is extended again is zero by whole pages only. */
    void *(*extend)(struct page_source *source, size_t bytes);
    /* Moves the end down again by `bytes`; false when the last segment is smaller. */
    bool (*retract)(struct page_source *source, size_t bytes);
    /* The index-th contiguous segment [*start, *end) that was handed out, in order of age; false
     * behind the last. For walks only. */
    bool (*segment)(struct page_source *source, size_t index, char **start, char **end);
};

enum { SEGMENT_ALIGNMENT = 65536 };

/* Whether a segment begins at an address: then there may be nothing readable before it. */
static inline bool begins_segment(struct page_source *pages, const void *address)
{
    char *start, *end;
    if ((uintptr_t)address % SEGMENT_ALIGNMENT != 0)
        return false;
    for (size_t index = 0; pages->segment(pages, index, &start, &end); index++)
        if (start == address)
            return true;
    return false;
}

/* What a block is to a walk. CACHED: free to the program, but kept by a layer above the heap.
 * RETIRED: the program has freed it, and a collector keeps it (alloc/blocks/slab.h). */
enum block_state { BLOCK_FREE, BLOCK_LIVE, BLOCK_CACHED, BLOCK_RETIRED };

struct block_info {
    void *payload;       /* what the program sees, or would see; a heap's own walk may give the
                            payload that an over-aligned one lies in */
    size_t usable_bytes; /* from payload on */
    size_t block_bytes;  /* headers and padding included; walks tile the heap with these */
    enum block_state state;
};

typedef void heap_visitor(void *argument, const struct block_info *info);

/* Waste of one live block, for the account of header, rounding and alignment:
 * usable = requested + rounding. */
struct block_waste {
    size_t header_bytes;    /* tags and headers */
    size_t alignment_bytes; /* skipped to reach an alignment above 16 */
};

/* Counters that a policy keeps because they cost nothing on its path, or finds when asked. Zero
 * where an algorithm has no such thing. Bytes include headers. */
struct heap_statistics {
    uint64_t free_blocks, free_bytes;     /* that the heap itself could hand out */
    uint64_t cached_blocks, cached_bytes; /* kept by thread caches */
    uint64_t splits, merges;
    uint64_t searches;           /* requests that had to look for a block */
    uint64_t search_lengths[16]; /* how many searches looked at [2^i, 2^(i+1)) blocks */
    uint64_t tree_depth;         /* deepest node now */
};

struct heap_policy {
    const char *name;   /* "bsd" */
    const char *title;  /* one line for people */
    const char *source; /* literature */
    size_t heap_bytes;  /* size of the state */
    /* Options of the algorithm itself, as published: those of the classic preset. May be NULL. */
    const struct option_description *options;
    /* The policy that serves in place of this one where the options ask for it; NULL: always this
     * one. Whoever makes a heap asks first: heap_policy_for. */
    const struct heap_policy *(*instead)(const void *options);

    /* state is zero. options: the heap's own struct, struct knuth_options say; NULL if it has none.
     * Takes no memory yet. */
    void (*init)(void *heap, struct page_source *pages, const void *options);

    /* At least `size` bytes (0 counts as 1), aligned to 16; NULL when the source refuses. Sizes
     * above PTRDIFF_MAX are refused by the callers. */
    void *(*alloc)(void *heap, size_t size);
    /* alignment: a power of two above 16. */
    void *(*alloc_aligned)(void *heap, size_t alignment, size_t size);
    /* block: live, of this heap. Default presets have checked that before (layered.h); what
     * `classic` checks itself is said in each policy's file. */
    void (*free)(void *heap, void *block);
    /* Grows or shrinks in place; false when it cannot or, by the published algorithm, should
     * not: nothing has changed. */
    bool (*resize)(void *heap, void *block, size_t size);
    /* What the published realloc does when resize says false; NULL: it allocates, copies, frees.
     * Returns where the block is now, or NULL: no memory, and nothing has changed. */
    void *(*move)(void *heap, void *block, size_t size);
    /* Constant for a live block until it is resized; every byte of it may be written. Read from
     * what lies with the block, so that its holder may ask without a lock, unless
     * size_is_elsewhere. */
    size_t (*usable_size)(void *heap, const void *block);
    bool size_is_elsewhere;
    struct block_waste (*waste)(void *heap, const void *block);
    /* Gives back to the source what can be; returns bytes. NULL: the algorithm never does. */
    size_t (*trim)(void *heap);
    /* Visits every block, of whatever state, once. The visitor must not use the heap. */
    void (*walk)(void *heap, heap_visitor *visit, void *argument);
    void (*statistics)(void *heap, struct heap_statistics *statistics);
    /* Walks everything and checks all that is true of the structure. For tests and fuzzers. */
    bool (*is_valid)(void *heap);
};

/* The policy that the options ask for. */
static inline const struct heap_policy *heap_policy_for(const struct heap_policy *policy,
                                                        const void *options)
{
    return policy->instead ? policy->instead(options) : policy;
}

/* realloc as published: stay, move in the algorithm's own way, or allocate, copy, free. NULL when
 * there is no memory: the block is untouched. */
static inline void *heap_realloc(const struct heap_policy *policy, void *heap, void *block,
                                 size_t size)
{
    if (policy->resize(heap, block, size))
        return block;
    if (policy->move)
        return policy->move(heap, block, size);
    size_t usable = policy->usable_size(heap, block);
    void *moved = policy->alloc(heap, size);
    if (moved) {
        memcpy(moved, block, usable < size ? usable : size);
        policy->free(heap, block);
    }
    return moved;
}

#endif
