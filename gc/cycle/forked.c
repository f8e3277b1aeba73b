/* SPDX-License-Identifier: MIT
 *
 * forked.c: see forked.h.
 *
 * The result: struct forked_result, then the mark words of all slabs. Where a slab's begin stands
 * in its record, one more than their index; 0 in a record that is newer than the child.
 */
#include "gc/cycle/forked.h"

#include "alloc/blocks/blocks.h"
#include "gc/cycle/verify.h"

static uint64_t *words_of(const struct snapshot *snapshot)
{
    return (uint64_t *)(void *)(snapshot->result + sizeof(struct forked_result));
}

static void give_place(void *argument, struct slab *slab)
{
    size_t *count = argument;
    slab->marks_at = (uint32_t)*count + 1;
    for (size_t i = 0; i < slab_words(slab); i++)
        *slab_unborn(slab, i) = 0;
    *count += slab_words(slab);
}

bool forked_prepare(struct snapshot *snapshot)
{
    size_t count = 0;
    blocks_each_slab_by_bits(give_place, &count);
    return count < UINT32_MAX &&
           snapshot_prepare(snapshot, sizeof(struct forked_result) + count * sizeof(uint64_t));
}

static void hand_back_slab(void *words, struct slab *slab)
{
    uint64_t *marks = (uint64_t *)words + slab->marks_at - 1;
    for (size_t i = 0; i < slab_words(slab); i++)
        marks[i] = slab->words[i].mark;
}

void forked_hand_back(const struct snapshot *snapshot, const struct forked_result *result)
{
    *(struct forked_result *)(void *)snapshot->result = *result;
    blocks_each_slab_by_bits(hand_back_slab, words_of(snapshot));
}

/* Blocks that were made during a fork are in slabs that nobody has marked newborn: large.c. */
static void mark_newer(void *unused, struct slab *slab)
{
    (void)unused;
    for (size_t i = 0; slab->marks_at == 0 && i < slab_words(slab); i++)
        slab->words[i].mark = ~UINT64_C(0);
}

/* [marks in their place] */
static void take_over_slab(void *words, struct slab *slab)
{
    mark_newer(NULL, slab);
    if (slab->marks_at == 0)
        return;
    const uint64_t *marks = (const uint64_t *)words + slab->marks_at - 1;
    for (size_t i = 0; i < slab_words(slab); i++)
        slab->words[i].mark = marks[i];
}

struct forked_result forked_take_over(const struct snapshot *snapshot)
{
    blocks_each_slab_by_bits(take_over_slab, words_of(snapshot));
    verify_copied_marks();
    return *(const struct forked_result *)(const void *)snapshot->result;
}

static void complete_marks(void *unused, struct slab *slab)
{
    (void)unused;
    for (size_t i = 0; i < slab_words(slab); i++)
        slab->words[i].mark |= *slab_unborn(slab, i) | ~slab_live(slab, i);
}

/* [freed is born again], [listed-is-marked] (alloc/blocks/late_sweep.h) */
void forked_complete(void)
{
    blocks_each_of_fork(mark_newer, NULL);
    if (blocks_have_freed())
        blocks_each_slab_by_bits(complete_marks, NULL);
}
