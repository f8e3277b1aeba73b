/* SPDX-License-Identifier: MIT
 *
 * sweep.c: see sweep.h.
 *
 * Other threads may allocate and free while a sweep looks, or stand anywhere in malloc and free.
 * What it finds wrong it looks at again: if the trailer, or the live bit, is another one by then,
 * or a dead block neither free nor waiting, somebody is at work there. See [trailer before
 * contents], checked.h.
 */
#include "alloc/checked/sweep.h"

#include "alloc/blocks/lookup.h"
#include "alloc/checked/delay.h"
#include "alloc/checked/guarded.h"
#include "alloc/checked/zero_size.h"

/* Words that are zero are not written: their pages may take no memory yet. */
static void clear(uint64_t *word)
{
    if (*word != 0)
        *word = 0;
}

void clear_trailers(const struct slab *slab, bool zero)
{
    if (zero)
        return;
    for (size_t i = 0; i < slab->capacity; i++)
        clear(trailer_of(slab_block(slab, i), slab->block_bytes));
    clear(trailer_of(slab->base, slab->granules * GRANULE_BYTES));
}

/* Another thread's slab may get another shape or owner at any moment, so the table of bins is asked
 * first. A slab of this thread's that is queued is not looked at: [NULL is always allowed]. */
bool is_whole_before_granule(const char *block)
{
    const char *end = block - TRAILER_BYTES;
    size_t granule = fast_table_unit(block) / UNITS_PER_GRANULE - 1;
    if (!fast_table_covers(granule) ||
        !is_own(atomic_load_explicit(&fast_table.bins[granule], memory_order_relaxed)))
        return true;
    const struct slab *slab = slab_at(end);
    bool exact;
    size_t index = slab_index(slab, end, &exact);
    if (index >= slab->capacity) /* a remainder: zero from the slab's making on */
        return __atomic_load_n((const uint64_t *)(const void *)end, __ATOMIC_RELAXED) == 0;
    const char *before = slab_block(slab, index);
    if (before + slab->block_bytes != block)
        return true;
    uint64_t word = trailer_load(before, slab->block_bytes);
    return word == 0 || trailer_is_valid(trailer_decode(before, word));
}

struct walk {
    heap_visitor *visit;
    void *argument;
};

static size_t requested_bytes(const struct slab *slab, const char *block)
{
    uint64_t decoded = trailer_decode(block, trailer_load(block, slab->block_bytes));
    size_t room = slab->block_bytes - TRAILER_BYTES;
    bool known = trailer_is_valid(decoded) && trailer_slack(decoded) <= room;
    return known ? room - trailer_slack(decoded) : room;
}

static void walk_slab(void *argument, struct slab *slab)
{
    const struct walk *walk = argument;
    for (size_t i = 0; i < slab->capacity; i++) {
        struct block_info info = {.payload = slab_block(slab, i),
                                  .block_bytes = slab->block_bytes,
                                  .state = block_is_live(slab, i) ? BLOCK_LIVE : BLOCK_FREE};
        if (slab_is_large(slab)) {
            struct block_facts facts = guarded_facts(slab);
            info.payload = (void *)(uintptr_t)facts.block;
            info.usable_bytes = facts.bytes;
            info.state = guarded_is_live(slab, facts.block) ? BLOCK_LIVE : BLOCK_FREE;
        } else {
            info.usable_bytes = requested_bytes(slab, info.payload);
        }
        if (info.usable_bytes == 0) /* an aligned block of no bytes: it has its place */
            info.usable_bytes = 1;
        walk->visit(walk->argument, &info);
    }
}

void checked_walk(heap_visitor *visit, void *argument)
{
    struct walk walk = {visit, argument};
    lock_acquire(&blocks_heap.lock);
    blocks_each_slab(walk_slab, &walk);
    lock_release(&blocks_heap.lock);
    zero_size_walk(visit, argument);
}

static void look_at_live(struct slab *slab, size_t index, uint64_t decoded)
{
    const char *block = slab_block(slab, index);
    size_t room = slab->block_bytes - TRAILER_BYTES, slack = trailer_slack(decoded);
    if (slack > room || slack_is_whole(block + room - slack, slack))
        return;
    atomic_thread_fence(memory_order_acquire);
    uint64_t again = trailer_decode(block, trailer_load(block, slab->block_bytes));
    if (again == decoded && block_is_live(slab, index))
        report_overwritten("exit", block, slab->block_bytes, NULL);
}

/* Whether a dead block is free, or waits. If it is neither it is on its way from the program, or
 * back to it. */
static bool is_at_rest(const struct slab *slab, size_t index)
{
    return !(slab_live(slab, index / SLAB_WORD_BLOCKS) & slab_bit(index)) ||
           delay_holds(slab_block(slab, index));
}

static bool is_written(const struct slab *slab, size_t index, uint64_t word)
{
    const char *block = slab_block(slab, index);
    if (fill_is_whole(block, slab->block_bytes))
        return false;
    atomic_thread_fence(memory_order_acquire);
    return is_at_rest(slab, index) && trailer_load(block, slab->block_bytes) == word;
}

/* Twice: while the first look is taken the block may be handed out and freed again, by the same
 * code, and so have the same trailer. */
static void look_at_dead(const struct slab *slab, size_t index, uint64_t word)
{
    if (!is_written(slab, index, word))
        return;
    if (is_written(slab, index, word))
        report_dead_slot("exit", slab_block(slab, index), slab->block_bytes);
}

static void look_at_slab(void *argument, struct slab *slab)
{
    (void)argument;
    if (slab_is_large(slab)) {
        if (blocks_heap.threads <= 1) /* another thread may take the pages away any moment */
            guarded_look(slab, "exit");
        return;
    }
    for (size_t i = 0; i < slab->capacity; i++) {
        char *block = slab_block(slab, i);
        uint64_t word = trailer_load(block, slab->block_bytes);
        uint64_t decoded = trailer_decode(block, word);
        if (word == 0)
            continue;
        if (!trailer_is_valid(decoded)) {
            if (block_is_live(slab, i))
                report_overwritten("exit", block, slab->block_bytes, NULL);
            else
                report_dead_slot("exit", block, slab->block_bytes);
        } else if (trailer_is_dead(decoded)) {
            look_at_dead(slab, i, word);
        } else {
            look_at_live(slab, i, decoded);
        }
    }
}

void sweep_at_exit(void)
{
    blocks_each_slab_at_exit(look_at_slab, NULL);
}
