/* SPDX-License-Identifier: MIT
 *
 * heap.h: what the files of `blocks` share; nobody else includes it.
 */
#ifndef ALLOTROPE_ALLOC_BLOCKS_HEAP_H
#define ALLOTROPE_ALLOC_BLOCKS_HEAP_H

#include "alloc/blocks/blocks.h"
#include "alloc/blocks/runs.h"
#include "alloc/blocks/size_class.h"
#include "vm/lock.h"
#include "vm/window.h"

/* A thread's stock of one size class. The next block is the one that was freed last, or comes from
 * a word of free bits of the current slab; a bin without one points to a word that is always zero.
 */
struct bin {
    void *listed;    /* freed blocks of the thread's slabs, linked through their first word */
    uint64_t *free;  /* the word */
    char *word_base; /* the block that its bit 0 stands for */
    uint32_t block_bytes;
    int32_t room; /* how many blocks more may be listed */
    struct slab *current;
    struct slab *available, *full; /* lists by slab->next */
    uint64_t sweep;                /* the last sweep after which it was settled */
};

_Static_assert(sizeof(struct bin) == 64, "a cache line");

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

/* A granule of the heap's memory that has become records of one size: they follow this. */
struct record_granule {
    struct record_granule *next;
} __attribute__((aligned(64)));

/* Records of one size, from an area of their own, so that they can be visited in order; where the
 * area cannot grow, in granules of the heap's free memory. */
struct record_pool {
    struct area area;
    struct record_granule *granules;
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

/* What is found from an address without a further look: for every 16 bytes of the window a bit,
 * set where a live block of a slab starts; and for every granule of the window's first 4 GiB the
 * bin that its blocks go to, of the thread that has the slab, NULL where a free must look closer.
 * Of the bits of a slab its thread alone changes any, whence no change is atomic; who has the
 * lock, of one without a thread. */
enum { LIVE_BITS_SHIFT = 7, NEAR_GRANULES = 1 << 16, UNITS_PER_GRANULE = 1 << 12 };

struct near {
    uintptr_t base; /* the window's */
    _Atomic uint64_t *live;
    struct bin *_Atomic *bins;
};

extern struct near near __attribute__((visibility("hidden")));

/* The number of the 16 bytes that begin at an address; as window_unit says, too large for others.
 */
static inline size_t near_unit(const void *address)
{
    size_t offset = (uintptr_t)address - near.base;
    return offset >> UNIT_SHIFT | offset << (64 - UNIT_SHIFT);
}

static inline bool unit_is_live(size_t unit)
{
    return (atomic_load_explicit(&near.live[unit / 64], memory_order_relaxed) >> unit % 64 & 1) !=
           0;
}

static inline void set_live(size_t unit)
{
    _Atomic uint64_t *word = &near.live[unit / 64];
    atomic_store_explicit(
        word, atomic_load_explicit(word, memory_order_relaxed) | UINT64_C(1) << unit % 64,
        memory_order_relaxed);
}

/* False if it was not. */
static inline bool clear_live(size_t unit)
{
    _Atomic uint64_t *word = &near.live[unit / 64];
    uint64_t bits = atomic_load_explicit(word, memory_order_relaxed);
    bool was_live;
    /* One instruction that tests and clears; the compiler makes six of it. */
    __asm__("btrq %2, %0" : "+r"(bits), "=@ccc"(was_live) : "r"(unit) : "cc");
    atomic_store_explicit(word, bits, memory_order_relaxed);
    return was_live;
}

/* Whether a block of a slab, at the index, is the program's. */
bool block_is_live(const struct slab *slab, size_t index);

const struct blocks_thread *calling_thread(void);

/* How many blocks of a size a bin may list. */
int32_t list_room(size_t block_bytes);

/* blocks/records.c; with the heap's lock held. */
bool records_init(void);
/* Memory of our own in which no block lies and a collection need not look. */
bool enter_private_memory(void *start, size_t bytes);
struct slab *new_slab_record(size_t words);
void drop_slab_record(struct slab *slab);
struct blocks_thread *new_thread_record(void);

/* Memory for a slab or a large block: asks the collector, then the kernel. No lock held. NULL:
 * out of memory. *retry: look for free blocks again instead. */
enum growth ask_collector(size_t bytes, unsigned tries, bool exhausted);
void count_taken(size_t bytes);

/* blocks/large.c; no lock held. */
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
