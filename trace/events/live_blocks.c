/* SPDX-License-Identifier: MIT
 *
 * live_blocks.c: open addressing, linear probing, deletion by moving up (Knuth, TAOCP vol. 3, 6.4,
 * algorithm R).
 */
#include "trace/events/live_blocks.h"

#include <stdlib.h>

bool live_blocks_init(struct live_blocks *blocks)
{
    enum { FIRST_CAPACITY = 1 << 16 };
    *blocks =
        (struct live_blocks){calloc(FIRST_CAPACITY, sizeof *blocks->table), FIRST_CAPACITY, 0};
    return blocks->table != NULL;
}

void live_blocks_free(struct live_blocks *blocks)
{
    free(blocks->table);
}

static size_t slot_of(const struct live_blocks *blocks, uint64_t pointer)
{
    return (pointer >> 3) * UINT64_C(0x9e3779b97f4a7c15) >> 20 & (blocks->capacity - 1);
}

struct live_block *live_blocks_find(const struct live_blocks *blocks, uint64_t pointer)
{
    size_t i = slot_of(blocks, pointer);
    while (blocks->table[i].pointer && blocks->table[i].pointer != pointer)
        i = (i + 1) & (blocks->capacity - 1);
    return blocks->table[i].pointer ? &blocks->table[i] : NULL;
}

static void put(struct live_blocks *blocks, struct live_block block)
{
    size_t i = slot_of(blocks, block.pointer);
    while (blocks->table[i].pointer)
        i = (i + 1) & (blocks->capacity - 1);
    blocks->table[i] = block;
}

static bool grow(struct live_blocks *blocks)
{
    struct live_block *old = blocks->table;
    size_t old_capacity = blocks->capacity;
    struct live_block *larger = calloc(2 * old_capacity, sizeof *larger);
    if (!larger)
        return false;
    blocks->table = larger;
    blocks->capacity = 2 * old_capacity;
    for (size_t i = 0; i < old_capacity; i++)
        if (old[i].pointer)
            put(blocks, old[i]);
    free(old);
    return true;
}

bool live_blocks_add(struct live_blocks *blocks, struct live_block block)
{
    if (2 * (blocks->used + 1) > blocks->capacity && !grow(blocks))
        return false;
    put(blocks, block);
    blocks->used++;
    return true;
}

void live_blocks_remove(struct live_blocks *blocks, struct live_block *block)
{
    size_t mask = blocks->capacity - 1, hole = (size_t)(block - blocks->table), i = hole;
    while (blocks->table[i = (i + 1) & mask].pointer) {
        size_t home = slot_of(blocks, blocks->table[i].pointer);
        if (((i - home) & mask) >= ((i - hole) & mask)) {
            blocks->table[hole] = blocks->table[i];
            hole = i;
        }
    }
    blocks->table[hole].pointer = 0;
    blocks->used--;
}
