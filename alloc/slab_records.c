/* SPDX-License-Identifier: MIT
 *
 * slab_records.c: the records of slabs and threads.
 *
 * They lie apart from the blocks and close together: records of one size edge to edge in an area
 * of their own, so that a sweep or a walk over all of them reads memory in order. A record is
 * never given back, but used again; one that is not in use has capacity 0. Their areas are
 * entered in the page map as memory that no block lies in.
 */
#include <string.h>

#include "alloc/blocks_heap.h"
#include "vm/pagemap.h"
#include "vm/pages.h"

static struct owner records_memory = {OWNER_RECORDS};

bool enter_own_memory(void *start, size_t bytes)
{
    return pagemap_set(start, bytes, &records_memory);
}

bool records_init(void)
{
    const size_t bytes[RECORD_KINDS] = {
        [RECORD_FEW_WORDS] = slab_record_bytes(SLAB_FEW_WORDS),
        [RECORD_ALL_WORDS] = slab_record_bytes(SLAB_MAX_WORDS),
        [RECORD_THREAD] = sizeof(struct blocks_thread),
    };
    for (int kind = 0; kind < RECORD_KINDS; kind++) {
        area_init(&blocks_heap.records[kind].area, &records_memory);
        blocks_heap.records[kind].record_bytes = round_up(bytes[kind], 64);
    }
    return true;
}

struct slab *new_slab_record(size_t words)
{
    enum record_kind kind = words <= SLAB_FEW_WORDS ? RECORD_FEW_WORDS : RECORD_ALL_WORDS;
    struct record_pool *pool = &blocks_heap.records[kind];
    struct slab *slab = pool->unused;
    if (slab)
        pool->unused = slab->next;
    else
        slab = area_extend(&pool->area, pool->record_bytes);
    if (slab) {
        /* An inbox may still have the record from its last use: that entry stays as it is. */
        memset(slab, 0, offsetof(struct slab, announced));
        memset(slab->words, 0, words * sizeof slab->words[0]);
        slab->few_words = kind == RECORD_FEW_WORDS;
        memset(slab_pinned(slab, 0), 0, words * sizeof *slab_pinned(slab, 0));
    }
    return slab;
}

void drop_slab_record(struct slab *slab)
{
    struct record_pool *pool =
        &blocks_heap.records[slab->few_words ? RECORD_FEW_WORDS : RECORD_ALL_WORDS];
    slab->capacity = 0;
    slab->place = SLAB_UNUSED;
    atomic_store_explicit(&slab->thread, NULL, memory_order_relaxed);
    slab->next = pool->unused;
    pool->unused = slab;
}

struct blocks_thread *new_thread_record(void)
{
    struct record_pool *pool = &blocks_heap.records[RECORD_THREAD];
    return area_extend(&pool->area, pool->record_bytes);
}

static void each_in_pool(const struct record_pool *pool,
                         void (*visit)(void *argument, struct slab *slab), void *argument)
{
    struct segment segment;
    for (size_t i = 0; area_segment(&pool->area, i, &segment); i++)
        for (char *record = segment.start; record < segment.end; record += pool->record_bytes)
            if (((struct slab *)record)->capacity > 0)
                visit(argument, (struct slab *)record);
}

void blocks_each_slab(void (*visit)(void *argument, struct slab *slab), void *argument)
{
    each_in_pool(&blocks_heap.records[RECORD_FEW_WORDS], visit, argument);
    each_in_pool(&blocks_heap.records[RECORD_ALL_WORDS], visit, argument);
}
