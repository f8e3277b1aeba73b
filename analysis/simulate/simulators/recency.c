/* SPDX-License-Identifier: MIT
 *
 * recency.c: see recency.h for the layout.
 */
#include "analysis/simulate/simulators/recency.h"

#include <stdlib.h>
#include <string.h>

enum {
    WORD_BITS = 64,
    BLOCK_BITS = 512,
    STRIDE_BLOCKS = 16,
    STRIDE_BITS = BLOCK_BITS * STRIDE_BLOCKS
};

bool recency_init(struct recency *recency, size_t times)
{
    memset(recency, 0, sizeof *recency);
    size_t strides = (times + STRIDE_BITS - 1) / STRIDE_BITS;
    if (strides > UINT32_MAX / STRIDE_BITS)
        return false;
    recency->capacity = (uint32_t)strides * STRIDE_BITS;
    recency->bits = calloc(recency->capacity / WORD_BITS, sizeof *recency->bits);
    recency->blocks = calloc(recency->capacity / BLOCK_BITS, sizeof *recency->blocks);
    recency->strides = calloc(strides + 1, sizeof *recency->strides);
    if (recency->bits && recency->blocks && recency->strides)
        return true;
    recency_free(recency);
    return false;
}

void recency_free(struct recency *recency)
{
    free(recency->bits);
    free(recency->blocks);
    free(recency->strides);
    memset(recency, 0, sizeof *recency);
}

static void add(struct recency *recency, uint32_t time, int change)
{
    recency->bits[time / WORD_BITS] ^= 1ULL << time % WORD_BITS;
    recency->blocks[time / BLOCK_BITS] += (uint16_t)change;
    recency->marks += (uint32_t)change;
    uint32_t strides = recency->capacity / STRIDE_BITS;
    for (uint32_t i = time / STRIDE_BITS + 1; i <= strides; i += i & -i)
        recency->strides[i] += (uint32_t)change;
}

uint32_t recency_mark(struct recency *recency)
{
    add(recency, recency->next, 1);
    return recency->next++;
}

void recency_unmark(struct recency *recency, uint32_t time)
{
    add(recency, time, -1);
}

__attribute__((target_clones("popcnt", "default"))) uint32_t recency_before(
    const struct recency *recency, uint32_t time)
{
    uint32_t sum = 0;
    for (uint32_t i = time / STRIDE_BITS; i > 0; i &= i - 1)
        sum += recency->strides[i];
    uint32_t block = time / BLOCK_BITS;
    for (uint32_t i = block / STRIDE_BLOCKS * STRIDE_BLOCKS; i < block; i++)
        sum += recency->blocks[i];
    uint32_t word = time / WORD_BITS;
    for (uint32_t i = block * (BLOCK_BITS / WORD_BITS); i < word; i++)
        sum += (uint32_t)__builtin_popcountll(recency->bits[i]);
    uint64_t below = (1ULL << time % WORD_BITS) - 1;
    return sum + (uint32_t)__builtin_popcountll(recency->bits[word] & below);
}
