/* SPDX-License-Identifier: MIT
 *
 * instructions.c: see instructions.h. A hash table with linear probing, at most half full.
 */
#include "trace/base/instructions.h"

#include <stdlib.h>

#include "trace/base/array.h"

static size_t first_place(const struct instructions *instructions, uint64_t address,
                          uint32_t function)
{
    const uint64_t odd = 0x9e3779b97f4a7c15; /* 2^64 by the golden ratio: Knuth, TAOCP 3, 6.4 */
    return (size_t)(((address ^ (uint64_t)function << 40) * odd) >> 20) &
           (instructions->table_size - 1);
}

/* Where the instruction's number stands, or would. */
static uint32_t *find_place(const struct instructions *instructions, uint64_t address,
                            uint32_t function)
{
    size_t place = first_place(instructions, address, function);
    while (instructions->table[place] != 0) {
        const struct instruction *found = &instructions->list[instructions->table[place] - 1];
        if (found->address == address && found->function == function)
            break;
        place = (place + 1) & (instructions->table_size - 1);
    }
    return &instructions->table[place];
}

static bool reserve_one(struct instructions *instructions)
{
    if (!array_reserve(&instructions->list, &instructions->capacity, instructions->count,
                       sizeof *instructions->list))
        return false;
    if (2 * (instructions->count + 1) <= instructions->table_size)
        return true;
    size_t size = instructions->table_size ? 2 * instructions->table_size : 4096;
    uint32_t *table = calloc(size, sizeof *table);
    if (!table)
        return false;
    free(instructions->table);
    instructions->table = table;
    instructions->table_size = size;
    for (size_t i = 0; i < instructions->count; i++)
        *find_place(instructions, instructions->list[i].address, instructions->list[i].function) =
            (uint32_t)i + 1;
    return true;
}

uint32_t instructions_number(struct instructions *instructions, uint64_t address, uint32_t function)
{
    if (!instructions->in_use)
        return function;
    if (!reserve_one(instructions)) {
        instructions->short_of_memory = true;
        return 0;
    }
    uint32_t *place = find_place(instructions, address, function);
    if (*place == 0) {
        instructions->list[instructions->count++] = (struct instruction){address, function};
        *place = (uint32_t)instructions->count;
    }
    return *place - 1;
}

const struct instruction *instructions_find(const struct instructions *instructions,
                                            uint32_t number)
{
    return number < instructions->count ? &instructions->list[number] : NULL;
}

void instructions_free(struct instructions *instructions)
{
    free(instructions->list);
    free(instructions->table);
}
