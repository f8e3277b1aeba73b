/* SPDX-License-Identifier: MIT
 *
 * blocks_heap.h: what the files of `blocks` share; nobody else includes it.
 */
#ifndef ALLOTROPE_ALLOC_BLOCKS_HEAP_H
#define ALLOTROPE_ALLOC_BLOCKS_HEAP_H

#include "alloc/blocks.h"
#include "alloc/runs.h"
#include "alloc/size_class.h"
#include "vm/lock.h"

/* A thread's stock of one size class. The next block comes from a word of free bits of the
 * current slab; a bin without one points to a word that is always zero. */
struct bin {
    uint64_t *free;  /* the word */
    char *word_base; /* the block that its bit 0 stands for */
    size_t block_bytes;
    struct slab *current;
    struct slab *available, *full; /* lists by slab->next */
    uint64_t sweep;                /* the last sweep after which it was settled */
    uint64_t spare;
};

struct blocks_thread {
    struct bin bins[SIZE_CLASSES];
    struct slab *_Atomic inbox; /* slabs with remote frees since it was last emptied */
    struct blocks_thread *next; /* of those without a thread */
    bool alive;
    bool in_slow_path;
};

/* Slabs of one class that have no thread. */
struct shared_bin {
    struct slab *available, *full;
};

/* Records of one size, from an area of their own, so that they can be visited in order. */
struct record_pool {
    struct area area;
    size_t record_bytes;
    void *unused; /* linked through their `next` */
};

enum record_kind { RECORD_FEW_WORDS, RECORD_ALL_WORDS, RECORD_THREAD, RECORD_KINDS };

struct blocks_heap {
    struct lock lock; /* of all that follows, but for what is atomic */
    struct runs runs;
    struct record_pool records[RECORD_KINDS];
    struct shared_bin shared[SIZE_CLASSES];
    struct slab *_Atomic shared_inbox;
    struct blocks_thread *idle_threads;
    uint64_t threads;
    uint64_t large_blocks, large_bytes;
    _Atomic size_t mapped_granules; /* of SLAB_MAPPINGs */
    _Atomic size_t used_granules;   /* a copy of runs.used_granules */
    _Atomic size_t taken_bytes;     /* see blocks_taken_bytes */
    uint64_t shared_sweep;          /* see struct bin */
    _Atomic uint64_t sweeps;
    const struct blocks_collector *collector;
    struct lock common_lock;      /* of the next; taken before `lock` */
    struct blocks_thread *common; /* stock of the threads that have none of their own */
};

extern struct blocks_heap blocks_heap __attribute__((visibility("hidden")));

/* slab_records.c; with the heap's lock held. */
bool records_init(void);
struct slab *new_slab_record(size_t words);
void drop_slab_record(struct slab *slab);
struct blocks_thread *new_thread_record(void);

/* Memory for a slab or a large block: asks the collector, then the kernel. No lock held. NULL:
 * out of memory. *retry: look for free blocks again instead. */
enum growth ask_collector(size_t bytes, unsigned tries, bool exhausted);
void count_taken(size_t bytes);

/* blocks_large.c; no lock held. */
void *large_block_alloc(size_t alignment, size_t size);
/* For a block that has outgrown its place and will again: a mapping, which grows without a copy. */
void *large_block_alloc_to_grow(size_t size);
void large_block_free(struct slab *slab);
/* With the lock held. */
void large_block_free_locked(struct slab *slab);
/* In place, or by moving its pages; NULL when neither is possible. */
void *large_block_resize(struct slab *slab, size_t size);

static inline void set_shape(struct slab *slab, char *base, size_t block_bytes, uint32_t capacity)
{
    slab->owner.kind = OWNER_SLAB;
    slab->base = base;
    slab->block_bytes = block_bytes;
    slab->reciprocal = capacity == 1 ? 1 : UINT64_MAX / block_bytes + 1;
    slab->capacity = capacity;
}

#endif
