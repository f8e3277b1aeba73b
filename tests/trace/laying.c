/* SPDX-License-Identifier: MIT */
/* laying.c: fills 40 MB with blocks of many sizes, freeing some, and says how they lie: the number
 * of blocks, the extents between them (gaps of more than a megabyte part extents), and a hash of
 * all their places relative to the first of their extent. Natively and under the recorder it must
 * say the same. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "bench_programs/random.h"

enum { BLOCKS = 20000, MOST_BYTES = 8192, GAP_BYTES = 1 << 20 };

static uintptr_t blocks[BLOCKS];
static size_t sizes[BLOCKS];

static int by_address(const void *first, const void *second)
{
    uintptr_t a = *(const uintptr_t *)first, b = *(const uintptr_t *)second;
    return (a > b) - (a < b);
}

int main(void)
{
    uint64_t random = 1, hash = 0;
    size_t count = 0, extents = 0;
    for (size_t i = 0; i < BLOCKS; i++) {
        sizes[i] = random_between(&random, 1, random_below(&random, 2) ? MOST_BYTES : 256);
        blocks[i] = (uintptr_t)malloc(sizes[i]);
        if (i % 3 == 2) {
            free((void *)blocks[i - 1]);
            blocks[i - 1] = 0;
        }
    }
    qsort(blocks, BLOCKS, sizeof *blocks, by_address);
    uintptr_t base = 0, last = 0;
    for (size_t i = 0; i < BLOCKS; i++) {
        if (blocks[i] == 0)
            continue;
        if (count == 0 || blocks[i] - last > GAP_BYTES) {
            base = blocks[i];
            extents++;
        }
        last = blocks[i];
        hash = (hash ^ (blocks[i] - base)) * 1099511628211U;
        count++;
    }
    printf("%zu blocks in %zu extents, %016" PRIx64 "\n", count, extents, hash);
    return 0;
}
