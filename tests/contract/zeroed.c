/* SPDX-License-Identifier: MIT
 *
 * zeroed.c: calloc's memory is zero, where dirty blocks were freed before it too.
 *
 * Allocators skip the clearing of pages that are fresh from the kernel; pages that were used,
 * given back by halves or parked are not fresh.
 */
#include "tests/contract/contract.h"

enum { BLOCKS = 64 };

static void require_zero_after_dirt(size_t size)
{
    unsigned char *blocks[BLOCKS];
    for (int i = 0; i < BLOCKS; i++) {
        blocks[i] = malloc(size);
        require(blocks[i] != NULL);
        memset(blocks[i], 0xAA, malloc_usable_size(blocks[i]));
    }
    for (int i = 0; i < BLOCKS; i++)
        free(blocks[i]);
    for (int i = 0; i < BLOCKS; i++) {
        blocks[i] = calloc(size / 4 + 1, 4);
        require(blocks[i] != NULL);
        require(is_all(blocks[i], 0, size));
    }
    for (int i = 0; i < BLOCKS; i++)
        free(blocks[i]);
}

int main(void)
{
    for (size_t size = 1; size < 700000; size = size * 3 + 1) {
        require_zero_after_dirt(size);
        malloc_trim(0);
        require_zero_after_dirt(size);
    }
    return 0;
}
