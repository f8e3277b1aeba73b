/* SPDX-License-Identifier: MIT
 *
 * usable_size.c: programs use all that malloc_usable_size says.
 *
 * It must be at least what was asked for, the same for the whole life of the block, writable to
 * the last byte without harm to the neighbours, and copied by realloc to the last byte. A realloc
 * to it stays where it is: programs that grow into what they were told keep other pointers.
 * `usable_size SIZE` asks that of blocks of SIZE bytes and more alone.
 * Seen: systemd 22801.
 */
#include "tests/contract/contract.h"

enum { BLOCKS = 400 };
static char *blocks[BLOCKS];
static size_t usable[BLOCKS];

static size_t some_size(uint64_t *random)
{
    uint32_t magnitude = random_next(random) % 21;
    return random_next(random) % (((size_t)1 << magnitude) + 1);
}

static char *allocate(uint64_t *random, size_t size)
{
    void *block = NULL;
    switch (random_next(random) % 4) {
    case 0:
        return calloc(1, size);
    case 1:
        return realloc(NULL, size);
    case 2:
        require(posix_memalign(&block, (size_t)16 << random_next(random) % 10, size) == 0);
        return block;
    default:
        return malloc(size);
    }
}

static void require_growth_in_place(size_t least)
{
    for (size_t size = least; size < 4096; size++) {
        char *block = malloc(size);
        require(block != NULL);
        size_t told = malloc_usable_size(block);
        require(realloc(block, told) == block && malloc_usable_size(block) == told);
        free(block);
    }
}

int main(int count, char **arguments)
{
    require(malloc_usable_size(NULL) == 0);
    require_growth_in_place(count > 1 ? strtoul(arguments[1], NULL, 10) : 0);
    uint64_t random = 7;
    for (int round = 0; round < 20; round++) {
        for (int i = 0; i < BLOCKS; i++) {
            size_t size = some_size(&random);
            blocks[i] = allocate(&random, size);
            require(blocks[i] != NULL);
            usable[i] = malloc_usable_size(blocks[i]);
            require(usable[i] >= size && (usable[i] > 0 || size == 0));
            fill(blocks[i], usable[i]);
        }
        for (int i = 0; i < BLOCKS; i++) {
            require(malloc_usable_size(blocks[i]) == usable[i]);
            require(is_filled(blocks[i], usable[i]));
        }
        for (int i = 0; i < BLOCKS; i++) {
            int pattern = usable[i] > 0 ? blocks[i][0] : 0;
            char *moved = realloc(blocks[i], usable[i] + 1 + random_next(&random) % 5000);
            require(moved != NULL);
            require(is_all(moved, pattern, usable[i]));
            free(moved);
        }
    }
    return 0;
}
