/* SPDX-License-Identifier: MIT
 *
 * leaks.c: see leaks.h.
 *
 * Which leaks are direct is found by marking, twice:
 *
 * Forwards. Each leak without a mark becomes a leader, and what it reaches is marked. So each leak
 * is a leader, or a leader reaches it. A later leader may reach an earlier one, but no earlier one
 * a later one: what an earlier one reaches has a mark already, and does not become a leader.
 *
 * Backwards. The marks of all leaks are cleared. The leaders are taken from the last to the first.
 * One without a mark is direct: no later leader reaches it, and no earlier one can. What it reaches
 * is marked.
 *
 * So each leak hangs on a direct one, and no direct one on another. memcheck's definitely and
 * indirectly lost blocks are the same.
 *
 * The world is stopped, so both walks over the slabs find the same leaks. Blocks that the program
 * has freed (retired) are no leaks, and lead nowhere.
 */
#include "gc/cycle/leaks.h"

#include "alloc/blocks/blocks.h"
#include "gc/mark/mark.h"
#include "vm/private_memory.h"

/* In the low bits of a block's address. */
enum { LEADER = 1, DIRECT = 2, FLAGS = LEADER | DIRECT };

/* An address within the block, so that it means no neighbour (mark.c, one past the end). */
enum { INSIDE_BYTES = 8 };

struct leak_list {
    uintptr_t *leaks;
    size_t count;
};

/* The live blocks of a word of a slab that have no mark and that the program has not freed. */
static uint64_t leaks_of(struct slab *slab, size_t word)
{
    const struct slab_word *bits = &slab->words[word];
    return slab_live(slab, word) & ~(bits->mark | bits->retired);
}

static void count_leaks(void *argument, struct slab *slab)
{
    struct leak_list *list = argument;
    for (size_t i = 0; i < slab_words(slab); i++)
        list->count += count_bits(leaks_of(slab, i));
}

static void enter_leaks(void *argument, struct slab *slab)
{
    struct leak_list *list = argument;
    for (size_t i = 0; i < slab_words(slab); i++)
        for (uint64_t left = leaks_of(slab, i); left; left &= left - 1) {
            size_t index = i * SLAB_WORD_BLOCKS + (size_t)__builtin_ctzl(left);
            list->leaks[list->count++] = (uintptr_t)slab_block(slab, index);
        }
}

static uint64_t *mark_of(uintptr_t leak, uint64_t *bit)
{
    const void *block = (const void *)(leak & ~(uintptr_t)FLAGS);
    struct slab *slab = blocks_slab_of(block);
    bool exact;
    size_t index = slab_index(slab, block, &exact);
    *bit = slab_bit(index);
    return &slab->words[index / SLAB_WORD_BLOCKS].mark;
}

static bool has_mark(uintptr_t leak)
{
    uint64_t bit;
    return (*mark_of(leak, &bit) & bit) != 0;
}

static void clear_mark(uintptr_t leak)
{
    uint64_t bit, *mark = mark_of(leak, &bit);
    *mark &= ~bit;
}

static void mark_from(uintptr_t leak)
{
    struct mark_result unused;
    uintptr_t root = (leak & ~(uintptr_t)FLAGS) + INSIDE_BYTES;
    mark_roots(&root, &root + 1);
    mark_finish(0, &unused);
}

/* If it has no mark, it gets the flag, and what it reaches is marked. */
static void lead(uintptr_t *leak, uintptr_t flag)
{
    if (has_mark(*leak))
        return;
    mark_from(*leak);
    *leak |= flag;
}

bool leaks_visit(leak_visitor *visit, void *argument)
{
    struct leak_list list = {0};
    blocks_each_slab(count_leaks, &list);
    if (list.count == 0)
        return true;
    size_t bytes = list.count * sizeof *list.leaks;
    list.leaks = private_memory_map(bytes);
    if (!list.leaks)
        return false;
    list.count = 0;
    blocks_each_slab(enter_leaks, &list);
    for (size_t i = 0; i < list.count; i++)
        lead(&list.leaks[i], LEADER);
    for (size_t i = 0; i < list.count; i++)
        clear_mark(list.leaks[i]);
    for (size_t i = list.count; i-- > 0;)
        if (list.leaks[i] & LEADER)
            lead(&list.leaks[i], DIRECT);
    for (size_t i = 0; i < list.count; i++)
        visit(argument, (const void *)(list.leaks[i] & ~(uintptr_t)FLAGS),
              (list.leaks[i] & DIRECT) != 0);
    private_memory_unmap(list.leaks, bytes);
    return true;
}
