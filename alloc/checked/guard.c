/* SPDX-License-Identifier: MIT
 *
 * guard.c: `blocks:guard`: one allocation in N gets a page between pages without access (pool.h);
 * all others are those of `blocks`.
 *
 *     malloc   counts down to the thread's next sample, in front of the fast path of `blocks`
 *     free     that of `blocks`: a block of the pool is not in its tables, so it comes to
 *              free_slowly, and from there here
 *
 * The allocations between two samples of a thread are drawn, from 0 to 2N - 2 with equal chance:
 * one in N is sampled, and which cannot be foreseen. Before a thread's first sample there are 0 to
 * N - 1, so each of a short thread's allocations has the chance of 1 in N too.
 *
 * N is 20,000 when nothing is said: a sample takes some 15 us on a virtual machine (two faults and
 * three system calls), so of a program that allocates every 200 ns 0.4%. GWP-ASan has 5,000 (LLVM,
 * compiler-rt/lib/gwp_asan/options.inc), of some processes only. Of 256 slots up to 192 are live
 * blocks: 768 KiB at most, and 70 KiB of what is known of them.
 */
#include "alloc/checked/guard.h"

#include <stdatomic.h>
#include <string.h>

#include "alloc/blocks/blocks.h"
#include "alloc/blocks/fast.h"
#include "alloc/blocks/heap.h"
#include "alloc/checked/faults.h"
#include "alloc/checked/pool.h"
#include "alloc/checked/report.h"
#include "vm/own_memory.h"
#include "vm/pages.h"
#include "vm/private_memory.h"
#include "vm/random.h"

static uint64_t one_in;
static _Atomic uint64_t draws; /* the sequence of random numbers; written at start and fork too */

/* How many allocations there are up to the thread's next sample, the sample counted. The countdown
 * ends at 0. A new thread begins at 0, so its first allocation counts below 0: that tells that it
 * has not begun. */
enum { NOT_BEGUN = 0, ENDED = 0 };
static __thread int32_t until_sample;

static int32_t draw_below(uint64_t limit)
{
    return (int32_t)random_reduce(random_draw_shared(&draws), limit);
}

/* For an allocation at which the countdown has ended. */
static bool is_sampled(void)
{
    if (until_sample != ENDED) {
        until_sample = draw_below(one_in);
        if (until_sample > 0)
            return false;
    }
    until_sample = draw_below(2 * one_in - 1) + 1;
    return true;
}

/* Counts an allocation. True: it is to be a sample. One instruction that changes memory, and its
 * flags; of C the compiler makes four. */
static inline bool count_to_sample(void)
{
    bool due;
    __asm__("subl $1, %0" : "+m"(until_sample), "=@ccle"(due) : : "cc");
    return __builtin_expect(due, 0);
}

static void *alloc_sampled(size_t alignment, size_t size)
{
    return is_sampled() ? pool_alloc(alignment, size, random_draw_shared(&draws)) : NULL;
}

static __attribute__((noinline)) void *alloc_at_sample(size_t size)
{
    void *block = alloc_sampled(BLOCK_ALIGNMENT, size);
    return block ? block : blocks_alloc(size);
}

static void *guard_alloc(size_t size)
{
    return count_to_sample() ? alloc_at_sample(size) : alloc_fast(size);
}

static void *guard_alloc_zeroed(size_t size)
{
    void *block = count_to_sample() ? alloc_sampled(BLOCK_ALIGNMENT, size) : NULL;
    return block ? block : blocks_alloc_zeroed(size);
}

static void *guard_alloc_aligned(size_t alignment, size_t size)
{
    void *block = count_to_sample() ? alloc_sampled(alignment, size) : NULL;
    return block ? block : blocks_alloc_aligned(alignment, size);
}

static void free_guarded(void *block)
{
    pool_free(block, "free");
}

static size_t guard_usable_size(const void *block)
{
    size_t bytes;
    if (pool_holds(block))
        return pool_find(block, &bytes) ? bytes : 0;
    return blocks_usable_size(block);
}

/* Resizes a block of the pool. The block's size is its usable size. A realloc to that size leaves
 * the block where it is, as programs expect (tests/contract/usable_size.c). A realloc to any other
 * size moves the block, so that an old pointer is noticed. Where there is no memory to move it, a
 * block that shrinks stays. */
