/* SPDX-License-Identifier: MIT
 *
 * held_block.c: see held_block.h.
 */
#include "tests/unit/held_block.h"

#include <string.h>

const char held_refused[] = "no memory";

/* Contents are words. Small blocks are looked at whole; of large ones both ends, where a heap would
 * write, and one word in so many between. */
enum { WORD = sizeof(uint64_t), WHOLE_WORDS = 1024, EDGE_WORDS = 64, SAMPLE_WORDS = 61 };

static uint64_t word_at(uint64_t number, size_t index)
{
    return number ^ (index & 0xFF) * UINT64_C(0x0101010101010101);
}

/* The next word that is looked at. The block ends within its last word. */
static size_t next_index(const struct held_block *block, size_t index)
{
    size_t words = (block->usable + WORD - 1) / WORD, edge = words - EDGE_WORDS;
    if (words <= WHOLE_WORDS || index + 1 < EDGE_WORDS || index + 1 > edge)
        return index + 1;
    size_t next = index + SAMPLE_WORDS;
    return next < edge && !block->ends_only ? next : edge + 1;
}

/* Of the word with this index, in a block or a reach of so many bytes. Nearly all are whole, and
 * copying and comparing those takes an instruction. */
static bool is_whole(size_t index, size_t bytes)
{
    return bytes - index * WORD >= WORD;
}

static void put_word(unsigned char *start, size_t index, size_t bytes, uint64_t word)
{
    if (is_whole(index, bytes))
        memcpy(start + index * WORD, &word, WORD);
    else
        memcpy(start + index * WORD, &word, bytes - index * WORD);
}

static bool word_is(const unsigned char *start, size_t index, size_t bytes, uint64_t word)
{
    uint64_t found;
    if (!is_whole(index, bytes))
        return memcmp(start + index * WORD, &word, bytes - index * WORD) == 0;
    memcpy(&found, start + index * WORD, WORD);
    return found == word;
}

static void fill(const struct held_block *block)
{
    for (size_t i = 0; i * WORD < block->usable; i = next_index(block, i))
        put_word(block->start, i, block->usable, word_at(block->number, i));
}

/* reach: how far the contents still go, if the block has been resized. */
static bool is_filled(const struct held_block *block, const unsigned char *start, size_t reach)
{
    for (size_t i = 0; i * WORD < reach; i = next_index(block, i))
        if (!word_is(start, i, reach, word_at(block->number, i)))
            return false;
    return true;
}

static bool is_zero(const unsigned char *start, size_t bytes)
{
    return bytes == 0 || (*start == 0 && memcmp(start, start + 1, bytes - 1) == 0);
}

static const char *hold(struct held_block *block, const struct allocator *allocator, void *start,
                        size_t bytes, uint64_t number)
{
    block->start = start;
    block->bytes = bytes;
    block->usable = allocator->usable_size(start);
    block->number = number;
    if ((uintptr_t)start % BLOCK_ALIGNMENT != 0)
        return "a block is not aligned";
    if (!allocator->owns(start))
        return "an allocator does not know its own block";
    if (block->usable < bytes)
        return "a block is too small";
    fill(block);
    return NULL;
}

const char *held_alloc(struct held_block *block, const struct allocator *allocator,
                       const struct wish *wish)
{
    void *start = wish->how == ZEROED    ? allocator->alloc_zeroed(wish->bytes)
                  : wish->how == ALIGNED ? allocator->alloc_aligned(wish->alignment, wish->bytes)
                                         : allocator->alloc(wish->bytes);
    if (!start)
        return held_refused;
    if (wish->how == ZEROED && !is_zero(start, wish->bytes))
        return "a block is not zero";
    if (wish->how == ALIGNED && (uintptr_t)start % wish->alignment != 0)
        return "a block is not aligned as it should be";
    block->ends_only = wish->ends_only;
    return hold(block, allocator, start, wish->bytes, wish->number);
}

const char *held_look(const struct held_block *block, const struct allocator *allocator)
{
    if (!is_filled(block, block->start, block->usable))
        return "a block has lost its contents";
    if (allocator->usable_size(block->start) != block->usable)
        return "the usable size of a block has changed";
    return NULL;
}

const char *held_resize(struct held_block *block, const struct allocator *allocator, size_t bytes,
                        uint64_t number)
{
    const char *wrong = held_look(block, allocator);
    if (wrong)
        return wrong;
    void *start = allocator->resize(block->start, bytes);
    if (!start) {
        wrong = held_look(block, allocator);
        return wrong ? wrong : held_refused;
    }
    if (!is_filled(block, start, bytes < block->usable ? bytes : block->usable))
        return "a block was resized without its contents";
    return hold(block, allocator, start, bytes, number);
}

const char *held_free(struct held_block *block, const struct allocator *allocator)
{
    const char *wrong = held_look(block, allocator);
    if (wrong)
        return wrong;
    allocator->free(block->start);
    block->start = NULL;
    return NULL;
}
