/* SPDX-License-Identifier: MIT
 *
 * verify.c: see verify.h.
 */
#include "gc/cycle/verify.h"

#include <stdlib.h>
#include <string.h>

#include "alloc/blocks/blocks.h"
#include "gc/cycle/generations.h"
#include "gc/mark/candidates.h"
#include "gc/mark/mark.h"
#include "vm/message.h"
#include "vm/pages.h"
#include "vm/private_memory.h"
#include "vm/window.h"

/* So much of the window has sums: what lies behind, and what is a mapping, goes without. */
static const size_t SUMMED_BYTES = (size_t)64 << 30;

static const char LOST_BY_CYCLE[] = "a cycle would free ";

static struct {
    bool on;
    uint64_t *sums; /* by page of the window; 0: none */
    bool minor;     /* the collection at hand */
    bool is_stale;  /* what the walk over the words has found of lost blocks */
    struct verify_counts counts;
} verify;

void verify_init(void)
{
    verify.sums = private_memory_map(SUMMED_BYTES / PAGE_BYTES * sizeof *verify.sums);
    verify.on = true;
}

bool verify_is_on(void)
{
    return verify.on;
}

struct verify_counts verify_counts(void)
{
    return verify.counts;
}

/* A line of up to three texts, each before a pointer. */
static _Noreturn void fail(const char *what, const void *block, const char *where, const void *at)
{
    struct message message;
    message_begin(&message);
    message_text(&message, "gc: verify: ");
    message_text(&message, what);
    message_pointer(&message, block);
    message_text(&message, where);
    if (at)
        message_pointer(&message, at);
    message_send(&message);
    abort();
}

/* Pages. */

static uint64_t *sum_of(uintptr_t page)
{
    uintptr_t offset = page - window.base;
    return verify.sums && offset < SUMMED_BYTES ? &verify.sums[offset / PAGE_BYTES] : NULL;
}

/* Never 0. A page that was discarded has a sum of its own: what reads as zero names nothing. */
static uint64_t sum_page(uintptr_t page)
{
    const uint64_t *words = (const uint64_t *)page;
    uint64_t sum = 0, any = 0;
    for (size_t i = 0; i < PAGE_BYTES / sizeof *words; i++) {
        any |= words[i];
        sum = (sum ^ words[i]) * UINT64_C(0x9E3779B97F4A7C15);
        sum ^= sum >> 29;
    }
    return any ? sum | 2 : 1;
}

void verify_cleaned(uintptr_t start, uintptr_t end)
{
    if (!verify.on)
        return;
    for (uintptr_t page = start; page < end; page += PAGE_BYTES) {
        const struct slab *slab = blocks_slab_of((const void *)page);
        if (sum_of(page))
            *sum_of(page) = slab && mark_reads_in_place(slab->block_bytes) ? sum_page(page) : 0;
    }
}

static void check_page(uintptr_t page)
{
    const uint64_t *sum = sum_of(page);
    if (!sum || *sum == 0 || dirty_page(DIRTY_GENERATIONS, page) || !generations_page_has_old(page))
        return;
    const struct slab *slab = blocks_slab_of((const void *)page);
    if (!mark_reads_in_place(slab->block_bytes))
        return;
    uint64_t now = sum_page(page);
    if (now != *sum && now != 1)
        fail("the page ", (const void *)page, " has been written, and is said to be clean", NULL);
}

static void check_range(void *unused, const char *start, const char *end,
                        const struct slab *mapping)
{
    (void)unused;
    for (const char *page = start; !mapping && page < end; page += PAGE_BYTES)
        check_page((uintptr_t)page);
}

void verify_clean_pages(void)
{
    if (verify.on)
        blocks_each_range(check_range, NULL);
}

/* Marks. */

static void keep_marks(void *unused, struct slab *slab)
{
    (void)unused;
    for (size_t i = 0; i < slab_words(slab); i++)
        *slab_seen(slab, i) = slab->words[i].mark;
}

void verify_keep_marks(bool minor)
{
    verify.minor = minor;
    blocks_each_slab(keep_marks, NULL);
}

/* The live blocks of a word of a slab that only the full marking has reached. */
static uint64_t lost(struct slab *slab, size_t word)
{
    return slab_live(slab, word) & slab->words[word].mark & ~*slab_seen(slab, word);
}

static void find_lost(void *first, struct slab *slab)
{
    const char **found = first;
    for (size_t i = 0; !*found && i < slab_words(slab); i++)
        if (lost(slab, i))
            *found = slab_block(slab, i * SLAB_WORD_BLOCKS + (size_t)__builtin_ctzl(lost(slab, i)));
}

