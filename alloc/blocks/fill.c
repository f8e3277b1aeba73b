/* SPDX-License-Identifier: MIT
 *
 * fill.c: see fill.h.
 *
 * `found` is guarded by the heap's lock, but for written_blocks, which is atomic.
 */
#include "alloc/blocks/fill.h"

#include <string.h>

#include "alloc/blocks/records.h"

void (*quarantine_found_written)(void);

static struct {
    struct quarantine_written written[MOST_WRITTEN];
    size_t noted;
    _Atomic uint64_t written_blocks;
} found;

uint64_t quarantine_written_blocks(void)
{
    return atomic_load_explicit(&found.written_blocks, memory_order_relaxed);
}

/* Whether the fill of 64 bytes is whole. */
static inline bool is_filled(const char *bytes)
{
    const fill_words *at = (const void *)bytes, fill = (fill_words){0} + FILL_WORD;
    fill_words changed = (at[0] ^ fill) | (at[1] ^ fill) | (at[2] ^ fill) | (at[3] ^ fill);
    return (changed[0] | changed[1]) == 0;
}

/* Where the fill of a small block has changed; its size: nowhere. */
static size_t find_written(const char *block, size_t bytes)
{
    enum { FILLED_AT_ONCE = 4 * sizeof(fill_words) };
    size_t at = 0;
    while (at + FILLED_AT_ONCE <= bytes && is_filled(block + at))
        at += FILLED_AT_ONCE;
    while (at < bytes && *(const uint64_t *)(const void *)(block + at) == FILL_WORD)
        at += sizeof FILL_WORD;
    while (at < bytes && block[at] == (char)QUARANTINE_FILL)
        at++;
    return at;
}

/* Those of the blocks whose fill has changed. */
static uint64_t find_changed(const struct slab *slab, size_t word, uint64_t blocks)
{
    uint64_t changed = 0;
    for (; blocks; blocks &= blocks - 1) {
        size_t index = word * SLAB_WORD_BLOCKS + (size_t)__builtin_ctzl(blocks);
        if (find_written(slab_block(slab, index), slab->block_bytes) != slab->block_bytes)
            changed |= slab_bit(index);
    }
    return changed;
}

/* With the lock. */
static __attribute__((noinline, cold)) void note_written(const struct slab *slab, size_t word,
                                                         uint64_t blocks)
{
    for (; blocks; blocks &= blocks - 1) {
        const char *block =
            slab_block(slab, word * SLAB_WORD_BLOCKS + (size_t)__builtin_ctzl(blocks));
        size_t offset = find_written(block, slab->block_bytes);
        atomic_fetch_add_explicit(&found.written_blocks, 1, memory_order_relaxed);
        if (found.noted < MOST_WRITTEN)
            found.written[found.noted] =
                (struct quarantine_written){block, slab->block_bytes, offset};
        found.noted++;
    }
}

void quarantine_look(const struct slab *slab, size_t word, uint64_t blocks)
{
    uint64_t changed = slab_is_large(slab) ? 0 : find_changed(slab, word, blocks);
    if (changed)
        note_written(slab, word, changed);
}

/* Released, and not looked at. The free bits are read last: see look_at_released. */
static uint64_t released_blocks(const struct slab_word *word)
{
    uint64_t retired = __atomic_load_n(&word->retired, __ATOMIC_ACQUIRE);
    return retired & __atomic_load_n(&word->free, __ATOMIC_ACQUIRE);
}

/* [looked at before use]. The bits are cleared first: what a collection releases in between it
 * looks at itself. */
void quarantine_look_before_use(struct slab *slab, size_t word)
{
    uint64_t released = released_blocks(&slab->words[word]);
    if (!released)
        return;
    released = slab_take_retired(&slab->words[word], released);
    uint64_t changed = find_changed(slab, word, released);
    if (__builtin_expect(!changed, 1))
        return;
    lock_acquire(&blocks_heap.lock);
    note_written(slab, word, changed);
    lock_release(&blocks_heap.lock);
    if (quarantine_found_written)
        quarantine_found_written();
}

static void look_and_clear(struct slab *slab, size_t word)
{
    uint64_t released = released_blocks(&slab->words[word]);
    if (!released)
        return;
    quarantine_look(slab, word, released);
    slab_clear_retired(&slab->words[word], released);
}

void quarantine_look_before_drop(struct slab *slab)
{
    for (size_t i = 0, words = slab_words(slab); i < words; i++)
        look_and_clear(slab, i);
}

/* The common heap is nobody's, and has current slabs, too. In the child of a fork the heaps of
 * other threads have bins that nobody uses. */
static void look_at_bins(void *unused, struct thread_heap *heap)
{
    (void)unused;
    bool is_used = heap->alive || heap == blocks_heap.common_heap;
    for (size_t i = 0; is_used && i < SIZE_CLASSES; i++)
        if (heap->bins[i].free_word)
            look_and_clear(heap->bins[i].current, current_word(&heap->bins[i]));
}

void quarantine_look_at_current(void)
{
    each_thread_heap(look_at_bins, NULL);
}

/* Only a collection leaves a block free and retired, and there is none while the lock is held. Who
 * takes a block for its age clears the retired bit first. So a block that is free and retired when
 * it has been read was not handed out before. */
static void look_at_released(void *unused, struct slab *slab)
{
    (void)unused;
    for (size_t i = 0, words = slab_is_large(slab) ? 0 : slab_words(slab); i < words; i++) {
        uint64_t changed = find_changed(slab, i, released_blocks(&slab->words[i]));
        atomic_thread_fence(memory_order_acquire);
        changed &= released_blocks(&slab->words[i]);
        if (changed)
            note_written(slab, i, changed);
    }
}

bool quarantine_look_at_released(void)
{
    return blocks_each_slab_at_exit(look_at_released, NULL);
}

size_t quarantine_take_written(struct quarantine_written written[MOST_WRITTEN])
{
    lock_acquire(&blocks_heap.lock);
    size_t count = found.noted;
    size_t known = count < MOST_WRITTEN ? count : MOST_WRITTEN;
    memcpy(written, found.written, known * sizeof *written);
    found.noted = 0;
    lock_release(&blocks_heap.lock);
    return count;
}
