/* SPDX-License-Identifier: MIT
 *
 * quarantine.c: see quarantine.h.
 *
 * Ageing has a bit for each block, the age bit. It is in the row of the old bits, which are not
 * needed: a quarantine has no generations.
 *
 *     retired, no age bit     retired since the last time: gets the bit
 *     retired, age bit        retired before the last time: released
 *     retired, remote bit     released, and not free yet
 *
 * A small block is released by its remote bit, as any thread frees. Its owning thread clears the
 * retired bit when it makes the block free. So whoever gets the block finds it not retired, and can
 * free it.
 *
 * Who writes: `ages` and the counters, any thread, atomically; all else, the holder of the heap's
 * lock.
 */
#include "alloc/blocks/quarantine.h"

#include <string.h>

#include "alloc/blocks/large.h"
#include "alloc/blocks/lookup.h"
#include "alloc/blocks/records.h"
#include "alloc/blocks/remote.h"
#include "vm/freeze.h"
#include "vm/pages.h"
#include "vm/single_threaded.h"

/* A thread adds what it has retired to the common count in steps of so much. */
enum { COUNTED_BYTES = 64 << 10 };
/* How much must have been retired since the last ageing. LEAST_AGE_BYTES: for any ageing.
 * AGE_BYTES: for one that a free begins. */
enum { LEAST_AGE_BYTES = 1 << 20, AGE_BYTES = 4 << 20 };

bool quarantine_on;

static struct {
    _Atomic size_t retired_bytes;
    _Atomic bool ages;
    _Atomic size_t aged_at; /* retired_bytes, the last time */
    _Atomic uint64_t releases;
    /* The rest is guarded by the heap's lock. */
    bool has_ages;   /* the age bits tell of the last time */
    bool freed_some; /* this time */
    _Atomic uint64_t aged_blocks;
} quarantine;

size_t quarantine_retired_bytes(void)
{
    return atomic_load_explicit(&quarantine.retired_bytes, memory_order_relaxed);
}

uint64_t quarantine_releases(void)
{
    return atomic_load_explicit(&quarantine.releases, memory_order_relaxed);
}

_Atomic uint64_t *quarantine_place_in_log(void)
{
    return thread_heap->alive ? &thread_heap->place_in_log : NULL;
}

/* Before the blocks. */
static void count_release(void)
{
    atomic_fetch_add_explicit(&quarantine.releases, 1, memory_order_relaxed);
}

uint64_t quarantine_aged_blocks(void)
{
    return atomic_load_explicit(&quarantine.aged_blocks, memory_order_relaxed);
}

static struct slab_word *word_of(struct slab *slab, size_t index)
{
    return &slab->words[index / SLAB_WORD_BLOCKS];
}

/* The index of a block that is the program's; what is no block is reported as free would. The
 * retired bit is asked first: [retired until free]. False: the block is retired. */
static inline __attribute__((always_inline)) bool find_programs(struct slab *slab,
                                                                const void *block,
                                                                const char *function, size_t *index)
{
    bool is_block = slab_find(slab, block, index);
    if (is_block && slab_block_is_retired(slab, *index))
        return false;
    if (!is_block || !block_is_live(slab, *index))
        expect_suspect(function, block);
    return true;
}

/* [one retires]. False: it was retired already, perhaps by another thread just now. A process with
 * one thread does without the locked instruction. That waits until the fill has left the
 * processor's store buffer: a tenth of perl's time. */
static inline bool set_retired(struct slab *slab, size_t index)
{
    return !slab_test_and_set_retired(word_of(slab, index), slab_bit(index), single_threaded());
}

/* A small block's size is a multiple of 16. */
static inline void fill(char *block, size_t bytes)
{
    enum { MOST_STORES = 16 };
    if (bytes > MOST_STORES * sizeof(fill_words)) {
        memset(block, QUARANTINE_FILL, bytes);
        return;
    }
    for (char *end = block + bytes; block < end; block += sizeof(fill_words))
        *(fill_words *)(void *)block = (fill_words){0} + FILL_WORD;
}

/* [retired is filled] */
static inline bool retire_small(struct slab *slab, size_t index, void *block)
{
    fill(block, slab->block_bytes);
    return set_retired(slab, index);
}

static void overwrite_large(struct slab *slab)
{
    if (!pages_discard(slab->base, slab->block_bytes))
        memset(slab->base, QUARANTINE_FILL, slab->block_bytes);
}

/* [closed with lock]. While the heap is frozen the kernel copies the page tables: the child might
 * find a block closed that is not retired there. */
static __attribute__((noinline)) bool retire_large(struct slab *slab, void *block)
{
    if (!lock_enter(&blocks_heap.lock)) {
        overwrite_large(slab);
        bool first = set_retired(slab, 0);
        frozen_end();
        return first;
    }
    bool live = slab->base == block && slab_is_large(slab) && slab_live(slab, 0) != 0;
    bool first = live && set_retired(slab, 0);
    if (first && !large_block_close(slab))
        overwrite_large(slab);
    lock_release(&blocks_heap.lock);
    return first;
}

static void age_after_free(void);

static __attribute__((noinline)) void count_for_all(size_t bytes)
{
    atomic_fetch_add_explicit(&quarantine.retired_bytes, bytes, memory_order_relaxed);
    if (atomic_load_explicit(&quarantine.ages, memory_order_relaxed))
        age_after_free();
}

/* A thread heap outlives its thread, and what it has not counted is counted by the next. */
static inline void count_retired(size_t bytes)
{
    struct thread_heap *heap = thread_heap;
    bytes += heap->alive ? heap->retired_bytes : 0;
    bool many = !heap->alive || bytes >= COUNTED_BYTES;
    if (heap->alive)
        heap->retired_bytes = many ? 0 : bytes;
    if (__builtin_expect(many, 0))
        count_for_all(bytes);
}

