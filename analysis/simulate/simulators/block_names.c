/* SPDX-License-Identifier: MIT
 *
 * block_names.c: names of 32 bits for blocks whose numbers are longer.
 *
 * The upper part of a block's number, its chunk, is renamed to a number of 15 bits that is not in
 * use yet; the lower 17 bits, which choose the set in every cache, stay. Chunks that stand in a
 * cache when the first is renamed keep the numbers that they have there.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "analysis/simulate/simulators/caches_state.h"

/* The slot of a chunk, which may be free. */
static size_t slot_of_chunk(const struct caches *caches, uint64_t chunk)
{
    size_t slot = chunk * 0x9e3779b97f4a7c15ULL >> (64 - 16);
    _Static_assert(CHUNK_TABLE == 1 << 16, "the hash yields 16 bits");
    while (caches->chunks[slot].chunk != chunk + 1 && caches->chunks[slot].chunk != 0)
        slot = (slot + 1) % CHUNK_TABLE;
    return slot;
}

static void number_chunk(struct caches *caches, size_t slot, uint64_t chunk, uint32_t number)
{
    caches->chunks[slot].chunk = chunk + 1;
    caches->chunks[slot].number = number;
    caches->number_used[number] = true;
}

static inline void number_chunk_of_name(struct caches *caches, uint32_t name)
{
    uint32_t chunk = name >> CHUNK_SHIFT;
    if (!caches->number_used[chunk])
        number_chunk(caches, slot_of_chunk(caches, chunk), chunk, chunk);
}

/* Gives the chunks that stand in any cache the numbers which they have there already. The chunk of
 * the lowest names has its own in any case: with another its blocks could have tag 0. */
static bool begin_renaming(struct caches *caches)
{
    caches->chunks = calloc(CHUNK_TABLE, sizeof *caches->chunks);
    if (!caches->chunks)
        return false;
    number_chunk_of_name(caches, 0);
    for (unsigned i = 0; i < CACHES_LEVELS; i++) {
        const struct level *level = &caches->levels[i];
        size_t sets = caches_sets(caches, i);
        for (size_t set = 0; set < sets; set++)
            number_chunk_of_name(caches, level->recent[set]);
        for (size_t entry = 0; entry < sets * caches->lanes; entry++)
            number_chunk_of_name(caches, level->stacks[entry]);
    }
    caches->renames = true;
    return true;
}

static uint32_t number_of_chunk(struct caches *caches, uint64_t chunk)
{
    size_t slot = slot_of_chunk(caches, chunk);
    if (caches->chunks[slot].chunk == 0) {
        while (caches->next_number < CHUNKS_LARGEST && caches->number_used[caches->next_number])
            caches->next_number++;
        if (caches->next_number == CHUNKS_LARGEST) {
            caches_fail(caches,
                        "more than %" PRIu64 " separate stretches of memory are touched; "
                        "simulate a part of the trace, or larger blocks",
                        CHUNKS_LARGEST - 1);
            return 0;
        }
        number_chunk(caches, slot, chunk, caches->next_number);
    }
    return caches->chunks[slot].number;
}

/* Puts the names' values, less FIRST_NAME, in the place of the blocks' numbers. */
static void rename_blocks(struct caches *caches, size_t count)
{
    for (size_t i = 0; i < count && !caches->error; i++) {
        uint64_t block = touch_unit(caches->touches[i]) + FIRST_NAME;
        uint32_t name = number_of_chunk(caches, block >> CHUNK_SHIFT) << CHUNK_SHIFT |
                        (block & ((1U << CHUNK_SHIFT) - 1));
        caches->touches[i] = (caches->touches[i] & ~TOUCH_UNIT_MASK) | (name - FIRST_NAME);
    }
}

bool caches_name_blocks(struct caches *caches, size_t count)
{
    if (!caches->renames && !begin_renaming(caches))
        caches_fail(caches, "memory is short", 0);
    else
        rename_blocks(caches, count);
    return !caches->error;
}