/* The lost block that an address lies in. *is_live: it lies in a live one, lost or not. */
static const void *lost_block_at(uintptr_t address, bool *is_live)
{
    struct slab *slab = blocks_slab_of((const void *)address);
    bool exact;
    size_t index = slab ? slab_index(slab, (const void *)address, &exact) : 0;
    *is_live = false;
    if (!slab || index >= slab->capacity)
        return NULL;
    size_t word = index / SLAB_WORD_BLOCKS;
    *is_live = (slab_live(slab, word) & slab_bit(index)) != 0;
    return lost(slab, word) & slab_bit(index) ? slab_block(slab, index) : NULL;
}

/* The lost block that a word of a block names: mark.c, one past the end. */
static const void *lost_block_of(uintptr_t word)
{
    bool is_live;
    const void *block = lost_block_at(word, &is_live);
    return block || is_live ? block : lost_block_at(word - 1, &is_live);
}

/* A word of a block that the minor collection or the cycle has marked. is_old: for a cycle, it was
 * live at the first stop. */
static void check_word(const char *at, bool is_old)
{
    const void *block = lost_block_of(word_at(at));
    if (!block)
        return;
    enum dirty_consumer consumer = verify.minor ? DIRTY_GENERATIONS : DIRTY_CYCLE;
    bool dirty = dirty_page(consumer, (uintptr_t)at) ||
                 dirty_page(consumer, (uintptr_t)at + sizeof(uintptr_t) - 1);
    if (!verify.minor && (is_old || dirty))
        fail(LOST_BY_CYCLE, block, ", which is named at ", at);
    if (verify.minor && !is_old)
        fail("a minor collection would free ", block, ", which a young block names at ", at);
    if (verify.minor && (dirty || !sum_of(round_down((uintptr_t)at, PAGE_BYTES))))
        fail("a minor collection would free ", block, ", which an old block names at ", at);
    verify.is_stale = true;
}

static void check_words(void *unused, struct slab *slab)
{
    (void)unused;
    if (!mark_reads_in_place(slab->block_bytes))
        return;
    for (size_t i = 0; i < slab->capacity; i++) {
        size_t word = i / SLAB_WORD_BLOCKS;
        uint64_t followed =
            slab_live(slab, word) & *slab_seen(slab, word) & ~slab->words[word].retired;
        if (!(followed & slab_bit(i)))
            continue;
        uint64_t old = verify.minor ? *slab_old(slab, word) : ~*slab_unborn(slab, word);
        const char *end = slab_block(slab, i) + slab->block_bytes - sizeof(uintptr_t);
        for (const char *at = slab_block(slab, i); at <= end; at += PACKED_BYTES)
            check_word(at, (old & slab_bit(i)) != 0);
    }
}

static void restore_marks(void *unused, struct slab *slab)
{
    (void)unused;
    for (size_t i = 0; i < slab_words(slab); i++)
        slab->words[i].mark = *slab_seen(slab, i);
}

/* Slabs that were made since have no marks that were kept. */
static void check_copied(void *unused, struct slab *slab)
{
    (void)unused;
    for (size_t i = 0; slab->marks_at > 0 && i < slab_words(slab); i++) {
        uint64_t missing = *slab_seen(slab, i) & ~slab->words[i].mark & slab_word_mask(slab, i);
        if (missing)
            fail("a snapshot has not marked ",
                 slab_block(slab, i * SLAB_WORD_BLOCKS + (size_t)__builtin_ctzl(missing)),
                 ", which its parent reached", NULL);
    }
}

void verify_snapshot_marks(void)
{
    if (!verify.on)
        return;
    blocks_each_slab(check_copied, NULL);
    verify.counts.cycles++;
}

void verify_marks(void)
{
    const char *found = NULL;
    blocks_each_slab(find_lost, &found);
    if (found) {
        verify.is_stale = mark_skips_unreadable(); /* not all can be looked into */
        blocks_each_slab(check_words, NULL);
        if (!verify.is_stale && !verify.minor)
            fail(LOST_BY_CYCLE, found, ", which a full collection reaches", NULL);
        if (!verify.is_stale)
            fail("a minor collection would free ", found, ", which a full one reaches", NULL);
        verify.counts.stale++;
    }
    blocks_each_slab(restore_marks, NULL);
    verify.counts.collections += verify.minor;
    verify.counts.cycles += !verify.minor;
}