/* [on its way]: the block stays in a register until its bit is set, so no collection frees it
 * before. */
static inline __attribute__((always_inline)) bool retire(struct slab *slab, size_t index,
                                                         void *block)
{
    size_t bytes = slab->block_bytes;
    bool first = slab_is_large(slab) ? retire_large(slab, block) : retire_small(slab, index, block);
    keep_in_register(block);
    if (first)
        count_retired(bytes);
    return first;
}

bool quarantine_block(void *block, const char *function)
{
    struct slab *slab = slab_of_block(block, function);
    size_t index;
    if (!slab)
        return true;
    return find_programs(slab, block, function, &index) && retire(slab, index, block);
}

void *quarantine_resize(void *block, size_t size, bool *twice)
{
    struct slab *slab = slab_of_block(block, "realloc");
    size_t index;
    *twice = slab && !find_programs(slab, block, "realloc", &index);
    if (!slab || *twice)
        return NULL;
    size_t usable = slab->block_bytes;
    if (size <= usable && size > usable / 2)
        return block;
    bool grows_large = slab_is_large(slab) && size > usable && size <= (size_t)PTRDIFF_MAX;
    if (grows_large && large_block_resize_in_place(slab, size))
        return block;
    void *moved = grows_large ? large_block_alloc_to_grow(size) : NULL;
    if (!moved)
        moved = blocks_alloc(size);
    if (!moved)
        return size <= usable ? block : NULL;
    memcpy(moved, block, usable < size ? usable : size);
    if (blocks_heap.collector->moves)
        blocks_heap.collector->moves(block, moved);
    *twice = !retire(slab, index, block);
    return moved;
}

/* [retired until free]: a large block, which nobody else can free while the lock is held, is free
 * before its retired bit is cleared. */
static void free_aged_large(struct slab *slab)
{
    clear_suspects(slab, 0, 1);
    slab_set_free(&slab->words[0], 1);
    clear_retired(slab, 0, 1);
    large_block_free_locked(slab);
}

static void free_aged(struct slab *slab, size_t word, uint64_t blocks)
{
    quarantine_look(slab, word, blocks);
    atomic_fetch_add_explicit(&quarantine.aged_blocks, count_bits(blocks), memory_order_relaxed);
    quarantine.freed_some = true;
    if (slab_is_large(slab)) {
        free_aged_large(slab);
        return;
    }
    for (; blocks; blocks &= blocks - 1) {
        size_t index = word * SLAB_WORD_BLOCKS + (size_t)__builtin_ctzl(blocks);
        push_remote_free(slab, slab_block(slab, index), index);
    }
}

/* The retired blocks of a word that are not released. The retired bits are read last. A block that
 * its owning thread makes free meanwhile has its remote bit, or is not retired any more. One that a
 * collection has released, and that the thread takes meanwhile, has its free bit, or is not retired
 * any more. */
static uint64_t waiting_blocks(const struct slab_word *word)
{
    uint64_t free = __atomic_load_n(&word->free, __ATOMIC_ACQUIRE);
    uint64_t remote = atomic_load_explicit(&word->remote, memory_order_acquire);
    return __atomic_load_n(&word->retired, __ATOMIC_ACQUIRE) & ~(free | remote);
}

static void age_slab(void *unused, struct slab *slab)
{
    (void)unused;
    if (slab_is_large(slab) && (slab_free(&slab->words[0]) & 1)) {
        large_block_free_locked(slab); /* the kernel has refused to open it */
        return;
    }
    for (size_t i = 0, words = slab_words(slab); i < words; i++) {
        uint64_t waiting = waiting_blocks(&slab->words[i]);
        uint64_t *ages = slab_old(slab, i), aged = quarantine.has_ages ? waiting & *ages : 0;
        *ages = waiting & ~aged;
        if (aged)
            free_aged(slab, i, aged);
    }
}

static size_t retired_since(void)
{
    return quarantine_retired_bytes() -
           atomic_load_explicit(&quarantine.aged_at, memory_order_relaxed);
}

/* With the lock. */
static bool age(void)
{
    quarantine.freed_some = false;
    if (retired_since() < LEAST_AGE_BYTES)
        return false;
    atomic_store_explicit(&quarantine.aged_at, quarantine_retired_bytes(), memory_order_relaxed);
    count_release();
    blocks_each_slab(age_slab, NULL);
    quarantine.has_ages = true;
    while (runs_give_back_some(&blocks_heap.runs) > 0)
        ;
    return quarantine.freed_some;
}

void quarantine_begin_ageing(void)
{
    atomic_store_explicit(&quarantine.ages, true, memory_order_relaxed);
}

void quarantine_end_ageing(void)
{
    count_release();
    atomic_store_explicit(&quarantine.ages, false, memory_order_relaxed);
    quarantine.has_ages = false;
}

bool quarantine_age(void)
{
    quarantine_begin_ageing();
    lock_acquire(&blocks_heap.lock);
    bool freed = age();
    lock_release(&blocks_heap.lock);
    return freed;
}

/* Ages blocks as they are freed. Otherwise a program that frees much and then needs memory would
 * have all of it retired since the last time, and none of it could be released. */
static void age_after_free(void)
{
    if (retired_since() < AGE_BYTES)
        return;
    if (!lock_enter(&blocks_heap.lock)) {
        frozen_end();
        return;
    }
    if (retired_since() >= AGE_BYTES)
        age();
    lock_release(&blocks_heap.lock);
}