static void *resize_guarded(void *block, size_t size)
{
    size_t old_size;
    if (!pool_find(block, &old_size)) {
        pool_free(block, "realloc"); /* reports it */
        return NULL;
    }
    if (size == old_size)
        return block;
    void *moved = guard_alloc(size);
    if (!moved)
        return size < old_size ? block : NULL;
    memcpy(moved, block, old_size < size ? old_size : size);
    pool_free(block, "realloc");
    return moved;
}

/* At a realloc at which the countdown has ended. A block that grows is sampled as a new one. One
 * that does not is left alone, and the countdown ends at the next allocation instead. */
static __attribute__((noinline)) void *grow_at_sample(void *block, size_t size)
{
    size_t old_size = blocks_usable_size(block);
    if (size <= old_size || old_size == 0) {
        until_sample++;
        return NULL;
    }
    void *moved = alloc_sampled(BLOCK_ALIGNMENT, size);
    if (!moved)
        return NULL;
    memcpy(moved, block, old_size);
    blocks_free(block);
    return moved;
}

static void *guard_resize(void *block, size_t size)
{
    if (pool_holds(block))
        return resize_guarded(block, size);
    void *moved = count_to_sample() ? grow_at_sample(block, size) : NULL;
    return moved ? moved : blocks_resize(block, size);
}

static void guard_walk(heap_visitor *visit, void *argument)
{
    blocks_walk(visit, argument);
    pool_walk(visit, argument);
}

static void guard_statistics(statistic_visitor *visit, void *argument)
{
    struct pool_counts counts;
    pool_count(&counts);
    visit(argument, "guard", "sampled_blocks", counts.sampled);
    visit(argument, "guard", "live_blocks", counts.live);
    visit(argument, "guard", "passed_over", counts.passed_over);
}

/* Parent and child, and the next child, do not sample alike. */
static void guard_fork_child(void)
{
    draws = random_seed();
    until_sample = NOT_BEGUN;
    own_memory_forked();
    faults_fork_child();
    pool_fork_child();
    blocks_fork_child();
}

struct guard_options {
    struct blocks_options heap;
    uint64_t one_in, slots, reports;
};

static bool guard_init(const void *options)
{
    const struct guard_options *chosen = options;
    one_in = chosen->one_in;
    draws = random_seed();
    report_init(false, chosen->reports);
    char *page = private_memory_map(PAGE_BYTES);
    if (!page)
        return false;
    own_memory_init(page);
    pool_init(chosen->slots);
    faults_init(pool_report_fault);
    blocks_heap.free_guarded = free_guarded;
    return blocks_init((unsigned)chosen->heap.retain_percent, NULL);
}

static const struct option_description options[] = {
    BLOCKS_OPTIONS(0),
    {"guard", "one allocation in so many lies in a page between pages without access",
     NUMBER_IN(0, struct guard_options, one_in), .minimum = 1, .maximum = 1000000000,
     .initial = 20000},
    {"slots",
     "pages for such blocks: up to three quarters live ones, the rest freed ones that wait",
     NUMBER_IN(0, struct guard_options, slots), .minimum = POOL_LEAST, .maximum = POOL_MOST,
     .initial = 256},
    {"reports", "so many misuses are reported, further ones counted",
     NUMBER_IN(0, struct guard_options, reports), .maximum = 1000000, .initial = 64},
    {.key = ""},
};

const struct allocator blocks_guard = {
    .name = "blocks",
    .preset = "guard",
    .preset_title = "some allocations between pages without access, for production",
    .title = "segregated fit, slabs of one size, a thread each (today's)",
    .source = "after Berger et al. 2000; Leijen, Zorn, de Moura 2019",
    .options = options,
    .init = guard_init,
    .alloc = guard_alloc,
    .alloc_zeroed = guard_alloc_zeroed,
    .alloc_aligned = guard_alloc_aligned,
    .free = blocks_free,
    .resize = guard_resize,
    .usable_size = guard_usable_size,
    .fork_child = guard_fork_child,
    .trim = blocks_trim,
    .fault_action = faults_action,
    .more_statistics = guard_statistics,
    .at_exit = pool_look,
    .walk = guard_walk,
    .waste = blocks_waste,
    .owns = blocks_owns,
    .thread_exit = blocks_thread_exit,
    .statistics = blocks_statistics,
    .cached_bytes = blocks_cached_bytes,
    .is_valid = blocks_is_valid,
    .tune = blocks_tune,
};
